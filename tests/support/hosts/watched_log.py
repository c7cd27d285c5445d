"""A log that is watched: a store, and hubs to which its batches are published when a test says so."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import RevisionToken, token_of
from holdfast.host.ports.store import Head, LogStore, StoredBatch, WriteOk
from holdfast.host.watch.changes import ChangeBatch
from holdfast.host.watch.hub import WatchHub
from holdfast.host.watch.subscription import Subscription, SubscriptionLimits
from holdfast.stores.memory import MemoryStore

BEGINNING = RevisionToken("", 0, 0, b"")


class WatchedLog:
    """Batches of one log. Each is appended to the store before it is published to a hub."""

    def __init__(self, definition: LedgerDefinition[Any], log_id: str) -> None:
        self.book = definition
        self.log_id = log_id
        self.store = MemoryStore()
        self.batches: list[Batch[Any]] = []

    async def append(self, raw: bytes, digest: bytes) -> None:
        seq, previous = len(self.batches) + 1, self.batches[-1].digest if self.batches else b""
        self.batches.append(self.book.batches.read(raw, previous, digest))
        after = Head(self.log_id, seq - 1, previous) if previous else Head()
        assert isinstance(await self.store.append(after, StoredBatch(self.log_id, seq, digest, raw)), WriteOk)

    def token(self, seq: int) -> RevisionToken:
        if seq == 0:
            return BEGINNING
        batch = self.batches[seq - 1]
        return token_of(self.log_id, batch.header.term, seq, batch.digest)

    def hub(self, at: int = 0, window: SubscriptionLimits | None = None, log: LogStore | None = None) -> WatchHub:
        """A hub of a server whose state is at batch `at`."""
        return WatchHub(self.book, log or self.store, self.token(at), window=window)

    def publish(self, hub: WatchHub, up_to: int | None = None) -> None:
        """Publish what the hub has not heard, one batch after the other."""
        for batch in self.batches[hub.head.seq : up_to]:
            hub.publish(batch)


async def heard(subscription: Subscription) -> list[ChangeBatch]:
    """Everything it has to say until it waits for what is not there yet. Needs virtual time."""
    found: list[ChangeBatch] = []
    try:
        async with asyncio.timeout(1):
            async for changes in subscription:
                found.append(changes)  # noqa: PERF401  # what was heard before the end counts too
    except TimeoutError:
        pass
    return found


def events(found: list[ChangeBatch]) -> list[Any]:
    """The events alone."""
    return [change.event for changes in found for change in changes.changes]
