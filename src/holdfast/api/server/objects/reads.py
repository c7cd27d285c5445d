"""Handlers that read objects: one, or many in pages."""

from __future__ import annotations

from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.problems import from_refusal, problem
from holdfast.api.resources.lookup import find_row
from holdfast.api.resources.tables import tenant_of
from holdfast.api.server.context import ServerContext
from holdfast.api.server.objects import pagination
from holdfast.api.server.objects.label_selectors import LabelTerm, matches_selector, parse_selector
from holdfast.api.server.objects.pagination import ListSnapshot, ListSnapshots
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import ApiError, ApiRequest, json_reply, split_workload_name, workload_param
from holdfast.api.server.visibility import refuse_reading, refuse_tenant
from holdfast.core.ledger.answers import not_found
from holdfast.host.errors import show_token
from holdfast.host.ports.transport import Reply


def require_read_access(ctx: ServerContext, call: ApiRequest, kind: ResourceKind) -> None:
    """Refuse a ledger without this kind, and a caller that may not read it."""
    ledger = ctx.state.info.ledger
    if ledger.partition("/")[0] not in kind.ledger:
        hint = "use --region NAME" if "region" in kind.ledger else "use the platform"
        raise ApiError(problem("no-such-route", f"{ledger} has no {kind.plural}: {hint}"))
    ctx.require(call, refuse_reading(call.caller, ledger, kind.plural))


def validate_watch_params(call: ApiRequest) -> None:
    """Reject invalid watch parameters in other reads, too: the sender may have meant something by them."""
    call.since()
    call.flag("initial")


def list_scope(call: ApiRequest, kind: ResourceKind) -> tuple[str, tuple[LabelTerm, ...]]:
    """Return the tenant that a list or watch is limited to, and the terms: the selector's, and the workload's."""
    tenant = call.query("tenant") or (call.rest[0] if kind.tenanted and call.rest else "")
    terms, workload = parse_selector(call.query("selector")), workload_param(call)
    if workload is None:
        return tenant, terms
    tenant, name = split_workload_name(tenant, workload)
    return tenant, (*terms, LabelTerm("workload", name, True))


async def get(ctx: ServerContext, call: ApiRequest, kind: ResourceKind) -> Reply:
    """Return one object."""
    require_read_access(ctx, call, kind)
    validate_watch_params(call)
    if kind.tenanted:
        ctx.require(call, refuse_tenant(call.caller, call.rest[0]), call.rest[0])
    view = await ctx.view(call)
    name = "/".join(call.rest)
    found, redaction = find_row(kind, view.state, name), Redaction(call.caller, view.state)
    if found is None or not redaction.shows(kind, *found):
        raise ApiError(from_refusal(not_found(kind.name, name)))
    tree = redaction.tree(kind, *found)
    return json_reply(tree, (("etag", f'"{tree["metadata"].get("revision", "")}"'),))


async def list_objects(ctx: ServerContext, call: ApiRequest, kind: ResourceKind, pages: ListSnapshots) -> Reply:
    """Return many objects in pages, all of one state."""
    require_read_access(ctx, call, kind)
    validate_watch_params(call)
    tenant, _ = list_scope(call, kind)
    ctx.require(call, refuse_tenant(call.caller, tenant), tenant)
    with call.slot(ctx.lists):
        return await _page(ctx, call, kind, pages, tenant)


async def _page(ctx: ServerContext, call: ApiRequest, kind: ResourceKind, pages: ListSnapshots, tenant: str) -> Reply:
    limit = call.count("limit", ctx.limits.list_items, ctx.limits.list_items)
    # With the caller's permissions: a page is not shown after they have changed.
    chosen = tenant, call.query("selector"), call.query("workload")
    asked = (call.caller.actor, call.caller.principal.spec, kind.plural, *chosen)
    if call.query("continue"):
        listing, number, place = pages.take(call.query("continue"), asked)
    else:
        listing, number, place = await _begin(ctx, call, kind, tenant, asked), 0, 0
    page, left = listing.rows[place : place + limit], len(listing.rows) - place - limit
    # A list that takes several turns is shown from a fork, so that all of it has one state.
    if not listing.is_fork and (left > 0 or len(page) > pagination.OBJECTS_PER_TURN):
        listing.state, listing.is_fork = listing.state.fork(), True
    state = listing.state
    redaction = Redaction(call.caller, state)
    items = [one async for one in pagination.render_in_parts(page, lambda key, found: redaction.tree(kind, key, found))]
    metadata: dict[str, Any] = {"token": show_token(listing.token)}
    if left > 0:
        metadata["continue"] = pages.on(number, place + limit) if number else pages.keep(listing, place + limit)
        metadata["remaining"] = left
    elif listing.is_fork and not number:
        pages.let_go(state)
    return json_reply({"apiVersion": "holdfast/v1", "kind": "List", "metadata": metadata, "items": items})


async def _begin(
    ctx: ServerContext, call: ApiRequest, kind: ResourceKind, tenant: str, asked: tuple[object, ...]
) -> ListSnapshot:
    _, terms = list_scope(call, kind)
    view = await ctx.view(call)
    is_large = pagination.is_large(kind, view.state)
    fork = view.state.fork() if is_large else view.state
    redaction = Redaction(call.caller, fork)

    def wanted(state: Any, key: Any, one: Any) -> bool:
        return (
            redaction.shows(kind, key, one)
            and (not tenant or tenant_of(kind, state, key, one) == tenant)
            and (not terms or matches_selector(terms, redaction.labels(one)))
        )

    if not is_large:
        return ListSnapshot(asked, view.state, view.token, pagination.scan_at_once(kind, view.state, wanted))
    return ListSnapshot(asked, fork, view.token, await pagination.scan_in_parts(kind, fork, wanted), is_fork=True)
