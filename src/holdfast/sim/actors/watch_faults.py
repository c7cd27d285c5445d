"""Watch faults of a server's controllers: changed keys are delayed, repeated or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from holdfast.host.watch.changes import ChangedKeys, KeyChanges
from holdfast.host.watch.hub import WatchHub

DELAY_MS = 3_000


class WatchFaults:
    """The watch faults of one server. There are none until they are switched on."""

    def __init__(self, happened: dict[str, int]) -> None:
        self._chance: Random | None = None
        self._happened = happened

    def become(self, chance: Random | None) -> None:
        """Inject faults by this stream from now on; None: no more faults."""
        self._chance = chance

    def put_on(self, hub: WatchHub) -> None:
        """Inject faults into all later watches of this hub."""
        heard = hub.touched

        def touched(kinds: Any) -> KeyChanges:
            return _Hearing(heard(kinds), self)

        hub.touched = touched  # type: ignore[method-assign, assignment]

    async def hear(self, touched: ChangedKeys) -> list[ChangedKeys]:
        """Return the changes that arrive: none of the keys, once, or twice."""
        chance = self._chance
        if chance is None or not touched.keys:
            return [touched]
        fate = chance.choice(("skipped", "repeated", "stale", "well"))
        self._happened[f"watch.{fate}"] = self._happened.get(f"watch.{fate}", 0) + 1
        if fate == "stale":
            await asyncio.sleep(chance.randrange(DELAY_MS) / 1000)
        return [ChangedKeys(touched.revision, ())] if fate == "skipped" else [touched] * (1 + (fate == "repeated"))


class _Hearing:
    """A controller's watch with injected faults."""

    def __init__(self, inner: KeyChanges, watch_faults: WatchFaults) -> None:
        self._inner = inner
        self._watch_faults = watch_faults

    async def __aiter__(self) -> AsyncIterator[ChangedKeys]:
        async for touched in self._inner:
            for heard in await self._watch_faults.hear(touched):
                yield heard

    def close(self) -> None:
        self._inner.close()
