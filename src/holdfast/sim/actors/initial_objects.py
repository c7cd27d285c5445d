"""The first objects of a run: what operators set up, and the workloads of tenants with their drawn variations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.core.model.objects import tenants
from holdfast.core.model.objects import workloads as rules
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec
from holdfast.core.model.objects.topology import Region
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.quantities import parse_cpu, parse_memory
from holdfast.core.model.values.resources import Resources
from holdfast.replay.recording import RunPlan
from holdfast.sim.actors.process_behavior import LIVENESS, READINESS, STARTUP
from holdfast.sim.scenario import Scenario, WorkloadShape
from holdfast.sim.variety import NodeProfile, apply_rules, quota_of, region_specs

#: Priority, whether it is reclaimable, whether it may preempt.
CLASSES = {"critical": (100, False, True), "normal": (50, False, False), "best-effort": (10, True, False)}
#: Replicas that may be down at a time, if the workload has no disruption budget of its own.
PLENTY = 9


def amounts(cpu: str, memory: str) -> Resources:
    """Parse an amount of a scenario."""
    return Resources(parse_cpu(cpu), parse_memory(memory))


class ScenarioObjects:
    """The initial objects of one run."""

    def __init__(self, scenario: Scenario, plan: RunPlan, furnished: Mapping[str, NodeProfile]) -> None:
        self._scenario = scenario
        self._plan = plan
        self._furnished = furnished
        self.regions = sorted(scenario.topology.regions)
        self._sites = region_specs(scenario.topology.regions)
        self.tenants = sorted(scenario.tenants)
        self.workloads = [self._workload(name, asked) for name, asked in scenario.workloads.items()]
        #: By tenant: its quota over all regions.
        self.quotas = {name: self._quota(name) for name in scenario.tenants}

    def opening(self) -> list[Any]:
        """Return what operators set up first: principals, classes, regions, tenants, quotas and recovery budgets."""
        found: list[Any] = [
            Principal(meta=Meta(name=name), spec=PrincipalSpec(rights=rights))
            for name, rights in (
                ("region/*", ()),
                ("agent/*", ()),
                ("scheduler/*", ()),
                ("tenant/*", (Permission.WRITE,)),
            )
        ]
        for name, (priority, reclaimable, may_preempt) in CLASSES.items():
            spec = tenants.PriorityClassSpec(priority=priority, reclaimable=reclaimable, may_preempt=may_preempt)
            found.append(tenants.PriorityClass(meta=Meta(name=name), spec=spec))
        regions = tuple(self._sites)
        found += [Region(meta=Meta(name=name), spec=site) for name, site in self._sites.items()]
        for name, quota in self.quotas.items():
            found.append(tenants.Tenant(meta=Meta(name=name), spec=tenants.TenantSpec(priority_classes=tuple(CLASSES))))
            found.append(tenants.Quota(meta=Meta(name=name), spec=quota))
        for name, budget in self._scenario.budgets.items():
            spec_ = tenants.RecoveryBudgetSpec(regions=regions, each=amounts(budget.cpu, budget.memory))
            found.append(tenants.RecoveryBudget(meta=Meta(name=name), spec=spec_))
        return found

    def meant(self, node: str) -> dict[str, Any]:
        """Return the fields that operators set on a node."""
        return self._furnished[node].administered

    def to_administer(self) -> list[str]:
        """Return the nodes on which operators set fields at the start."""
        return [name for name in self._furnished if any(self.meant(name).values())]

    def emergency(self, tenant: str) -> Resources:
        """Return the emergency quota of a tenant: its size in the scenario."""
        return amounts(self._scenario.tenants[tenant].cpu, self._scenario.tenants[tenant].memory)

    def most(self, workload: str) -> int:
        """Return the largest replica count that a user requests for a workload."""
        return 2 * self._scenario.workloads[workload].replicas

    def _quota(self, tenant: str) -> tenants.QuotaSpec:
        mine = [one.spec for one in self.workloads if one.meta.tenant == tenant]
        return quota_of(self.emergency(tenant), mine, self._plan.odd(f"tenant/{tenant}"))

    def _workload(self, name: str, asked: WorkloadShape) -> rules.Workload:
        """Return one workload. Critical and exclusive ones are probed; the others are ready when they run."""
        failover = (
            rules.FailoverMode.LEASED
            if asked.leased
            else rules.FailoverMode.ACKNOWLEDGED
            if asked.exclusive
            else rules.FailoverMode.ADDITIVE
        )
        spread = (rules.Spread("zone", asked.spread),) if asked.spread else ()
        template = rules.Template(command=("run", name), need=amounts(asked.cpu, asked.memory), ports=1, spread=spread)
        probed = asked.exclusive or asked.priority == "critical"
        spec = rules.WorkloadSpec(
            template=replace(template, startup=STARTUP, readiness=READINESS, liveness=LIVENESS) if probed else template,
            replicas=asked.replicas,
            priority_class=asked.priority,
            exclusive=asked.exclusive,
            placement=rules.Placement(regions=asked.regions),
            disruption_max=PLENTY,
            failover=failover,
            on_disconnect=rules.OnDisconnect.STOP if asked.leased else rules.OnDisconnect.KEEP,
            recovery=rules.Recovery(budget=asked.recovery),
        )
        odd, sites = self._plan.odd(name), tuple(self._sites.values())
        return rules.Workload(meta=Meta(name=name, tenant=asked.tenant), spec=apply_rules(spec, odd, sites))
