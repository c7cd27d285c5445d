"""Report and OfferBack: what regions say of themselves, and what they cannot place.

The one idea: whoever knows more wins. A report is as of a position in the region's own log, which only grows; of each
workload, and of the region as a whole, what was said from the furthest position stands, in whatever order and however
often the reports of a session arrive; what is said in a later session stands above all that was said in former ones. Of
a workload more may be said from one position, at a later time there: that it takes too long. It is a hint for
controllers and people: nothing is authorised by it.

    Report ──▶ observed[workload] · summaries[region]         OfferBack ──▶ overflows[workload, region], until it ends
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Assignment, Purpose, Stage
from holdfast.core.model.resources import AMOUNT_MAX
from holdfast.core.model.shapes import Revision
from holdfast.core.model.summary import Observation, Overflow, Seen, Summary
from holdfast.core.platform.checks import malformed
from holdfast.core.platform.commands import OfferBack, Report
from holdfast.core.platform.events import OfferedBack, RegionReported
from holdfast.core.platform.objects import already
from holdfast.core.platform.senders import refuse_unjoined, speaking_in
from holdfast.core.platform.state import PlatformState, assignments_of, overflow_of

#: How much one report may say.
SEEN_MAX = 1_000
COUNTS_MAX = 16
NODES_MAX = 256
TROUBLES_MAX = 64
MESSAGE_MAX = 512


def report(state: PlatformState, command: Report, case: Case) -> Accepted | Refused:
    """What is news of it."""
    refused = refuse_unjoined(state, command.region, case) or _refuse_seen(command) or _refuse_summary(command.summary)
    if refused is not None:
        return refused
    news = tuple(one for one in command.seen if _is_news(state, command, one))
    known = state.summaries.get(command.region)
    session = speaking_in(state, command.region)
    is_old = known is not None and known.session == session and known.position >= command.position
    summary = None if is_old else command.summary
    if not news and summary is None:
        return already(f"Region/{command.region}", known.position if known is not None else 0)
    return Accepted((RegionReported(command.region, command.position, news, summary, command.at),))


def observation(state: PlatformState, workload: Revision, region: str) -> Observation | None:
    """What a region said last of a workload."""
    return next((one for one in state.observed.get(workload) or () if one.region == region), None)


def _is_news(state: PlatformState, command: Report, seen: Seen) -> bool:
    """Of what the region has no assignment of, it has nothing to say any more, or not yet."""
    if not any(assignment.region == command.region for assignment in assignments_of(state, seen.workload)):
        return False
    known = observation(state, seen.workload, command.region)
    if known is None or known.session != speaking_in(state, command.region):
        return True
    return (known.position, known.at) < (command.position, command.at)


def _refuse_seen(command: Report) -> Refused | None:
    workloads = [one.workload for one in command.seen]
    if len(workloads) > SEEN_MAX or len(set(workloads)) != len(workloads):
        return malformed(f"a report names each workload once, and at most {SEEN_MAX}", workloads=len(workloads))
    if command.position < 0:
        return malformed("a position in a log is not negative", position=command.position)
    for one in command.seen:
        counts = [
            n for count in one.counts for n in (count.bound, count.ready, count.serving, count.done, count.failed)
        ]
        waiting = [reason.count for reason in one.waiting]
        if len(one.counts) > COUNTS_MAX or len(waiting) > COUNTS_MAX or not _are_counts(*counts, *waiting):
            return malformed(f"up to {COUNTS_MAX} counts and reasons, each up to {AMOUNT_MAX}", workload=one.workload)
        reasons = [*(reason.message for reason in one.waiting), *(count.why for count in one.counts)]
        if any(len(reason) > MESSAGE_MAX for reason in reasons):
            return malformed(f"a reason has at most {MESSAGE_MAX} characters", workload=one.workload)
        refused = _refuse_failing(one)
        if refused is not None:
            return refused
    return None


def _are_counts(*numbers: int) -> bool:
    """What is done is added up for as long as a workload lives: no word of a region makes a sum that cannot be kept."""
    return all(0 <= number <= AMOUNT_MAX for number in numbers)


def _refuse_failing(seen: Seen) -> Refused | None:
    many = seen.failing
    if len(many) > COUNTS_MAX or not _are_counts(*(one.count for one in many)):
        return malformed(f"up to {COUNTS_MAX} kinds of failures, each up to {AMOUNT_MAX}", workload=seen.workload)
    if any(len(one.detail) > MESSAGE_MAX for one in many):  # code and node are names, which are shorter in any case
        return malformed(f"of a failure at most {MESSAGE_MAX} characters are told", workload=seen.workload)
    return None


def _refuse_summary(summary: Summary | None) -> Refused | None:
    if summary is None:
        return None
    if len(summary.nodes) > NODES_MAX or len(summary.troubles) > TROUBLES_MAX:
        return malformed(f"at most {NODES_MAX} kinds of nodes and {TROUBLES_MAX} troubles", nodes=len(summary.nodes))
    if any(len(one.message) > MESSAGE_MAX for one in summary.troubles):
        return malformed(f"a trouble has at most {MESSAGE_MAX} characters", troubles=len(summary.troubles))
    return None


def offer_back(state: PlatformState, command: OfferBack, case: Case) -> Accepted | Refused:
    """As many of them as may still move in this window."""
    assignment = state.assignments.get(command.assignment)
    if assignment is None:
        return not_found("assignment", command.assignment)
    refused = refuse_unjoined(state, assignment.region, case) or _refuse_offer(assignment, command)
    if refused is not None:
        return refused
    settings, region = state.facts.settings, assignment.region
    known = state.rebalances.get(region)
    goes_on = known is not None and case.at < known.since + settings.rebalance_window
    window, used = (known.since, known.moved) if known is not None and goes_on else (case.at, 0)
    left = settings.rebalance_max - used
    if left <= 0:
        facts = {"region": region, "most": settings.rebalance_max, "until": window + settings.rebalance_window}
        return Refused(Code.TOO_EARLY, f"region {region} has offered back {used} lately", facts)
    moved = min(command.count, left)
    most = sum(share.count for share in assignment.shares) - moved
    before = overflow_of(state, assignment.workload, region)
    if before is not None and before.until > case.at and before.most <= most:
        return already(f"overflow/{assignment.workload}/{region}", assignment.revision)
    until = case.at + settings.offer_life
    return Accepted((OfferedBack(Overflow(assignment.workload, region, most, moved, window, until)),))


def _refuse_offer(assignment: Assignment, command: OfferBack) -> Refused | None:
    if command.count < 1 or len(command.message) > MESSAGE_MAX:
        return malformed("1 replica or more, and a short message", count=command.count)
    serves = assignment.stage is Stage.ACTIVE and assignment.purpose is Purpose.SERVING
    if not serves or assignment.exclusive:
        facts = {"assignment": assignment.uid, "stage": assignment.stage.value, "exclusive": assignment.exclusive}
        return Refused(Code.WRONG_PHASE, "only work that serves and has no identities is offered back", facts)
    count = sum(share.count for share in assignment.shares)
    if command.count > count:
        told = {"assignment": assignment.uid, "revision": assignment.revision, "count": count}
        return Refused(Code.STALE, f"{assignment.region} is asked for {count} by now, which it has not heard yet", told)
    return None
