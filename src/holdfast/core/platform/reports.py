"""ReportStatus: what the regions together say of a workload.

The one idea: a report is of a generation. One that looked at an older generation than the report before it is stale
and changes nothing, so a slow controller can never show an old rollout as done. When a condition holds since is the
ledger's to say. A condition that a report does not name stays: who reports one thing need not know of the others, and
what is no longer so is reported as false.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Refused, not_found, stale
from holdfast.core.ledger.registry import Case
from holdfast.core.model.meta import Condition, with_condition
from holdfast.core.model.workload import Workload, WorkloadStatus
from holdfast.core.platform.checks import malformed
from holdfast.core.platform.commands import ReportStatus
from holdfast.core.platform.events import StatusReported
from holdfast.core.platform.objects import already
from holdfast.core.platform.state import PlatformState


def report_status(state: PlatformState, command: ReportStatus, case: Case) -> Accepted | Refused:
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
        conditions=_conditions(workload, command, case),
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


def _conditions(workload: Workload, command: ReportStatus, case: Case) -> tuple[Condition, ...]:
    """The conditions that are reported, each since when its status is what it is, among those that others reported."""
    kept = workload.status.conditions
    for condition in command.conditions:
        kept = with_condition(kept, replace(condition, since=case.at))
    return kept
