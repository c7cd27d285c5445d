"""Whether a server takes commands, as a condition people and probes can read."""

from __future__ import annotations

from typing import Any

from holdfast.core.model.values.conditions import Condition, Reason, Truth
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.storage.space import Fill

_FILLS = {Fill.FULL: Reason.STORE_FULL, Fill.HARD: Reason.STORE_FILLING, Fill.SOFT: Reason.STORE_FILLING}


def writable(ledger: Ledger[Any]) -> Condition:
    """`Writable`: true on a leader whose store takes what it is given; otherwise why not, and what to do."""
    if ledger.role is Role.STOPPED:
        return _condition(Truth.FALSE, Reason.STOPPED, ledger.trouble())
    leader = ledger.leader
    if leader is None:
        reason = Reason.STORE_SILENT if ledger.trouble() else Reason.NOT_LEADING
        return _condition(Truth.FALSE, reason, ledger.trouble() or f"this server is {ledger.role.value}")
    room, settings = leader.term.room, ledger.durable.state.facts.settings
    if not leader.term.proof.is_young(settings):
        return _condition(Truth.UNKNOWN, Reason.STORE_SILENT, ledger.trouble() or "nothing was proven lately")
    if room.fill is Fill.FULL:
        return _condition(Truth.FALSE, Reason.STORE_FULL, room.why())
    return _condition(Truth.TRUE, _FILLS.get(room.fill, Reason.AS_DESIRED), room.why())


def _condition(status: Truth, reason: Reason, message: str) -> Condition:
    return Condition(type="Writable", status=status, reason=reason, message=message)
