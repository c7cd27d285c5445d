"""How full the store is, and what a leader refuses because of it (RULES 20).

below 70 %   everything
above 70 %   everything; less history is kept, and an alert says so
above 85 %   reconcilers, proposals and lists are refused: reports, ends of sessions and operators still get through
full         read-only; one command is let through now and then, to see whether it is over
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.ledger.commit.rules import Lane
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Store, StoreError
from holdfast.host.runtime.telemetry import Journal, Meters

SOFT = 0.70
HARD = 0.85
LOOK_EVERY_MS = 5_000
TRY_EVERY_MS = 1_000
#: Making room can be as costly as it is useful: not more often than this while the store still takes writes.
RECLAIM_EVERY_MS = 60_000


class Fill(StrEnum):
    """How full the store is."""

    OPEN = "open"
    SOFT = "soft"
    HARD = "hard"
    FULL = "full"


#: Members of an enum are found slowly through their class, and every command asks.
_OPEN = Fill.OPEN


class Room:
    """What one leader knows about the room in its store."""

    def __init__(self, store: Store, clock: Clock, meters: Meters, journal: Journal) -> None:
        self._store = store
        self._clock = clock
        self._meters = meters
        self._journal = journal
        self._why = ""
        self._try_at = 0
        self._reclaim_at = 0
        self.fill = Fill.OPEN

    def is_closed_to(self, lane: Lane) -> bool:
        """Whether commands of this lane are refused now."""
        if self.fill is _OPEN:
            return False
        if self.fill is Fill.FULL:
            return self._clock.boot() < self._try_at
        return self.fill is Fill.HARD and lane >= Lane.RECONCILERS

    def why(self) -> str:
        """What to tell whoever is refused; empty when nobody is."""
        return self._why

    def full(self, why: str) -> None:
        """The store had no room for a batch."""
        self._try_at = self._clock.boot() + TRY_EVERY_MS
        self._become(
            Fill.FULL, f"{self._store.name} is full ({why}); hint: make room on its disk, it goes on by itself"
        )

    def landed(self) -> None:
        """The store had room for a batch."""
        if self.fill is Fill.FULL:
            self._become(Fill.OPEN, "")

    async def watch(self) -> None:
        """Look at the store again and again."""
        while True:
            await self.look()
            await self._clock.sleep(TRY_EVERY_MS if self.fill is Fill.FULL else LOOK_EVERY_MS)

    async def look(self) -> None:
        """Judge how full the store is, and make room where there is none."""
        try:
            if self.fill in (Fill.HARD, Fill.FULL) and self._clock.boot() >= self._reclaim_at:
                self._reclaim_at = self._clock.boot() + (TRY_EVERY_MS if self.fill is Fill.FULL else RECLAIM_EVERY_MS)
                await self._store.reclaim()
            share = (await self._store.usage()).share()
        except StoreError as error:
            self._journal.warning("usage-unknown", error=error)
            return
        self._meters.gauge("store_used_share", share)
        if self.fill is Fill.FULL and share >= HARD:
            return
        percent = f"{self._store.name} is {share:.0%} full"
        if share >= HARD:
            self._become(Fill.HARD, f"{percent}; only reports and operators are served; hint: make room on its disk")
        elif share >= SOFT:
            self._become(Fill.SOFT, f"{percent}; less history is kept")
        else:
            self._become(Fill.OPEN, "")

    def _become(self, fill: Fill, why: str) -> None:
        if fill is not self.fill:
            self._journal.warning("store-room", fill=fill.value, was=self.fill.value, why=why)
            self._meters.count("store_fill_changes", fill=fill.value)
        self.fill, self._why = fill, why
