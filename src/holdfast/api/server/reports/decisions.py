"""Decisions of a region's schedulers: by workload, slot, node, time and outcome, newest first.

They are kept for a while after their workload is gone. A tenant is told of its own, without the names of nodes that
were only compared. Whose something was is not always known by now: that is told to those who see all tenants.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from holdfast.api.problems import of_refusal, problem
from holdfast.api.resources.decision import NODE_PATTERN, SLOT_PATTERN, WORKLOAD_PATTERN, decision_of
from holdfast.api.serialization.registry import show
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.serialization.scalars import parse_instant
from holdfast.api.server.context import Desk
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import Call, Trouble, answer, of_tenant
from holdfast.api.server.visibility import refuse_reading, refuse_tenant, sees_everything
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.revision import parse as parse_revision
from holdfast.core.ledger.revision import show as show_revision
from holdfast.core.model.records.decisions import Outcome
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import NotReached
from holdfast.host.indexes.decision_index import Decisions
from holdfast.host.ledger.reads import Level
from holdfast.host.ports.decision_store import Asked, Page
from holdfast.host.ports.index_store import Place
from holdfast.host.ports.store import StoreError
from holdfast.host.ports.transport import Reply

ASKS = ("workload", "slot", "node", "tenant", "since", "until", "outcome", "limit", "continue", "read")
ITEMS_MAX = 500
#: A read of any age waits no longer than this for what landed just now.
FRESH_MS = 2_000


async def decisions(desk: Desk, call: Call) -> Reply:
    """The newest that the caller may see and asked for; `continue` goes on further back."""
    refused = refuse_reading(call.caller, desk.state.facts.ledger, "decisions")
    if refused is not None:
        raise Trouble(desk.deny(call, refused))
    asked = _asked(desk, call)
    denied = refuse_tenant(call.caller, asked.tenant)
    if denied is not None:
        raise Trouble(desk.deny(call, denied, asked.tenant))
    if desk.decisions is None:
        raise Trouble(problem("unavailable", f"{desk.ledger.identity.server} keeps no decisions"))
    full = desk.lists.take(call.caller.actor)
    if full is not None:
        raise Trouble(full)
    try:
        return _told(desk, call, await _found(desk, call, desk.decisions, asked))
    finally:
        desk.lists.leave(call.caller.actor)


async def _found(desk: Desk, call: Call, kept: Decisions, asked: Asked) -> Page:
    view, (level, _) = await desk.view(call), call.level()
    patience = call.timeout_ms * 4 // 5  # that it was not reached is an answer, too, and has to be given in time
    try:
        await kept.reach(view.token.seq, patience if level is not Level.ANY else min(FRESH_MS, patience))
    except NotReached:
        if level is not Level.ANY:
            raise
    if not sees_everything(call.caller):
        if not call.caller.tenant():
            return Page((), Place())
        asked = replace(asked, tenant=call.caller.tenant())
    try:
        return await kept.find(asked)
    except StoreError as error:
        raise Trouble(problem("unavailable", f"decisions cannot be read: {error}")) from error


def _told(desk: Desk, call: Call, page: Page) -> Reply:
    nodes, region = sees_everything(call.caller), desk.state.place.name
    redaction = Redaction(call.caller, desk.state)
    items = [redaction.cleared(show(decision_of(page, one, region, nodes=nodes))) for one in page.items]
    metadata: dict[str, Any] = {"upTo": page.place.seq}
    if page.place.since:
        metadata["since"] = show_instant(page.place.since)
    if page.going_on:
        metadata["continue"] = show_revision(page.going_on)
    return answer({"kind": "DecisionList", "items": items, "metadata": metadata})


def _asked(desk: Desk, call: Call) -> Asked:
    said = dict(reversed(call.request.query))
    workload, ordinal = _matching(said, "workload", WORKLOAD_PATTERN, "[TENANT/]NAME or a uid"), None
    slot = _matching(said, "slot", SLOT_PATTERN, "[TENANT/]WORKLOAD/REGION/ORDINAL")
    if slot:
        workload, region, number = slot.rsplit("/", 2)
        ordinal = int(number)
        if "workload" in said or region != desk.state.place.name:
            why = "it names its workload itself" if "workload" in said else f"this is region {desk.state.place.name}"
            raise contradictory(f"slot {slot[:80]!r}: {why}")
    tenant, workload = of_tenant(said.get("tenant", ""), workload)
    before = parse_revision(said["continue"]) if "continue" in said else 0
    if before is None:
        raise _unreadable("continue is what an answer gave")
    return Asked(
        tenant=tenant,
        workload=workload,
        ordinal=ordinal,
        node=_matching(said, "node", NODE_PATTERN, "a name or a uid"),
        since=_instant(said, "since"),
        until=_instant(said, "until"),
        outcome=_outcome(said),
        before=before,
        limit=call.count("limit", 50, ITEMS_MAX),
    )


def contradictory(text: str) -> Trouble:
    """What was asked for cannot all be meant."""
    return Trouble(of_refusal(Refused(Code.CONTRADICTORY, text)))


def _matching(said: dict[str, str], name: str, pattern: str, form: str) -> str:
    value = said.get(name)
    if value is not None and re.fullmatch(pattern, value) is None:
        raise _unreadable(f"{name} is {form}, not {value[:80]!r}")
    return value or ""


def _instant(said: dict[str, str], name: str) -> Instant:
    found = parse_instant(said[name]) if name in said else 0
    if found is None:
        raise _unreadable(f"{name} is a time in RFC 3339, not {said[name][:80]!r}")
    return found


def _outcome(said: dict[str, str]) -> Outcome | None:
    value = said.get("outcome")
    if value is not None and value not in list(Outcome):
        raise _unreadable(f"outcome is one of {', '.join(Outcome)}, not {value[:80]!r}")
    return None if value is None else Outcome(value)


def _unreadable(text: str) -> Trouble:
    return Trouble(problem("unreadable", text))
