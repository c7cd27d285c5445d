"""RULES 10: reads have a contract. `any`, `at-least`, `linear`; nobody sees what is not durable.

Otherwise a reader acts on a batch that then loses, or on what a deposed leader still believes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.host.errors import NotLeading, NotProven, NotReached, Unavailable
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import Head
from holdfast.host.storage.durable_state import WAITERS_KEPT
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, Rival
from tests.support.hosts.ledger_world import Server, World, an_override, in_world, until
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease
PROOF = DEFAULTS.proof_interval


async def a_leader(world: World, name: str = "s1") -> tuple[Server, FaultyStore]:
    store = FaultyStore(MemoryStore())
    return await world.server(store, name).start().leads(), store


def test_a_reader_during_an_append_that_then_loses_sees_nothing_of_it() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        heard: list[Batch[Any]] = []
        server.ledger.durable.listeners.append(heard.append)
        before = (await server.ledger.read()).token
        fork = server.state.fork()
        store.append_hangs(lands=False)
        losing = asyncio.create_task(server.override("a"))
        for _ in range(20):
            await server.clock.sleep(50)
            view = await server.ledger.read()
            assert view.token == before
            assert len(view.state.overrides) == len(fork.overrides) == 0
        await Rival(store.inner).stand()
        store.release()
        with pytest.raises(NotLeading):
            await losing
        await until(lambda: server.state.info.term == 2, server.clock)
        assert len(server.state.overrides) == 0
        assert [batch.header.term for batch in heard] == [2]

    in_world(story)


def test_what_is_answered_is_visible_and_published_in_the_same_turn() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        order: list[str] = []
        server.ledger.durable.listeners.append(lambda batch: order.append(f"published {len(server.state.overrides)}"))
        asking = asyncio.create_task(server.override("a"))
        asking.add_done_callback(lambda _: order.append(f"answered {len(server.state.overrides)}"))
        while not order:
            assert len(server.state.overrides) == 0
            await asyncio.sleep(0)
        await asking
        assert order == ["published 1", "answered 1"]

    in_world(story)


def test_a_linear_read_on_a_deposed_leader_never_returns_less_than_was_acknowledged_elsewhere() -> None:
    async def story(world: World) -> None:
        old, store = await a_leader(world)
        rival = Rival(store.inner)
        await rival.stand()
        await rival.write(Envelope(ROOT, an_override(old.clock.wall(), "b"), rival.state.info.at, key="b"))
        try:
            view = await old.ledger.read(ReadLevel.LINEAR)
        except Unavailable:
            return
        assert view.token.seq >= rival.state.info.seq

    in_world(story)


def test_a_proof_of_the_same_millisecond_that_began_before_the_question_is_no_proof() -> None:
    """A touch lands; the other leader is acknowledged; then somebody asks. All of it within one millisecond."""

    async def story(world: World) -> None:
        old, store = await a_leader(world)
        leader = old.ledger.leader
        assert leader is not None
        await old.clock.sleep(PROOF + 7)
        await leader.prove()
        rival = Rival(store.inner)
        await rival.stand()
        await rival.write(Envelope(ROOT, an_override(old.clock.wall(), "b"), rival.state.info.at, key="b"))
        with pytest.raises(Unavailable):
            await old.ledger.read(ReadLevel.LINEAR, timeout_ms=1_000)

    in_world(story)


def test_an_append_that_landed_and_was_overtaken_is_no_proof_for_those_who_asked_meanwhile() -> None:
    """The leader learns in one moment that its batch landed and that it was deposed: the second counts for readers."""

    async def story(world: World) -> None:
        old, store = await a_leader(world)
        store.answer_ms = 20
        store.append_lands_unheard()
        writing = asyncio.create_task(old.override("a"))
        await old.clock.sleep(1)
        store.refuse("append")
        await old.clock.sleep(100)
        rival = Rival(store.inner)
        await rival.stand()
        await rival.write(Envelope(ROOT, an_override(old.clock.wall(), "b"), rival.state.info.at, key="b"))
        reading = asyncio.create_task(old.ledger.read(ReadLevel.LINEAR))
        await old.clock.sleep(100)
        store.refuse()
        assert isinstance(await writing, Committed)
        try:
            view = await reading
        except Unavailable:
            return
        assert view.token.seq >= rival.state.info.seq

    in_world(story)


def test_a_deposed_leader_does_not_refuse_what_the_new_one_would_accept() -> None:
    """A refusal is an answer, and final: it must not rest on a state that is no longer the newest."""

    async def story(world: World) -> None:
        old, store = await a_leader(world)
        rival = Rival(store.inner)
        await rival.stand()
        await rival.write(Envelope(ROOT, an_override(old.clock.wall(), "b"), rival.state.info.at, key="b"))
        ((uid, _),) = rival.state.overrides.items()
        with pytest.raises(Unavailable):
            await old.send(ROOT, EndOverride(uid, "done"), key="end")

    in_world(story)


def test_waiting_linear_reads_share_one_proof() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.request_ms = store.answer_ms = 5
        await server.clock.sleep(PROOF)
        touches = store.calls["touch"]
        await asyncio.gather(*(server.ledger.read(ReadLevel.LINEAR) for _ in range(200)))
        assert store.calls["touch"] - touches <= 3

    in_world(story)


def test_linear_reads_that_wait_for_a_store_that_is_away_leave_the_others_their_turns() -> None:
    """Each of them asks again and again: hundreds of them must not keep the loop busy."""

    async def story(world: World) -> None:
        server, store = await a_leader(world)
        leader = server.ledger.leader
        assert leader is not None
        asked = 0
        prove = leader.prove

        async def counted() -> Any:
            nonlocal asked
            asked += 1
            return await prove()

        leader.prove = counted  # type: ignore[method-assign]
        store.refuse("append")
        writing = asyncio.create_task(server.override("a"))
        await server.clock.sleep(10)
        reads = (server.ledger.read(ReadLevel.LINEAR, timeout_ms=2_000) for _ in range(100))
        await asyncio.gather(*reads, return_exceptions=True)
        assert asked <= 100 * 2_000 / 10
        store.refuse()
        await writing

    in_world(story)


def test_a_linear_read_on_a_follower_waits_for_the_head() -> None:
    async def story(world: World) -> None:
        leader, store = await a_leader(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        way.refuse("read")
        await leader.override("a")
        reading = asyncio.create_task(follower.ledger.read(ReadLevel.LINEAR))
        await follower.clock.sleep(1_000)
        assert not reading.done()
        way.refuse()
        assert len((await reading).state.overrides) == 1

    in_world(story)


@pytest.mark.parametrize("fault", ["cut", "hang"])
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_linear_read_without_the_store_is_unavailable_within_its_time(fault: str, role: str) -> None:
    async def story(world: World) -> None:
        leader, store = await a_leader(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        server, spoiled = (leader, store) if role == "leader" else (follower, way)
        getattr(spoiled, fault)()
        asked_at, why = server.clock.boot(), "is cut off" if fault == "cut" else "does not answer"
        with pytest.raises(Unavailable, match=why if role == "follower" else "no proof within"):
            await asyncio.wait_for(server.ledger.read(ReadLevel.LINEAR, timeout_ms=1_000), 4)
        assert server.clock.boot() - asked_at <= 1_100

    in_world(story)


def test_a_reader_with_a_token_sees_its_own_write_on_any_server() -> None:
    async def story(world: World) -> None:
        leader, store = await a_leader(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        way.answer_ms = 700
        await leader.override("a")
        token = (await leader.ledger.read()).token
        assert len((await follower.ledger.read()).state.overrides) == 0
        assert len((await follower.ledger.read(ReadLevel.AT_LEAST, token)).state.overrides) == 1

    in_world(story)


def test_a_token_that_is_not_reached_in_time_is_told_how_far_this_server_is() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        token = (await server.ledger.read()).token
        later = RevisionToken(token.log_id, token.term, token.seq + 5, b"12345678")
        with pytest.raises(NotReached, match="is at 1"):
            await server.ledger.read(ReadLevel.AT_LEAST, later, timeout_ms=300)

    in_world(story)


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_an_old_token_that_only_the_store_can_tell_is_unavailable_without_it_and_not_diverged(fault: str) -> None:
    async def story(world: World) -> None:
        first, store = await a_leader(world)
        token = (await first.ledger.read()).token
        for number in range(5):
            await first.override(f"k{number}")
        await first.stop()
        second = await world.server(store, "s2").start().leads()
        assert (await second.ledger.read(ReadLevel.AT_LEAST, token)).token.seq > token.seq
        getattr(store, fault)()
        with pytest.raises(NotReached):
            await asyncio.wait_for(second.ledger.read(ReadLevel.AT_LEAST, token, timeout_ms=1_000), 4)

    in_world(story)


def test_a_reader_who_finds_out_that_the_store_went_back_is_told_that_this_server_does_not_lead() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.override("a")
        await store.go_back(1)
        with pytest.raises(Unavailable):
            await server.ledger.read(ReadLevel.LINEAR)

    in_world(story)


def test_readers_that_gave_up_leave_nothing_behind() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        token = (await server.ledger.read()).token
        later = RevisionToken(token.log_id, token.term, 10**9, b"12345678")
        for _ in range(4):
            asked = (server.ledger.read(ReadLevel.AT_LEAST, later, timeout_ms=10) for _ in range(2 * WAITERS_KEPT))
            await asyncio.gather(*asked, return_exceptions=True)
        assert len(server.ledger.durable._waiting) <= WAITERS_KEPT

    in_world(story)


def test_a_view_says_how_long_ago_it_was_proven() -> None:
    async def story(world: World) -> None:
        leader, store = await a_leader(world)
        way = FaultyStore(store.inner)
        follower = world.server(way, "s2").start()
        await leader.clock.sleep(LEASE)
        assert ((await leader.ledger.read()).age or 0) <= 2 * PROOF
        assert ((await follower.ledger.read()).age or 0) <= 2 * PROOF
        way.cut()
        await leader.clock.sleep(LEASE)
        assert ((await follower.ledger.read()).age or 0) >= LEASE

    in_world(story)


def test_a_linear_read_during_an_unknown_append_that_landed_shows_it_or_nothing() -> None:
    """A follower reads it from the store, and is believed: whoever asks the leader afterwards must not see less."""

    async def story(world: World) -> None:
        leader, store = await a_leader(world)
        follower = world.server(store.inner, "s2").start()
        store.append_hangs(lands=True)
        writing = asyncio.create_task(leader.override("a"))
        await leader.clock.sleep(100)
        assert len((await follower.ledger.read(ReadLevel.LINEAR)).state.overrides) == 1
        with pytest.raises(NotProven):
            await leader.ledger.read(ReadLevel.LINEAR, timeout_ms=1_000)
        store.release()
        await writing
        assert len((await leader.ledger.read(ReadLevel.LINEAR)).state.overrides) == 1

    in_world(story)


def test_the_head_of_a_state_is_the_head_of_the_store() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.override("a")
        head = await store.inner.head()
        assert server.ledger.durable.head().same_place(head)
        assert not server.ledger.durable.head().same_place(Head())

    in_world(story)
