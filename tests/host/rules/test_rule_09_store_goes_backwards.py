"""RULES 9: the store can go backwards, and beside.

Otherwise a store that was restored from a backup is led on from a state that it no longer has, and what was
acknowledged is gone without a word.
"""

from __future__ import annotations

import pytest

from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.host.errors import Diverged, NotLeading, Stopped, StoreWentBackwards, Unavailable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.storage.load import Damaged
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, Rival
from tests.support.hosts.ledger_world import Server, World, as_it_was, in_world, until

PROOF = DEFAULTS.proof_interval


async def a_log(world: World, batches: int = 12) -> tuple[Server, FaultyStore]:
    store = FaultyStore(MemoryStore())
    server = await world.server(store).start().leads()
    for number in range(batches - 1):
        await server.override(f"k{number}")
    assert server.state.info.seq == batches
    return server, store


async def stopped(server: Server) -> BaseException | None:
    await until(lambda: server.ledger.role is Role.STOPPED, server.clock)
    return await server.failure()


def test_a_leader_whose_store_is_five_batches_short_stops_and_names_both_places() -> None:
    async def story(world: World) -> None:
        server, store = await a_log(world)
        await store.go_back(5)
        error = await stopped(server)
        assert isinstance(error, StoreWentBackwards)
        assert "log-eu:12:" in str(error)
        assert "log-eu:7:" in str(error)
        assert "hint:" in str(error)
        assert server.ledger.role is Role.STOPPED
        assert server.ledger.degraded_reason() == str(error)

    in_world(story)


@pytest.mark.parametrize("batches", [1, 5, 11])
def test_a_command_to_a_leader_whose_store_went_back_is_not_acknowledged(batches: int) -> None:
    async def story(world: World) -> None:
        server, store = await a_log(world)
        await store.go_back(batches)
        with pytest.raises(Unavailable):
            await server.override("later")
        assert isinstance(await stopped(server), StoreWentBackwards)
        assert len(store.tried) == 13

    in_world(story)


@pytest.mark.parametrize("finds_out_by", ["touch", "append"])
def test_a_head_beside_what_was_seen_stops_a_leader(finds_out_by: str) -> None:
    async def story(world: World) -> None:
        server, store = await a_log(world)
        await store.go_beside()
        if finds_out_by == "append":
            with pytest.raises(NotLeading):
                await server.override("later")
        assert isinstance(await stopped(server), StoreWentBackwards)

    in_world(story)


@pytest.mark.parametrize("how", ["back", "beside"])
def test_a_follower_stops_too(how: str) -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 12, follower.clock)
        await (way.go_back(5) if how == "back" else way.go_beside())
        assert isinstance(await stopped(follower), StoreWentBackwards)
        assert leader.ledger.role is Role.LEADING

    in_world(story)


def test_a_follower_that_saw_a_head_it_could_not_read_up_to_notices_that_it_is_gone() -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 12, follower.clock)
        way.refuse("read")
        for number in range(6):
            await leader.override(f"more{number}")
        await follower.clock.sleep(3 * PROOF)
        assert follower.state.info.seq == 12
        await way.go_back(5)
        assert isinstance(await stopped(follower), StoreWentBackwards)

    in_world(story)


async def restored_and_written_to(store: MemoryStore, seq: int, batches: int) -> MemoryStore:
    """A copy of the store as it was at a batch, which somebody else then led on."""
    copy = await as_it_was(store, seq)
    rival = Rival(copy)
    for _ in range(batches):
        await rival.stand()
    return copy


@pytest.mark.parametrize("batches", [1, 5, 6, 20])
def test_a_store_that_was_restored_and_written_to_again_is_told_apart_however_far_it_is(batches: int) -> None:
    """Longer than what was seen, it looks like progress: only the chain shows that it is another past."""

    async def story(world: World) -> None:
        leader, store = await a_log(world)
        assert isinstance(store.inner, MemoryStore)
        copy = await restored_and_written_to(store.inner, 7, batches)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 12, follower.clock)
        way.inner = store.inner = copy
        for server in (leader, follower):
            error = await stopped(server)
            assert isinstance(error, StoreWentBackwards), error
            assert "log-eu:12:" in str(error)

    in_world(story)


def test_the_wrong_log_is_not_followed() -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        other = MemoryStore()
        elsewhere = await world.server(other, "s9", start=other_log()).start().leads()
        for number in range(20):
            await elsewhere.override(f"k{number}")
        store.inner = other
        assert isinstance(await stopped(leader), StoreWentBackwards)

    in_world(story)


def other_log() -> object:
    from holdfast.core.ledger.builtin.log import StartLog
    from tests.support.ledgers.region import ROOT

    return StartLog("log-other", "region/eu", ROOT)


@pytest.mark.parametrize("spoil", ["flip_batch", "truncate_batch"])
def test_a_damaged_batch_is_named_and_stops_whoever_must_read_it(spoil: str) -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        way = FaultyStore(store.inner)
        getattr(way, spoil)(9)
        fresh = world.server(way, "s2").start()
        error = await stopped(fresh)
        assert isinstance(error, Damaged)
        assert "batch 9" in str(error)
        assert "hint:" in str(error)
        assert leader.ledger.role is Role.LEADING

    in_world(story)


def test_a_damaged_batch_stops_a_follower_that_reaches_it() -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 12, follower.clock)
        way.flip_batch(13)
        await leader.override("later")
        error = await stopped(follower)
        assert isinstance(error, Damaged)
        assert "batch 13" in str(error)
        assert follower.state.info.seq == 12

    in_world(story)


# Tokens


def test_a_token_of_this_log_is_good_on_every_server() -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        follower = world.server(store.inner, "s2").start()
        await leader.override("later")
        token = (await leader.ledger.read()).token
        view = await follower.ledger.read(ReadLevel.AT_LEAST, token)
        assert view.token.seq >= token.seq

    in_world(story)


@pytest.mark.parametrize("seq", [3, 12, 13, 5_000_000])
@pytest.mark.parametrize("level", [ReadLevel.AT_LEAST, ReadLevel.ANY, ReadLevel.LINEAR])
def test_a_token_of_another_log_is_diverged_at_once_wherever_it_points(seq: int, level: ReadLevel) -> None:
    async def story(world: World) -> None:
        server, _ = await a_log(world)
        asked_at = server.clock.boot()
        with pytest.raises(Diverged, match="list again"):
            await server.ledger.read(level, RevisionToken("log-us", 1, seq, b"12345678"))
        assert server.clock.boot() - asked_at < 100

    in_world(story)


@pytest.mark.parametrize("seq", [1, 7, 12])
def test_a_token_with_another_past_is_diverged(seq: int) -> None:
    async def story(world: World) -> None:
        server, _ = await a_log(world)
        with pytest.raises(Diverged, match="list again"):
            await server.ledger.read(ReadLevel.AT_LEAST, RevisionToken("log-eu", 1, seq, b"12345678"))

    in_world(story)


def test_a_token_from_before_a_restore_is_diverged_even_where_the_new_log_is_longer() -> None:
    async def story(world: World) -> None:
        leader, store = await a_log(world)
        assert isinstance(store.inner, MemoryStore)
        token = (await leader.ledger.read()).token
        await leader.stop()
        copy = await restored_and_written_to(store.inner, 7, 20)
        other = await world.server(copy, "s2").start().leads()
        with pytest.raises(Diverged):
            await other.ledger.read(ReadLevel.AT_LEAST, token)

    in_world(story)


def test_a_server_that_stopped_gives_no_reads_any_more() -> None:
    async def story(world: World) -> None:
        server, store = await a_log(world)
        await store.go_beside()
        assert isinstance(await stopped(server), Stopped)
        for level in ReadLevel:
            with pytest.raises(Unavailable):
                await server.ledger.read(level, timeout_ms=100)

    in_world(story)
