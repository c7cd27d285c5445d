"""The platform's state: its tables, and which of them are derived.

Decisions look up names, sums and uses of templates in derived tables. `evolve` updates those; they are never stored, so
a snapshot contains each fact once.

Size: one list of every table, in one place.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.ledger.state.ledger_state import COMMON_TABLES, LedgerState
from holdfast.core.ledger.state.table import MANY, Table, TableSpec
from holdfast.core.model.objects.policies import SchedulerPolicy, Validity
from holdfast.core.model.objects.principals import Token
from holdfast.core.model.objects.tenants import PriorityClass, Quota, RecoveryBudget, Tenant
from holdfast.core.model.objects.topology import NodePool, Region
from holdfast.core.model.objects.workloads import Template, Workload
from holdfast.core.model.records.assignments import Assignment, HeldRight
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.records.grants import AccountDemand, Grant
from holdfast.core.model.records.region_reports import ObservedWorkload, Overflow, Rebalance, StoredSummary
from holdfast.core.model.records.usage_windows import UsageWindow
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.sorted_list import SortedList
from holdfast.core.model.values.structs import Instant, Revision, SlotKey

#: The table of each kind. Workloads are missing: they are keyed by uid and have commands of their own.
TABLE_OF = {
    "Tenant": "tenants",
    "Quota": "quotas",
    "PriorityClass": "priority_classes",
    "Principal": "principals",
    "Token": "tokens",
    "Region": "regions",
    "NodePool": "pools",
    "RecoveryBudget": "budgets",
}

#: A region, and the ordinals of one workload to which it holds the right.
HeldIn = tuple[str, Ranges]

#: Number of workloads that name a template, by tenant.
Uses = tuple[tuple[str, int], ...]


class PlatformState(LedgerState):
    """The platform's state. Only `evolve` writes to it."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = (
        *COMMON_TABLES,
        TableSpec("tenants", str, Tenant),
        TableSpec("quotas", str, Quota),
        TableSpec("priority_classes", str, PriorityClass),
        TableSpec("tokens", str, Token),
        TableSpec("regions", str, Region),
        TableSpec("pools", str, NodePool, attribute="node_pools"),
        TableSpec("budgets", str, RecoveryBudget, attribute="recovery_budgets"),
        TableSpec("tombstones", str, str),
        TableSpec("workloads", int, Workload, MANY),
        TableSpec("templates", str, Template),
        TableSpec("templates_of", int, tuple[str, ...], MANY),
        TableSpec("assignments", int, Assignment, MANY),
        TableSpec("grants", str, Grant),
        TableSpec("rights", tuple[int, int], HeldRight, MANY),
        TableSpec("leases", int, tuple[tuple[str, int], ...], since=2),
        TableSpec("observed", int, tuple[ObservedWorkload, ...], MANY, attribute="workload_reports"),
        TableSpec("done_before", int, tuple[tuple[str, int], ...], attribute="completed_before"),
        TableSpec("summaries", str, StoredSummary),
        TableSpec("overflows", int, tuple[Overflow, ...]),
        TableSpec("rebalances", str, Rebalance),
        TableSpec("policies", int, SchedulerPolicy),
        TableSpec("validities", str, Validity),
        TableSpec("breaches", tuple[str, str], Breach),
        TableSpec("grant_versions", str, int, since=2),
        TableSpec("windows", str, UsageWindow, since=3, attribute="usage_windows"),
        TableSpec("workload_names", str, int, derived=True),
        TableSpec("workload_counts", str, int, derived=True),
        TableSpec("pending_of", str, int, derived=True),
        TableSpec("template_uses", str, Uses, derived=True),
        TableSpec("assignments_of", int, tuple[int, ...], MANY, derived=True),
        TableSpec("paid_by", str, SortedList, derived=True),
        TableSpec("rights_of", int, tuple[HeldIn, ...], MANY, derived=True),
        TableSpec("assigned_in", str, SortedList, derived=True),
        TableSpec("rights_in", str, SortedList, derived=True),
        TableSpec("right_counts", str, int, derived=True),
        TableSpec("granted_in", str, SortedList, derived=True),
        TableSpec("offered_of", str, Resources, derived=True),
        TableSpec("demand_of", str, AccountDemand, derived=True),
    )

    tenants: Table[str, Tenant]
    #: By tenant.
    quotas: Table[str, Quota]
    priority_classes: Table[str, PriorityClass]
    tokens: Table[str, Token]
    regions: Table[str, Region]
    node_pools: Table[str, NodePool]
    recovery_budgets: Table[str, RecoveryBudget]
    #: By log id: the region whose log it was. It outlives the region's object, since the old log may try to join later.
    tombstones: Table[str, str]
    workloads: Table[Revision, Workload]
    #: By digest.
    templates: Table[str, Template]
    #: By workload: the templates that it keeps. Sorted at level 1, in order of naming since.
    templates_of: Table[Revision, tuple[str, ...]]
    assignments: Table[Revision, Assignment]
    #: By `region|account`.
    grants: Table[str, Grant]
    #: By identity. Without a row no region holds the right.
    rights: Table[SlotKey, HeldRight]
    #: By workload: by region, the latest end of its leased rights that was ever sent to it.
    leases: Table[Revision, tuple[tuple[str, Instant], ...]]
    #: By workload: the last report of each region that has an assignment of it, by region.
    workload_reports: Table[Revision, tuple[ObservedWorkload, ...]]
    #: By workload: the replicas done of each template by assignments that were removed.
    completed_before: Table[Revision, tuple[tuple[str, int], ...]]
    #: By region.
    summaries: Table[str, StoredSummary]
    #: By workload: what regions could not place, by region. It stays when their assignments are removed.
    overflows: Table[Revision, tuple[Overflow, ...]]
    #: By region.
    rebalances: Table[str, Rebalance]
    policies: Table[Revision, SchedulerPolicy]
    #: By `region|scope`.
    validities: Table[str, Validity]
    #: By (invariant, key): at-commit invariants that are broken now (RULES 18).
    breaches: Table[tuple[str, str], Breach]
    #: By region: the highest version of its forgotten grants. Later grants begin above it.
    grant_versions: Table[str, int]
    #: By `tenant/name`: the workload that is not being deleted. Older ones of that name may still have finalizers.
    workload_names: Table[str, Revision]
    #: By tenant: its workloads, including those being deleted.
    workload_counts: Table[str, int]
    #: By tenant: replicas that are neither bound nor finished, except of workloads being deleted.
    pending_of: Table[str, int]
    template_uses: Table[str, Uses]
    #: By workload: its assignments, oldest first.
    assignments_of: Table[Revision, tuple[Revision, ...]]
    #: By emergency account: the assignments that it pays for.
    paid_by: Table[str, SortedList[Revision]]
    #: By workload: by region, the ordinals to which it holds the right.
    rights_of: Table[Revision, tuple[HeldIn, ...]]
    #: By region: its assignments, each as (workload, assignment).
    assigned_in: Table[str, SortedList[tuple[Revision, Revision]]]
    #: By region: the workloads to which it holds rights; below, how many rights it holds.
    rights_in: Table[str, SortedList[Revision]]
    right_counts: Table[str, int]
    #: By region: the accounts of its grants.
    granted_in: Table[str, SortedList[str]]
    #: By charge key: the sum of all offers.
    offered_of: Table[str, Resources]
    #: By tenant: its share of all regions within the last hour.
    usage_windows: Table[str, UsageWindow]
    #: By `region|account`: demand of active assignments on the account that pays first. Replicas known to be finished
    #: have none.
    demand_of: Table[str, AccountDemand]

    def rebuild(self) -> None:
        """Rebuild every derived table."""
        from holdfast.core.platform.state.rebuild import rebuild

        super().rebuild()
        rebuild(self)
