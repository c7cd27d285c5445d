"""The state that a mirror loads chunk by chunk, and the state that it shows."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.codec import Corrupt
from holdfast.core.ledger.state.snapshot import SnapshotLoader, decode_manifest
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.storage.digests import DigestChecker
from holdfast.host.storage.durable_state import DurableState
from holdfast.host.watch.hub import WatchHub


class MirrorState:
    """The state of one mirror. When another replaces it, all key feeds end."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self.durable: DurableState[RegionState] = DurableState(REGION, RegionState())
        nowhere: Any = None  # a mirror has no log: key feeds need none, and there are no subscriptions
        self.hub = WatchHub(REGION, nowhere, self.durable.token(), metrics)
        #: The number of states that were shown.
        self.times = 0
        #: Compares the state with the log; None: nothing is shown.
        self._digests: DigestChecker[RegionState] | None = None
        self._moved = asyncio.Event()

    def show(self, state: RegionState) -> None:
        """Show this state in place of any earlier one, perhaps of another log."""
        self._replace(state)
        self.durable.listeners.append(self.hub.publish)
        self._digests = DigestChecker(self.durable, self._clock, self._metrics)
        self.times += 1
        self._moved.set()

    def drop(self) -> None:
        """Show nothing from now on."""
        self._replace(RegionState())
        self._digests = None
        self._moved.set()

    def _replace(self, state: RegionState) -> None:
        self.durable = DurableState(REGION, state)
        self.hub.reset(self.durable.token())

    async def there(self) -> int:
        """Return when a state is shown, with the number of states so far."""
        while self._digests is None:
            self._moved.clear()
            await self._moved.wait()
        return self.times

    async def over(self, times: int) -> None:
        """Return when that state is no longer shown."""
        while self._digests is not None and self.times == times:
            self._moved.clear()
            await self._moved.wait()

    async def compare(self) -> None:
        """Compare the shown state with the digests in the log, or raise `StateDiffers`."""
        while True:
            times = await self.there()
            assert self._digests is not None
            await run_until_first(self._digests.watch(), self.over(times))


class MirrorLoad:
    """A state that is being loaded; without a manifest from the first batch of the log."""

    def __init__(self, manifest: bytes = b"") -> None:
        self.state = RegionState()
        #: The number of chunks still to come.
        self._left = 0
        if manifest:
            found = decode_manifest(manifest)
            self._restore = SnapshotLoader(self.state, found)
            self._left = len(found.parts)

    @property
    def is_restored(self) -> bool:
        """Whether all chunks are restored, so that batches may follow."""
        return not self._left

    def take(self, raw: bytes) -> None:
        """Restore the next chunk. Raise `Corrupt` or `UpgradeNeeded`."""
        if not self._left:
            raise Corrupt("a chunk without a snapshot")
        self._restore.take(raw)
        self._left -= 1
        if not self._left:
            self._restore.finish()
