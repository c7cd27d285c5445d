"""Platform controllers in their simplest form: failover."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState

AGAIN_MS = 5_000


class WorkloadReconcilerStub:
    """Reconciles one workload at a time. A change of a region requeues all workloads."""

    watches: tuple[str, ...] = ("workload", "standing")

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return [uid for uid, _ in state.workloads.items()]

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]] if touched[0] == "workload" else self.keys(state)


def _in(assignments: Iterable[Assignment], region: str, purpose: AssignmentPurpose) -> Assignment | None:
    return next((a for a in assignments if a.region == region and a.purpose is purpose), None)


class FailoverStub(WorkloadReconcilerStub):
    """Keeps recovery on standby in each region of its budget; activates one standby while a serving region is lost;
    ends it afterwards."""

    name = "failover"

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or workload.meta.deletion is not None or not workload.spec.recovery.budget:
            return NO_CHANGES
        commands = self._steps(state, workload)
        return ReconcileResult(
            tuple(ProposedCommand(command, workload.meta.revision) for command in commands),
            now + AGAIN_MS if commands else None,
        )

    def _steps(self, state: PlatformState, workload: Workload) -> list[Any]:
        mine = assignments_of(state, workload.meta.uid)
        budget = state.recovery_budgets[workload.spec.recovery.budget]
        lost = [r for r, one in state.regions.items() if one.status.health is RegionHealth.LOST]
        struck = any(_in(mine, region, AssignmentPurpose.SERVING) is not None for region in lost)
        shares = (Share(template_digest(workload.spec.template), workload.spec.recovery.min_serving),)
        found: list[Any] = []
        active = any(
            a.purpose is AssignmentPurpose.RECOVERY and a.stage is AssignmentStage.ACTIVE and a.region not in lost
            for a in mine
        )
        for region in budget.spec.regions:
            health = state.regions[region].status.health
            old = _in(mine, region, AssignmentPurpose.RECOVERY)
            if old is None and health is RegionHealth.HEALTHY:
                standby = c.Assign(
                    workload.meta.uid, region, AssignmentPurpose.RECOVERY, AssignmentStage.STANDBY, shares
                )
                found.append(standby)
            elif (
                old is not None
                and old.stage is AssignmentStage.STANDBY
                and struck
                and not active
                and region not in lost
            ):
                found.append(c.Activate(old.uid))
                active = True
            elif (
                old is not None
                and old.stage is AssignmentStage.ACTIVE
                and not struck
                and health is RegionHealth.HEALTHY
            ):
                found.append(c.EndAssignment(old.uid))
        return found
