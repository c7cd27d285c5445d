"""The ears of a server's controllers: what they hear of changes, which a fault may delay, repeat or keep from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from holdfast.host.watch.hub import WatchHub
from holdfast.host.watch.key_changes import ChangedKeys, KeyChanges

DELAY_MS = 3_000


class WatchFaults:
    """One server's ears. They are sound until they become something else."""

    def __init__(self, happened: dict[str, int]) -> None:
        self._chance: Random | None = None
        self._happened = happened

    def become(self, chance: Random | None) -> None:
        """Hear badly by this chance from now on; or well again."""
        self._chance = chance

    def put_on(self, hub: WatchHub) -> None:
        """Whoever listens to this hub from now on hears through these ears."""
        heard = hub.touched

        def touched(kinds: Any) -> KeyChanges:
            return _Hearing(heard(kinds), self)

        hub.touched = touched  # type: ignore[method-assign, assignment]

    async def hear(self, touched: ChangedKeys) -> list[ChangedKeys]:
        """What is heard of this."""
        chance = self._chance
        if chance is None or not touched.keys:
            return [touched]
        fate = chance.choice(("skipped", "repeated", "stale", "well"))
        self._happened[f"watch.{fate}"] = self._happened.get(f"watch.{fate}", 0) + 1
        if fate == "stale":
            await asyncio.sleep(chance.randrange(DELAY_MS) / 1000)
        return [ChangedKeys(touched.revision, ())] if fate == "skipped" else [touched] * (1 + (fate == "repeated"))


class _Hearing:
    """What a controller listens to, through ears."""

    def __init__(self, inner: KeyChanges, watch_faults: WatchFaults) -> None:
        self._inner = inner
        self._watch_faults = watch_faults

    async def __aiter__(self) -> AsyncIterator[ChangedKeys]:
        async for touched in self._inner:
            for heard in await self._watch_faults.hear(touched):
                yield heard

    def close(self) -> None:
        self._inner.close()
