"""However a subscriber is interrupted, slowed down and moved between servers, what it hears is the filtered log.

A program publishes batches on two servers at different paces, reads subscriptions a little, and drops and resumes
them from their tokens, at whichever server. Small windows make subscribers fall behind all the time.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.errors import Diverged
from holdfast.host.watch.changes import EVERYTHING, ChangeBatch, WatchFilter, filter_for, positions
from holdfast.host.watch.hub import WatchHub
from holdfast.host.watch.subscription import Subscription, SubscriptionLimits
from holdfast.sim.world.virtual_loop import run_virtual
from tests.properties.test_keys import platform_log, region_log
from tests.support.hosts.watched_log import WatchedLog, heard

BOOKS: dict[str, LedgerDefinition[Any]] = {"region": REGION, "platform": PLATFORM}
LOGS = {"region": region_log, "platform": platform_log}
SUBSCRIBERS, SERVERS = 4, 2

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, SERVERS - 1), st.integers(1, 9)),
        st.tuples(st.just("read"), st.integers(0, SUBSCRIBERS - 1), st.integers(1, 4)),
        st.tuples(st.just("resume"), st.integers(0, SUBSCRIBERS - 1), st.integers(0, SERVERS - 1)),
    ),
    min_size=10,
    max_size=60,
)
WINDOWS = st.builds(
    SubscriptionLimits,
    waiting_batches=st.integers(1, 4),
    waiting_bytes=st.sampled_from([1, 400, 1 << 20]),
    read_bytes=st.sampled_from([1, 2_000, 1 << 20]),
    bookmark_batches=st.integers(1, 8),
)


@cache
def log_of(ledger: str) -> list[tuple[bytes, bytes]]:
    return LOGS[ledger](7, 60)


@cache
def keys_of(ledger: str) -> list[Any]:
    """All keys and kinds that occur in the log, in the order in which they do."""
    definition, previous = BOOKS[ledger], b""
    found: dict[Any, None] = {}
    for raw, digest in log_of(ledger):
        batch = definition.batches.read(raw, previous, digest)
        previous = digest
        for position, _, event in positions(batch):
            for key in definition.keys[type(event)](event, position):
                found[key], found[key[0]] = None, None
    return list(found)


class Subscriber:
    """What one has heard over all its subscriptions. It begins where the log begins."""

    def __init__(self, interest: WatchFilter) -> None:
        self.interest = interest
        self.heard: list[ChangeBatch] = []
        self.subscription: Subscription | None = None

    async def resume(self, hub: WatchHub, watched: WatchedLog) -> None:
        since = self.heard[-1].token if self.heard else watched.token(0)
        try:
            again = await hub.subscribe(self.interest, since)
        except Diverged:
            assert since.seq > hub.head.seq, "a token of this log is refused only by a server that is not there yet"
            return
        if self.subscription is not None:
            self.subscription.close()
        self.subscription = again

    async def read(self, most: int) -> None:
        try:
            async with asyncio.timeout(1):
                for _ in range(most if self.subscription is not None else 0):
                    self.heard.append(await anext(self.subscription))  # type: ignore[arg-type]
        except TimeoutError:
            pass


def expected(watched: WatchedLog, interest: WatchFilter) -> list[tuple[int, Any]]:
    """The log, filtered by asking every event."""
    return [
        (position, event)
        for batch in watched.batches
        for position, _, event in positions(batch)
        if interest.meets(watched.book.keys[type(event)](event, position))
    ]


async def play(ledger: str, interests: list[WatchFilter], steps: list[Any], window: SubscriptionLimits) -> None:
    watched = WatchedLog(BOOKS[ledger], "log-eu" if ledger == "region" else "log-platform")
    for raw, digest in log_of(ledger):
        await watched.append(raw, digest)
    hubs = [watched.hub(0, window) for _ in range(SERVERS)]
    subscribers = [Subscriber(interest) for interest in interests]
    for number, one in enumerate(subscribers):
        await one.resume(hubs[number % SERVERS], watched)
    for what, who, amount in steps:
        if what == "publish":
            watched.publish(hubs[who], hubs[who].head.seq + amount)
        elif what == "read":
            await subscribers[who].read(amount)
        else:
            await subscribers[who].resume(hubs[amount], watched)
    for hub in hubs:
        watched.publish(hub)
    for one in subscribers:
        assert one.subscription is not None
        one.heard += await heard(one.subscription)
        judge(one, watched, window)


def judge(one: Subscriber, watched: WatchedLog, window: SubscriptionLimits) -> None:
    told = [(change.revision, change.event) for changes in one.heard for change in changes.changes]
    assert told == expected(watched, one.interest)
    places = [changes.token for changes in one.heard]
    assert places == [watched.token(place.seq) for place in places]
    assert [place.seq for place in places] == sorted({place.seq for place in places})
    behind = len(watched.batches) - (places[-1].seq if places else 0)
    assert behind < window.bookmark_batches, "whoever resumes from its last token reads this much again"


@pytest.mark.parametrize("ledger", BOOKS)
@given(data=st.data(), steps=STEPS, window=WINDOWS)
@settings(max_examples=150)
def test_all_that_a_subscriber_hears_over_any_interruptions_is_the_filtered_log(
    ledger: str, data: st.DataObject, steps: list[Any], window: SubscriptionLimits
) -> None:
    wanted = st.lists(st.sampled_from(keys_of(ledger)), min_size=1, max_size=3)
    interests = [EVERYTHING, *(filter_for(*data.draw(wanted)) for _ in range(SUBSCRIBERS - 1))]
    run_virtual(play(ledger, interests, steps, window))
