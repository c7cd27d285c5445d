"""What waits to be ended or put right, by this server's ledger: why something hangs, and what to do about it."""

from __future__ import annotations

from typing import Any

from holdfast.api.documents.forms import show
from holdfast.api.documents.rows import is_region
from holdfast.api.documents.scalars import format_instant as show_instant
from holdfast.api.server.call import Call, answer
from holdfast.api.server.desk import Desk
from holdfast.api.server.lists import moment
from holdfast.api.server.redaction import Redaction
from holdfast.core.model.repair import Repair
from holdfast.core.model.shapes import Instant
from holdfast.core.platform import repairs as of_platform
from holdfast.core.region import repairs as of_region
from holdfast.host.transport import Reply


async def repairs(desk: Desk, call: Call) -> Reply:
    """The most urgent first, as far as the caller may see them; how many there are in all is told, too."""
    tenant = call.query("tenant")
    async with moment(desk, call, "repairs", tenant) as at:
        redaction = Redaction(call.caller, at.state)
        every = _found(at.state, at.now)
        found = [one for one in every if redaction.is_own(one.tenant) and tenant in ("", one.tenant)]
        items = [redaction.cleared(show(one)) for one in found[: at.limit]]
    metadata = {"total": len(found), "at": show_instant(at.now)}
    return answer({"kind": "RepairList", "items": items, "metadata": metadata})


def _found(state: Any, now: Instant) -> list[Repair]:
    return of_region.repairs(state, now) if is_region(state) else of_platform.repairs(state, now)
