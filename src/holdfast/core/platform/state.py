"""The platform's state: its tables, and how the derived ones are rebuilt from the others.

The one idea: whatever a decision must look up quickly (a name, a sum, who names a template) is a derived table, kept
in step by `evolve` and never stored, so a snapshot holds each fact once.

Size: one list of every table, in one place.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.ledger.lists import list_one, unlist_one
from holdfast.core.ledger.state import COMMON_TABLES, LedgerState
from holdfast.core.ledger.table import MANY, Table, TableSpec
from holdfast.core.model.allotment import Assignment, Demand, Grant, RecoveryBudget, RightHeld, Stage
from holdfast.core.model.control import SchedulerPolicy, Validity
from holdfast.core.model.ordered import Ordered
from holdfast.core.model.placement import Breach
from holdfast.core.model.resources import NOTHING, Resources, add, times
from holdfast.core.model.runs import Runs, joined, size, without
from holdfast.core.model.shapes import Instant, Revision, SlotKey
from holdfast.core.model.summary import Observation, Overflow, Rebalance, Summarised, still_asked
from holdfast.core.model.tenancy import PriorityClass, Quota, Tenant, Token
from holdfast.core.model.topology import NodePool, Region
from holdfast.core.model.workload import Template, Workload

#: By kind: the table that holds it. Workloads are not here: they are keyed by uid and have commands of their own.
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

#: How accounts begin that have a limit in each region.
REGIONAL = ("recovery/", "reclaimable/")

#: A region and the ordinals of one workload whose right it holds.
HeldIn = tuple[str, Runs]

#: How many workloads of each tenant name a template, by tenant.
Uses = tuple[tuple[str, int], ...]


class PlatformState(LedgerState):
    """Everything the platform knows. Only `evolve` writes to it."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = (
        *COMMON_TABLES,
        TableSpec("tenants", str, Tenant),
        TableSpec("quotas", str, Quota),
        TableSpec("priority_classes", str, PriorityClass),
        TableSpec("tokens", str, Token),
        TableSpec("regions", str, Region),
        TableSpec("pools", str, NodePool),
        TableSpec("budgets", str, RecoveryBudget),
        TableSpec("tombstones", str, str),
        TableSpec("workloads", int, Workload, MANY),
        TableSpec("templates", str, Template),
        TableSpec("templates_of", int, tuple[str, ...], MANY),
        TableSpec("assignments", int, Assignment, MANY),
        TableSpec("grants", str, Grant),
        TableSpec("rights", tuple[int, int], RightHeld, MANY),
        TableSpec("leases", int, tuple[tuple[str, int], ...], since=2),
        TableSpec("observed", int, tuple[Observation, ...], MANY),
        TableSpec("done_before", int, tuple[tuple[str, int], ...]),
        TableSpec("summaries", str, Summarised),
        TableSpec("overflows", int, tuple[Overflow, ...]),
        TableSpec("rebalances", str, Rebalance),
        TableSpec("policies", int, SchedulerPolicy),
        TableSpec("validities", str, Validity),
        TableSpec("breaches", tuple[str, str], Breach),
        TableSpec("grant_versions", str, int, since=2),
        TableSpec("workload_names", str, int, derived=True),
        TableSpec("workload_counts", str, int, derived=True),
        TableSpec("pending_of", str, int, derived=True),
        TableSpec("template_uses", str, Uses, derived=True),
        TableSpec("assignments_of", int, tuple[int, ...], MANY, derived=True),
        TableSpec("paid_by", str, Ordered, derived=True),
        TableSpec("rights_of", int, tuple[HeldIn, ...], MANY, derived=True),
        TableSpec("assigned_in", str, Ordered, derived=True),
        TableSpec("rights_in", str, Ordered, derived=True),
        TableSpec("right_counts", str, int, derived=True),
        TableSpec("granted_in", str, Ordered, derived=True),
        TableSpec("offered_of", str, Resources, derived=True),
        TableSpec("demand_of", str, Demand, derived=True),
    )

    tenants: Table[str, Tenant]
    #: By tenant.
    quotas: Table[str, Quota]
    priority_classes: Table[str, PriorityClass]
    tokens: Table[str, Token]
    regions: Table[str, Region]
    pools: Table[str, NodePool]
    budgets: Table[str, RecoveryBudget]
    #: By log id: the region whose log it was. It outlives the region's object, since the old log may speak at any time.
    tombstones: Table[str, str]
    workloads: Table[Revision, Workload]
    #: By digest.
    templates: Table[str, Template]
    #: By workload: every template it has named, sorted. A region may still run any of them.
    templates_of: Table[Revision, tuple[str, ...]]
    assignments: Table[Revision, Assignment]
    #: By `region|account`.
    grants: Table[str, Grant]
    #: By identity. No row: nobody holds the right.
    rights: Table[SlotKey, RightHeld]
    #: By workload: by region, the latest end of its leased rights that it was ever told.
    leases: Table[Revision, tuple[tuple[str, Instant], ...]]
    #: By workload: what each region said of it last, by region. Only of regions that have an assignment of it.
    observed: Table[Revision, tuple[Observation, ...]]
    #: By workload: how many of each template were done by assignments that are gone.
    done_before: Table[Revision, tuple[tuple[str, int], ...]]
    #: By region.
    summaries: Table[str, Summarised]
    #: By workload: what regions could not place, by region, also once their assignments are gone.
    overflows: Table[Revision, tuple[Overflow, ...]]
    #: By region.
    rebalances: Table[str, Rebalance]
    policies: Table[Revision, SchedulerPolicy]
    #: By `region|scope`.
    validities: Table[str, Validity]
    #: By (invariant, key): promises of the second kind that are broken now (RULES 18).
    breaches: Table[tuple[str, str], Breach]
    #: By region: the highest version of its grants that were forgotten. Later ones begin above it.
    grant_versions: Table[str, int]
    #: By `tenant/name`: the one that is not being deleted; older ones of that name may still be finalising.
    workload_names: Table[str, Revision]
    #: By tenant: how many workloads it has, those being deleted included.
    workload_counts: Table[str, int]
    #: By tenant: how many replicas it wants that are neither bound nor over; of what is being deleted, none.
    pending_of: Table[str, int]
    template_uses: Table[str, Uses]
    #: By workload: its assignments, oldest first.
    assignments_of: Table[Revision, tuple[Revision, ...]]
    #: By account of an emergency: the assignments that it pays for.
    paid_by: Table[str, Ordered[Revision]]
    #: By workload: by region, the ordinals whose right it holds.
    rights_of: Table[Revision, tuple[HeldIn, ...]]
    #: By region: its assignments, each after its workload.
    assigned_in: Table[str, Ordered[tuple[Revision, Revision]]]
    #: By region: the workloads to which it holds rights, and how many rights it holds in all.
    rights_in: Table[str, Ordered[Revision]]
    right_counts: Table[str, int]
    #: By region: the accounts of its grants.
    granted_in: Table[str, Ordered[str]]
    #: By charge key: the sum of what is offered.
    offered_of: Table[str, Resources]
    #: By `region|account`: what active assignments there ask of the account that is the first to pay for them. What is
    #: known to be over asks for nothing.
    demand_of: Table[str, Demand]

    def rebuild(self) -> None:
        """Build every derived table anew."""
        from holdfast.core.platform.rebuild import rebuild

        super().rebuild()
        rebuild(self)


def held_in(state: PlatformState, workload: Revision, region: str) -> Runs:
    """The ordinals of a workload whose right a region holds."""
    return next((ordinals for name, ordinals in state.rights_of.get(workload) or () if name == region), ())


def lease_told(state: PlatformState, workload: Revision, region: str) -> Instant:
    """The latest end of a leased right to this workload that the region was told since level 2; 0: none."""
    return next((until for name, until in state.leases.get(workload) or () if name == region), 0)


def index_rights(state: PlatformState, workload: Revision, region: str, come: Runs = (), gone: Runs = ()) -> None:
    """List rights that a region holds from now on, or no more; none leave no row."""
    held = dict(state.rights_of.get(workload) or ())
    before = held.get(region, ())
    held[region] = without(joined(before, come), gone)
    if bool(before) != bool(held[region]):
        (unlist_one if before else list_one)(state.rights_in, region, workload)
    count = (state.right_counts.get(region) or 0) + size(held[region]) - size(before)
    if count:
        state.right_counts.put(region, count)
    else:
        state.right_counts.drop(region)
    left = tuple((name, held[name]) for name in sorted(held) if held[name])
    if left:
        state.rights_of.put(workload, left)
    else:
        state.rights_of.drop(workload)


def index_workload(state: PlatformState, uid: Revision, workload: Workload) -> None:
    """Count a workload that was not counted before."""
    tenant = workload.meta.tenant
    if workload.meta.deletion is None:
        state.workload_names.put(name_key(tenant, workload.meta.name), uid)
    state.workload_counts.put(tenant, (state.workload_counts.get(tenant) or 0) + 1)
    index_pending(state, tenant, pending(workload))


def pending(workload: Workload) -> int:
    """How many replicas of a workload are wanted, and neither bound nor over."""
    status = workload.status
    there = status.bound + status.succeeded + status.failed
    return max(0, workload.spec.replicas - there) if workload.meta.deletion is None else 0


def index_pending(state: PlatformState, tenant: str, change: int) -> None:
    """Add to what a tenant waits for; nothing leaves no row."""
    waiting = (state.pending_of.get(tenant) or 0) + change
    if waiting:
        state.pending_of.put(tenant, waiting)
    else:
        state.pending_of.drop(tenant)


def index_assignment(state: PlatformState, uid: Revision, assignment: Assignment) -> None:
    """Count an assignment that was not counted before."""
    others = state.assignments_of.get(assignment.workload) or ()
    state.assignments_of.put(assignment.workload, tuple(sorted((*others, uid))))
    for account in emergencies_of(assignment):
        list_one(state.paid_by, account, uid)
    index_demand(state, assignment, 1)


def emergencies_of(assignment: Assignment) -> tuple[str, ...]:
    """Of the accounts that pay for an assignment those of emergencies, each once."""
    return tuple(dict.fromkeys(account for account in assignment.accounts if account.startswith("emergency/")))


def index_demand(state: PlatformState, assignment: Assignment, sign: int) -> None:
    """Count what an assignment asks for, or take it away again; nothing asked leaves no row."""
    if assignment.stage is not Stage.ACTIVE or not assignment.accounts:
        return
    key = grant_key(assignment.region, assignment.accounts[0])
    old = state.demand_of.get(key) or Demand()
    count, amount = old.count, old.amount
    observed = state.observed.get(assignment.workload) or ()
    for digest, asked in still_asked(observed, assignment).items():
        template = state.templates.get(digest)
        if template is not None:
            count += sign * asked
            amount = add(amount, times(template.need, sign * asked))
    if count:
        state.demand_of.put(key, Demand(count, amount))
    else:
        state.demand_of.drop(key)


def index_offer(state: PlatformState, key: str, amount: Resources) -> None:
    """Add to what is offered of one limit; nothing offered leaves no row."""
    offered = add(state.offered_of.get(key) or NOTHING, amount)
    if offered == NOTHING:
        state.offered_of.drop(key)
    else:
        state.offered_of.put(key, offered)


def count_use(state: PlatformState, tenant: str, digest: str, change: int) -> None:
    """Change how many workloads of a tenant name a template."""
    counts = dict(state.template_uses.get(digest) or ())
    counts[tenant] = counts.get(tenant, 0) + change
    uses = tuple(sorted((name, count) for name, count in counts.items() if count))
    if uses:
        state.template_uses.put(digest, uses)
    else:
        state.template_uses.drop(digest)


def name_key(tenant: str, name: str) -> str:
    """The key of a workload's name. Tenants have no slash in their names, so it reads back in one way only."""
    return f"{tenant}/{name}"


def grant_key(region: str, account: str) -> str:
    """The key of the one grant of an account to a region."""
    return f"{region}|{account}"


def overflow_of(state: PlatformState, workload: Revision, region: str) -> Overflow | None:
    """What a region has offered back of a workload, now or earlier."""
    return next((one for one in state.overflows.get(workload) or () if one.region == region), None)


def charge_key(account: str, region: str) -> str:
    """What shares one limit: an account over all regions, except that some have a limit of their own in each region."""
    return f"{account}|{region}" if account.startswith(REGIONAL) else account


def validity_key(region: str, scope: str) -> str:
    """The key of the one policy validity of a scope in a region."""
    return f"{region}|{scope}"


def assignments_of(state: PlatformState, workload: Revision) -> list[Assignment]:
    """A workload's assignments, oldest first."""
    return [state.assignments[uid] for uid in state.assignments_of.get(workload) or ()]
