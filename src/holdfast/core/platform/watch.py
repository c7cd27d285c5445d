"""The watch keys that each event of the platform touches.

A region's link watches its region and the kinds in `SHIPPED_TO_ALL`, a tenant's client its tenant, and a controller the
kinds that it reconciles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.ledger.builtin import registry
from holdfast.core.ledger.commit import watch
from holdfast.core.ledger.commit.watch import OVERRIDE, PRINCIPAL, SERVER, KeysOf, WatchKey, breach
from holdfast.core.model.objects.policies import validity_key
from holdfast.core.model.records.breaches import PLATFORM_ESCROW
from holdfast.core.model.records.grants import grant_key
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import events as e

TENANT, QUOTA, PRIORITY_CLASS, TOKEN, REGION = "tenant", "quota", "priority-class", "token", "region"
NODE_POOL, RECOVERY_BUDGET, WORKLOAD, TEMPLATE = "node-pool", "recovery-budget", "workload", "template"
ASSIGNMENT, GRANT, ACCOUNT, POLICY, VALIDITY = "assignment", "grant", "account", "policy", "validity"
OBSERVED, SUMMARY, REGION_STATE = "observed", "summary", "standing"

WATCH_KINDS: dict[str, str] = {
    **watch.WATCH_KINDS,
    TENANT: "A tenant by name: itself, its quota, its workloads and their assignments.",
    QUOTA: "A tenant's quota, by the tenant's name.",
    PRIORITY_CLASS: "A priority class by name.",
    TOKEN: "A token by name.",
    REGION: "A region by name: itself, its assignments, grants, rights and validities, and what it must release.",
    NODE_POOL: "A node pool by name.",
    RECOVERY_BUDGET: "A recovery budget by name.",
    WORKLOAD: "A workload by uid: itself, its assignments, rights and breaches.",
    TEMPLATE: "A template by digest.",
    ASSIGNMENT: "An assignment by uid.",
    GRANT: "A grant by `region|account`.",
    ACCOUNT: "An account by name: its grants and its breaches.",
    POLICY: "A scheduler policy by revision.",
    VALIDITY: "The policy that is valid in a region and scope, by `region|scope`.",
    OBSERVED: "Reports of regions about a workload, by its uid.",
    SUMMARY: "A region's summary, by its name.",
    REGION_STATE: "A region's existence, health and spec, by its name: what concerns every workload.",
}

#: Kinds that are sent to every region, which keeps copies of those that concern it. Its own rows have the key
#: `("region", NAME)`.
SHIPPED_TO_ALL = (TEMPLATE, PRIORITY_CLASS, PRINCIPAL, TOKEN, NODE_POOL, POLICY, OVERRIDE, SERVER)

#: Watch kinds of operators' objects, by the name of their struct.
_OBJECTS = {
    "Tenant": TENANT,
    "Quota": QUOTA,
    "PriorityClass": PRIORITY_CLASS,
    "Principal": PRINCIPAL,
    "Token": TOKEN,
    "Region": REGION,
    "NodePool": NODE_POOL,
    "RecoveryBudget": RECOVERY_BUDGET,
}


def _once(found: Iterable[WatchKey]) -> tuple[WatchKey, ...]:
    return tuple(dict.fromkeys(found))


def _object(kind: str, name: str) -> tuple[WatchKey, ...]:
    if kind == "Region":
        return _standing(name)
    mine = (_OBJECTS[kind], name)
    return (mine, (TENANT, name)) if kind == "Quota" else (mine,)


def _standing(region: str) -> tuple[WatchKey, ...]:
    return (REGION, region), (REGION_STATE, region)


def _workload(uid: Revision, tenant: str) -> tuple[WatchKey, ...]:
    return (WORKLOAD, uid), (TENANT, tenant)


def _deleting(event: e.DeletionBegun, _: Revision) -> tuple[WatchKey, ...]:
    owners = [_owner(finalizer.owner) for finalizer in event.finalizers]
    return _once((*_workload(event.workload, event.tenant), *owners))


def _owner(owner: str) -> WatchKey:
    """Return the key of the region that must release a finalizer, `region/NAME`."""
    kind, _, name = owner.partition("/")
    assert kind == REGION, owner
    return REGION, name


def _assignment(uid: Revision, workload: Revision, tenant: str, region: str) -> tuple[WatchKey, ...]:
    return (ASSIGNMENT, uid), (WORKLOAD, workload), (TENANT, tenant), (REGION, region)


def _assigned(event: e.AssignmentStored, revision: Revision) -> tuple[WatchKey, ...]:
    one = event.assignment
    return _assignment(one.uid or revision, one.workload, one.tenant, one.region)


def _grant(key: str) -> tuple[WatchKey, ...]:
    region, _, account = key.partition("|")
    return (GRANT, key), (REGION, region), (ACCOUNT, account)


def _validity(key: str) -> tuple[WatchKey, ...]:
    return (VALIDITY, key), (REGION, key.partition("|")[0])


def _reported(event: e.RegionReported) -> tuple[WatchKey, ...]:
    seen: list[WatchKey] = [(OBSERVED, one.workload) for one in event.seen]
    return (*seen, (SUMMARY, event.region)) if event.summary is not None else tuple(seen)


def _breached(invariant: str, key: str) -> tuple[WatchKey, ...]:
    """Return the keys of a breach: the account of an escrow breach, the workload of any other.

    An escrow breach has the key `kind/name/resource` or `kind/name|region/resource`.
    """
    if invariant == PLATFORM_ESCROW:
        return breach(invariant, key), (ACCOUNT, "/".join(key.split("/")[:2]).partition("|")[0])
    return breach(invariant, key), (WORKLOAD, int(key))


WATCH_KEYS: Mapping[type, KeysOf] = {
    **registry.WATCH_KEYS,
    e.ObjectStored: lambda event, _: _object(type(event.object).__name__, event.object.meta.name),
    e.ObjectRemoved: lambda event, _: _object(event.kind, event.name),
    e.WorkloadStored: lambda event, rev: _workload(event.workload.meta.uid or rev, event.workload.meta.tenant),
    e.DeletionBegun: _deleting,
    e.FinalizersReleased: lambda event, _: _once(
        (_owner(event.owner), *[key for one in event.workloads for key in _workload(one.workload, one.tenant)])
    ),
    e.WorkloadsRemoved: lambda event, _: _once(
        key for one in event.workloads for key in _workload(one.workload, one.tenant)
    ),
    e.TemplateStored: lambda event, _: ((TEMPLATE, event.digest),),
    e.TemplatesForgotten: lambda event, _: tuple([(TEMPLATE, digest) for digest in event.digests]),
    e.TemplatesDropped: lambda event, _: _workload(event.workload, event.tenant),
    e.StatusReported: lambda event, _: _workload(event.workload, event.tenant),
    e.AssignmentStored: _assigned,
    e.AssignmentsEnded: lambda event, _: _once(
        key for a in event.assignments for key in _assignment(a.assignment, a.workload, a.tenant, a.region)
    ),
    e.AssignmentsRemoved: lambda event, _: _once(
        key
        for a in event.assignments
        for key in (*_assignment(a.assignment, a.workload, a.tenant, a.region), (OBSERVED, a.workload))
    ),
    e.OfferedBack: lambda event, _: ((WORKLOAD, event.overflow.workload), (SUMMARY, event.overflow.region)),
    e.GrantStored: lambda event, _: _grant(grant_key(event.grant.region, event.grant.account)),
    e.GrantsRemoved: lambda event, _: _once(key for one in event.grants for key in _grant(one)),
    e.GrantsForgotten: lambda event, _: _once(key for one in event.grants for key in _grant(one)),
    e.RightGranted: lambda event, _: ((WORKLOAD, event.workload), (REGION, event.region)),
    e.RightsReleased: lambda event, _: _once(
        key for right in event.rights for key in ((WORKLOAD, right.workload), (REGION, right.region))
    ),
    e.RightsGranted: lambda event, _: ((WORKLOAD, event.workload), (REGION, event.region)),
    e.RightsFreed: lambda event, _: ((WORKLOAD, event.workload), (REGION, event.region)),
    e.RegionJoined: lambda event, _: _standing(event.region),
    e.RegionRejoined: lambda event, _: ((REGION, event.region),),
    e.RegionAcknowledged: lambda event, _: ((REGION, event.region),),
    e.RegionBelieved: lambda event, _: ((REGION, event.region),),
    e.RegionReported: lambda event, _: _reported(event),
    e.RegionJudged: lambda event, _: _standing(event.region),
    e.RegionRetired: lambda event, _: (*_standing(event.region), (SUMMARY, event.region)),
    e.RetirementContinued: lambda event, _: ((REGION, event.region),),
    e.PolicyPublished: lambda _event, rev: ((POLICY, rev),),
    e.PoliciesDropped: lambda event, _: tuple([(POLICY, revision) for revision in event.revisions]),
    e.PolicyStaged: lambda event, _: ((POLICY, event.revision),),
    e.ValidityStored: lambda event, _: _validity(validity_key(event.region, event.scope)),
    e.ValiditiesDropped: lambda event, _: _once(key for one in event.validities for key in _validity(one)),
    e.BreachStored: lambda event, _: _breached(event.breach.invariant, event.breach.key),
    e.BreachClosed: lambda event, _: _breached(event.invariant, event.key),
}
