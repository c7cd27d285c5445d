"""A region's report about one workload: its replicas by template, why others are pending, and failures."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeVar

from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import Failing, TemplateCounts, Waiting, WorkloadReport
from holdfast.core.model.records.slots import SchedulingRequest, Slot
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.gangs import finished_counts
from holdfast.core.region.state.lookups import assignments_here
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState

#: Slots counted per step: about a millisecond.
BIT = 500
#: Largest number of templates and of reasons in a report; if there are more, those with most replicas.
NAMED_MAX = 16
MESSAGE_MAX = 200
#: Code of a request that no scheduler has examined yet.
NOT_EXAMINED = "not-yet-examined"

_BOUND = (Phase.BOUND, Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.FAILED)
_READY = (Phase.READY, Phase.SERVING)
#: Counts of each phase: bound, ready, serving. Its key is text: hashing an enum member runs Python code.
_COUNTS_AS = {phase.value: (phase in _BOUND, phase in _READY, phase is Phase.SERVING) for phase in Phase}
#: Phases in which a replica that never failed can have a problem.
_DOUBTFUL = {phase.value for phase in (Phase.STARTING, Phase.RUNNING, Phase.FAILED, Phase.UNKNOWN)}

T = TypeVar("T")


def run_to_end(work: Generator[None, None, T]) -> T:
    """Run a computation in steps to its end, without pauses, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found


class TimedReport(NamedTuple):
    """Report about a workload, and when time alone may change it; 0: never."""

    seen: WorkloadReport
    until: Instant = 0


def workload_report(state: RegionState, workload: Revision) -> WorkloadReport:
    """Return this region's report about the workload, at the time of its last batch; empty without an assignment."""
    return run_to_end(workload_report_steps(state, workload, state.info.at)).seen


def workload_report_steps(state: RegionState, workload: Revision, now: Instant) -> Generator[None, None, TimedReport]:
    """Compute the report in steps: a workload may have very many replicas."""
    found = assignments_here(state, workload)
    if not found:
        return TimedReport(WorkloadReport(workload, 0))
    counts: dict[str, list[int]] = {}
    failures = ProblemCounter(state, now)
    whys: dict[str, str] = {}
    number = 0
    for assignment in found:
        for template, (ended, lost) in finished_counts(state, assignment).items():
            count = counts.setdefault(template, [0, 0, 0, 0, 0])
            count[3] += ended
            count[4] += lost
        for row in state.finished.get(assignment.uid) or ():
            whys[row.template] = row.why or whys.get(row.template, "")
        for ordinal in numbers(ordinals_of(state, assignment.uid)):
            number += 1
            if number % BIT == 0:
                yield
            slot = state.slots.get((workload, ordinal))
            if slot is None:
                continue
            counted = counts.get(slot.template)
            if counted is None:
                counted = counts[slot.template] = [0, 0, 0, 0, 0]
            bound, ready, serving = _COUNTS_AS[slot.phase._value_]
            counted[0] += bound
            counted[1] += ready
            counted[2] += serving
            if slot.failure is not None or slot.phase._value_ in _DOUBTFUL:
                failures.add(slot, batch=assignment.batch)
    waiting = _waiting(state, found)
    # If some wait, the report is not empty; otherwise it names templates even with zero counts.
    named = [template for template, count in counts.items() if count[0] or count[3] or count[4] or not waiting]
    most = sorted(named, key=lambda template: (-counts[template][0], template))[:NAMED_MAX]
    newest = max(found, key=lambda assignment: assignment.revision)
    told = tuple(_counted(template, counts[template], whys.get(template, "")) for template in sorted(most))
    return TimedReport(WorkloadReport(workload, newest.generation, told, waiting, failures.reported()), failures.until)


def _counted(template: str, count: list[int], why: str) -> TemplateCounts:
    bound, ready, serving, done, failed = count
    return TemplateCounts(template, bound, ready, serving, done, failed, why)


def pending_code(request: SchedulingRequest) -> str:
    """Return the code of the first pending reason, which weighs most."""
    return request.reasons[0].code if request.reasons else NOT_EXAMINED


def _waiting(state: RegionState, assignments: list[Assignment]) -> tuple[Waiting, ...]:
    found: dict[str, Waiting] = {}
    for request in [one for a in assignments for one in state.requests.get(a.uid) or ()]:
        code = pending_code(request)
        message = request.reasons[0].message[:MESSAGE_MAX] if request.reasons else ""
        known = found.get(code, Waiting(code, 0, request.since, message))
        oldest = known if known.since <= request.since else Waiting(code, 0, request.since, message)
        found[code] = Waiting(code, known.count + request.open, oldest.since, oldest.message)
    most = sorted(found.values(), key=lambda one: (-one.count, one.code))[:NAMED_MAX]
    return tuple(sorted(most, key=lambda one: one.code))


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
