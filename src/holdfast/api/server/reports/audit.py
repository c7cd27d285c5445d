"""Commands of users, and their denials, newest first, from the index of the log (`host.indexes.audit_index`).

A caller with the permission `operate` or `audit` reads all entries; one of a tenant reads what was done to that tenant
or by it. The content of a command that concerns a tenant is shown to callers who see that tenant.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.api.problems import problem
from holdfast.api.resources.schemas import render_command
from holdfast.api.resources.tables import principal_tenant
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.serialization.scalars import parse_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import reach_index
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.api.server.visibility import refuse_audit, sees
from holdfast.core.ledger.builtin.audit import AuditEntry, tenant_of
from holdfast.core.ledger.envelope import ABSENT, PRESENT
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.model.values.structs import Revision
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.ports.index_store import AuditIndexQuery, AuditPage
from holdfast.host.ports.store import StoreError
from holdfast.host.ports.transport import Reply

ITEMS_MAX = 500
#: Entries that are rendered in one turn.
ENTRIES_PER_TURN = 20
#: A name that no principal has.
NOBODY = "/"


async def audit(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the newest entries that match the query and that the caller may see; `continue` leads to older ones."""
    ctx.require(call, refuse_audit(call.caller, ctx.state.info.ledger))
    asked = _parse_query(ctx, call)
    if ctx.audit is None:
        raise ApiError(problem("unavailable", f"{ctx.ledger.identity.server} stores no audit"))
    with call.slot(ctx.lists):
        page = await _find_entries(ctx, call, ctx.audit, asked)
        items = []
        for number, entry in enumerate(page.items, 1):
            items.append(_render_entry(ctx, call, entry))
            if number % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)
    more = {"continue": f"{page.going_on[0]}.{page.going_on[1]}"} if page.going_on is not None else {}
    return json_reply({"kind": "AuditList", "items": items, "metadata": more})


def _parse_query(ctx: ServerContext, call: ApiRequest) -> AuditIndexQuery:
    said = dict(reversed(call.request.query))
    since = parse_instant(said["since"]) if "since" in said else 0
    parts = said["continue"].split(".") if "continue" in said else []
    if since is None or len(parts) not in (0, 2) or not all(_is_number(part) for part in parts):
        raise ApiError(problem("unreadable", "since must be a time in RFC 3339, continue a value of a previous page"))
    redaction, actor = Redaction(call.caller, ctx.state), call.query("actor")
    tenant = redaction.tenant
    principals = ctx.state.principals.unordered() if tenant else ()
    own = [name for name, _ in principals if principal_tenant(ctx.state, name) == tenant]
    return AuditIndexQuery(
        since=since,
        # An actor that the caller may not see is not searched for: the query then matches no entry.
        actor=actor and (redaction.words(actor) or NOBODY),
        command=call.query("command"),
        outcome=call.query("outcome"),
        before=(int(parts[0]), int(parts[1])) if parts else None,
        tenant=tenant or None,
        actors=(f"tenant/{tenant}", *own) if tenant else (),
        limit=call.count("limit", 50, ITEMS_MAX),
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


async def _find_entries(ctx: ServerContext, call: ApiRequest, kept: AuditIndex, query: AuditIndexQuery) -> AuditPage:
    await reach_index(ctx, call, kept)
    try:
        return await kept.find(query)
    except StoreError as error:
        raise ApiError(problem("unavailable", f"the audit cannot be read: {error}")) from error


def _render_entry(ctx: ServerContext, call: ApiRequest, entry: AuditEntry) -> dict[str, Any]:
    redaction = Redaction(call.caller, ctx.state)
    found = {
        "at": show_instant(entry.at),
        "actor": redaction.words(entry.actor),
        "command": entry.command,
        "revision": show_revision(entry.revision),
        "outcome": entry.outcome,
    }
    done = entry.done()
    if done is not None:
        found["body"] = redaction.words(_command(ctx, call, done.body))
        more = {"expected": _expected(done.expect) if done.expect else "", "via": done.via}
        return found | {name: said for name, said in more.items() if said}
    return found | {"tenant": entry.tenant, "count": entry.denied().count}


def _expected(expect: Revision) -> str:
    """Return a sender's precondition as it was in the header."""
    return {ABSENT: "none", PRESENT: "*"}.get(expect) or show_revision(expect)


def _command(ctx: ServerContext, call: ApiRequest, body: bytes) -> Any:
    """Return the command as it was sent, as documents have it; None if this version cannot read it, or if it concerns a
    tenant that the caller may not see. Such a caller sees the entry but not the content."""
    found = ctx.ledger.definition.envelopes.command(body)
    return None if found is None or not sees(call.caller, tenant_of(found)) else render_command(found)
