"""A server's part in a ledger: load, follow, stand, lead, step down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.ledger.answers import Repeated
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.errors import NotLeading, NotReached, Stopped
from holdfast.host.leader import group_commit
from holdfast.host.leader.group_commit import JUDGE_MS
from holdfast.host.ledger.ledger import Role
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.host.watch.changes import EVERYTHING
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import World, batches_in, in_world, keys_in, until


def test_a_server_on_an_empty_store_starts_the_log_and_leads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        assert server.state.info.log_id == "log-eu"
        assert server.state.info.term == 1
        assert isinstance(await server.override("a"), Committed)
        assert len(await keys_in(store)) == 1

    in_world(story)


def test_what_was_acknowledged_is_there_after_a_restart_and_a_repeat_is_answered_the_same() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store).start().leads()
        sent = first.clock.wall()
        landed = await first.override("a", sent=sent)
        command_time = sent
        await first.stop()
        second = await world.server(store, "s2").start().leads()
        assert second.state.info.term == 2
        from tests.support.hosts.ledger_world import an_override
        from tests.support.ledgers.region import ROOT

        again = await second.send(ROOT, an_override(command_time, "a"), key="a", sent=sent)
        assert isinstance(landed, Committed)
        assert again == Repeated(landed.revision, landed.answer)
        assert len(await keys_in(store)) == 1

    in_world(story)


def test_a_second_server_follows_and_refuses_commands() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store).start().leads()
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        await leader.override("a")
        await until(lambda: follower.state.info.seq == leader.state.info.seq, follower.clock)
        with pytest.raises(NotLeading):
            await follower.override("b")
        await follower.clock.sleep(600_000)
        assert leader.ledger.role is Role.LEADING
        assert follower.ledger.role is Role.FOLLOWING
        assert len(await batches_in(store)) == leader.state.info.seq

    in_world(story)


def test_whoever_waits_for_a_server_to_begin_is_told_when_there_is_a_log_and_not_before() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = world.server(store)
        waits = asyncio.create_task(server.ledger.begun(Role.LEADING))
        await server.clock.sleep(5_000)
        assert not waits.done()
        await server.start().leads()
        await asyncio.sleep(0)
        assert waits.done()
        await server.ledger.begun(Role.FOLLOWING, Role.LEADING)

    in_world(story)


def test_every_server_knows_who_leads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = world.server(store)
        assert leader.ledger.leading_server() == ""
        await leader.start().leads()
        assert leader.ledger.leading_server() == "s1"
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        assert follower.ledger.leading_server() == "s1"  # from the log that it was loaded from
        third = world.server(store, "s3").start()
        await until(lambda: third.ledger.role is Role.FOLLOWING, third.clock)
        await leader.stop()
        assert leader.ledger.leading_server() == ""  # it began the newest term, and leads no more
        await until(lambda: Role.LEADING in (follower.ledger.role, third.ledger.role), follower.clock)
        leads, follows = (follower, third) if follower.ledger.role is Role.LEADING else (third, follower)
        await until(lambda: follows.ledger.leading_server() == leads.name, follows.clock)  # from the log as it grows

    in_world(story)


def test_a_leader_that_began_before_the_snapshot_is_known_as_long_as_the_log_reaches_back() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store, "s0").start().leads()
        await first.override("a")
        await first.stop()
        leader = await world.server(store, policy=SnapshotPolicy(log_bytes=1, log_batches=20)).start().leads()
        for number in range(60):
            await leader.override(f"k{number}")
            await leader.clock.sleep(500)
        assert leader.ledger.metrics.counted("snapshots") > 0
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        assert (await store.head()).floor == 0
        assert follower.ledger.leading_server() == "s1"

    in_world(story)


def test_a_leader_that_the_log_does_not_name_any_more_is_unknown() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        keeping = SnapshotPolicy(log_bytes=1, log_batches=20, retention_ms=0)
        leader = await world.server(store, policy=keeping).start().leads()
        for number in range(120):
            await leader.override(f"k{number}")
            await leader.clock.sleep(500)
        assert (await store.head()).floor > 0
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        assert follower.ledger.leading_server() == ""
        await leader.stop()
        await follower.leads()
        assert follower.ledger.leading_server() == "s2"

    in_world(story)


@pytest.mark.parametrize(("takes_ms", "at_once"), [(JUDGE_MS // 2, 3), (JUDGE_MS // 5, 5)])
def test_a_batch_is_closed_when_judging_has_taken_long_enough_however_many_wait(
    monkeypatch: pytest.MonkeyPatch, takes_ms: int, at_once: int
) -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        boot, consider, spent = server.clock.boot, BatchDraft.add, [0]

        def slow(draft: BatchDraft[Any], envelope: Envelope[Any], at: int) -> Any:
            spent[0] += takes_ms
            return consider(draft, envelope, at)

        monkeypatch.setattr(BatchDraft, "add", slow)
        monkeypatch.setattr(server.clock, "boot", lambda: boot() + spent[0])
        before = server.state.info.seq
        answers = await asyncio.gather(*(server.override(f"{number}") for number in range(30)))
        assert all(isinstance(answer, Committed) for answer in answers)
        assert server.state.info.seq == before + 30 // at_once

    in_world(story)


def test_a_batch_takes_so_many_commands_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COMMANDS_MAX", 3)

    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        await asyncio.gather(*(server.override(f"{number}") for number in range(7)))
        assert [len(batch.records) for batch in (await batches_in(store))[-3:]] == [3, 3, 1]

    in_world(story)


def test_what_fits_into_a_batch_is_in_one_and_its_append_is_timed() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        store.append_ms = 300
        before = server.state.info.seq
        await asyncio.gather(*(server.override(f"{number}", evidence=b"e" * 2_000) for number in range(100)))
        assert server.state.info.seq == before + 1
        assert len((await batches_in(store.inner))[-1].records) == 100
        assert server.ledger.metrics.timings["commit_ms", ()].longest == 300

    in_world(story)


def test_a_server_has_begun_when_it_is_what_was_asked_for_to_a_log_that_there_is() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        guest = world.server(store, "guest", start=None).start()
        follows, leads = (asyncio.create_task(guest.ledger.begun(role)) for role in (Role.FOLLOWING, Role.LEADING))
        await guest.clock.sleep(60_000)
        assert guest.ledger.role is Role.FOLLOWING
        assert (await store.head()).seq == 0, "it may not start one"
        assert guest.ledger.metrics.counted("stepped_down") == 0, "and does not try"
        assert not follows.done()
        first = await world.server(store).start().leads()
        await guest.clock.sleep(5_000)
        assert not leads.done(), "there is a log, and another leads it"
        await first.stop()
        await guest.leads()
        await asyncio.sleep(0)
        assert leads.done()

    in_world(story)


def test_whoever_watches_from_a_place_that_this_server_has_not_reached_waits_for_it() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store).start().leads()
        way = FaultyStore(store)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        way.refuse("read")
        await leader.override("a")
        token = (await leader.ledger.read()).token
        with pytest.raises(NotReached, match="is at 1"):
            await follower.ledger.watch(EVERYTHING, token, timeout_ms=300)
        way.refuse()
        watching = await follower.ledger.watch(EVERYTHING, token)
        assert follower.state.info.seq == token.seq
        await follower.clock.sleep(1_000)
        assert follower.ledger.metrics.gauged("follower_behind") == 0
        watching.close()

    in_world(story)


def test_a_leader_that_is_stopped_twice_says_why_it_was_stopped_first() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        leader = server.ledger.leader
        assert leader is not None
        for why in ("the first reason", "the second"):
            leader.stop(Stopped(why))
        failure = await server.failure()
        assert isinstance(failure, Stopped)
        assert str(failure) == "the first reason"

    in_world(story)
