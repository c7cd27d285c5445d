"""Reservations that nobody bound in time, and room that was held until an end: both end by ledger time.

ledger.beside["expiry"] = expire
"""

from __future__ import annotations

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.shapes import Instant, Revision, SlotKey
from holdfast.core.region.commands import NAMED_MAX, Expire
from holdfast.core.region.index import in_phase
from holdfast.core.region.state import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader import Leader

#: Between two looks.
LOOK_MS = 2_000


async def expire(leader: Leader[RegionState]) -> None:
    """End what is over, for as long as this server leads."""
    while True:
        await leader.term.clock.sleep(LOOK_MS)
        slots, holds = over(leader.term.durable.state, leader.term.now())
        if slots or holds:
            try:
                await leader.submit(Envelope("ledger", Expire(slots, holds), leader.term.now()))
            except Unavailable:
                continue
            leader.term.meters.count("expired_reservations", len(slots) + len(holds))


def over(state: RegionState, now: Instant) -> tuple[tuple[SlotKey, ...], tuple[Revision, ...]]:
    """Slots and holds whose time has passed, as many as one command may name."""
    slots: list[SlotKey] = []
    for uid, assignment in state.assignments.items():
        if in_phase(state, uid, Phase.RESERVED):
            keys = [(assignment.workload, ordinal) for ordinal in state.ordinals.get(uid) or ()]
            slots += [key for key in keys if _is_over(state, key, now)]
            if len(slots) >= NAMED_MAX:
                return tuple(slots[:NAMED_MAX]), ()
    holds = [uid for uid, hold in state.holds.items() if hold.ends <= now]
    return tuple(slots), tuple(holds[: NAMED_MAX - len(slots)])


def _is_over(state: RegionState, key: SlotKey, now: Instant) -> bool:
    slot = state.slots[key]
    return slot.phase is Phase.RESERVED and 0 < slot.ends <= now
