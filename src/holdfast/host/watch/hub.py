"""The hub: durable changes to whoever wants to hear of them, found by key and not by asking every subscriber.

    publish(batch) ──▶ keys of each event ──▶ by key, by kind ──▶ subscriptions: each batch once, resumable by token
                                                             └──▶ touches: which objects changed, for controllers

The hub offers `publish` and nothing before it: the ledger's host calls it in the turn in which a batch becomes durable
state, never earlier (RULES 10), so whoever hears of a change finds it in the state. It costs a few look-ups for each
key of each event, whatever the number of subscribers, and next to nothing when there are none.
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
from holdfast.host.watch.changes import ChangeBatch, ChangeEvent, WatchFilter, positions
from holdfast.host.watch.key_changes import ChangedKeys
from holdfast.host.watch.log_reader import ReadAhead
from holdfast.host.watch.subscription import Subscription, SubscriptionLimits

_Matches = dict[Subscription, None]


class WatchHub:
    """All that watches one ledger on one server."""

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
        #: Live ones by the number of the batch, modulo, after which they get a bookmark: a few after each.
        self._marked: list[_Matches] = [{} for _ in range(self.window.bookmark_batches)]
        self._place_of: dict[Subscription, int] = {}
        self._open: _Matches = {}
        #: By number. Held weakly: whoever stops asking, as a controller does when its term ends, need not say so.
        self._touches: WeakValueDictionary[int, KeyFeed] = WeakValueDictionary()
        self._opened = 0

    # The ledger's side

    def publish(self, batch: Batch[Any]) -> None:
        """Tell of the next batch, which is part of the state since this turn. Never waits, and calls nobody's code."""
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
        """The state was loaded anew, and batches up to `head` were not published: everybody reads them from the log."""
        before, self.head = self.head, head
        for subscription in list(self._place_of):
            subscription.fall_behind(before)
        for touches in list(self._touches.values()):
            touches.close()

    def close(self) -> None:
        """End every subscription and all touches."""
        for subscription in list(self._open):
            subscription.close()
        for touches in list(self._touches.values()):
            touches.close()

    # The subscribers' side

    async def subscribe(self, interest: WatchFilter, since: RevisionToken | None = None) -> Subscription:
        """A stream of what is of interest after `since`, or from now on. Close it, or use it in a `with`.

        `ListAgain` when `since` is not in this log or no longer reached by it. A server that follows reaches the batch
        of `since` first: what lies beyond its own head it takes for another log's.
        """
        unknown = sorted({*interest.kinds, *(kind for kind, _ in interest.keys)} - set(self.definition.kinds))
        assert not unknown, f"the {self.definition.name} ledger has no kinds {unknown}"
        subscription = Subscription(self, interest, self.head if since is None else since)
        await subscription.begin()
        self._open[subscription] = None
        self.metrics.gauge("watch_subscribers", len(self._open))
        return subscription

    def touched(self, kinds: Iterable[str] = ()) -> KeyFeed:
        """Which objects of these kinds change from now on; none named: of all kinds."""
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
        """Take a subscription out of the index, if it is there."""
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
        """Forget a subscription that is over."""
        self._open.pop(subscription, None)
        self.metrics.gauge("watch_subscribers", len(self._open))

    def deaf(self, touches: KeyFeed) -> None:
        """Forget touches that are over."""
        self._touches.pop(touches.number, None)


class KeyFeed:
    """An async iterator of what batches touched since it was last asked: each key once, the first touched first.

    It is told of every batch, also if that touched nothing. It ends when something had to be left out (too many keys,
    or a state that was loaded anew), or when it is closed: list everything, and ask for new ones. One task reads it.
    """

    def __init__(self, hub: WatchHub, number: int, kinds: frozenset[str]) -> None:
        self.number = number
        self._hub = hub
        self._kinds = kinds
        self._keys: dict[WatchKey, None] = {}
        #: The revision up to which the state held everything when the last batch landed; 0: told already.
        self._landed = 0
        self._wake = asyncio.Event()
        self._is_over = False

    def touch(self, keys: tuple[WatchKey, ...]) -> None:
        """Note what an event touched."""
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
        """End it; whoever waits for it is told so."""
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
