"""Expires reservations that were not bound in time, and holds at their end, by ledger time.

    a workload or a hold changes ──▶ has it reservations? ──▶ queued for the earliest end
    that time has come ──▶ examined ──▶ the expired ones end; the others wait for the next end

Assignments are examined only when a reservation can have expired. Listings find missed changes: at the start of a term,
after the feed dropped something, and every minute.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.commands import Expire
from holdfast.core.region.state.lookups import phase_count
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import HOLD, WORKLOAD
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.clock import Clock

#: The intervals of the expiry check and of a full listing.
POLL_MS, RESYNC_MS = 2_000, 60_000
#: Slots or listed rows that are examined per turn of the loop.
CHUNK = 2_000

#: An assignment with reserved slots, or a hold: the first element is the kind.
_ASSIGNMENT = "assignment"
HeldKey = tuple[str, Revision]


class ReservationExpiry:
    """The reservations of a region, on the server that leads it."""

    def __init__(self, ledger: Ledger[RegionState]) -> None:
        self._ledger = ledger

    async def run(self, leader: Leader[RegionState]) -> None:
        """Expire reservations and holds while this server leads."""
        line = ExpiryQueue(leader)
        hearing = asyncio.create_task(self._on_change(line), name="expiry/hear")
        try:
            await self._look(line, leader.term.clock, hearing)
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def _on_change(self, line: ExpiryQueue) -> None:
        """Note changes; at the start, and after the feed dropped something, everything."""
        while True:
            touches = self._ledger.hub.touched((WORKLOAD, HOLD))
            await line.list_all()
            async for change in touches:
                line.on_change(change.keys)

    async def _look(self, line: ExpiryQueue, clock: Clock, hearing: asyncio.Task[None]) -> None:
        """Expire every `POLL_MS`. Every `RESYNC_MS`, list everything to find missed changes."""
        list_at = clock.boot() + RESYNC_MS
        while True:
            await clock.sleep(POLL_MS)
            if hearing.done():
                hearing.result()
            if clock.boot() >= list_at:
                line.catch()
                await line.suspect()
                list_at = clock.boot() + RESYNC_MS
            elif line.suspects:
                line.catch()
            await line.end_over()


class ExpiryQueue:
    """Assignments and holds with reservations, by the earliest end."""

    def __init__(self, leader: Leader[RegionState]) -> None:
        self._leader = leader
        self._clock = leader.term.clock
        self._due: dict[HeldKey, Instant] = {}
        #: A heap of ends. An entry whose time differs from `_due` is obsolete.
        self._line: list[tuple[Instant, HeldKey]] = []
        #: Keys with reservations that a listing found unqueued, each with its row then.
        self.suspects: dict[HeldKey, object] = {}

    @property
    def _state(self) -> RegionState:
        return self._leader.term.durable.state

    def on_change(self, keys: tuple[WatchKey, ...]) -> None:
        """Queue each changed key that has reservations and is not queued."""
        for kind, key in keys:
            if kind == HOLD:
                self._note((HOLD, key))  # type: ignore[arg-type]
            else:
                for uid in self._state.assignments_of.get(key) or ():  # type: ignore[arg-type]
                    self._note((_ASSIGNMENT, uid))

    async def list_all(self) -> None:
        """Queue everything that has reservations."""
        for number, held in enumerate(self._everything(), 1):
            self._note(held)
            if number % CHUNK == 0:
                await self._clock.sleep(0)

    async def suspect(self) -> None:
        """Find keys with reservations that are not queued.

        A change may still be on its way: a key counts as missed only if none arrives before the next check.
        """
        for number, held in enumerate(self._everything(), 1):
            if held not in self._due and self._is_reserved(held):
                self.suspects[held] = self._row(held)
            if number % CHUNK == 0:
                await self._clock.sleep(0)

    def catch(self) -> None:
        """Queue suspects that are still unqueued. Those with an unchanged row were missed."""
        suspects, self.suspects = self.suspects, {}
        for held, row in suspects.items():
            if held not in self._due and self._is_reserved(held):
                self._note(held)
                self._leader.term.metrics.count("expiry_caught", int(self._row(held) is row))

    def _everything(self) -> list[HeldKey]:
        state = self._state
        rows: list[HeldKey] = [(_ASSIGNMENT, uid) for uid, _ in state.phase_counts.unordered()]
        return rows + [(HOLD, uid) for uid, _ in state.holds.unordered()]

    def _row(self, held: HeldKey) -> object:
        return (self._state.holds if held[0] == HOLD else self._state.phase_counts).get(held[1])

    def _is_reserved(self, held: HeldKey) -> bool:
        if held[0] == HOLD:
            return self._state.holds.get(held[1]) is not None
        return bool(phase_count(self._state, held[1], Phase.RESERVED))

    async def end_over(self) -> None:
        """Expire everything whose end has passed."""
        now, slots, holds = self._leader.term.now(), list[SlotKey](), list[Revision]()
        while self._line and self._line[0][0] <= now:
            due, held = heappop(self._line)
            if self._due.get(held) != due:
                continue
            del self._due[held]
            if held[0] == HOLD:
                holds += self._hold_over(held, now)
            else:
                slots += await self._slots_over(held, now)
        for first in range(0, len(slots), PARTS_MAX):
            await self._end(tuple(slots[first : first + PARTS_MAX]), ())
        for first in range(0, len(holds), PARTS_MAX):
            await self._end((), tuple(holds[first : first + PARTS_MAX]))

    async def _end(self, slots: tuple[SlotKey, ...], holds: tuple[Revision, ...]) -> None:
        term = self._leader.term
        try:
            await self._leader.submit_as("ledger", Expire(slots, holds))
        except Unavailable:
            return  # they are queued again
        term.metrics.count("expired_reservations", len(slots) + len(holds))

    def _note(self, held: HeldKey) -> None:
        """Queue a key unless it is queued; an assignment at once, since its earliest end is unknown."""
        if held not in self._due:
            if held[0] == HOLD:
                hold = self._state.holds.get(held[1])
                if hold is not None:
                    self._wait(held, hold.ends)
            elif phase_count(self._state, held[1], Phase.RESERVED):
                self._wait(held, 0)

    def _wait(self, held: HeldKey, until: Instant) -> None:
        self._due[held] = until
        heappush(self._line, (until, held))

    def _hold_over(self, held: HeldKey, now: Instant) -> list[Revision]:
        """Return the hold if it has expired. Queue it again: its end may have moved, or the command may fail."""
        hold = self._state.holds.get(held[1])
        if hold is None:
            return []
        self._wait(held, max(hold.ends, now + POLL_MS))
        return [held[1]] if hold.ends <= now else []

    async def _slots_over(self, held: HeldKey, now: Instant) -> list[SlotKey]:
        """Return an assignment's expired slots, and queue it for the earliest end."""
        uid, found, ends = held[1], list[SlotKey](), list[Instant]()
        assignment = self._state.assignments.get(uid)
        if assignment is None or not phase_count(self._state, uid, Phase.RESERVED):
            return []
        for number, ordinal in enumerate(numbers(ordinals_of(self._state, uid)), 1):
            key = assignment.workload, ordinal
            slot = self._state.slots.get(key)
            if slot is not None and slot.phase is Phase.RESERVED and slot.ends:
                ends.append(slot.ends)
                if slot.ends <= now:
                    found.append(key)
            if number % CHUNK == 0:
                await self._clock.sleep(0)
        # Expired ones are examined again: their command may fail.
        self._wait(held, max(min(ends, default=0), now + POLL_MS))
        return found
