"""Measures how long a region's lost capacity is missing, from its loss until it is served elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.replay.recording import PLATFORM_NAME, PlannedFault, RunPlan
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.scenario import Scenario, span


class RecoveryTimer:
    """Measures when critical workloads serve their minimum in one healthy region."""

    def __init__(self, scenario: Scenario, plan: RunPlan) -> None:
        self.took: dict[str, int] = {}
        lost = [fault for fault in plan.faults if fault.what == "lose-region"]
        self._loss = lost[0] if lost and scenario.recovers else None
        self._limit = span(scenario.recovers)[1] if scenario.recovers else 0
        self._critical = [name for name, one in scenario.workloads.items() if one.recovery]
        self._struck: list[str] = []
        self._looked: int | None = None

    def look(self, scene: SimulatedCluster, struck: Mapping[PlannedFault, int]) -> None:
        """Record which workloads serve while the region is lost; `struck` has the start of each fault."""
        now, loss = scene.world.now(), self._loss
        if loss is None or loss not in struck or now > struck[loss] + loss.lasts:
            return
        since = now - struck[loss]
        platform = scene.audits[PLATFORM_NAME].state
        for name in self._critical:
            workload = next((one for one in platform.workloads.values() if one.meta.name == name), None)
            if workload is None or name in self.took:
                continue
            theirs = [a.purpose for a in assignments_of(platform, workload.meta.uid) if a.region == loss.where]
            if self._looked is None and AssignmentPurpose.SERVING in theirs:
                self._struck.append(name)
            for region in scene.cast.nodes:
                slots = scene.audits[region].state.slots.values() if region != loss.where else []
                serving = sum(s.phase is Phase.SERVING and s.workload == workload.meta.uid for s in slots)
                if serving >= workload.spec.recovery.min_serving:
                    self.took.setdefault(name, since)
        self._looked = since

    def late(self) -> list[str]:
        """Return workloads that did not recover within the limit, if the region was lost for that long."""
        if self._loss is None:
            return []
        missed = [name for name in self._struck if name not in self.took and (self._looked or 0) >= self._limit]
        slow = [name for name, took in self.took.items() if took > self._limit]
        return [f"recovers: {name} did not recover within {self._limit} ms of the loss" for name in (*missed, *slow)]
