"""Problems of replicas that have or had a node, computed from the slot and the time.

    failed, or failed recently          the failure that its agent reported: exit, over-limit, cannot-start, ...
    starting for too long               starting-slowly
    running for too long, not ready     probe-not-passed
    unknown                             session-ended

A failure counts for a while after the restart: a replica that crashes every few seconds is not healthy in between.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import Failing
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.tables import RegionState

#: Time to start or to become ready, beyond the delay of its probe, before the replica counts as slow.
SLOW_MS = 5_000
#: Time without a failure after which a replica is healthy again.
STEADY_MS = 30_000
#: Largest number of codes in a report; if there are more, those with most replicas.
CODES_MAX = 16

SESSION_ENDED, STARTING_SLOWLY, PROBE_NOT_PASSED = "session-ended", "starting-slowly", "probe-not-passed"

_OVER = (Phase.TERMINATING, Phase.SUCCEEDED)


class ReplicaProblem(NamedTuple):
    """Problem of a replica, empty: none; and when time alone may change it, 0: never."""

    code: str = ""
    detail: str = ""
    until: Instant = 0


NO_PROBLEM = ReplicaProblem()


def problem_of(slot: Slot, template: Template, now: Instant, *, batch: bool) -> ReplicaProblem:
    """Return the present problem of a replica. A replica that ends has none."""
    phase, failure = slot.phase, slot.failure
    if phase in _OVER:
        return NO_PROBLEM
    if phase is Phase.UNKNOWN or (phase is Phase.FAILED and slot.cause == "fenced"):
        return ReplicaProblem(SESSION_ENDED, slot.detail)
    if failure is not None and phase is Phase.FAILED:
        return ReplicaProblem(failure.cause, failure.detail)
    if failure is not None and now < failure.at + STEADY_MS:
        return ReplicaProblem(failure.cause, failure.detail, failure.at + STEADY_MS)
    if phase is Phase.STARTING:
        return _slow(slot, STARTING_SLOWLY, template.startup, now)
    if phase is Phase.RUNNING and not batch:
        return _slow(slot, PROBE_NOT_PASSED, template.readiness, now)
    return NO_PROBLEM


def _slow(slot: Slot, code: str, probe: Probe | None, now: Instant) -> ReplicaProblem:
    """A replica is not slow before its first probe."""
    late = slot.since + SLOW_MS + (probe.delay if probe is not None else 0)
    return ReplicaProblem(code, slot.detail) if now >= late else ReplicaProblem(until=late)


class ProblemCounter:
    """Problems of a workload's replicas, counted by code, each with node and detail of its first replica."""

    def __init__(self, state: RegionState, now: Instant) -> None:
        self._state = state
        self._now = now
        self._found: dict[str, Failing] = {}
        #: When time alone may change the result; 0: never.
        self.until: Instant = 0

    def add(self, slot: Slot, *, batch: bool) -> None:
        """Count a replica, if it has a problem."""
        code, detail, until = problem_of(slot, self._state.templates[slot.template], self._now, batch=batch)
        if until:
            self.until = min(until, self.until or until)
        if not code:
            return
        known = self._found.get(code)
        if known is None:
            node = self._state.nodes.get(slot.node)
            known = Failing(code, 0, node.name if node is not None else "", detail)
        self._found[code] = Failing(code, known.count + 1, known.node, known.detail)

    def reported(self) -> tuple[Failing, ...]:
        """Return the problems, by code."""
        most = sorted(self._found.values(), key=lambda one: (-one.count, one.code))[:CODES_MAX]
        return tuple(sorted(most, key=lambda one: one.code))
