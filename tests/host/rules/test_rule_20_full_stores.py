"""RULES 20: snapshots, trim, full stores, as a host lives with them.

Otherwise a full disk stops the server, a snapshot that nobody could read is trimmed behind, or one damaged file costs
the ledger.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.snapshot import decode_manifest
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.commands import Stop
from holdfast.core.region.definition import RULES
from holdfast.host.errors import ReadOnly
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import WriteUnknown
from holdfast.host.storage.load import Damaged
from holdfast.host.storage.snapshots import SNAPSHOTS_KEPT, SnapshotPolicy
from holdfast.host.storage.space import SpaceLevel
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, batches_in, in_world, keys_in, until
from tests.support.ledgers.region import REPLICA

LEASE = DEFAULTS.session_lease
#: A snapshot every ten batches, and no history beyond what safety needs.
OFTEN = SnapshotPolicy(log_batches=10, retention_ms=0)
SELDOM = SnapshotPolicy(log_batches=10**9)


async def a_leader(world: World, policy: SnapshotPolicy = SELDOM) -> tuple[Server, FaultyStore]:
    store = FaultyStore(MemoryStore())
    return await world.server(store, policy=policy).start().leads(), store


def fill_of(server: Server) -> SpaceLevel:
    leader = server.ledger.leader
    assert leader is not None
    return leader.term.space.fill


# Full


def test_a_full_store_means_read_only_with_a_word_and_it_goes_on_by_itself() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.override("a")
        store.is_full = True
        digest = state_digest(server.state)
        for number in range(5):
            with pytest.raises(ReadOnly, match=r"full.*hint:"):
                await server.override(f"full{number}")
            await server.clock.sleep(700)
        assert "is full" in server.ledger.degraded_reason()
        assert state_digest(server.state) == digest
        assert len((await server.ledger.read(ReadLevel.LINEAR)).state.overrides) == 1
        assert server.ledger.role is Role.LEADING
        await server.clock.sleep(3 * LEASE)
        assert server.ledger.role is Role.LEADING
        store.is_full = False
        await server.clock.sleep(2_000)
        assert isinstance(await server.override("b"), Committed)
        assert server.ledger.degraded_reason() == ""
        assert len(await keys_in(store.inner)) == 2

    in_world(story)


def test_a_store_that_takes_a_batch_again_is_full_no_more_though_little_room_is_left() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.is_full, store.used_share = True, 0.9
        with pytest.raises(ReadOnly):
            await server.override("a")
        store.is_full = False
        await server.clock.sleep(2_000)
        assert fill_of(server) is SpaceLevel.FULL
        assert isinstance(await server.override("b"), Committed)
        await server.clock.sleep(6_000)
        assert fill_of(server) is SpaceLevel.HARD

    in_world(story)


def test_a_store_that_is_really_full_takes_commands_again_when_there_is_room() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore(limit_bytes=40_000)
        server = await world.server(inner, policy=SELDOM).start().leads()
        landed, number = 0, 0
        while True:
            number += 1
            try:
                await server.override(f"k{number}", evidence=b"e" * 1_000)
                landed += 1
            except ReadOnly:
                break
        assert landed > 10
        inner.limit_bytes = 1 << 30
        await until(lambda: fill_of(server) is SpaceLevel.OPEN, server.clock)
        assert isinstance(await server.override("later"), Committed)
        assert len(await keys_in(inner)) == landed + 1

    in_world(story)


def test_a_server_that_starts_on_a_full_store_follows_says_why_and_leads_when_there_is_room() -> None:
    async def story(world: World) -> None:
        first, store = await a_leader(world)
        await first.override("a")
        await first.stop()
        store.is_full = True
        second = world.server(store, "s2").start()
        await second.clock.sleep(60_000)
        assert second.ledger.role in (Role.FOLLOWING, Role.STANDING)
        assert "full" in second.ledger.degraded_reason()
        assert len((await second.ledger.read(ReadLevel.LINEAR)).state.overrides) == 1
        store.is_full = False
        await second.leads(150_000)
        assert second.ledger.degraded_reason() == ""

    in_world(story)


def test_above_the_hard_limit_only_reports_operators_and_the_ledger_itself_are_served() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.prepare()
        store.used_share = 0.86
        await until(lambda: fill_of(server) is SpaceLevel.HARD, server.clock)
        assert RULES[Stop].lane is CommandLane.RECONCILERS
        with pytest.raises(ReadOnly, match="86% full"):
            await server.send(REPLICA, Stop((), "scaled-down"))
        assert isinstance(await server.override("a"), Committed)
        assert isinstance(await server.send("agent/n1", OpenSession()), Committed)
        assert "86" in server.ledger.degraded_reason()
        store.used_share = 0.5
        await until(lambda: fill_of(server) is SpaceLevel.OPEN, server.clock)
        assert not isinstance(await server.send(REPLICA, Stop((), "scaled-down")), Committed)

    in_world(story)


def test_above_the_hard_limit_what_runs_by_a_right_that_has_lapsed_is_stopped_all_the_same() -> None:
    """The platform gives the right to another region after a time, whatever this region's store has left (RULES 6)."""

    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.prepare()
        store.used_share = 0.86
        await until(lambda: fill_of(server) is SpaceLevel.HARD, server.clock)
        answer = await server.send("controller/rights", Stop(((1, 0),), "right-lapsed"))
        assert isinstance(answer, Refused)
        assert answer.code is Code.NOT_FOUND  # it is judged: there is no such slot

    in_world(story)


@pytest.mark.parametrize(
    ("share", "fill"),
    [
        (0.0, SpaceLevel.OPEN),
        (0.69, SpaceLevel.OPEN),
        (0.70, SpaceLevel.SOFT),
        (0.84, SpaceLevel.SOFT),
        (0.85, SpaceLevel.HARD),
        (1.0, SpaceLevel.HARD),
    ],
)
def test_how_full_a_store_is_has_a_name(share: float, fill: SpaceLevel) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.used_share = share
        await server.clock.sleep(11_000)
        assert fill_of(server) is fill

    in_world(story)


# Snapshots


async def grow(server: Server, batches: int, name: str = "k") -> None:
    for number in range(batches):
        await server.override(f"{name}{number}")
        await server.clock.sleep(200)


async def snapshots_in(store: FaultyStore) -> list[int]:
    return [seq for seq, _ in await store.inner.manifests()]


def test_three_snapshots_are_kept_and_the_log_is_trimmed_behind_the_second_newest() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        floors: list[int] = []
        for turn in range(8):
            await grow(server, 10, f"t{turn}-")
            await server.clock.sleep(3_000)
            kept = await snapshots_in(store)
            floor = (await store.inner.head()).floor
            assert len(kept) <= SNAPSHOTS_KEPT
            assert floor == (kept[1] if len(kept) > 1 else 0)
            floors.append(floor)
        assert floors == sorted(floors)
        assert floors[-1] > 50
        fresh = world.server(store.inner, "s2").start()
        await until(lambda: fresh.ledger.role is Role.FOLLOWING, fresh.clock)
        assert state_digest(fresh.state) == state_digest(server.state)

    in_world(story)


def test_history_is_kept_for_its_time_unless_room_is_short() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, SnapshotPolicy(log_batches=10, retention_ms=3_600_000))
        await grow(server, 50)
        await server.clock.sleep(3_000)
        assert (await store.inner.head()).floor == 0
        store.used_share = 0.75
        await server.clock.sleep(10_000)
        assert (await store.inner.head()).floor == (await snapshots_in(store))[1]
        assert fill_of(server) is SpaceLevel.SOFT

    in_world(story)


@pytest.mark.parametrize("way", ["raises", "answers"])
def test_where_room_is_short_trimming_is_tried_again_until_it_works(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, SnapshotPolicy(log_batches=10, retention_ms=3_600_000))
        await grow(server, 50)
        await server.clock.sleep(3_000)
        if way == "raises":
            store.refuse("trim", "unfinished")
        else:
            monkeypatch.setattr(store.inner, "trim", _not_told)
        store.is_full, store.used_share = True, 0.95
        with pytest.raises(ReadOnly):
            await server.override("full")
        await server.clock.sleep(600_000)
        assert (await store.inner.head()).floor == 0
        tries = store.calls["trim"]
        assert 10 <= tries <= 30, "it is tried again, after longer and longer pauses"
        store.refuse()
        monkeypatch.undo()
        store.is_full = False
        await server.clock.sleep(61_000)
        assert (await store.inner.head()).floor == (await snapshots_in(store))[1]
        tries = store.calls["trim"]
        await server.clock.sleep(300_000)
        assert store.calls["trim"] == tries, "what is trimmed need not be trimmed again"

    in_world(story)


async def _not_told(log_id: str, floor: int) -> WriteUnknown:
    return WriteUnknown(f"whether {log_id} is trimmed up to {floor} is not told")


def test_where_room_is_short_a_snapshot_is_due_long_before_what_was_set() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, SnapshotPolicy(log_bytes=1 << 40, log_batches=10**9))
        for number in range(6):
            await server.override(f"k{number}", evidence=b"e" * 500_000)
        await server.clock.sleep(10_000)
        assert await snapshots_in(store) == []
        store.used_share = 0.75
        for number in range(6):
            await server.clock.sleep(10_000)
            await server.override(f"later{number}", evidence=b"e" * 500_000)
        await server.clock.sleep(10_000)
        newest = await snapshots_in(store)
        assert len(newest) >= 2
        assert (await store.inner.head()).floor == newest[1]

    in_world(story)


@pytest.mark.parametrize("damage", ["flip_chunks", "lose_chunks"])
def test_when_the_newest_snapshot_is_damaged_the_next_one_is_used(damage: str) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        await grow(server, 50)
        await server.clock.sleep(3_000)
        newest, second, _ = await snapshots_in(store)
        way = FaultyStore(store.inner)
        getattr(way, damage)(newest)
        fresh = world.server(way, "s2").start()
        await until(lambda: fresh.ledger.role is Role.FOLLOWING, fresh.clock)
        assert state_digest(fresh.state) == state_digest(server.state)
        assert fresh.ledger.snapshots._last == second

    in_world(story)


def test_when_all_snapshots_are_damaged_and_the_log_is_trimmed_the_server_stops_and_names_the_way_out() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        await grow(server, 50)
        await server.clock.sleep(3_000)
        way = FaultyStore(store.inner)
        for seq in await snapshots_in(store):
            way.flip_chunks(seq)
        fresh = world.server(way, "s2").start()
        await until(lambda: fresh.ledger.role is Role.STOPPED, fresh.clock)
        error = await fresh.failure()
        assert isinstance(error, Damaged)
        assert "no intact snapshot" in str(error)
        assert "hint:" in str(error)
        assert server.ledger.role is Role.LEADING

    in_world(story)


def test_when_all_snapshots_are_damaged_and_nothing_is_trimmed_the_log_alone_is_enough() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, SnapshotPolicy(log_batches=10))
        await grow(server, 50)
        await server.clock.sleep(3_000)
        way = FaultyStore(store.inner)
        for seq in await snapshots_in(store):
            way.lose_chunks(seq)
        fresh = world.server(way, "s2").start()
        await until(lambda: fresh.ledger.role is Role.FOLLOWING, fresh.clock)
        assert state_digest(fresh.state) == state_digest(server.state)

    in_world(story)


def test_a_snapshot_that_reads_back_as_something_else_does_not_count_and_nothing_is_trimmed() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        for seq in range(200):
            store.flip_chunks(seq)
        await grow(server, 60)
        await server.clock.sleep(120_000)
        assert await snapshots_in(store) == []
        assert await store.inner.unfinished() == []
        assert (await store.inner.head()).floor == 0
        assert server.ledger.metrics.counted("snapshots_failed") > 0
        assert server.ledger.role is Role.LEADING

    in_world(story)


def test_the_log_is_not_trimmed_behind_a_snapshot_that_has_lost_its_chunks() -> None:
    """A deposed leader put its manifest after somebody had removed its chunks; or a file is gone."""

    async def story(world: World) -> None:
        first, store = await a_leader(world, OFTEN)
        await grow(first, 35)
        await first.clock.sleep(3_000)
        newest, second, _ = await snapshots_in(store)
        await first.stop()
        way = FaultyStore(store.inner)
        way.lose_chunks(newest)
        other = await world.server(way, "s2", policy=OFTEN).start().leads()
        await other.clock.sleep(3_000)
        assert (await snapshots_in(store))[1:3] == [newest, second]
        assert (await store.inner.head()).floor == second

    in_world(story)


@pytest.mark.parametrize("step", ["put_chunk", "get_chunk", "put_manifest"])
def test_a_snapshot_that_is_interrupted_leaves_nothing_behind_and_the_next_one_works(step: str) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        store.refuse(step)
        await grow(server, 15)
        await server.clock.sleep(3_000)
        assert await snapshots_in(store) == []
        assert server.ledger.role is Role.LEADING
        store.refuse()
        await server.clock.sleep(60_000)
        assert len(await snapshots_in(store)) == 1
        assert await store.inner.unfinished() == []

    in_world(story)


def test_what_a_killed_server_left_of_a_snapshot_is_removed_by_the_next_leader() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await grow(server, 5)
        await store.inner.put_chunk(4, "left", b"behind")
        await server.stop()
        assert await store.inner.unfinished() == [4]
        second = await world.server(store.inner, "s2").start().leads()
        await second.clock.sleep(5_000)
        assert await store.inner.unfinished() == []

    in_world(story)


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_a_store_that_is_away_while_a_snapshot_is_due_does_not_end_the_server(fault: str) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        await grow(server, 9)
        for _ in range(4):
            getattr(store, fault)(for_ms=15_000)
            await server.clock.sleep(40_000)
        await until(lambda: server.ledger.leader is not None, server.clock, 200_000)
        await grow(server, 30, "more")
        await server.clock.sleep(60_000)
        assert await snapshots_in(store) != []

    in_world(story)


def test_a_store_without_room_for_snapshots_still_takes_commands() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        store.refuse("put_chunk")
        for turn in range(20):
            await grow(server, 10, f"t{turn}-")
            await server.clock.sleep(10_000)
        assert server.state.info.term == 1
        assert len(await keys_in(store.inner)) == 200

    in_world(story)


def test_a_follower_that_is_left_behind_the_floor_reloads_at_once() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq > 0, follower.clock)
        way.cut()
        await grow(server, 60)
        assert (await store.inner.head()).floor > follower.state.info.seq
        way.heal()
        await until(lambda: follower.state.info.seq == server.state.info.seq, follower.clock, 5_000)
        assert state_digest(follower.state) == state_digest(server.state)

    in_world(story)


def test_a_server_that_loads_while_snapshots_are_dropped_and_the_log_is_trimmed_tries_again() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world, OFTEN)
        await grow(server, 25)
        way = FaultyStore(store.inner)
        way.answer_ms = 2_500
        fresh = world.server(way, "s2").start()
        await grow(server, 200, "more")
        way.answer_ms = 0
        await until(lambda: fresh.state.info.seq == server.state.info.seq, fresh.clock)
        assert fresh.ledger.role is Role.FOLLOWING

    in_world(story)


def test_a_manifest_names_the_state_that_it_restores_to() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await grow(server, 7)
        digest = state_digest(server.state)
        manifest = await server.ledger.snapshots.take()
        (kept,) = await store.inner.manifests()
        assert decode_manifest(kept[1]) == manifest
        assert manifest.state == digest
        assert len(await batches_in(store.inner)) == 8

    in_world(story)


def test_commits_go_on_while_a_snapshot_is_written() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await grow(server, 5)
        store.answer_ms = 100
        taking = asyncio.create_task(server.ledger.snapshots.take())
        seq = server.state.info.seq
        await grow(server, 5, "more")
        manifest = await taking
        assert manifest.seq == seq
        assert server.state.info.seq == seq + 5

    in_world(story)
