"""A region's reports to the platform, computed from its durable state and from what was reported before.

    ReportCommand: a command for the platform, and what counts as reported once the platform has decided it

Everything is compared by name with what was reported. So nothing is repeated without need, and a repeated report is
harmless: the platform answers `already`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.answers import NO_ROOM
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, RevisionToken, pack_revision
from holdfast.core.model.records.assignments import ACTIVE, RECOVERY, Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import PENDING
from holdfast.core.model.records.region_reports import WorkloadReport
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.bitsets import union
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import Ranges, count_numbers, first_of, with_numbers, without
from holdfast.core.model.values.resources import elementwise_max
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import commands as p
from holdfast.core.platform.limits import COUNTS_MAX
from holdfast.core.region.queries.accounts import charged
from holdfast.core.region.queries.workload_report import pending_code
from holdfast.core.region.state.gangs import finished_counts, waiting_whole
from holdfast.core.region.state.lookups import assignments_here
from holdfast.core.region.state.slot_kinds import has_slots, kinds_in, ordinals_of
from holdfast.core.region.state.tables import RegionState

#: Key of something reported: `("grant", account)`, `("rights", assignment)`, ...
Name = tuple[Any, ...]
SUMMARY: Name = ("summary",)
PLACE: Name = ("place",)
#: Until when the platform accepts no offers of this region.
OFFERS: Name = ("offers",)

#: Largest number of workloads in a report, and their size.
SEEN_MAX = 1_000
SEEN_BYTES = 128 << 10

#: Names examined per step.
CHUNK = 2_000


class ReportCommand(Struct, frozen=True):
    """A command for the platform, and what counts as reported once it is decided."""

    command: Any
    reported: tuple[tuple[Name, Any], ...] = ()


class ReportedState:
    """What one leader of a region has reported to one log of the platform, as far as that log is known to reach."""

    def __init__(self) -> None:
        self.of: dict[Name, Any] = {}
        self._log_id = ""
        self._seq = 0

    def on_change(self, token: RevisionToken) -> bool:
        """Record the platform's position. Return whether the reports are forgotten: its log is another, or lost its
        end."""
        is_other = token.log_id != self._log_id or token.seq < self._seq
        if is_other:
            self.of = {}  # a new dict: pending answers belong to the old one
        self._log_id, self._seq = token.log_id, token.seq
        return is_other


def settled_grants(state: RegionState, accounts: Iterable[str], reported: dict[Name, Any]) -> Iterator[ReportCommand]:
    """Yield each account's settlement: version, and the larger of target and charge, as in this region's log now."""
    position = pack_revision(state.info.seq, INDEX_MAX)
    for account in accounts:
        allowance, name = state.accepted_grants.get(account), ("grant", account)
        if allowance is None:
            reported.pop(name, None)
            continue
        settled = elementwise_max(allowance.target, charged(state, account))
        if reported.get(name) != (allowance.version, settled):
            command = p.AcknowledgeGrant(account, allowance.version, settled, position)
            yield ReportCommand(command, ((name, (allowance.version, settled)),))


def is_above_target(state: RegionState, account: str) -> bool:
    """Return whether the account is charged above its target: then it settles lower as charges fall."""
    allowance = state.accepted_grants.get(account)
    return allowance is not None and elementwise_max(allowance.target, charged(state, account)) != allowance.target


def released(state: RegionState, workload: Revision, reported: dict[Name, Any]) -> Iterator[ReportCommand]:
    """Yield releases of returning identities and removals of ended assignments that have nothing left here."""
    for assignment in assignments_here(state, workload):
        name: Name = ("rights", assignment.uid)
        revision, before = reported.get(name, (0, ()))
        news = without(_to_give_back(state, assignment), before if revision == assignment.revision else ())
        if news:
            # The rest is decided against the list after this command: with the present one it would be stale.
            some = first_of(news, RIGHTS_MAX)
            rights = (assignment.revision, with_numbers(some, before if revision == assignment.revision else ()))
            yield ReportCommand(p.ReleaseRights(workload, some, assignment.revision), ((name, rights),))
        name = ("removed", assignment.uid)
        if is_released(state, assignment) and reported.get(name) != assignment.revision:
            yield ReportCommand(
                p.RemoveAssignment(assignment.uid, _done(state, assignment)), ((name, assignment.revision),)
            )


def _to_give_back(state: RegionState, assignment: Assignment) -> Ranges:
    """Return the identities to release that have ended here. A small ended assignment is released with its removal; a
    large one, in parts before it."""
    wanted, held = assignment.returning, with_numbers(assignment.ordinals, assignment.returning)
    if assignment.stage is AssignmentStage.ENDED and count_numbers(held) > RIGHTS_MAX:
        wanted = held
    for one in assignments_here(state, assignment.workload) if wanted else ():
        wanted = without(wanted, ordinals_of(state, one.uid))
    return wanted


def _done(state: RegionState, assignment: Assignment) -> tuple[tuple[str, int], ...]:
    """Return the number of replicas done, by template, of an assignment."""
    counts = finished_counts(state, assignment).items()
    return tuple((template, done) for template, (done, _) in counts if done)[:COUNTS_MAX]


def is_released(state: RegionState, assignment: Assignment) -> bool:
    """Return whether an assignment has ended without slots or holds, and one command can remove it with its rights."""
    return is_over(state, assignment) and count_numbers(assignment.ordinals + assignment.returning) <= RIGHTS_MAX


def is_over(state: RegionState, assignment: Assignment) -> bool:
    """Return whether an assignment has ended, and has no slots and no holds."""
    uid, is_ended = assignment.uid, assignment.stage is AssignmentStage.ENDED
    return is_ended and not has_slots(state, uid) and not state.holds_of.get(uid)


def waiting_for_room(state: RegionState, assignment: Assignment) -> list[SchedulingRequest]:
    """Return requests of an assignment that wait for capacity here and that other regions could serve."""
    if assignment.stage is not ACTIVE or assignment.exclusive or assignment.purpose is RECOVERY:
        return []
    return [one for one in state.requests.get(assignment.uid) or () if pending_code(one) in NO_ROOM]


def offered_back(state: RegionState, uid: Revision, now: Instant, reported: dict[Name, Any]) -> ReportCommand | None:
    """Return an offer of replicas that have waited too long for capacity, unless one was made recently."""
    assignment, settings, name = state.assignments.get(uid), state.info.settings, ("offer", uid)
    if assignment is None or max(reported.get(name, 0), reported.get(OFFERS, 0)) > now:
        return None
    late = [r for r in waiting_for_room(state, assignment) if r.since + settings.overflow_after <= now]
    most = sum(share.count for share in assignment.shares)
    count = min(most, sum(_open_whole(state, assignment, request) for request in late))
    if not count:
        return None
    reason = min(late, key=lambda request: (request.since, request.uid)).reasons[0]
    message = f"{reason.code} {reason.message}".strip()[:200]
    return ReportCommand(p.OfferBack(uid, count, message), ((name, now + settings.rebalance_window),))


def _open_whole(state: RegionState, assignment: Assignment, request: SchedulingRequest) -> int:
    """Return the open slots of a request that can be given back: of gangs, those of which nothing stands here."""
    if assignment.gang is None:
        return request.open
    kinds = kinds_in(state, assignment.uid).items()
    waiting = [ordinals for kind, ordinals in kinds if kind[:2] == (PENDING.value, request.template)]
    return waiting_whole(state, assignment, union(waiting))


class LinkWorkloadReport(Struct, frozen=True):
    """A changed report of a workload, and its assignments: a report also counts as changed if these differ."""

    seen: WorkloadReport
    assignments: tuple[Revision, ...]


def workload_report(state: RegionState, seen: WorkloadReport, reported: dict[Name, Any]) -> LinkWorkloadReport | None:
    """Return the report if it differs from the last one. The platform forgets a workload with its last assignment."""
    assignments, name = state.assignments_of.get(seen.workload), ("seen", seen.workload)
    if assignments is None:
        reported.pop(name, None)
        return None
    sighting = LinkWorkloadReport(seen, assignments)
    return sighting if reported.get(name) != sighting else None


def is_progress(sighting: LinkWorkloadReport, reported: dict[Name, Any]) -> bool:
    """Return whether more replicas than reported are bound, ready, serving or finished."""
    known = last_reported(sighting.seen.workload, reported)
    before = _sums(known) if known is not None else (0, 0, 0, 0)
    return any(now > then for now, then in zip(_sums(sighting.seen), before, strict=True))


def last_reported(workload: Revision, reported: dict[Name, Any]) -> WorkloadReport | None:
    """Return the last report of a workload; None: there was none."""
    known: LinkWorkloadReport | None = reported.get(("seen", workload))
    return known.seen if known is not None else None


def _sums(seen: WorkloadReport) -> tuple[int, int, int, int]:
    counts = seen.counts
    over = sum(c.done + c.failed for c in counts)
    return sum(c.bound for c in counts), sum(c.ready for c in counts), sum(c.serving for c in counts), over


def reports(
    region: str, position: Revision, at: Instant, sightings: Iterable[LinkWorkloadReport]
) -> Iterator[ReportCommand]:
    """Yield reports of workloads at a position and a time, each as large as one may be."""
    part: list[LinkWorkloadReport] = []
    left = SEEN_BYTES
    for one in sightings:
        size_bytes = len(encode(one.seen))
        if part and (len(part) >= SEEN_MAX or size_bytes > left):
            yield _report(region, position, at, part)
            part, left = [], SEEN_BYTES
        part.append(one)
        left -= size_bytes
    if part:
        yield _report(region, position, at, part)


def _report(region: str, position: Revision, at: Instant, part: list[LinkWorkloadReport]) -> ReportCommand:
    command = p.Report(region, position, tuple(one.seen for one in part), at=at)
    return ReportCommand(command, tuple((("seen", one.seen.workload), one) for one in part))


def forget_deleted(state: RegionState, reported: dict[Name, Any]) -> Generator[None, None, None]:
    """Drop, in steps, what was reported of deleted workloads and assignments."""
    for number, name in enumerate(list(reported), 1):
        if number % CHUNK == 0:
            yield
        match name:
            case ("removed" | "offer" | "rights", uid) if uid not in state.assignments:
                reported.pop(name, None)
            case ("seen", workload) if workload not in state.assignments_of:
                reported.pop(name, None)
