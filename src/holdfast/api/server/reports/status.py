"""The status of a server: leader, age, degraded parts, warnings, regions; and the stuck operations of its ledger."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import holdfast
from holdfast.api.kinds import KINDS
from holdfast.api.resources.tables import is_region, iter_rows
from holdfast.api.serialization.registry import render
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.discovery import render_condition
from holdfast.api.server.reports.scope import compute_in_parts, report_scope
from holdfast.api.server.request import ApiRequest, json_reply
from holdfast.api.server.visibility import operates_all, sees_everything
from holdfast.core.ledger.builtin.log import settings_revision
from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.objects.principals import Permission, Principal, Token
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.records.breaches import Repair, most_urgent
from holdfast.core.model.records.region_reports import Trouble
from holdfast.core.model.values.addresses import origin
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.decide.object_kinds import OF_REGIONS
from holdfast.core.platform.queries import repairs as of_platform
from holdfast.core.region.queries import repairs as of_region
from holdfast.core.region.queries.region_summary import exposing
from holdfast.host.errors import show_token
from holdfast.host.leader.lanes import SHARES
from holdfast.host.ledger.health import writable
from holdfast.host.ports.transport import Reply
from holdfast.host.runtime.deadlines import run_in_steps

#: By reason: what is unsafe on nodes, although it works.
_UNSAFE = {
    ConditionReason.USER_SHARED: "tenants share a user on",
    ConditionReason.TOKEN_READABLE: "replicas can read the token of the agent on",
}


async def status(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the leader, ages, what is degraded or unsafe, and the overrides in force."""
    is_operator = sees_everything(call.caller) or call.caller.has(Permission.OPERATE)
    of_nodes = await node_warnings(ctx.state) if is_operator else []
    ledger, state, now = ctx.ledger, ctx.state, ctx.now()
    facts, redaction = state.info, Redaction(call.caller, state)
    found: dict[str, Any] = {
        "server": ledger.identity.server,
        "role": ledger.role.value,
        "ledger": facts.ledger,
        "leader": ledger.leading_server(),
        "term": facts.term,
        "token": show_token(ledger.durable.token()),
        "settingsRevision": show_revision(settings_revision(state)),
        "ageMs": ctx.age(),
        "at": show_instant(now),
        "version": holdfast.__version__,
        "conditions": [render_condition(writable(ledger))],
        "degraded": _degraded(ctx, redaction),
        "lanes": _lanes(ctx),
        "watches": ctx.watches.in_use,
    }
    if is_operator:
        kind = KINDS["overrides"]
        every = [(key, row) for key, row in iter_rows(kind, state) if redaction.shows(kind, key, row)]
        # Warnings concern the operation of the platform and are not for tenants.
        is_whole = not redaction.tenant
        of_tokens = token_warnings(state, now) if operates_all(call.caller) else ()
        of_regions = ctx.evidence.warnings(state) if ledger.leader is not None else ()
        every_one = [*ctx.warnings(), *of_tokens, *region_warnings(state), *of_regions, *of_nodes]
        found["warnings"] = every_one if is_whole else []
        found["overrides"] = [redaction.tree(kind, key, row) for key, row in every]
    if hasattr(state, "regions"):
        found["regions"] = [_region(ctx, region, now) for region in state.regions.values()]
    if ctx.link is not None:
        reason = redaction.words(ctx.link.degraded_reason())
        found["platform"] = {"lastContactMsAgo": ctx.link.age_ms(), "degradedReason": reason}
    return json_reply(found)


def _degraded(ctx: ServerContext, redaction: Redaction) -> list[str]:
    """Return one sentence for each degraded part; the reason is left out if it names other tenants."""
    found = []
    condition = writable(ctx.ledger)
    if ctx.ledger.leader is not None and condition.status is not ConditionStatus.TRUE:
        found.append(f"accepts no writes: {condition.message}")
    if not ctx.ledger.leading_server():
        found.append("no known leader")
    troubles = {
        "cut off from the platform": ctx.link.degraded_reason() if ctx.link is not None else "",
        "decisions are not stored": ctx.decisions.last_error if ctx.decisions is not None else "",
        "the audit is not stored": ctx.audit.last_error if ctx.audit is not None else "",
    }
    for what, why in troubles.items():
        said = redaction.words(why)
        found += [f"{what}: {said}" if said else what] if why else []
    regions = ctx.state.regions.values() if hasattr(ctx.state, "regions") else ()
    return found + [f"region {one.meta.name} is {one.status.health.value}" for one in regions if not _is_well(one)]


def _is_well(region: Region) -> bool:
    return region.status.health is RegionHealth.HEALTHY


def _lanes(ctx: ServerContext) -> list[dict[str, Any]]:
    lanes = ctx.ledger.leader.term.lanes if ctx.ledger.leader is not None else None
    return [
        {"lane": lane.name.lower(), "sharePercent": share, "waiting": lanes.depth(lane) if lanes is not None else 0}
        for lane, share in SHARES.items()
    ] + [{"lane": CommandLane.READS.name.lower(), "sharePercent": 0, "waiting": ctx.lists.in_use}]


def _region(ctx: ServerContext, region: Region, now: Instant) -> dict[str, Any]:
    status, heard_at = region.status, ctx.heard_at(region)
    told = ctx.state.summaries.get(region.meta.name)
    return {
        "name": region.meta.name,
        "health": status.health.value,
        "address": region.spec.address,
        "reportedAddress": status.address,
        "lastContactMsAgo": max(0, now - heard_at) if heard_at else None,
        "summaryMsAgo": max(0, now - told.at) if told is not None else None,
        "behind": ctx.state.info.seq - seq_of(status.cursor) if status.cursor else None,
        "joined": bool(status.log_id),
    }


def region_warnings(state: Any) -> list[str]:
    """Return the warnings of this ledger's regions."""
    regions = state.regions.values() if hasattr(state, "regions") else ()
    return [said for region in regions for said in _of_region(region)]


def token_warnings(state: Any, now: Instant) -> list[str]:
    """Return the warnings of valid tokens that stand for several machines: for callers who may see all tokens."""
    return [said for token in state.tokens.values() for said in _of_token(state, token, now)]


def _of_token(state: Any, token: Token, now: Instant) -> Iterator[str]:
    """Yield the warning of a token for all machines of a kind, or for all regions. If no option allowed it, the token
    is older than the rule, or its principal has changed."""
    spec, kind = token.spec, token.spec.principal.partition("/")[0]
    if kind not in MACHINES or spec.revoked or spec.expires <= now:
        return
    if spec.principal.endswith("/*"):
        yield f"token {token.meta.name} is valid for every {kind}: create one for each, then revoke it"
        return
    if kind not in OF_REGIONS:
        return  # the region's name is its scope
    principal: Principal | None = state.principals.get(spec.principal) or state.principals.get(f"{kind}/*")
    if principal is not None and not principal.spec.scope.region:
        yield f"token {token.meta.name} is valid for {spec.principal} in every region: set one in its scope"


def _of_region(region: Region) -> Iterator[str]:
    name, written, reported = region.meta.name, region.spec.address, region.status.address
    if region.status.health is RegionHealth.RETIRED or not reported:
        return
    if not written:
        yield f"region {name} reports the address {reported}, but its spec has none: nothing is sent there"
    elif origin(written) != origin(reported):
        yield f"region {name} reports the address {reported}, but its spec has {written}: requests go to the latter"


async def node_warnings(state: Any) -> list[str]:
    """Return warnings of unsafe nodes here, or in the regions' last reports. They name nodes, not tenants."""
    if hasattr(state, "nodes"):
        return [_unsafe(one, "") for one in await run_in_steps(exposing(state))]
    told = ((region, one.summary.troubles) for region, one in state.summaries.items())
    return [_unsafe(one, f"region {region}: ") for region, some in told for one in some if one.kind in _UNSAFE]


def _unsafe(trouble: Trouble, where: str) -> str:
    return f"{where}{_UNSAFE[ConditionReason(trouble.kind)]} {trouble.count} nodes: {trouble.message}"


async def repairs(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the most urgent operations that the caller may see, and their total number."""
    tenant = call.query("tenant")
    async with report_scope(ctx, call, "repairs", tenant) as at:
        own = Redaction(call.caller, at.state)

        def work(state: Any) -> Generator[None, None, tuple[list[Repair], int]]:
            each = (
                of_region.repair_steps(state, at.now) if is_region(state) else of_platform.repair_steps(state, at.now)
            )
            return most_urgent(each, at.limit, lambda one: own.is_own(one.tenant) and tenant in ("", one.tenant))

        found, total = await compute_in_parts(at.state, work)
    redaction = Redaction(call.caller, ctx.state)
    items = [redaction.cleared(render(one)) for one in found]
    metadata = {"total": total, "at": show_instant(at.now)}
    return json_reply({"kind": "RepairList", "items": items, "metadata": metadata})
