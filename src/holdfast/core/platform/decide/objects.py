"""Put and Delete: the objects that operators write.

A sender sets name, labels, annotations and spec. The ledger sets uid, generation, revision, creator, finalizers,
deletion and status, and ignores sent values. An old copy that is sent again therefore never brings an old uid or status
back.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.tenants import Quota, RecoveryBudget
from holdfast.core.model.objects.topology import NodePool, Region, RegionStatus
from holdfast.core.model.objects.workloads import Workload, WorkloadStatus
from holdfast.core.model.records.grants import charge_key, grant_key
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform.commands import Delete, OperatorObject, Put
from holdfast.core.platform.decide import checks
from holdfast.core.platform.decide.breaches import BreachEvent, recount_account, recount_region
from holdfast.core.platform.decide.grants import forgotten_grant_events
from holdfast.core.platform.decide.object_kinds import CHECKS, USES
from holdfast.core.platform.events import GrantsForgotten, ObjectRemoved, ObjectStored, ValiditiesDropped
from holdfast.core.platform.state.tables import TABLE_OF, PlatformState

T = TypeVar("T", bound=OperatorObject | Workload)


def put(state: PlatformState, command: Put, ctx: CommandContext) -> Accepted | Refused:
    """Store the object as sent, if that breaks nothing that refers to it."""
    sent = command.object
    kind, name = type(sent).__name__, sent.meta.name
    refused = _refuse_scope(sent, ctx) or checks.refuse_name(kind, name) or checks.refuse_marks(sent.meta)
    if refused is not None:
        return refused
    stored: Any = state.table(TABLE_OF[kind]).get(name)
    if stored is not None:
        refused = _refuse_scope(stored, ctx)
    if refused is not None:
        return refused
    merged = merge(sent, stored, ctx)
    if merged == stored:
        return already(f"{kind}/{name}", stored.meta.revision)
    refused = CHECKS[kind](state, merged, stored, ctx)
    if refused is not None:
        return refused
    return Accepted((ObjectStored(merged), *_recount(state, merged, ctx)))


def delete(state: PlatformState, command: Delete, ctx: CommandContext) -> Accepted | Refused:
    """Delete the object at once, if nothing refers to it."""
    if command.kind not in TABLE_OF:
        return Refused(Code.MALFORMED, f"{command.kind!r} is no kind", {"kinds": sorted(TABLE_OF)})
    refused = _refuse_part(command.kind, ctx)
    if refused is not None:
        return refused  # before the lookup: a sender without permission must not learn whether it exists
    stored: Any = state.table(TABLE_OF[command.kind]).get(command.name)
    if stored is None:
        return not_found(command.kind, command.name)
    key = f"{command.kind}/{command.name}"
    refused = _refuse_scope(stored, ctx) or checks.refuse_other_uid(key, stored.meta, command.uid)
    if refused is not None:
        return refused
    refused = USES[command.kind](state, stored, ctx)
    if refused is not None:
        return refused
    removed = ObjectRemoved(command.kind, command.name)
    return Accepted((removed, *_drop_validities(state, command), *_forget_grants(state, command)))


def merge(sent: T, stored: T | None, ctx: CommandContext) -> T:
    """Return the stored object with the sender's fields; all others, its revision included, are the stored ones."""
    labels, annotations = tuple(sorted(sent.meta.labels)), tuple(sorted(sent.meta.annotations))
    if stored is None:
        tenant = sent.meta.tenant if isinstance(sent, Workload) else ""
        meta = Meta(name=sent.meta.name, tenant=tenant, labels=labels, annotations=annotations, created_by=ctx.actor)
        if isinstance(sent, Region):
            return replace(sent, meta=meta, status=RegionStatus(since=ctx.at))
        if isinstance(sent, Workload):
            return replace(sent, meta=meta, status=WorkloadStatus())
        return type(sent)(meta=meta, spec=sent.spec)  # type: ignore[arg-type]
    generation = stored.meta.generation + (sent.spec != stored.spec)
    meta = replace(stored.meta, labels=labels, annotations=annotations, generation=generation)
    return replace(stored, meta=meta, spec=sent.spec)


def _refuse_part(kind: str, ctx: CommandContext) -> Refused | None:
    """Refuse a sender whose scope excludes every object of the kind."""
    is_of_regions = kind in (Region.__name__, NodePool.__name__)
    scope = ctx.principal.spec.scope if ctx.principal else None
    return (
        None
        if is_of_regions and scope is not None and not (scope.tenant or scope.node)
        else checks.refuse_outside_everywhere(ctx)
    )


def _refuse_scope(sent: OperatorObject, ctx: CommandContext) -> Refused | None:
    """Refuse a sender outside its scope. A region's operator may write that region and its pools, nothing else."""
    if isinstance(sent, Region):
        return checks.refuse_outside_whole_region(ctx, sent.meta.name)
    if isinstance(sent, NodePool):
        return checks.refuse_outside_whole_region(ctx, sent.spec.region)
    return checks.refuse_outside_everywhere(ctx)


def _recount(state: PlatformState, merged: OperatorObject, ctx: CommandContext) -> tuple[BreachEvent, ...]:
    """Return breach events: a quota may be lowered below its grants, a budget below its claims (RULES 7)."""
    if isinstance(merged, Region):
        return recount_region(state, merged, ctx)
    if isinstance(merged, Quota):
        return _recount_limit(state, f"quota/{merged.meta.name}", merged.spec.hard, ctx)
    if not isinstance(merged, RecoveryBudget):
        return ()
    accounts = [charge_key(f"recovery/{merged.meta.name}", region) for region in merged.spec.regions]
    return tuple(event for one in accounts for event in _recount_limit(state, one, merged.spec.each, ctx))


def _recount_limit(
    state: PlatformState, account: str, limit: Resources, ctx: CommandContext
) -> tuple[BreachEvent, ...]:
    charged = state.offered_of.get(account) or ZERO
    return recount_account(state, account, (charged, charged), limit, ctx)


def _drop_validities(state: PlatformState, command: Delete) -> tuple[ValiditiesDropped, ...]:
    """Drop the validities of a deleted region or tenant."""
    keys = tuple(
        key
        for key, validity in state.validities.items()
        if (command.kind == "Region" and validity.region == command.name)
        or (command.kind == "Tenant" and validity.scope == command.name)
    )
    return (ValiditiesDropped(keys),) if keys else ()


#: By kind: prefixes of the accounts that are deleted with an object.
_ACCOUNTS = {"Quota": ("quota", "reclaimable"), "RecoveryBudget": ("recovery",)}


def _forget_grants(state: PlatformState, command: Delete) -> tuple[GrantsForgotten, ...]:
    """Forget the grants of the deleted accounts. They are empty; only their versions are remembered."""
    accounts = [f"{kind}/{command.name}" for kind in _ACCOUNTS.get(command.kind, ())]
    keys = [grant_key(region, account) for region, _ in state.regions.items() for account in accounts]
    return forgotten_grant_events(state, [state.grants[key] for key in keys if key in state.grants])
