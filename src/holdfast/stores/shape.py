"""What all stores share: what they ask of a batch, how a change of the head reaches those who wait, announcements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.host.store import ANNOUNCEMENT_BYTES, ANNOUNCEMENTS, Head, Stored, StoreError


def must_follow(after: Head, batch: Stored) -> None:
    """A batch comes directly after the head it names, in the same log, unless it is the first of all."""
    assert batch.seq == after.seq + 1, f"batch {batch.seq} cannot follow {after.seq}"
    assert batch.log_id, "a batch names its log"
    assert batch.log_id == after.log_id or not after.log_id, f"a batch of {batch.log_id} cannot follow {after.log_id}"
    assert batch.digest, "a batch has a digest"


def trimmed(name: str, seq: int, floor: int) -> str:
    """The message for a batch that lies behind the floor."""
    return (
        f"{name}: batch {seq} is trimmed, the floor is {floor}\nhint: load the newest snapshot and read on from there"
    )


class Waiting:
    """The calls of `wait` that are under way, in one event loop, woken in the order in which they came."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[bool], None] = {}

    def wake(self) -> None:
        """The head has moved, or its leader gave a sign of life."""
        for waiter in self._waiters:
            _tell(waiter, changed=True)

    async def until_changed(self, seen: Head, timeout_ms: int, look: Callable[[], Awaitable[Head]]) -> Head:
        """The head once it differs from `seen` in place or touch, or as it is after the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            # It listens before it looks: what changes in between is not missed.
            waiter: asyncio.Future[bool] = loop.create_future()
            self._waiters[waiter] = None
            alarm = loop.call_at(deadline, partial(_tell, waiter, changed=False))
            try:
                head = await look()
                if not (head.same_place(seen) and head.touch == seen.touch):
                    return head
                if not await waiter:
                    return await look()
            finally:
                alarm.cancel()
                del self._waiters[waiter]


class Announced:
    """What was announced, in memory: for a store whose servers are all in one process, or one server."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._announced: dict[str, bytes] = {}

    def put(self, name: str, raw: bytes) -> None:
        """Put it in place of what is there, or take that away."""
        if not raw:
            self._announced.pop(name, None)
            return
        if len(raw) > ANNOUNCEMENT_BYTES:
            raise StoreError(f"{self._name}: {len(raw):,} bytes are no announcement: at most {ANNOUNCEMENT_BYTES:,}")
        if name not in self._announced and len(self._announced) >= ANNOUNCEMENTS:
            raise StoreError(f"{self._name}: {ANNOUNCEMENTS:,} announcements wait for a leader\nhint: try again later")
        self._announced[name] = bytes(raw)

    def all(self) -> list[tuple[str, bytes]]:
        """What there is, by name."""
        return sorted(self._announced.items())


def _tell(waiter: asyncio.Future[bool], *, changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)
