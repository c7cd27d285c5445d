"""What waits to be placed in a region: in which order a scheduler looks at it, and why it waits."""

from __future__ import annotations

from holdfast.api.serialization.registry import show
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import Desk
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import moment, told_of
from holdfast.api.server.request import Call, answer, named_workload, of_tenant
from holdfast.core.scheduling.queue.queue_view import in_order
from holdfast.host.ports.transport import Reply

ASKS = ("workload", "tenant", "limit", "read")


async def queue(desk: Desk, call: Call) -> Reply:
    """What waits, first what is looked at first, as far as the caller may see it; a place counts everybody's."""
    tenant, workload = _asked(call)
    async with moment(desk, call, "requests", tenant) as at:
        waiting = await told_of(at.state, in_order)
    redaction = Redaction(call.caller, desk.state)
    own = [one for one in waiting if redaction.is_own(one.tenant)]
    found = [one for one in own if tenant in ("", one.tenant) and workload in ("", one.workload)]
    # How much of others waits is not for a tenant; its own places say how much goes first.
    metadata = {"total": len(found), "waiting": len(own if redaction.tenant else waiting), "at": show_instant(at.now)}
    items = [redaction.cleared(show(one)) for one in found[: at.limit]]
    return answer({"kind": "QueueList", "items": items, "metadata": metadata})


def _asked(call: Call) -> tuple[str, str]:
    """The tenant and the workload that were named."""
    workload, tenant = named_workload(call), dict(reversed(call.request.query)).get("tenant", "")
    return (tenant, "") if workload is None else of_tenant(tenant, workload)
