"""The hub: delivers durable changes to subscribers, found by key without testing every subscriber.

    publish(batch) ──▶ keys of each event ──▶ by key, by kind ──▶ subscriptions: each batch once, resumable by token
                                                             └──▶ key feeds: which objects changed, for controllers

The ledger's host calls `publish` in the turn in which a batch becomes durable state, never earlier (RULES 10), so a
subscriber finds each change in the state. It costs a few lookups per key of each event, for any number of subscribers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.revision import INDEX_MAX, RevisionToken, pack_revision, token_of
from holdfast.host.ports.store import LogStore
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.watch.changes import ChangeBatch, ChangedKeys, ChangeEvent, WatchFilter, positions
from holdfast.host.watch.log_reader import ReadAhead
from holdfast.host.watch.subscription import Subscription, SubscriptionLimits

_Matches = dict[Subscription, None]


class WatchHub:
    """All watches of one ledger on one server."""

    def __init__(
        self,
        definition: LedgerDefinition[Any],
        log: LogStore,
        head: RevisionToken,
        metrics: Metrics | None = None,
        window: SubscriptionLimits | None = None,
    ) -> None:
        self.definition = definition
        self.log = log
        self.head = head
        self.metrics = metrics or Metrics()
        self.window = window or SubscriptionLimits()
        self.ahead = ReadAhead(self.window.ahead_bytes)
        self._everything: _Matches = {}
        self._by_key: dict[WatchKey, _Matches] = {}
        self._by_kind: dict[str, _Matches] = {}
        #: Live subscriptions by batch number, modulo: a few get a bookmark after each batch.
        self._marked: list[_Matches] = [{} for _ in range(self.window.bookmark_batches)]
        self._place_of: dict[Subscription, int] = {}
        self._open: _Matches = {}
        #: Key feeds by number. The references are weak, so that readers need not close their feeds.
        self._touches: WeakValueDictionary[int, KeyFeed] = WeakValueDictionary()
        self._opened = 0

    # Publishing

    def publish(self, batch: Batch[Any]) -> None:
        """Deliver the next batch, in the turn in which it becomes the state. Never waits."""
        header = batch.header
        assert header.seq == self.head.seq + 1, f"batch {header.seq} after {self.head.seq}: reset the hub first"
        before, self.head = self.head, token_of(header.log_id, header.term, header.seq, batch.digest)
        self.metrics.count("watch_published", sum([len(record.events) for record in batch.records]))
        if not self._place_of and not self._touches:
            return
        heard: dict[Subscription, list[ChangeEvent]] = {}
        listening = list(self._touches.values())
        for position, record, event in positions(batch):
            keys = self.definition.keys[type(event)](event, position)
            for touches in listening:
                touches.touch(keys)
            hearers = self._hearers(keys)
            if hearers:
                change = ChangeEvent(position, record, event)
                for subscription in hearers:
                    heard.setdefault(subscription, []).append(change)
        for subscription, changes in heard.items():
            subscription.offer(ChangeBatch(self.head, tuple(changes)), before)
        for subscription in self._marked[header.seq % len(self._marked)]:
            subscription.bookmark(self.head)
        for touches in listening:
            touches.committed(pack_revision(header.seq, INDEX_MAX))

    def _hearers(self, keys: tuple[WatchKey, ...]) -> _Matches:
        found = dict(self._everything)
        by_key, by_kind = self._by_key, self._by_kind
        for key in keys:
            if key in by_key:
                found.update(by_key[key])
            if key[0] in by_kind:
                found.update(by_kind[key[0]])
        return found

    def reset(self, head: RevisionToken) -> None:
        """Continue at `head` after a reload: subscribers read earlier batches from the log."""
        before, self.head = self.head, head
        for subscription in list(self._place_of):
            subscription.fall_behind(before)
        for touches in list(self._touches.values()):
            touches.close()

    def close(self) -> None:
        """End all subscriptions and key feeds."""
        for subscription in list(self._open):
            subscription.close()
        for touches in list(self._touches.values()):
            touches.close()

    # Subscribing

    async def subscribe(self, interest: WatchFilter, since: RevisionToken | None = None) -> Subscription:
        """Return a stream of matching changes after `since`, or from now on. Close it, or use it in a `with`.

        Raises `ListAgain` if `since` is not in this log or is trimmed. A follower must first reach its batch: a token
        beyond the head counts as another log's.
        """
        unknown = sorted({*interest.kinds, *(kind for kind, _ in interest.keys)} - set(self.definition.kinds))
        assert not unknown, f"the {self.definition.name} ledger has no kinds {unknown}"
        subscription = Subscription(self, interest, self.head if since is None else since)
        await subscription.begin()
        self._open[subscription] = None
        self.metrics.gauge("watch_subscribers", len(self._open))
        return subscription

    def touched(self, kinds: Iterable[str] = ()) -> KeyFeed:
        """Return a feed of changed objects of these kinds, from now on; without kinds: of all."""
        chosen = frozenset(kinds) or frozenset(self.definition.kinds)
        unknown = sorted(chosen - set(self.definition.kinds))
        assert not unknown, f"the {self.definition.name} ledger has no kinds {unknown}"
        self._opened += 1
        touches = self._touches[self._opened] = KeyFeed(self, self._opened, chosen)
        return touches

    def join(self, subscription: Subscription) -> None:
        """Index a subscription: it is live from the next batch on."""
        self._opened += 1
        self._place_of[subscription] = place = self._opened % len(self._marked)
        self._marked[place][subscription] = None
        interest = subscription.interest
        if interest.everything:
            self._everything[subscription] = None
            return
        for key in interest.keys:
            self._by_key.setdefault(key, {})[subscription] = None
        for kind in interest.kinds:
            self._by_kind.setdefault(kind, {})[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        """Remove a subscription from the index, if it is there."""
        place = self._place_of.pop(subscription, None)
        if place is None:
            return
        del self._marked[place][subscription]
        interest = subscription.interest
        if interest.everything:
            del self._everything[subscription]
            return
        for key in interest.keys:
            del self._by_key[key][subscription]
            if not self._by_key[key]:
                del self._by_key[key]
        for kind in interest.kinds:
            del self._by_kind[kind][subscription]
            if not self._by_kind[kind]:
                del self._by_kind[kind]

    def closed(self, subscription: Subscription) -> None:
        """Forget a subscription that has ended."""
        self._open.pop(subscription, None)
        self.metrics.gauge("watch_subscribers", len(self._open))

    def deaf(self, touches: KeyFeed) -> None:
        """Forget a key feed that has ended."""
        self._touches.pop(touches.number, None)


class KeyFeed:
    """An async iterator of the keys touched since the last item: each once, in the order of first touch.

    There is an item for every batch, also for one without keys. The feed ends when it is closed or had to drop keys
    (too many, or a reloaded state): then list everything and open a new one. One task reads it.
    """

    def __init__(self, hub: WatchHub, number: int, kinds: frozenset[str]) -> None:
        self.number = number
        self._hub = hub
        self._kinds = kinds
        self._keys: dict[WatchKey, None] = {}
        #: The state's revision after the last batch; 0: delivered already.
        self._landed = 0
        self._wake = asyncio.Event()
        self._is_over = False

    def touch(self, keys: tuple[WatchKey, ...]) -> None:
        """Note the keys of an event."""
        kinds = self._kinds
        for key in keys:
            if key[0] in kinds:
                self._keys[key] = None

    def committed(self, at: int) -> None:
        """Note that a batch is complete."""
        self._landed = at
        self._wake.set()
        if len(self._keys) > self._hub.window.touched_keys:
            self._hub.metrics.count("watch_touches_left_out")
            self.close()

    def close(self) -> None:
        """End the feed, also for a waiting reader."""
        self._is_over = True
        self._keys = {}
        self._hub.deaf(self)
        self._wake.set()

    def __aiter__(self) -> KeyFeed:
        return self

    async def __anext__(self) -> ChangedKeys:
        while not self._landed and not self._is_over:
            self._wake.clear()
            await self._wake.wait()
        if self._is_over:
            raise StopAsyncIteration
        told = ChangedKeys(self._landed, tuple(self._keys))
        self._landed, self._keys = 0, {}
        return told
