"""Report and OfferBack: a region's reports, and the replicas that it cannot place.

    Report ──▶ observed[workload] · summaries[region]         OfferBack ──▶ overflows[workload, region], until it ends

Within a session, the report of the furthest position in the region's log counts, in whatever order reports arrive. A
later session's report replaces all earlier ones. For workloads, a later time decides within one position. Reports are
hints: they authorize nothing.

ReportStatus: the state of a workload over all regions.

A report for an older generation than the last is stale and refused, so a slow controller never shows an old rollout as
done. The ledger sets since when a condition holds. Conditions that a report does not name stay, since several
controllers report; an ended one is reported as false.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, malformed, not_found, stale
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.workloads import Workload, WorkloadStatus
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import Overflow, RegionSummary, WorkloadReport
from holdfast.core.model.values.conditions import Condition, with_condition
from holdfast.core.model.values.resources import AMOUNT_MAX
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import OfferBack, Report, ReportStatus
from holdfast.core.platform.decide.checks import refuse_unjoined_session
from holdfast.core.platform.events import OfferedBack, RegionReported, StatusReported
from holdfast.core.platform.limits import COUNTS_MAX, ISSUES_MAX, MESSAGE_MAX, NODES_MAX, REPORTS_MAX
from holdfast.core.platform.state.lookups import assignments_of, last_report, overflow_of, reporting_session
from holdfast.core.platform.state.tables import PlatformState


def report(state: PlatformState, command: Report, ctx: CommandContext) -> Accepted | Refused:
    """Store the parts of a report that are newer than the stored ones."""
    refused = (
        refuse_unjoined_session(state, command.region, ctx) or _refuse_seen(command) or _refuse_summary(command.summary)
    )
    if refused is not None:
        return refused
    news = tuple(one for one in command.seen if _is_news(state, command, one))
    known = state.summaries.get(command.region)
    session = reporting_session(state, command.region)
    is_old = known is not None and known.session == session and known.position >= command.position
    summary = None if is_old else command.summary
    if not news and summary is None:
        return already(f"Region/{command.region}", known.position if known is not None else 0)
    return Accepted((RegionReported(command.region, command.position, news, summary, command.at),))


def _is_news(state: PlatformState, command: Report, seen: WorkloadReport) -> bool:
    """Check whether a report about a workload is newer. Without an assignment of it in the region, it is ignored."""
    if not any(assignment.region == command.region for assignment in assignments_of(state, seen.workload)):
        return False
    known = last_report(state, seen.workload, command.region)
    if known is None or known.session != reporting_session(state, command.region):
        return True
    return (known.position, known.at) < (command.position, command.at)


def _refuse_seen(command: Report) -> Refused | None:
    workloads = [one.workload for one in command.seen]
    if len(workloads) > REPORTS_MAX or len(set(workloads)) != len(workloads):
        return malformed(f"a report names each workload once, and at most {REPORTS_MAX}", workloads=len(workloads))
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
    """Check the range of counts: done counts are summed as long as a workload exists, and the sum must not overflow."""
    return all(0 <= number <= AMOUNT_MAX for number in numbers)


def _refuse_failing(seen: WorkloadReport) -> Refused | None:
    many = seen.failing
    if len(many) > COUNTS_MAX or not _are_counts(*(one.count for one in many)):
        return malformed(f"up to {COUNTS_MAX} kinds of failures, each up to {AMOUNT_MAX}", workload=seen.workload)
    if any(len(one.detail) > MESSAGE_MAX for one in many):  # code and node are names, and shorter
        return malformed(f"the detail of a failure has at most {MESSAGE_MAX} characters", workload=seen.workload)
    return None


def _refuse_summary(summary: RegionSummary | None) -> Refused | None:
    if summary is None:
        return None
    if len(summary.nodes) > NODES_MAX or len(summary.troubles) > ISSUES_MAX:
        return malformed(f"at most {NODES_MAX} kinds of nodes and {ISSUES_MAX} issues", nodes=len(summary.nodes))
    if any(len(one.message) > MESSAGE_MAX for one in summary.troubles):
        return malformed(f"an issue has at most {MESSAGE_MAX} characters", troubles=len(summary.troubles))
    return None


def offer_back(state: PlatformState, command: OfferBack, ctx: CommandContext) -> Accepted | Refused:
    """Accept as many of the replicas as may still move in this window."""
    assignment = state.assignments.get(command.assignment)
    if assignment is None:
        return not_found("assignment", command.assignment)
    refused = refuse_unjoined_session(state, assignment.region, ctx) or _refuse_offer(assignment, command)
    if refused is not None:
        return refused
    settings, region = state.info.settings, assignment.region
    known = state.rebalances.get(region)
    goes_on = known is not None and ctx.at < known.since + settings.rebalance_window
    window, used = (known.since, known.moved) if known is not None and goes_on else (ctx.at, 0)
    left = settings.rebalance_max - used
    if left <= 0:
        return _refuse_late(region, settings, used, window)
    moved = min(command.count, left)
    if assignment.gang is not None:  # whole gangs, at least one per window
        size = assignment.gang.size
        moved = moved // size * size or (0 if used else size)
        if not moved:
            return _refuse_late(region, settings, used, window)
    most = sum(share.count for share in assignment.shares) - moved
    before = overflow_of(state, assignment.workload, region)
    if before is not None and before.until > ctx.at and before.most <= most:
        return already(f"overflow/{assignment.workload}/{region}", assignment.revision)
    until = ctx.at + settings.offer_life
    return Accepted((OfferedBack(Overflow(assignment.workload, region, most, moved, window, until)),))


def _refuse_late(region: str, settings: Settings, used: int, window: Instant) -> Refused:
    """Refuse to move more in this window."""
    facts = {"region": region, "most": settings.rebalance_max, "until": window + settings.rebalance_window}
    return Refused(Code.TOO_EARLY, f"region {region} has offered back {used} in this window", facts)


def _refuse_offer(assignment: Assignment, command: OfferBack) -> Refused | None:
    if command.count < 1 or len(command.message) > MESSAGE_MAX:
        return malformed("1 replica or more, and a short message", count=command.count)
    serves = assignment.stage is AssignmentStage.ACTIVE and assignment.purpose is AssignmentPurpose.SERVING
    if not serves or assignment.exclusive:
        facts = {"assignment": assignment.uid, "stage": assignment.stage.value, "exclusive": assignment.exclusive}
        return Refused(Code.WRONG_PHASE, "only work that serves and has no identities is offered back", facts)
    count = sum(share.count for share in assignment.shares)
    if command.count > count:
        told = {"assignment": assignment.uid, "revision": assignment.revision, "count": count}
        return Refused(Code.STALE, f"{assignment.region} is now assigned {count}, which it has not received yet", told)
    return None


def report_status(state: PlatformState, command: ReportStatus, ctx: CommandContext) -> Accepted | Refused:
    """Store progress of a generation that is not older than the last one reported."""
    workload = state.workloads.get(command.workload)
    if workload is None:
        return not_found("Workload", command.workload)
    refused = _refuse_counts(command) or _refuse_generation(workload, command)
    if refused is not None:
        return refused
    reported = WorkloadStatus(
        observed_generation=command.observed_generation,
        bound=command.bound,
        ready=command.ready,
        serving=command.serving,
        conditions=_conditions(workload, command, ctx),
        succeeded=command.succeeded,
        failed=command.failed,
    )
    if reported == workload.status:
        return already(f"Workload/{workload.meta.name}", workload.meta.revision)
    changed = tuple(one for one in reported.conditions if one not in workload.status.conditions)
    told = replace(reported, conditions=changed)
    return Accepted((StatusReported(command.workload, workload.meta.tenant, told),))


def _refuse_counts(command: ReportStatus) -> Refused | None:
    if min(command.bound, command.ready, command.serving, command.succeeded, command.failed) < 0:
        return malformed("counts cannot be negative", workload=command.workload)
    types = [condition.type for condition in command.conditions]
    if len(set(types)) != len(types) or not all(types):
        return malformed("each condition has a type, and each type comes once", types=sorted(types))
    return None


def _refuse_generation(workload: Workload, command: ReportStatus) -> Refused | None:
    seen, known = command.observed_generation, workload.status.observed_generation
    if seen > workload.meta.generation:
        return malformed(f"generation {seen} does not exist yet", generation=workload.meta.generation)
    if seen < known:
        key = f"Workload/{workload.meta.name}"
        return stale(key, seen, workload.meta.revision, f"generation {known} has been reported on")
    return None


def _conditions(workload: Workload, command: ReportStatus, ctx: CommandContext) -> tuple[Condition, ...]:
    """Return the reported conditions, with the time of their last change, and the others as they are."""
    kept = workload.status.conditions
    for condition in command.conditions:
        kept = with_condition(kept, replace(condition, since=ctx.at))
    return kept
