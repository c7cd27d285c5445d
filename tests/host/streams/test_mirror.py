"""A mirror holds the very same state as the leader, knows how old it is, and begins anew where it must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.region import commands as c
from holdfast.core.region.watch import NODE
from holdfast.host.ports.store import StoredBatch
from holdfast.host.ports.transport import first_value
from holdfast.host.protocol.log_stream import SINCE, LogBatch, LogHeartbeat, read_message
from holdfast.host.storage import digests
from holdfast.host.streams.log_server import HEARTBEAT_MS
from holdfast.host.watch.changes import ChangedKeys
from holdfast.sim.world.virtual_loop import VirtualClock
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.hosts.mirror_world import (
    MirrorWorld,
    a_node,
    a_region,
    keep_nodes,
    replaced_by_one_whose_time_is_lower,
    want,
)

Story = Callable[[World, Part, MirrorWorld], Coroutine[None, None, None]]


def told(story: Story) -> None:
    """A story of a region and of somebody who follows it."""

    async def main(world: World) -> None:
        region = await a_region(world)
        far = MirrorWorld(world, "far", (region.name,))
        try:
            await story(world, region, far)
        finally:
            await far.end()

    in_world(main)


async def trimmed(region: Part) -> None:
    """Two snapshots, and the log behind the older one gone."""
    while not region.is_known():  # nothing is logged from here on but what is wanted
        await region.ledger.clock.sleep(10)
    for number in (10, 11):
        await region.ledger.snapshots.take()
        await want(region, range(number, number + 1))
    head = await region.ledger.store.head()
    await region.ledger.store.trim(head.log_id, head.seq - 1)


def never_whole(message: bytes) -> list[bytes]:
    """All but what says that there is nothing more."""
    found = read_message(message)
    return [] if isinstance(found, LogHeartbeat) or (isinstance(found, LogBatch) and found.complete) else [message]


def test_it_has_the_very_same_state_as_the_leader_batch_after_batch() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        await want(region, range(4, 8))
        await far.has_all_of(region)
        assert state_digest(far.mirror.state) == state_digest(region.state)
        assert far.mirror.shown.times == 1

    told(story)


def test_it_begins_with_a_snapshot_where_there_is_one_and_goes_on_with_the_batches_after_it() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await trimmed(region)
        far.follow()
        await far.has_all_of(region)
        assert state_digest(far.mirror.state) == state_digest(region.state)

    told(story)


def test_a_damaged_snapshot_is_passed_over_for_the_one_before() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await region.ledger.snapshots.take()
        await want(region, range(10, 12))
        manifest = await region.ledger.snapshots.take()
        await region.ledger.store.put_chunk(manifest.seq, manifest.parts[-1].name, b"rubbish")
        far.follow()
        await far.has_all_of(region)
        assert state_digest(far.mirror.state) == state_digest(region.state)

    told(story)


def test_a_stream_that_broke_goes_on_from_where_it_was() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        far.line.is_cut = True
        await want(region, range(4, 6))
        await world.clock.sleep(5_000)
        assert far.mirror.state.info.seq < region.state.info.seq
        far.line.is_cut = False
        await far.has_all_of(region)
        assert far.mirror.shown.times == 1
        assert region.ledger.metrics.counted("mirror_loads") == 1
        assert first_value(far.streams()[-1].query, SINCE).startswith("log-eu:1:")

    told(story)


def test_behind_a_trimmed_log_it_is_loaded_anew_and_who_listens_is_told() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        before, changes = far.mirror.state, far.mirror.changes([NODE])
        far.line.is_cut = True
        await want(region, range(4, 6))
        await trimmed(region)
        await world.clock.sleep(5_000)
        far.line.is_cut = False
        await world.until(lambda: far.mirror.shown.times == 2)
        await far.has_all_of(region)
        assert far.mirror.state is not before
        assert state_digest(far.mirror.state) == state_digest(region.state)
        with pytest.raises(StopAsyncIteration):
            await anext(aiter(changes))

    told(story)


def test_what_is_loaded_anew_is_not_shown_before_it_is_whole() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        before = far.mirror.state
        far.line.is_cut = True
        await want(region, range(4, 6))
        await trimmed(region)
        for number in range(20, 25):
            await want(region, range(number, number + 1))
        far.line.is_cut, far.line.fate = False, never_whole
        await world.clock.sleep(3_000)
        assert far.mirror.state is before
        far.line.fate = lambda message: [message]
        await world.until(lambda: far.mirror.shown.times == 2)
        await far.has_all_of(region)

    told(story)


@pytest.mark.parametrize("other", ["us", "eu"])
def test_another_log_or_one_that_went_backwards_takes_the_place_of_the_one_before(other: str) -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        await region.stop()
        after = await world.region(other, name=region.name)
        await world.until(lambda: far.mirror.shown.times == 2)
        await far.has_all_of(after)
        assert far.mirror.state.info.log_id == f"log-{other}"
        assert state_digest(far.mirror.state) == state_digest(after.state)
        assert far.metrics.counted("mirror_breaks", why="diverged") == 1

    told(story)


async def write(world: World, region: Part, batches: int) -> None:
    """So many batches, slowly: digests are taken and recorded between them."""
    for _ in range(batches):
        await want(region, range(100 + region.state.info.seq, 101 + region.state.info.seq))
        await world.clock.sleep(1_000)


def test_its_state_is_compared_with_the_digests_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "EVERY_BATCHES", 5)

    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        await write(world, region, 12)
        assert far.metrics.counted("state_digests_compared") >= 2
        assert (far.metrics.counted("mirror_differed"), far.mirror.shown.times) == (0, 1)

    told(story)


def test_a_state_that_differs_is_shown_no_more_and_is_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "EVERY_BATCHES", 5)

    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        far.mirror.state.pool_costs.put("never-heard-of", 7)
        wrong, changes = far.mirror.state, far.mirror.changes([NODE])
        over = asyncio.create_task(far.mirror.shown.over(1))
        said: list[str] = []

        def nothing_new(message: bytes) -> list[bytes]:
            if not far.metrics.counted("mirror_differed"):
                return [message]
            said.append(far.mirror.last_error)
            return []

        far.line.fate = nothing_new
        await write(world, region, 8)
        assert far.metrics.counted("mirror_differed") == 1
        assert "the state here has digest" in said[0]
        await over
        assert far.mirror.state is not wrong
        assert far.mirror.state.info.seq == 0, "nothing is shown, rather than what is wrong"
        with pytest.raises(StopAsyncIteration):
            await anext(aiter(changes))
        far.line.fate = lambda message: [message]
        await far.has_all_of(region)
        assert state_digest(far.mirror.state) == state_digest(region.state)
        assert (far.metrics.counted("mirror_differed"), far.mirror.shown.times) == (1, 2)
        assert SINCE not in dict(far.streams()[-1].query)
        await write(world, region, 12)
        assert (far.metrics.counted("mirror_differed"), far.mirror.last_error) == (1, "")

    told(story)


def test_age_is_counted_from_the_last_word_and_grows_while_nothing_is_heard() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await far.voice.open()
        far.follow()
        await far.has_all_of(region)
        await world.clock.sleep(3_000)
        assert far.mirror.age_ms() <= HEARTBEAT_MS + 20, "beats come while nothing changes"
        leader = region.ledger.leader
        assert leader is not None
        assert abs(far.mirror.now() - leader.term.now()) <= 20
        far.line.is_cut = True
        before = far.mirror.age_ms()
        await world.clock.sleep(3_000)
        assert 3_000 <= far.mirror.age_ms() - before <= 3_010 + HEARTBEAT_MS
        far.line.is_cut = False
        await world.clock.sleep(5_000)
        assert far.mirror.age_ms() <= HEARTBEAT_MS + 20

    told(story)


def test_its_time_is_that_of_the_leader_of_the_newest_term_also_backwards() -> None:
    """And so is its age: what the last leader told of its own later time is not known of this one's."""

    async def main(world: World) -> None:
        assert isinstance(world.clock, VirtualClock)
        world.clock.wrong_by = 100_000
        region = await a_region(world)
        far = MirrorWorld(world, "far", (region.name,)).follow()
        await far.voice.open()
        alive = [asyncio.create_task(one) for one in (keep_nodes(world, region), far.voice.keep_alive())]
        again = await replaced_by_one_whose_time_is_lower(world, region)
        before, leader = far.mirror.now(), again.ledger.leader
        assert leader is not None
        await far.has_all_of(again)
        assert before - leader.term.now() > 30_000
        assert abs(far.mirror.now() - leader.term.now()) <= 20
        far.line.is_cut = True
        await world.clock.sleep(3_000)
        assert 3_000 <= far.mirror.age_ms() <= 3_020 + HEARTBEAT_MS
        for task in alive:
            task.cancel()
        await far.end()

    in_world(main)


def test_what_each_batch_touched_is_told() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        changes = far.mirror.changes([NODE])
        await a_node(region, "late")
        await far.has_all_of(region)
        uid = region.state.node_names["late"]
        assert await anext(aiter(changes)) == ChangedKeys(pack_revision(region.state.info.seq + 1) - 1, ((NODE, uid),))

    told(story)


def test_who_waits_for_a_revision_waits_until_it_is_there() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        wanted = region.state.info.seq + 20
        waiting = asyncio.create_task(far.mirror.reach(pack_revision(wanted)))
        await world.clock.sleep(70_000)
        assert not waiting.done()
        for number in range(4, 24):
            await want(region, range(number, number + 1))
        await waiting
        assert far.mirror.state.info.seq >= wanted

    told(story)


def test_nothing_beyond_the_durable_state_is_told() -> None:
    """A batch may lie in the store before its leader knows that it landed."""

    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        read = region.ledger.store.read

        async def more(first: int, size_bytes: int = 1 << 20) -> list[StoredBatch]:
            found = await read(first, size_bytes)
            return [*found, StoredBatch("log-eu", found[-1].seq + 1, b"", b"not landed yet")]

        region.ledger.store.read = more  # type: ignore[method-assign]
        await want(region, range(4, 5))
        await far.has_all_of(region)
        await world.clock.sleep(1_000)
        assert far.metrics.counted("mirror_breaks", why="diverged") == 0
        assert far.mirror.shown.times == 1

    told(story)


@pytest.mark.parametrize("token", ["agents", "operator"])
def test_the_log_is_told_to_schedulers_only(token: str) -> None:
    async def story(world: World) -> None:
        region = await world.region()
        answer = await world.ask("GET", "/v1/log", to=region.name, token=token, holdfast_actor="agent/n1")
        assert (answer.status, answer.json["code"]) == (403, "no-right")

    in_world(story)


def test_a_stream_ends_when_its_token_is_revoked() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        far.follow()
        await far.has_all_of(region)
        await region.submit(
            "controller/link", c.Ship("log-platform", 1, 2, 3, gone=(c.RemovedObject("token", "schedulers"),))
        )
        await world.clock.sleep(3_000)
        assert far.mirror.state.info.seq < region.state.info.seq
        assert "unauthenticated" in far.mirror.last_error

    told(story)
