"""How quotas stand: what tenants were promised, what of it is lent and used where, and what cannot be kept."""

from __future__ import annotations

from typing import Any

from holdfast.api.documents.amounts import Amounts
from holdfast.api.documents.scalars import format_instant as show_instant
from holdfast.api.problems import of_refusal
from holdfast.api.server.call import Call, Trouble, answer
from holdfast.api.server.desk import Desk
from holdfast.api.server.lists import moment
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.rights import sees_everything
from holdfast.core.ledger.answers import not_found
from holdfast.core.model.shapes import Instant
from holdfast.core.platform.standing import Part, Standing, overpromised, quota_report
from holdfast.host.transport import Reply

_show = Amounts().show


async def quota(desk: Desk, call: Call) -> Reply:
    """How every quota stands that the caller may see, or that of one tenant."""
    tenant = call.rest[0] if call.rest else ""
    async with moment(desk, call, "quotas", tenant) as at:
        redaction = Redaction(call.caller, at.state)
        found = [one for one in quota_report(at.state, tenant) if redaction.is_own(one.tenant)]
        if tenant and not found:
            raise Trouble(of_refusal(not_found("Quota", tenant)))
        items = [redaction.cleared(_standing(one, at.now)) for one in found]
        # What all tenants were promised together tells each of the others.
        warnings = overpromised(at.state) if sees_everything(call.caller) and not tenant else ()
    return answer(
        {
            "kind": "QuotaReport",
            "at": show_instant(at.now),
            "items": items,
            "warnings": list(warnings),
        }
    )


def _standing(one: Standing, now: Instant) -> dict[str, Any]:
    return {
        "tenant": one.tenant,
        "hard": _show(one.hard),
        "protected": _show(one.protected),
        "effective": _show(one.effective),
        "asked": _show(one.asked),
        "granted": _show(one.granted),
        "charged": _show(one.charged),
        "reclaimablePercent": one.percent,
        "regions": [_part(part, now) for part in one.parts],
        "warnings": list(one.warnings),
    }


def _part(part: Part, now: Instant) -> dict[str, Any]:
    return {
        "region": part.region,
        "health": part.health,
        "asked": _show(part.asked),
        "target": _show(part.target),
        "settled": _show(part.settled),
        "protected": _show(part.protected),
        "charged": _show(part.charged),
        "reclaimable": _show(part.reclaimable),
        "ends": show_instant(part.ends) if part.ends is not None else None,
        "toldMsAgo": max(0, now - part.told_at) if part.told_at is not None else None,
    }
