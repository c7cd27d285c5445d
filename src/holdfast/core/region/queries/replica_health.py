"""What is wrong with replicas that have a node, or had one: told from the slot and the time.

    failed, or failed lately           how it failed, as its agent said        exit, over-limit, cannot-start, ...
    starting for long                  starting-slowly
    running for long, and not ready    probe-not-passed
    unknown                            session-ended

One that failed counts for a while after it was started again: whoever crashes every few seconds fails all the time, and
is not well again each time that it starts.
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

#: So long it may take to start, or to become ready, beyond the delay of its probe, before that is said.
SLOW_MS = 5_000
#: So long one that failed must have done so last to be well again.
STEADY_MS = 30_000
#: Of so many codes it speaks; where there are more, of those with most replicas.
CODES_MAX = 16

SESSION_ENDED, STARTING_SLOWLY, PROBE_NOT_PASSED = "session-ended", "starting-slowly", "probe-not-passed"

_OVER = (Phase.TERMINATING, Phase.SUCCEEDED)


class ReplicaProblem(NamedTuple):
    """What is wrong with a replica, empty: nothing; and when that may be otherwise by time alone, 0: never."""

    code: str = ""
    detail: str = ""
    until: Instant = 0


NO_PROBLEM = ReplicaProblem()


def problem_of(slot: Slot, template: Template, now: Instant, *, batch: bool) -> ReplicaProblem:
    """What is wrong with a replica now. What ends is not spoken of."""
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
    """Before its probe is asked for the first time nothing is slow."""
    late = slot.since + SLOW_MS + (probe.delay if probe is not None else 0)
    return ReplicaProblem(code, slot.detail) if now >= late else ReplicaProblem(until=late)


class ProblemCounter:
    """Ailments of the replicas of a workload, added up by code. Of each the first is told: its node, and its detail."""

    def __init__(self, state: RegionState, now: Instant) -> None:
        self._state = state
        self._now = now
        self._found: dict[str, Failing] = {}
        #: When it may be otherwise by time alone; 0: never.
        self.until: Instant = 0

    def add(self, slot: Slot, *, batch: bool) -> None:
        """Count a replica, if something is wrong with it."""
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
        """By code."""
        most = sorted(self._found.values(), key=lambda one: (-one.count, one.code))[:CODES_MAX]
        return tuple(sorted(most, key=lambda one: one.code))
