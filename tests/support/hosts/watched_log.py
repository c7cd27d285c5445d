"""A log that is watched: a store, and hubs to which its batches are published when a test says so."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import Book
from holdfast.core.ledger.revision import Token, token
from holdfast.host.ports.store import Head, Log, Stored, Written
from holdfast.host.watch.changes import Changes
from holdfast.host.watch.hub import Hub
from holdfast.host.watch.subscription import Subscription, Window
from holdfast.stores.memory import MemoryStore

BEGINNING = Token("", 0, 0, b"")


class WatchedLog:
    """Batches of one log. Each is appended to the store before it is published to a hub."""

    def __init__(self, book: Book[Any], log_id: str) -> None:
        self.book = book
        self.log_id = log_id
        self.store = MemoryStore()
        self.batches: list[Batch[Any]] = []

    async def append(self, raw: bytes, digest: bytes) -> None:
        seq, previous = len(self.batches) + 1, self.batches[-1].digest if self.batches else b""
        self.batches.append(self.book.batches.read(raw, previous, digest))
        after = Head(self.log_id, seq - 1, previous) if previous else Head()
        assert isinstance(await self.store.append(after, Stored(self.log_id, seq, digest, raw)), Written)

    def token(self, seq: int) -> Token:
        if seq == 0:
            return BEGINNING
        batch = self.batches[seq - 1]
        return token(self.log_id, batch.header.term, seq, batch.digest)

    def hub(self, at: int = 0, window: Window | None = None, log: Log | None = None) -> Hub:
        """A hub of a server whose state is at batch `at`."""
        return Hub(self.book, log or self.store, self.token(at), window=window)

    def publish(self, hub: Hub, up_to: int | None = None) -> None:
        """Publish what the hub has not heard, one batch after the other."""
        for batch in self.batches[hub.head.seq : up_to]:
            hub.publish(batch)


async def heard(subscription: Subscription) -> list[Changes]:
    """Everything it has to say until it waits for what is not there yet. Needs virtual time."""
    found: list[Changes] = []
    try:
        async with asyncio.timeout(1):
            async for changes in subscription:
                found.append(changes)  # noqa: PERF401  # what was heard before the end counts too
    except TimeoutError:
        pass
    return found


def events(found: list[Changes]) -> list[Any]:
    """The events alone."""
    return [change.event for changes in found for change in changes.changes]
