"""RULES 16: the log evolves in the open, as a host sees it: levels, old readers, state digests.

Otherwise an old server guesses what a new record means, or two servers disagree and nobody notices. That a command
whose `evolve` fails is set aside before anything is appended is in `test_rule_11_lanes`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.builtin.log import RaiseLevel, StateDigested, TermStarted
from holdfast.core.ledger.codec import UpgradeNeeded, chain
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.host.errors import StateDiffers, Unavailable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import StoredBatch, WriteOk
from holdfast.host.storage import digests
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, batches_in, in_world, until
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease


async def write_raw(store: MemoryStore, change: Any) -> None:
    """A batch as a newer version would write it: an intact one, with something in it changed."""
    head = await store.head()
    (stored,) = await store.read(head.seq, 1)
    frame = msgspec.msgpack.decode(stored.raw)
    frame[0][1], frame[0][4] = head.seq + 1, head.digest
    change(frame)
    raw = msgspec.msgpack.encode(frame)
    outcome = await store.append(head, StoredBatch(head.log_id, head.seq + 1, chain(head.digest, raw), raw))
    assert isinstance(outcome, WriteOk)


def higher_level(frame: Any) -> None:
    frame[0][3] = LEVEL + 1


def unknown_event(frame: Any) -> None:
    frame[1][0][-1] = [["a-new-event", 1]]


def unknown_field(frame: Any) -> None:
    frame[1][0][-1][0].append("a new field")


def unknown_frame(frame: Any) -> None:
    frame.append([])


NEWER = [higher_level, unknown_event, unknown_field, unknown_frame]


async def stopped(server: Server) -> BaseException | None:
    await until(lambda: server.ledger.role is Role.STOPPED, server.clock)
    return await server.failure()


@pytest.mark.parametrize("newer", NEWER)
def test_a_server_that_cannot_read_a_batch_stops_and_does_not_stand(newer: Any) -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store, "s1").start().leads()
        await first.override("a")
        follower = world.server(store, "s2").start()
        await until(lambda: follower.state.info.seq == 2, follower.clock)
        await first.stop()
        await write_raw(store, newer)
        late = world.server(store, "s3").start()
        for server in (follower, late):
            error = await stopped(server)
            assert isinstance(error, UpgradeNeeded), error
            assert "hint:" in str(error)
            with pytest.raises(Unavailable):
                await server.override("b")
        await first.clock.sleep(10 * LEASE)
        assert (await store.head()).seq == 3

    in_world(story)


@pytest.mark.parametrize("newer", NEWER)
def test_a_leader_that_is_deposed_by_a_newer_version_stops_too(newer: Any) -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store, "s1").start().leads()
        await server.override("a")
        await write_raw(store, newer)
        with pytest.raises(Unavailable):
            await server.override("b")
        assert isinstance(await stopped(server), UpgradeNeeded)
        assert (await store.head()).seq == 3

    in_world(story)


def test_each_term_says_which_level_its_leader_writes() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        for number in range(3):
            server = await world.server(store, f"s{number}").start().leads()
            await server.stop()
        terms = [
            (event.term, event.level, batch.header.level)
            for batch in await batches_in(store)
            for record in batch.records
            for event in record.events
            if isinstance(event, TermStarted)
        ]
        assert terms == [(1, LEVEL, LEVEL), (2, LEVEL, LEVEL), (3, LEVEL, LEVEL)]

    in_world(story)


def levels_written(batches: list[Any]) -> list[int]:
    return [batch.header.level for batch in batches]


@pytest.mark.usefixtures("often")
def test_a_server_one_level_behind_follows_and_agrees_until_the_level_is_raised() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store, "s1", level=LEVEL - 1).start().leads()
        await grow(first, 3)
        await first.stop()
        leader = await world.server(store, "s3").start().leads()
        behind = world.server(store, "s2", level=LEVEL - 1).start()
        await grow(leader, 12)
        await until(lambda: behind.state.info.seq == leader.state.info.seq, behind.clock)
        assert set(levels_written(await batches_in(store))) == {LEVEL - 1}  # a person raises it where several follow
        assert behind.ledger.metrics.counted("state_digests_compared") >= 1
        assert behind.ledger.role is Role.FOLLOWING
        await leader.accept(ROOT, RaiseLevel(LEVEL), key="raise")
        assert isinstance(await stopped(behind), UpgradeNeeded)
        await leader.override("after")
        late = world.server(store, "s4", level=LEVEL - 1).start()
        assert isinstance(await stopped(late), UpgradeNeeded)
        newer = world.server(store, "s5").start()
        await until(lambda: newer.state.info.seq == leader.state.info.seq, newer.clock)
        assert newer.state.info.level == LEVEL

    in_world(story)


def test_a_server_that_is_alone_with_its_store_raises_the_level_when_it_stands() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        store.shared = False
        old = await world.server(store, "s1", level=LEVEL - 1).start().leads()
        await old.override("a")
        await old.stop()
        new = await world.server(store, "s1").start().leads()
        await new.override("b")
        await new.stop()
        again = await world.server(store, "s1").start().leads()
        assert again.state.info.level == LEVEL
        assert levels_written(await batches_in(store)) == [LEVEL - 1, LEVEL - 1, LEVEL, LEVEL, LEVEL]
        assert isinstance(await stopped(world.server(store, "s1", level=LEVEL - 1).start()), UpgradeNeeded)

    in_world(story)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digest every fifth batch instead of every thousandth."""
    monkeypatch.setattr(digests, "EVERY_BATCHES", 5)


async def grow(server: Server, batches: int, name: str = "k") -> None:
    for number in range(batches):
        await server.override(f"{name}{number}")
        await server.clock.sleep(100)


@pytest.mark.usefixtures("often")
def test_the_log_carries_digests_of_the_state_and_whoever_follows_compares() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store, "s1").start().leads()
        follower = world.server(store, "s2").start()
        await grow(leader, 30)
        await leader.clock.sleep(LEASE)
        recorded = [
            event.seq
            for batch in await batches_in(store)
            for record in batch.records
            for event in record.events
            if isinstance(event, StateDigested)
        ]
        assert recorded
        assert all(seq % 5 == 0 for seq in recorded)
        assert recorded == sorted(set(recorded))
        assert leader.ledger.metrics.counted("state_digests_compared") >= len(recorded) - 1
        assert follower.ledger.metrics.counted("state_digests_compared") >= len(recorded) - 1
        assert follower.ledger.role is Role.FOLLOWING

    in_world(story)


def corrupt_memory(server: Server) -> None:
    """A row of this server's state is not what the log says: a bug, or a bit that fell over."""
    uid, override = next(iter(server.state.overrides.unordered()))
    server.state.overrides.put(uid, msgspec.structs.replace(override, reason="something else"))


@pytest.mark.usefixtures("often")
def test_a_follower_whose_state_differs_stops_and_gives_no_reads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store, "s1").start().leads()
        follower = world.server(store, "s2").start()
        await grow(leader, 3)
        await until(lambda: follower.state.info.seq == leader.state.info.seq, follower.clock)
        corrupt_memory(follower)
        await grow(leader, 10, "more")
        error = await stopped(follower)
        assert isinstance(error, StateDiffers)
        assert "hint:" in str(error)
        assert leader.ledger.role is Role.LEADING
        for level in (ReadLevel.ANY, ReadLevel.LINEAR):
            with pytest.raises(Unavailable):
                await follower.ledger.read(level, timeout_ms=100)

    in_world(story)


@pytest.mark.usefixtures("often")
def test_a_server_whose_state_differs_does_not_go_on_to_lead() -> None:
    """It finds out while it leads: what the leader before it recorded is in the log."""

    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store, "s1").start().leads()
        second = world.server(store, "s2").start()
        await grow(first, 3)
        await until(lambda: second.state.info.seq == first.state.info.seq, second.clock)
        corrupt_memory(second)
        await grow(first, 1, "more")
        await first.stop()
        assert isinstance(await stopped(second), StateDiffers)
        third = await world.server(store, "s3").start().leads()
        assert third.state.info.seq > 0

    in_world(story)


def test_evolve_of_a_follower_that_fails_stops_it_instead_of_skipping_the_batch() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        leader = await world.server(store, "s1").start().leads()
        follower = world.server(store.inner, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)

        def broken(batch: Any) -> None:
            raise AssertionError("our own mistake")

        follower.ledger.durable.apply = broken  # type: ignore[method-assign,assignment]
        await leader.override("a")
        await asyncio.sleep(2)
        assert follower._task is not None
        assert follower._task.done()
        assert follower.ledger.role is Role.STOPPED
        assert follower.ledger.degraded_reason() != ""

    in_world(story)
