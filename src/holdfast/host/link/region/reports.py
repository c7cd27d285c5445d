"""What a region has to say to the platform, told from its durable state and from what was told before.

    Word: a command for the platform, and what the platform knows once it has judged it

The one idea: everything is compared with what was told, by name. So nothing is said twice without need, and what is
said twice all the same is harmless: the platform answers `already`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.answers import NO_ROOM
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, RevisionToken, pack_revision
from holdfast.core.model.records.assignments import ACTIVE, RECOVERY, Assignment, AssignmentStage
from holdfast.core.model.records.region_reports import WorkloadReport
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import Ranges, count_numbers, first_of, with_numbers, without
from holdfast.core.model.values.resources import elementwise_max
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import commands as p
from holdfast.core.platform.limits import COUNTS_MAX
from holdfast.core.region.queries.accounts import charged
from holdfast.core.region.queries.workload_report import pending_code
from holdfast.core.region.state.lookups import assignments_here
from holdfast.core.region.state.slot_kinds import has_slots, ordinals_of
from holdfast.core.region.state.tables import RegionState

#: What something that was told is found under: `("grant", account)`, `("rights", assignment)`, ...
Name = tuple[Any, ...]
SUMMARY: Name = ("summary",)
PLACE: Name = ("place",)
#: Until when the platform takes no offers of this region at all.
OFFERS: Name = ("offers",)

#: How many workloads one report names, and how many bytes of them.
SEEN_MAX = 1_000
SEEN_BYTES = 128 << 10

#: So many names are looked at in one bit.
CHUNK = 2_000


class ReportCommand(Struct, frozen=True):
    """A command for the platform, and what counts as told once it is judged."""

    command: Any
    reported: tuple[tuple[Name, Any], ...] = ()


class ReportedState:
    """What one leader of a region has told one log of the platform, as far as that log is known to reach."""

    def __init__(self) -> None:
        self.of: dict[Name, Any] = {}
        self._log_id = ""
        self._seq = 0

    def on_change(self, token: RevisionToken) -> bool:
        """The platform is there now. Whether what it was told is forgotten: its log is another, or lost its end."""
        is_other = token.log_id != self._log_id or token.seq < self._seq
        if is_other:
            self.of = {}  # and not emptied: an answer that is still awaited belongs to the old ones
        self._log_id, self._seq = token.log_id, token.seq
        return is_other


def settled_grants(state: RegionState, accounts: Iterable[str], reported: dict[Name, Any]) -> Iterator[ReportCommand]:
    """What each account settled on: version, and the larger of target and charge, as this region's log has it now."""
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
    """Whether the account is charged more than it should be: then it settles lower when charges fall."""
    allowance = state.accepted_grants.get(account)
    return allowance is not None and elementwise_max(allowance.target, charged(state, account)) != allowance.target


def released(state: RegionState, workload: Revision, reported: dict[Name, Any]) -> Iterator[ReportCommand]:
    """Identities that the platform wants back, and ended assignments, of which nothing is left here."""
    for assignment in assignments_here(state, workload):
        name: Name = ("rights", assignment.uid)
        revision, before = reported.get(name, (0, ()))
        news = without(_to_give_back(state, assignment), before if revision == assignment.revision else ())
        if news:
            # The rest is judged by the list that this one makes: it would come too late for the present one.
            some = first_of(news, RIGHTS_MAX)
            rights = (assignment.revision, with_numbers(some, before if revision == assignment.revision else ()))
            yield ReportCommand(p.ReleaseRights(workload, some, assignment.revision), ((name, rights),))
        name = ("removed", assignment.uid)
        if is_released(state, assignment) and reported.get(name) != assignment.revision:
            yield ReportCommand(
                p.RemoveAssignment(assignment.uid, _done(state, assignment)), ((name, assignment.revision),)
            )


def _to_give_back(state: RegionState, assignment: Assignment) -> Ranges:
    """The identities that it wants back and that have ended here. An ended assignment goes as a whole when it is small
    enough for one record, and until then part by part."""
    wanted, held = assignment.returning, with_numbers(assignment.ordinals, assignment.returning)
    if assignment.stage is AssignmentStage.ENDED and count_numbers(held) > RIGHTS_MAX:
        wanted = held
    for one in assignments_here(state, assignment.workload) if wanted else ():
        wanted = without(wanted, ordinals_of(state, one.uid))
    return wanted


def _done(state: RegionState, assignment: Assignment) -> tuple[tuple[str, int], ...]:
    """How many of each template were done by an assignment."""
    rows = state.finished.get(assignment.uid) or ()
    return tuple((row.template, count_numbers(row.done)) for row in rows if row.done)[:COUNTS_MAX]


def is_released(state: RegionState, assignment: Assignment) -> bool:
    """Whether an assignment has ended, neither slots nor holds of it are left, and its rights go with it at once."""
    return is_over(state, assignment) and count_numbers(assignment.ordinals + assignment.returning) <= RIGHTS_MAX


def is_over(state: RegionState, assignment: Assignment) -> bool:
    """Whether an assignment has ended, and neither slots nor holds of it are left."""
    uid, is_ended = assignment.uid, assignment.stage is AssignmentStage.ENDED
    return is_ended and not has_slots(state, uid) and not state.holds_of.get(uid)


def waiting_for_room(state: RegionState, assignment: Assignment) -> list[SchedulingRequest]:
    """Requests of an assignment that other regions could serve, and that wait for room here."""
    if assignment.stage is not ACTIVE or assignment.exclusive or assignment.purpose is RECOVERY:
        return []
    return [one for one in state.requests.get(assignment.uid) or () if pending_code(one) in NO_ROOM]


def offered_back(state: RegionState, uid: Revision, now: Instant, reported: dict[Name, Any]) -> ReportCommand | None:
    """What of an assignment has waited for room so long that it is offered back, if that was not said lately."""
    assignment, settings, name = state.assignments.get(uid), state.info.settings, ("offer", uid)
    if assignment is None or max(reported.get(name, 0), reported.get(OFFERS, 0)) > now:
        return None
    late = [r for r in waiting_for_room(state, assignment) if r.since + settings.overflow_after <= now]
    most = sum(share.count for share in assignment.shares)
    count = min(most, sum(request.open for request in late))
    if not count:
        return None
    reason = min(late, key=lambda request: (request.since, request.uid)).reasons[0]
    message = f"{reason.code} {reason.message}".strip()[:200]
    return ReportCommand(p.OfferBack(uid, count, message), ((name, now + settings.rebalance_window),))


class LinkWorkloadReport(Struct, frozen=True):
    """What is news of a workload, and of which assignments: another one of the same workload is told of anew."""

    seen: WorkloadReport
    assignments: tuple[Revision, ...]


def workload_report(state: RegionState, seen: WorkloadReport, reported: dict[Name, Any]) -> LinkWorkloadReport | None:
    """What was seen, if it is other than what was told. The platform forgets a workload with its last assignment."""
    assignments, name = state.assignments_of.get(seen.workload), ("seen", seen.workload)
    if assignments is None:
        reported.pop(name, None)
        return None
    sighting = LinkWorkloadReport(seen, assignments)
    return sighting if reported.get(name) != sighting else None


def is_progress(sighting: LinkWorkloadReport, reported: dict[Name, Any]) -> bool:
    """Whether more replicas than were told of have a node, are ready, serve, or are over for good."""
    known = last_reported(sighting.seen.workload, reported)
    before = _sums(known) if known is not None else (0, 0, 0, 0)
    return any(now > then for now, then in zip(_sums(sighting.seen), before, strict=True))


def last_reported(workload: Revision, reported: dict[Name, Any]) -> WorkloadReport | None:
    """What was told of a workload last; None: nothing."""
    known: LinkWorkloadReport | None = reported.get(("seen", workload))
    return known.seen if known is not None else None


def _sums(seen: WorkloadReport) -> tuple[int, int, int, int]:
    counts = seen.counts
    over = sum(c.done + c.failed for c in counts)
    return sum(c.bound for c in counts), sum(c.ready for c in counts), sum(c.serving for c in counts), over


def reports(
    region: str, position: Revision, at: Instant, sightings: Iterable[LinkWorkloadReport]
) -> Iterator[ReportCommand]:
    """Reports of workloads, as of a position and a time there, each as large as one may be."""
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
    """Drop what was told of workloads and assignments that are no more, bit by bit."""
    for number, name in enumerate(list(reported), 1):
        if number % CHUNK == 0:
            yield
        match name:
            case ("removed" | "offer" | "rights", uid) if uid not in state.assignments:
                reported.pop(name, None)
            case ("seen", workload) if workload not in state.assignments_of:
                reported.pop(name, None)
