"""Quota, grants and usage by tenant and region, with warnings about quota that cannot be granted."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from holdfast.api.problems import from_refusal
from holdfast.api.serialization.quantities import ResourcesSerializer
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.reports.scope import compute_in_parts, report_scope
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.api.server.visibility import sees_everything
from holdfast.core.ledger.answers import not_found
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.queries.quota_report import QuotaInRegion, QuotaReport, quota_report_steps, shortages
from holdfast.host.ports.transport import Reply

_show = ResourcesSerializer().render
#: Rows per step; a row is a quota in one region.
BIT = 50


async def quota(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return every quota that the caller may see, or that of one tenant."""
    tenant = call.rest[0] if call.rest else ""
    async with report_scope(ctx, call, "quotas", tenant) as at:
        redaction = Redaction(call.caller, at.state)
        # A sum over all tenants would reveal the others' quota.
        everything = sees_everything(call.caller) and not tenant

        def work(state: Any) -> Generator[None, None, tuple[list[dict[str, Any]], list[str]]]:
            items, warnings = list[dict[str, Any]](), list[str]()
            for number, one in enumerate(quota_report_steps(state, tenant, redaction.is_own), 1):
                items += [redaction.cleared(_standing(one, at.now))] if one is not None else []
                if number % BIT == 0:
                    yield
            for number, warning in enumerate(shortages(state) if everything else (), 1):
                warnings += [warning] if warning is not None else []
                if number % BIT == 0:
                    yield
            return items, warnings

        items, warnings = await compute_in_parts(at.state, work)
        if tenant and not items:
            raise ApiError(from_refusal(not_found("Quota", tenant)))
    return json_reply({"kind": "QuotaReport", "at": show_instant(at.now), "items": items, "warnings": warnings})


def _standing(one: QuotaReport, now: Instant) -> dict[str, Any]:
    return {
        "tenant": one.tenant,
        "hard": _show(one.hard),
        "protected": _show(one.protected),
        "effective": _show(one.effective),
        "requested": _show(one.asked),
        "granted": _show(one.granted),
        "charged": _show(one.charged),
        "reclaimablePercent": one.percent,
        "regions": [_part(part, now) for part in one.parts],
        "warnings": list(one.warnings),
    }


def _part(part: QuotaInRegion, now: Instant) -> dict[str, Any]:
    return {
        "region": part.region,
        "health": part.health,
        "requested": _show(part.asked),
        "target": _show(part.target),
        "settled": _show(part.settled),
        "protected": _show(part.protected),
        "charged": _show(part.charged),
        "reclaimable": _show(part.reclaimable),
        "ends": show_instant(part.ends) if part.ends is not None else None,
        "reportedMsAgo": max(0, now - part.told_at) if part.told_at is not None else None,
    }
