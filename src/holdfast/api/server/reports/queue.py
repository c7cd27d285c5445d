"""The pending scheduling requests of a region, in the order of the queue, with the reasons."""

from __future__ import annotations

from holdfast.api.serialization.registry import render
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import compute_in_parts, report_scope
from holdfast.api.server.request import ApiRequest, json_reply, split_workload_name, workload_param
from holdfast.core.scheduling.queue.queue_view import queue_view
from holdfast.host.ports.transport import Reply

QUERY_PARAMS = ("workload", "tenant", "limit", "read")


async def queue(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the requests that the caller may see, in the order of the queue; positions count those of all tenants."""
    tenant, workload = _parse_query(call)
    async with report_scope(ctx, call, "requests", tenant) as at:
        waiting = await compute_in_parts(at.state, queue_view)
    redaction = Redaction(call.caller, ctx.state)
    own = [one for one in waiting if redaction.is_own(one.tenant)]
    found = [one for one in own if tenant in ("", one.tenant) and workload in ("", one.workload)]
    # A tenant does not see how much of others is pending; its positions show how many requests come before.
    metadata = {"total": len(found), "waiting": len(own if redaction.tenant else waiting), "at": show_instant(at.now)}
    items = [redaction.cleared(render(one)) for one in found[: at.limit]]
    return json_reply({"kind": "QueueList", "items": items, "metadata": metadata})


def _parse_query(call: ApiRequest) -> tuple[str, str]:
    """Return the tenant and the workload of the query."""
    workload, tenant = workload_param(call), call.query("tenant")
    return (tenant, "") if workload is None else split_workload_name(tenant, workload)
