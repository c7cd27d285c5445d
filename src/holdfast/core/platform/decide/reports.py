"""Report and OfferBack: what regions say of themselves, and what they cannot place.

The one idea: whoever knows more wins. A report is as of a position in the region's own log, which only grows; of each
workload, and of the region as a whole, what was said from the furthest position stands, in whatever order and however
often the reports of a session arrive; what is said in a later session stands above all that was said in former ones. Of
a workload more may be said from one position, at a later time there: that it takes too long. It is a hint for
controllers and people: nothing is authorised by it.

    Report ──▶ observed[workload] · summaries[region]         OfferBack ──▶ overflows[workload, region], until it ends

ReportStatus: what the regions together say of a workload.

The one idea: a report is of a generation. One that looked at an older generation than the report before it is stale
and changes nothing, so a slow controller can never show an old rollout as done. When a condition holds since is the
ledger's to say. A condition that a report does not name stays: who reports one thing need not know of the others, and
what is no longer so is reported as false.
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
from holdfast.core.platform.commands import OfferBack, Report, ReportStatus
from holdfast.core.platform.decide.checks import refuse_unjoined_session
from holdfast.core.platform.events import OfferedBack, RegionReported, StatusReported
from holdfast.core.platform.limits import COUNTS_MAX, ISSUES_MAX, MESSAGE_MAX, NODES_MAX, REPORTS_MAX
from holdfast.core.platform.state.lookups import assignments_of, last_report, overflow_of, reporting_session
from holdfast.core.platform.state.tables import PlatformState


def report(state: PlatformState, command: Report, ctx: CommandContext) -> Accepted | Refused:
    """What is news of it."""
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
    """Of what the region has no assignment of, it has nothing to say any more, or not yet."""
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
    """What is done is added up for as long as a workload lives: no word of a region makes a sum that cannot be kept."""
    return all(0 <= number <= AMOUNT_MAX for number in numbers)


def _refuse_failing(seen: WorkloadReport) -> Refused | None:
    many = seen.failing
    if len(many) > COUNTS_MAX or not _are_counts(*(one.count for one in many)):
        return malformed(f"up to {COUNTS_MAX} kinds of failures, each up to {AMOUNT_MAX}", workload=seen.workload)
    if any(len(one.detail) > MESSAGE_MAX for one in many):  # code and node are names, which are shorter in any case
        return malformed(f"of a failure at most {MESSAGE_MAX} characters are told", workload=seen.workload)
    return None


def _refuse_summary(summary: RegionSummary | None) -> Refused | None:
    if summary is None:
        return None
    if len(summary.nodes) > NODES_MAX or len(summary.troubles) > ISSUES_MAX:
        return malformed(f"at most {NODES_MAX} kinds of nodes and {ISSUES_MAX} troubles", nodes=len(summary.nodes))
    if any(len(one.message) > MESSAGE_MAX for one in summary.troubles):
        return malformed(f"a trouble has at most {MESSAGE_MAX} characters", troubles=len(summary.troubles))
    return None


def offer_back(state: PlatformState, command: OfferBack, ctx: CommandContext) -> Accepted | Refused:
    """As many of them as may still move in this window."""
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
        facts = {"region": region, "most": settings.rebalance_max, "until": window + settings.rebalance_window}
        return Refused(Code.TOO_EARLY, f"region {region} has offered back {used} lately", facts)
    moved = min(command.count, left)
    most = sum(share.count for share in assignment.shares) - moved
    before = overflow_of(state, assignment.workload, region)
    if before is not None and before.until > ctx.at and before.most <= most:
        return already(f"overflow/{assignment.workload}/{region}", assignment.revision)
    until = ctx.at + settings.offer_life
    return Accepted((OfferedBack(Overflow(assignment.workload, region, most, moved, window, until)),))


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
        return Refused(Code.STALE, f"{assignment.region} is asked for {count} by now, which it has not heard yet", told)
    return None


def report_status(state: PlatformState, command: ReportStatus, ctx: CommandContext) -> Accepted | Refused:
    """Progress, as of a generation that is not older than the last one reported."""
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
    """The conditions that are reported, each since when its status is what it is, among those that others reported."""
    kept = workload.status.conditions
    for condition in command.conditions:
        kept = with_condition(kept, replace(condition, since=ctx.at))
    return kept
