"""How full the store is, and what a leader refuses because of it (RULES 20).

below 70 %   everything
above 70 %   everything; less history is kept, and an alert says so
above 85 %   reconcilers, proposals and lists are refused: reports, ends of sessions and operators still get through
full         read-only; one command is let through now and then, to see whether it is over
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Store, StoreError
from holdfast.host.runtime.telemetry import Logger, Metrics

SOFT = 0.70
HARD = 0.85
POLL_MS = 5_000
TRY_EVERY_MS = 1_000
#: Making room can be as costly as it is useful: not more often than this while the store still takes writes.
RECLAIM_EVERY_MS = 60_000


class SpaceLevel(StrEnum):
    """How full the store is."""

    OPEN = "open"
    SOFT = "soft"
    HARD = "hard"
    FULL = "full"


#: Members of an enum are found slowly through their class, and every command asks.
_OPEN = SpaceLevel.OPEN


class SpaceMonitor:
    """What one leader knows about the room in its store."""

    def __init__(self, store: Store, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._why = ""
        self._try_at = 0
        self._reclaim_at = 0
        self.fill = SpaceLevel.OPEN

    def is_closed_to(self, lane: CommandLane) -> bool:
        """Whether commands of this lane are refused now."""
        if self.fill is _OPEN:
            return False
        if self.fill is SpaceLevel.FULL:
            return self._clock.boot() < self._try_at
        return self.fill is SpaceLevel.HARD and lane >= CommandLane.RECONCILERS

    def why(self) -> str:
        """What to tell whoever is refused; empty when nobody is."""
        return self._why

    def full(self, why: str) -> None:
        """The store had no room for a batch."""
        self._try_at = self._clock.boot() + TRY_EVERY_MS
        self._become(
            SpaceLevel.FULL, f"{self._store.name} is full ({why}); hint: make room on its disk, it goes on by itself"
        )

    def committed(self) -> None:
        """The store had room for a batch."""
        if self.fill is SpaceLevel.FULL:
            self._become(SpaceLevel.OPEN, "")

    async def watch(self) -> None:
        """Look at the store again and again."""
        while True:
            await self.poll()
            await self._clock.sleep(TRY_EVERY_MS if self.fill is SpaceLevel.FULL else POLL_MS)

    async def poll(self) -> None:
        """Judge how full the store is, and make room where there is none."""
        try:
            if self.fill in (SpaceLevel.HARD, SpaceLevel.FULL) and self._clock.boot() >= self._reclaim_at:
                self._reclaim_at = self._clock.boot() + (
                    TRY_EVERY_MS if self.fill is SpaceLevel.FULL else RECLAIM_EVERY_MS
                )
                await self._store.reclaim()
            share = (await self._store.usage()).share()
        except StoreError as error:
            self._logger.warning("usage-unknown", error=error)
            return
        self._metrics.gauge("store_used_share", share)
        if self.fill is SpaceLevel.FULL and share >= HARD:
            return
        percent = f"{self._store.name} is {share:.0%} full"
        if share >= HARD:
            self._become(
                SpaceLevel.HARD, f"{percent}; only reports and operators are served; hint: make room on its disk"
            )
        elif share >= SOFT:
            self._become(SpaceLevel.SOFT, f"{percent}; less history is kept")
        else:
            self._become(SpaceLevel.OPEN, "")

    def _become(self, fill: SpaceLevel, why: str) -> None:
        if fill is not self.fill:
            self._logger.warning("store-room", fill=fill.value, was=self.fill.value, why=why)
            self._metrics.count("store_fill_changes", fill=fill.value)
        self.fill, self._why = fill, why
