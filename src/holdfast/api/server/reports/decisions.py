"""Decisions of a region's schedulers by workload, slot, node, time and outcome, newest first; and what they have not
placed yet: the pending requests, in the order of the queue, with the reasons.

Decisions outlive their workload for a while. A tenant sees its own, without the names of candidate nodes. Decisions
whose tenant is no longer known are shown only to callers who see all tenants.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.api.problems import problem
from holdfast.api.resources.decision import NODE_PATTERN, SLOT_PATTERN, WORKLOAD_PATTERN, decision_view
from holdfast.api.serialization.registry import render
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import compute_in_parts, reach_index, report_scope
from holdfast.api.server.request import (
    ApiError,
    ApiRequest,
    contradictory,
    json_reply,
    split_workload_name,
    workload_param,
)
from holdfast.api.server.visibility import refuse_reading, refuse_tenant, sees_everything
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.records.decisions import DecisionOutcome
from holdfast.core.scheduling.queue.queue_view import queue_view
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.ports.index_store import DecisionPage, DecisionQuery, IndexPosition
from holdfast.host.ports.store import StoreError
from holdfast.host.ports.transport import Reply

QUERY_PARAMS = ("workload", "slot", "node", "tenant", "since", "until", "outcome", "limit", "continue", "read")
ITEMS_MAX = 500


async def decisions(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the newest decisions that match the query and that the caller may see; `continue` leads to older ones."""
    ctx.require(call, refuse_reading(call.caller, ctx.state.info.ledger, "decisions"))
    asked = _parse_query(ctx, call)
    ctx.require(call, refuse_tenant(call.caller, asked.tenant), asked.tenant)
    if ctx.decisions is None:
        raise ApiError(problem("unavailable", f"{ctx.ledger.identity.server} stores no decisions"))
    with call.slot(ctx.lists):
        return _render_page(ctx, call, await _find_decisions(ctx, call, ctx.decisions, asked))


async def _find_decisions(
    ctx: ServerContext, call: ApiRequest, kept: DecisionIndex, query: DecisionQuery
) -> DecisionPage:
    await reach_index(ctx, call, kept)
    if not sees_everything(call.caller):
        if not call.caller.tenant():
            return DecisionPage((), IndexPosition())
        query = replace(query, tenant=call.caller.tenant())
    try:
        return await kept.find(query)
    except StoreError as error:
        raise ApiError(problem("unavailable", f"decisions cannot be read: {error}")) from error


def _render_page(ctx: ServerContext, call: ApiRequest, page: DecisionPage) -> Reply:
    nodes, region = sees_everything(call.caller), ctx.state.region.name
    redaction = Redaction(call.caller, ctx.state)
    items = [redaction.cleared(render(decision_view(page, one, region, nodes=nodes))) for one in page.items]
    metadata: dict[str, Any] = {"upTo": page.position.seq}
    if page.position.since:
        metadata["since"] = show_instant(page.position.since)
    if page.going_on:
        metadata["continue"] = show_revision(page.going_on)
    return json_reply({"kind": "DecisionList", "items": items, "metadata": metadata})


def _parse_query(ctx: ServerContext, call: ApiRequest) -> DecisionQuery:
    workload, ordinal = call.matching("workload", WORKLOAD_PATTERN, "[TENANT/]NAME or a uid"), None
    slot = call.matching("slot", SLOT_PATTERN, "[TENANT/]WORKLOAD/REGION/ORDINAL")
    if slot:
        has_workload = workload is not None
        workload, region, number = slot.rsplit("/", 2)
        ordinal = int(number)
        if has_workload or region != ctx.state.region.name:
            why = "it already names its workload" if has_workload else f"this is region {ctx.state.region.name}"
            raise contradictory(f"slot {slot[:80]!r}: {why}")
    tenant, workload = split_workload_name(call.query("tenant"), workload or "")
    going_on, outcome = call.given("continue"), call.given("outcome")
    before = 0 if going_on is None else parse_revision(going_on)
    if before is None:
        raise ApiError(problem("unreadable", "continue must be a value from a previous page"))
    query = DecisionQuery(
        tenant=tenant,
        workload=workload,
        ordinal=ordinal,
        node=call.matching("node", NODE_PATTERN, "a name or a uid") or "",
        since=call.instant("since"),
        until=call.instant("until"),
        before=before,
        limit=call.count("limit", 50, ITEMS_MAX),
    )
    if outcome is None:
        return query
    if outcome not in list(DecisionOutcome):
        raise ApiError(
            problem("unreadable", f"outcome must be one of {', '.join(DecisionOutcome)}, not {outcome[:80]!r}")
        )
    return replace(query, outcome=DecisionOutcome(outcome))


QUEUE_PARAMS = ("workload", "tenant", "limit", "read")


async def queue(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the requests that the caller may see, in the order of the queue; positions count those of all tenants."""
    workload, tenant = workload_param(call), call.query("tenant")
    tenant, workload = (tenant, "") if workload is None else split_workload_name(tenant, workload)
    async with report_scope(ctx, call, "requests", tenant) as at:
        waiting = await compute_in_parts(at.state, queue_view)
    redaction = Redaction(call.caller, ctx.state)
    own = [one for one in waiting if redaction.is_own(one.tenant)]
    found = [one for one in own if tenant in ("", one.tenant) and workload in ("", one.workload)]
    # A tenant does not see how much of others is pending; its positions show how many requests come before.
    metadata = {"total": len(found), "waiting": len(own if redaction.tenant else waiting), "at": show_instant(at.now)}
    items = [redaction.cleared(render(one)) for one in found[: at.limit]]
    return json_reply({"kind": "QueueList", "items": items, "metadata": metadata})
