"""Whether a server accepts commands, as a condition for operators and probes."""

from __future__ import annotations

from typing import Any

from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.storage.space import SpaceLevel

_FILLS = {
    SpaceLevel.FULL: ConditionReason.STORE_FULL,
    SpaceLevel.HARD: ConditionReason.STORE_FILLING,
    SpaceLevel.SOFT: ConditionReason.STORE_FILLING,
}


def writable(ledger: Ledger[Any]) -> Condition:
    """Return the `Writable` condition: true on a leader whose store accepts writes; otherwise why not."""
    if ledger.role is Role.STOPPED:
        return _condition(ConditionStatus.FALSE, ConditionReason.STOPPED, ledger.degraded_reason())
    leader = ledger.leader
    if leader is None:
        reason = ConditionReason.STORE_SILENT if ledger.degraded_reason() else ConditionReason.NOT_LEADING
        return _condition(
            ConditionStatus.FALSE, reason, ledger.degraded_reason() or f"this server is {ledger.role.value}"
        )
    room, settings = leader.term.space, ledger.durable.state.info.settings
    if not leader.term.proof.is_fresh(settings):
        return _condition(
            ConditionStatus.UNKNOWN,
            ConditionReason.STORE_SILENT,
            ledger.degraded_reason() or "no recent proof of leadership",
        )
    if room.fill is SpaceLevel.FULL:
        return _condition(ConditionStatus.FALSE, ConditionReason.STORE_FULL, room.why())
    return _condition(ConditionStatus.TRUE, _FILLS.get(room.fill, ConditionReason.AS_DESIRED), room.why())


def _condition(status: ConditionStatus, reason: ConditionReason, message: str) -> Condition:
    return Condition(type="Writable", status=status, reason=reason, message=message)
