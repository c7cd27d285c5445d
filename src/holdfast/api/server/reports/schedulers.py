"""The live schedulers of a region, from its leader's memory: where they run, and how their proposals fare."""

from __future__ import annotations

from holdfast.api.kinds import SOFT_KINDS
from holdfast.api.problems import from_refusal, problem
from holdfast.api.resources.reported_types import LiveSchedulerView, SchedulerSpec, SchedulerStatus
from holdfast.api.serialization.registry import render
from holdfast.api.server.context import ServerContext
from holdfast.api.server.objects.reads import require_read_access
from holdfast.api.server.reports.scope import report_scope
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.core.ledger.answers import not_found
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import show_token
from holdfast.host.leader.scheduler_board import SchedulerRow
from holdfast.host.ports.transport import Reply

QUERY_PARAMS = ("limit", "read")


async def schedulers(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return all live schedulers, or one of them by its principal. Only the leader knows them."""
    require_read_access(ctx, call, SOFT_KINDS["schedulers"])
    async with report_scope(ctx, call, "schedulers", "") as at:
        if ctx.ledger.leader is None:
            raise ApiError(problem("not-leading", f"{ctx.ledger.identity.server} does not lead any more"))
        found = [_view(row, at.now) for row in ctx.ledger.leader.term.schedulers.rows()]
    if not call.rest:
        metadata = {"token": show_token(ctx.ledger.durable.token())}
        items = [render(one) for one in found[: at.limit]]
        return json_reply({"apiVersion": "holdfast/v1", "kind": "List", "metadata": metadata, "items": items})
    name = "/".join(call.rest)
    named = next((one for one in found if one.meta.name == name), None)
    if named is None:
        raise ApiError(from_refusal(not_found("Scheduler", name)))
    return json_reply(render(named))


def _view(row: SchedulerRow, now: Instant) -> LiveSchedulerView:
    reasons = tuple(f"{code}={_decimal(count, row.placed)}" for code, count in row.conflicts.items())
    status = SchedulerStatus(
        heard_at=now - row.heard_ms,
        last_cycle=now - row.cycle_ms,
        view_age=row.view_age_ms,
        placed=row.placed,
        placed_total=row.placed_total,
        placed_per_second=_decimal(row.placed * 1_000, row.span_ms),
        conflicts_per_placement=_decimal(sum(row.conflicts.values()), row.placed),
        conflict_reasons=reasons,
    )
    return LiveSchedulerView(meta=Meta(name=row.name), spec=SchedulerSpec(row.where, row.is_embedded), status=status)


def _decimal(count: int, among: int) -> str:
    """Return a ratio with two decimals, rounded half up."""
    hundredths = (200 * count // max(1, among) + 1) // 2
    return f"{hundredths // 100}.{hundredths % 100:02}"
