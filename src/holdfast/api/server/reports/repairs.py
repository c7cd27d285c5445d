"""What waits to be ended or put right, by this server's ledger: why something hangs, and what to do about it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from holdfast.api.resources.tables import is_region
from holdfast.api.serialization.registry import show
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import Desk
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import moment, told_of
from holdfast.api.server.request import Call, answer
from holdfast.core.model.records.breaches import Repair, most_urgent
from holdfast.core.platform.queries import repairs as of_platform
from holdfast.core.region.queries import repairs as of_region
from holdfast.host.ports.transport import Reply


async def repairs(desk: Desk, call: Call) -> Reply:
    """The most urgent first, as far as the caller may see them; how many there are in all is told, too."""
    tenant = call.query("tenant")
    async with moment(desk, call, "repairs", tenant) as at:
        own = Redaction(call.caller, at.state)

        def work(state: Any) -> Generator[None, None, tuple[list[Repair], int]]:
            each = of_region.each(state, at.now) if is_region(state) else of_platform.each(state, at.now)
            return most_urgent(each, at.limit, lambda one: own.is_own(one.tenant) and tenant in ("", one.tenant))

        found, total = await told_of(at.state, work)
    redaction = Redaction(call.caller, desk.state)
    items = [redaction.cleared(show(one)) for one in found]
    metadata = {"total": total, "at": show_instant(at.now)}
    return answer({"kind": "RepairList", "items": items, "metadata": metadata})
