"""The space level of the store, and what a leader refuses because of it (RULES 20).

below 70 %   open: everything is accepted
above 70 %   soft: everything is accepted; less history is retained, and an alert fires
above 85 %   hard: reconcilers, proposals and lists are refused; reports, ends of sessions and operators are not
full         read-only; one command is accepted now and then, to detect free space
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
#: Freeing space is expensive: the shortest interval while the store still accepts writes.
RECLAIM_EVERY_MS = 60_000


class SpaceLevel(StrEnum):
    """How full the store is."""

    OPEN = "open"
    SOFT = "soft"
    HARD = "hard"
    FULL = "full"


#: Access through the enum class is slow, and every command needs this member.
_OPEN = SpaceLevel.OPEN


class SpaceMonitor:
    """The space of one leader's store."""

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
        """Return the reason for a refusal; empty while nothing is refused."""
        return self._why

    def full(self, why: str) -> None:
        """The store had no space for a batch."""
        self._try_at = self._clock.boot() + TRY_EVERY_MS
        self._become(SpaceLevel.FULL, f"{self._store.name} is full ({why}); hint: free space on its disk")

    def committed(self) -> None:
        """The store had space for a batch."""
        if self.fill is SpaceLevel.FULL:
            self._become(SpaceLevel.OPEN, "")

    async def watch(self) -> None:
        """Poll the store's usage until cancelled."""
        while True:
            await self.poll()
            await self._clock.sleep(TRY_EVERY_MS if self.fill is SpaceLevel.FULL else POLL_MS)

    async def poll(self) -> None:
        """Update the space level, and reclaim space if the store is nearly full."""
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
                SpaceLevel.HARD, f"{percent}; only reports and operators are served; hint: free space on its disk"
            )
        elif share >= SOFT:
            self._become(SpaceLevel.SOFT, f"{percent}; less history is retained")
        else:
            self._become(SpaceLevel.OPEN, "")

    def _become(self, fill: SpaceLevel, why: str) -> None:
        if fill is not self.fill:
            self._logger.warning("store-room", fill=fill.value, was=self.fill.value, why=why)
            self._metrics.count("store_fill_changes", fill=fill.value)
        self.fill, self._why = fill, why
