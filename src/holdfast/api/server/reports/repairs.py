"""Stuck operations of this server's ledger: why they have not completed, and the next step."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from holdfast.api.resources.tables import is_region
from holdfast.api.serialization.registry import render
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import compute_in_parts, report_scope
from holdfast.api.server.request import ApiRequest, json_reply
from holdfast.core.model.records.breaches import Repair, most_urgent
from holdfast.core.platform.queries import repairs as of_platform
from holdfast.core.region.queries import repairs as of_region
from holdfast.host.ports.transport import Reply


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
