"""How tenants share a region, or all regions: share, weight, entitlement and waiting requests of each tenant.

The platform answers for all regions, by their last reports; a region answers for itself. A tenant sees its own row.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.api.serialization.quantities import ResourcesSerializer
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import compute_in_parts, report_scope
from holdfast.api.server.request import ApiRequest, json_reply
from holdfast.core.model.records.fairness import WHOLE, TenantFairness
from holdfast.core.platform.queries.fairness_report import platform_fairness
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.scheduling.queue.queue_view import region_fairness
from holdfast.host.ports.transport import Reply

_show = ResourcesSerializer().render
QUERY_PARAMS = ("tenant", "limit", "read")


async def fairness(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the rows of all tenants that the caller may see, or that of one tenant."""
    tenant = call.query("tenant")
    async with report_scope(ctx, call, "quotas", tenant) as at:
        if isinstance(at.state, PlatformState):
            rows = await compute_in_parts(at.state, partial(platform_fairness, now=at.now))
        else:
            rows = await compute_in_parts(at.state, region_fairness)
        redaction = Redaction(call.caller, at.state)
    own = [row for row in rows if redaction.is_own(row.tenant) and tenant in ("", row.tenant)]
    items = [redaction.cleared(_row(row)) for row in own[: at.limit]]
    metadata = {"total": len(own), "at": show_instant(at.now)}
    return json_reply({"kind": "FairnessReport", "items": items, "metadata": metadata})


def _row(row: TenantFairness) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "weight": row.weight,
        "dominantResource": row.resource,
        "sharePercent": _percent(row.share),
        "entitledPercent": _percent(row.entitled),
        "recentPercent": _percent(row.recent) if row.recent is not None else None,
        "charged": _show(row.charged),
        "protected": _show(row.protected),
        "waiting": row.waiting,
        "oldestSince": show_instant(row.since) if row.since is not None else None,
    }


def _percent(millionths: int) -> float:
    return round(100 * millionths / WHOLE, 2)
