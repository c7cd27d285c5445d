"""Watches: found by key, resumable by token, bounded, and never ahead of what is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.revision import INDEX_MAX, RevisionToken, pack_revision
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region import events as e
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import RegionEvent
from holdfast.host.errors import Diverged, Gone
from holdfast.host.ports.store import StoredBatch, StoreError
from holdfast.host.watch.changes import EVERYTHING, ChangeBatch, ChangeEvent, filter_for
from holdfast.host.watch.hub import WatchHub
from holdfast.host.watch.subscription import Subscription, SubscriptionLimits
from holdfast.sim.world.virtual_loop import run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.watched_log import WatchedLog, events, heard
from tests.support.ledgers.region import RegionBench

#: How a slot comes up, and then goes on for ever.
NEXT = {
    Phase.BOUND: (Phase.STARTING, "started"),
    Phase.STARTING: (Phase.RUNNING, "running"),
    Phase.RUNNING: (Phase.READY, "probe-passed"),
    Phase.READY: (Phase.RUNNING, "probe-lost"),
}


class Region:
    """A region with two nodes, a workload on each, a log in a store, and a hub that has heard all of it."""

    def __init__(self) -> None:
        self.bench = RegionBench(checked=False)
        self.bench.a_scheduler()
        self.nodes = [self.bench.a_node(name) for name in ("n1", "n2")]
        self.bench.a_grant()
        for number, node in enumerate(self.nodes, start=1):
            work = self.bench.a_workload(count=1, uid=100 + number, workload=number)
            self.bench.place(work, c.SlotPlacement(0, node))
        self.log = WatchedLog(REGION, "log-eu")

    async def landed(self) -> WatchedLog:
        """The log, with all that happened so far in its store."""
        for raw, digest in self.bench.log[len(self.log.batches) :]:
            await self.log.append(raw, digest)
        return self.log

    async def hub(self, window: SubscriptionLimits | None = None, log: Any = None) -> WatchHub:
        watched = await self.landed()
        return watched.hub(len(watched.batches), window, log)

    async def step(self, hub: WatchHub, number: int, target: Phase = Phase.STARTING, cause: str = "started") -> None:
        """The agent of a node moves the slot there, and that is published."""
        assert isinstance(self.bench.move(f"agent/n{number}", target, cause, 0, number), Committed)
        (await self.landed()).publish(hub)

    async def back_and_forth(self, hub: WatchHub, number: int, times: int) -> None:
        """So many batches about one node."""
        for _ in range(times):
            await self.step(hub, number, *NEXT[self.bench.slot(0, number).phase])


def told(story: Callable[[Region], Awaitable[None]]) -> None:
    """Run a story about a region in virtual time."""

    async def run() -> None:
        await story(Region())

    run_virtual(run())


def node(region: Region, number: int) -> WatchKey:
    return ("node", region.nodes[number - 1])


def seqs(found: list[Any]) -> list[int]:
    return [changes.token.seq for changes in found]


# Who hears what


def test_a_subscriber_hears_of_its_own_keys_and_of_nothing_else() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(filter_for(node(region, 1)))
        await region.step(hub, 1)
        await region.step(hub, 2)
        await region.step(hub, 1, Phase.RUNNING, "running")
        moves = events(await heard(mine))
        assert [move.phase for event in moves for move in event.moves] == [Phase.STARTING, Phase.RUNNING]
        assert {move.node for event in moves for move in event.moves} == {region.nodes[0]}

    told(story)


def test_an_event_that_touches_several_of_a_subscribers_keys_is_heard_once() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(filter_for(node(region, 1), ("workload", 1), "node", "workload"))
        await region.step(hub, 1)
        assert len(events(await heard(mine))) == 1

    told(story)


def test_a_whole_kind_is_heard_of_for_objects_that_do_not_exist_yet() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(filter_for("node"))
        new = region.bench.a_node("n3")
        (await region.landed()).publish(hub)
        stored = [event.node.uid for event in events(await heard(mine)) if isinstance(event, e.NodeStored)]
        assert stored == [new]

    told(story)


def test_a_change_says_where_when_who_and_why() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(EVERYTHING)
        await region.step(hub, 1)
        (changes,) = await heard(mine)
        (change,) = changes.changes
        assert (change.revision, change.at) == (pack_revision(changes.token.seq), region.bench.at)
        assert (change.actor, change.command, change.cause) == ("agent/n1", "move", 0)
        decoded = msgspec.msgpack.decode(change.raw, type=tuple[int, int, str, str, int, RegionEvent])
        assert decoded == (change.revision, change.at, "agent/n1", "move", 0, change.event)

    told(story)


def test_an_event_is_encoded_once_for_all_who_hear_of_it() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        many = [await hub.subscribe(filter_for(node(region, 1))) for _ in range(10)]
        await region.step(hub, 1)
        raws = [changes.changes[0].raw for one in many for changes in await heard(one)]
        assert len(raws) == 10
        assert all(raw is raws[0] for raw in raws)

    told(story)


def test_whoever_is_not_concerned_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[Subscription] = []
    offer = Subscription.offer

    def spy(self: Subscription, changes: ChangeBatch, before: RevisionToken) -> None:
        offered.append(self)
        offer(self, changes, before)

    monkeypatch.setattr(Subscription, "offer", spy)

    async def story(region: Region) -> None:
        hub = await region.hub()
        for uid in range(1_000):
            await hub.subscribe(filter_for(("node", uid)))
        mine = await hub.subscribe(filter_for(node(region, 1)))
        await region.step(hub, 1)
        assert offered == [mine]

    told(story)


def test_publishing_to_nobody_does_not_even_ask_what_was_touched() -> None:
    async def story(region: Region) -> None:
        watched = await region.landed()
        deaf = WatchHub(replace(REGION, keys={}), watched.store, watched.token(0))
        watched.publish(deaf)
        assert deaf.head == watched.token(len(watched.batches))
        assert deaf.metrics.counted("watch_published") > 0

    told(story)


def test_a_closed_subscription_ends_and_leaves_nothing_behind() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        with await hub.subscribe(filter_for(node(region, 1), "workload")) as mine:
            assert hub.metrics.gauged("watch_subscribers") == 1
            waiting = asyncio.create_task(heard(mine))
            await asyncio.sleep(0)
        assert await waiting == []
        assert hub.metrics.gauged("watch_subscribers") == 0
        hub.definition = replace(REGION, keys={})
        await region.step(hub, 1)

    told(story)


def test_closing_the_hub_ends_everybody() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        live, behind = await hub.subscribe(EVERYTHING), await hub.subscribe(EVERYTHING, region.log.token(3))
        touches = hub.touched()
        hub.close()
        assert [one async for one in live] == [one async for one in behind] == []
        assert [one async for one in touches] == []

    told(story)


def test_a_kind_that_the_ledger_does_not_have_is_our_own_mistake() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        with pytest.raises(AssertionError, match="pod"):
            await hub.subscribe(filter_for(("pod", 1)))
        with pytest.raises(AssertionError, match="pod"):
            hub.touched(["pod"])

    told(story)


# Resuming


def test_a_token_resumes_behind_it_and_goes_over_into_what_happens_now() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        everything = await hub.subscribe(EVERYTHING, region.log.token(0))
        mine = await hub.subscribe(EVERYTHING, region.log.token(5))
        before = await heard(mine)
        assert mine.is_live
        await region.step(hub, 1)
        found = [*before, *await heard(mine)]
        assert seqs(found) == list(range(6, hub.head.seq + 1))
        assert seqs(await heard(everything)) == list(range(1, hub.head.seq + 1))

    told(story)


def test_without_a_token_a_subscription_begins_now() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(EVERYTHING)
        assert mine.token == hub.head
        await region.step(hub, 1)
        assert seqs(await heard(mine)) == [hub.head.seq]

    told(story)


WRONG: dict[str, Callable[[RevisionToken], RevisionToken]] = {
    "another log": lambda here: replace(here, log_id="log-restored"),
    "another digest": lambda here: replace(here, digest_start=b"otherwise"[:8]),
    "another term": lambda here: replace(here, term=here.term + 1),
    "beyond the head": lambda here: replace(here, seq=here.seq + 1_000),
    "another log's beginning": lambda here: RevisionToken("log-restored", 0, 0, b""),
    "a part of the digest": lambda here: replace(here, digest_start=here.digest_start[:4]),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", ["head", "middle"])
def test_a_token_that_is_not_in_this_log_has_diverged(wrong: str, place: str) -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        here = hub.head if place == "head" else region.log.token(4)
        with pytest.raises(Diverged, match="list again"):
            await hub.subscribe(EVERYTHING, WRONG[wrong](here))
        assert hub.metrics.gauged("watch_subscribers") == 0

    told(story)


def test_a_token_behind_the_trim_floor_is_gone() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        await region.log.store.trim("log-eu", 5)
        with pytest.raises(Gone, match="list again"):
            await hub.subscribe(EVERYTHING, region.log.token(5))
        mine = await hub.subscribe(EVERYTHING, region.log.token(6))
        assert seqs(await heard(mine))[0] == 7

    told(story)


def test_a_subscriber_that_is_behind_when_the_log_is_trimmed_past_it_is_told() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(read_bytes=1))
        mine = await hub.subscribe(EVERYTHING, region.log.token(2))
        assert (await anext(mine)).token.seq == 3
        await region.log.store.trim("log-eu", 8)
        with pytest.raises(Gone):
            await heard(mine)
        assert mine.token.seq == 3

    told(story)


def test_what_is_in_the_store_and_not_yet_published_is_not_heard_of() -> None:
    """The leader has appended and does not know yet that it landed: nobody may act on it before it is state."""

    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(EVERYTHING, region.log.token(2))
        region.bench.a_node("n3")
        watched = await region.landed()
        published = hub.head.seq
        assert seqs(await heard(mine)) == list(range(3, published + 1))
        watched.publish(hub)
        assert seqs(await heard(mine)) == list(range(published + 1, len(watched.batches) + 1))

    told(story)


class Flaky(MemoryStore):
    """Fails every other read."""

    def __init__(self, real: MemoryStore) -> None:
        super().__init__()
        self._real = real
        self.reads: list[int] = []

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        self.reads.append(first)
        if len(self.reads) % 2 == 0:
            raise StoreError("the disk is slow today")
        return await self._real.read(first, size_bytes)


def test_a_store_that_cannot_be_read_now_loses_nothing() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(read_bytes=1), Flaky(region.log.store))
        mine = await hub.subscribe(EVERYTHING, region.log.token(1))
        found: list[Any] = []
        while not mine.is_live:
            try:
                found.append(await anext(mine))
            except StoreError:
                continue
            if mine.token == hub.head:
                break
        assert seqs(found) == list(range(2, hub.head.seq + 1))

    told(story)


# Bookmarks


def test_whoever_hears_of_nothing_gets_bookmarks_and_reads_little_when_resuming() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(bookmark_batches=8))
        start = hub.head.seq
        mine = await hub.subscribe(filter_for(node(region, 2)))
        for _ in range(5):
            await region.back_and_forth(hub, 1, 8)
            (bookmark,) = await heard(mine)
            assert bookmark.changes == ()
            assert hub.head.seq - 8 < bookmark.token.seq <= hub.head.seq
        assert mine.token.seq > start + 32
        store = Flaky(region.log.store)
        again = await (await region.hub(log=store)).subscribe(filter_for(node(region, 2)), mine.token)
        assert min(store.reads, default=mine.token.seq) == mine.token.seq
        assert events(await heard(again)) == []

    told(story)


def test_a_long_reading_of_the_log_gives_bookmarks_too_and_one_when_the_head_is_reached() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(bookmark_batches=4))
        await region.back_and_forth(hub, 1, 8)
        mine = await hub.subscribe(filter_for(("node", 1)), region.log.token(0))
        found = await heard(mine)
        assert events(found) == []
        assert seqs(found) == [*range(4, hub.head.seq, 4), hub.head.seq]

    told(story)


# Slow subscribers


@pytest.mark.parametrize("window", [SubscriptionLimits(waiting_batches=3), SubscriptionLimits(waiting_bytes=120)])
def test_a_slow_subscriber_is_bounded_and_misses_nothing(window: SubscriptionLimits) -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(window)
        start = hub.head.seq
        slow, quick = await hub.subscribe(filter_for(node(region, 1))), await hub.subscribe(filter_for(node(region, 1)))
        found = []
        for _ in range(20):
            await region.back_and_forth(hub, 1, 1)
            found += await heard(quick)
        assert not slow.is_live
        assert len(slow._waiting) <= 3
        assert hub.metrics.counted("watch_overflowed") == 1
        assert seqs(await heard(slow)) == seqs(found) == list(range(start + 1, hub.head.seq + 1))
        assert slow.is_live

    told(story)


def test_one_batch_is_taken_however_large_it_is() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(waiting_bytes=1))
        mine = await hub.subscribe(EVERYTHING)
        for _ in range(3):
            await region.back_and_forth(hub, 1, 1)
            assert len(await heard(mine)) == 1
        assert hub.metrics.counted("watch_overflowed") == 0

    told(story)


def test_what_nobody_waits_behind_is_never_encoded_for_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChangeEvent, "raw", property(lambda self: pytest.fail("it was encoded")))

    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(EVERYTHING)
        await region.step(hub, 1)
        assert len(events(await heard(mine))) == 1

    told(story)


# A state that was loaded anew


def test_after_a_reset_subscribers_read_what_was_not_published_and_touches_end() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        start = hub.head.seq
        mine, touches = await hub.subscribe(EVERYTHING), hub.touched()
        region.bench.a_node("n3")
        region.bench.a_node("n4")
        watched = await region.landed()
        hub.reset(watched.token(len(watched.batches)))
        assert [one async for one in touches] == []
        assert seqs(await heard(mine)) == list(range(start + 1, len(watched.batches) + 1))
        await region.step(hub, 1)
        assert seqs(await heard(mine)) == [hub.head.seq]

    told(story)


def test_after_a_reset_to_another_log_subscribers_have_diverged() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        mine = await hub.subscribe(EVERYTHING)
        hub.reset(RevisionToken("log-restored", 9, hub.head.seq + 5, b"restored"))
        with pytest.raises(Diverged):
            await heard(mine)

    told(story)


def test_a_gap_between_batches_is_our_own_mistake() -> None:
    async def story(region: Region) -> None:
        watched = await region.landed()
        hub = watched.hub(3)
        with pytest.raises(AssertionError, match="reset"):
            hub.publish(watched.batches[5])

    told(story)


# Touches


def test_touches_name_each_object_once_the_first_touched_first() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        touches = hub.touched(["node"])
        for number, target, cause in (
            (2, "starting", "started"),
            (1, "starting", "started"),
            (2, "running", "running"),
        ):
            await region.step(hub, number, Phase(target), cause)
        told = await anext(touches)
        assert told.keys == (node(region, 2), node(region, 1))
        assert told.revision == pack_revision(hub.head.seq, INDEX_MAX)

    told(story)


def test_touches_tell_of_every_batch_even_if_it_touched_nothing_of_interest() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()
        touches = hub.touched(["template"])
        await region.step(hub, 1)
        told = await anext(touches)
        assert (told.keys, told.revision) == ((), pack_revision(hub.head.seq, INDEX_MAX))
        waiting = asyncio.ensure_future(anext(touches))
        await asyncio.sleep(0)
        assert not waiting.done()
        await region.step(hub, 2)
        assert (await waiting).revision == pack_revision(hub.head.seq, INDEX_MAX)

    told(story)


def test_touches_with_too_many_keys_end_rather_than_grow() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub(SubscriptionLimits(touched_keys=2))
        touches = hub.touched()
        await region.step(hub, 1)
        assert len((await anext(touches)).keys) == 2
        await region.step(hub, 1, Phase.RUNNING, "running")
        await region.step(hub, 2)
        assert [one async for one in touches] == []
        assert hub.metrics.counted("watch_touches_left_out") == 1

    told(story)


def test_touches_that_nobody_holds_any_more_cost_nothing() -> None:
    async def story(region: Region) -> None:
        hub = await region.hub()

        async def controller() -> None:
            async for _ in hub.touched():
                pass

        task = asyncio.create_task(controller())
        await region.step(hub, 1)
        task.cancel()
        await asyncio.wait({task})
        del task
        hub.definition = replace(REGION, keys={})
        await region.step(hub, 2)

    told(story)


def test_readers_that_lag_hold_no_more_of_the_log_together_than_their_bound_and_give_it_back() -> None:
    async def story(region: Region) -> None:
        watched = await region.landed()
        batch = max(len(raw) for raw, _ in region.bench.log)
        hub = await region.hub(SubscriptionLimits(read_bytes=1 << 20, ahead_bytes=4 * batch))
        lagging = [await hub.subscribe(EVERYTHING, watched.token(1)) for _ in range(20)]
        for one in lagging:
            await anext(one)
        # Who came first reads ahead; of the others each has no more than what it was handed.
        assert 0 < hub.ahead.held_bytes <= 5 * batch
        for one in lagging:
            one.close()
        assert hub.ahead.held_bytes == 0

    told(story)


def test_a_reader_that_lags_hears_the_same_with_little_room_as_with_much() -> None:
    async def story(region: Region) -> None:
        watched = await region.landed()
        found = []
        for ahead in (1, 64 << 20):
            hub = await region.hub(SubscriptionLimits(ahead_bytes=ahead))
            with await hub.subscribe(EVERYTHING, watched.token(1)) as subscription:
                found.append([change.revision for one in await heard(subscription) for change in one.changes])
            assert hub.ahead.held_bytes == 0
        assert found[0] == found[1] != []

    told(story)
