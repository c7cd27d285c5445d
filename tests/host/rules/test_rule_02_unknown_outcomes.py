"""RULES 2: only a write settles an unknown write.

Otherwise the leader re-reads position 101, sees nothing, answers "failed" and decides another batch; the first one
lands 0.3 s later, and the leader acknowledges what is not in the log.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.ledger.answers import Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.host.errors import NotLeading, NotProven, OutcomeUnknown, Unavailable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import Head, StoredBatch, WriteOutcome
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, Rival
from tests.support.hosts.ledger_world import Server, World, an_override, in_world, keys_in, until
from tests.support.ledgers.region import ROOT

LEASE = 10_000


async def a_leader(world: World, name: str = "s1", inner: MemoryStore | None = None) -> tuple[Server, FaultyStore]:
    store = FaultyStore(inner or MemoryStore())
    return await world.server(store, name).start().leads(), store


def ask(server: Server, key: str, sent: int) -> asyncio.Task[Any]:
    """The same command with the same key whenever it is sent again."""
    return asyncio.create_task(server.send(ROOT, an_override(sent, key), key=key, sent=sent), name=f"ask {key}")


@pytest.mark.parametrize("lands_after_ms", [1, 10, 30, 100, 290, 310, 600])
def test_an_append_that_lands_after_its_answer_was_lost_is_in_the_log_once(lands_after_ms: int) -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_lands_later(lands_after_ms)
        store.append_never_lands(times=4)
        assert isinstance(await server.override("a"), Committed)
        assert isinstance(await server.override("b"), Committed)
        await world.clock().sleep(2_000)
        assert len(await keys_in(store.inner)) == 2
        assert server.ledger.role is Role.LEADING

    in_world(story)


def test_until_it_is_settled_the_same_bytes_are_tried_and_nobody_gets_or_sees_anything() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        await server.prepare()
        session = await server.open_session("agent/n1")
        renewed = server.ledger.renew("agent/n1", session)
        ends = server.clock.boot() + renewed.worth  # type: ignore[union-attr]
        seq, sent = server.state.info.seq, server.clock.wall()
        store.refuse("append")
        before = len(store.tried)
        waiting = [ask(server, key, sent) for key in "ab"]
        for _ in range(8):
            await server.clock.sleep(500)
            assert not any(task.done() for task in waiting)
            assert (await server.ledger.read()).token.seq == seq
            assert len(server.state.overrides) == 0
            again = server.ledger.renew("agent/n1", session)
            assert server.clock.boot() + again.worth <= ends + 500  # type: ignore[union-attr]
        tried = store.tried[before:]
        assert len(tried) > 5
        assert len(set(tried)) == 1
        assert store.tried[-1] == tried[0]
        assert "append" in server.ledger.degraded_reason()
        store.refuse()
        assert all(isinstance(answer, Committed) for answer in await asyncio.gather(*waiting))
        assert server.ledger.degraded_reason() == ""

    in_world(story)


def test_a_linear_read_waits_for_an_unknown_append_and_is_not_answered_without_it() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.refuse("append")
        waiting = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        with pytest.raises(NotProven):
            await server.ledger.read(ReadLevel.LINEAR, timeout_ms=1_000)
        store.refuse()
        assert isinstance(await waiting, Committed)
        assert len((await server.ledger.read(ReadLevel.LINEAR)).state.overrides) == 1

    in_world(story)


def test_giving_up_means_stepping_down_and_the_outcome_is_called_unknown() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        waiting = ask(server, "a", server.clock.wall())
        store.refuse("append")
        await server.clock.sleep(100)
        second = ask(server, "b", server.clock.wall())
        began = server.clock.boot()
        with pytest.raises(OutcomeUnknown, match="told to refuse append; retry with the same key"):
            await waiting
        assert server.clock.boot() - began <= LEASE
        with pytest.raises(NotLeading):
            await second
        with pytest.raises(Unavailable):
            await server.override("c")
        assert server.state.info.seq == 1

    in_world(story)


@pytest.mark.parametrize("landed", [True, False])
def test_a_retry_with_the_same_key_to_the_next_leader_is_executed_once(landed: bool) -> None:
    async def story(world: World) -> None:
        first, store = await a_leader(world)
        second = world.server(store.inner, "s2").start()
        sent = first.clock.wall()
        store.append_hangs(lands=landed)
        with pytest.raises(OutcomeUnknown, match=f"has not answered for {LEASE} ms"):
            await ask(first, "a", sent)
        await second.leads()
        answer = await ask(second, "a", sent)
        assert isinstance(answer, Repeated if landed else Committed)
        store.release()
        await second.clock.sleep(5_000)
        assert isinstance(await ask(second, "a", sent), Repeated)
        assert len(await keys_in(store.inner)) == 1
        assert first.state.info == second.state.info

    in_world(story)


@pytest.mark.parametrize("lands_after_ms", [9_000, 11_000, 12_900, 13_100, 40_000])
def test_an_append_that_lands_long_after_it_was_given_up_is_never_applied_beside_another(lands_after_ms: int) -> None:
    async def story(world: World) -> None:
        first, store = await a_leader(world)
        second = world.server(store.inner, "s2").start()
        sent = first.clock.wall()
        store.append_hangs(lands=True, after_ms=lands_after_ms)
        with pytest.raises(OutcomeUnknown):
            await ask(first, "a", sent)
        await second.leads()
        await ask(second, "a", sent)
        await second.clock.sleep(60_000)
        store.release()
        await until(lambda: first.state.info.seq == second.state.info.seq, second.clock)
        assert len(await keys_in(store.inner)) == 1
        assert first.state.info == second.state.info

    in_world(story)


def test_nothing_else_is_appended_while_an_append_that_was_given_up_still_hangs() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_hangs(lands=False)
        with pytest.raises(OutcomeUnknown):
            await server.override("a")
        tries = len(store.tried)
        await server.clock.sleep(60_000)
        assert len(store.tried) == tries
        store.release()
        await until(lambda: server.ledger.leader is not None, server.clock)
        assert server.state.info.term == 2
        assert isinstance(await server.override("b"), Committed)

    in_world(story)


def test_a_server_whose_old_append_still_hangs_follows_on_and_does_not_stand() -> None:
    async def story(world: World) -> None:
        first, store = await a_leader(world)
        second = world.server(store.inner, "s2").start()
        store.append_hangs(lands=False)
        with pytest.raises(OutcomeUnknown):
            await first.override("a")
        await second.leads()
        await second.stop()
        await second.clock.sleep(60_000)
        third = await world.server(store.inner, "s3").start().leads()
        await third.override("b")
        await until(lambda: first.state.info.seq == third.state.info.seq, third.clock)
        store.release()

    in_world(story)


def test_after_giving_up_no_further_try_is_begun() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.refuse("append")
        with pytest.raises(OutcomeUnknown):
            await server.override("a")
        tries = len(store.tried)
        await server.clock.sleep(2_000)
        assert len(store.tried) == tries

    in_world(story)


def test_what_landed_and_was_overtaken_is_answered_as_landed_and_the_leader_steps_down() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_hangs(lands=True)
        waiting = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        await Rival(store.inner).stand()
        store.release()
        assert isinstance(await waiting, Committed)
        await until(lambda: server.state.info.term == 2, server.clock)
        assert server.ledger.leader is None
        assert len(await keys_in(store.inner)) == 1

    in_world(story)


def test_what_was_lost_to_another_leader_is_answered_as_not_executed_and_leaves_no_trace() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_hangs(lands=False)
        waiting = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        await Rival(store.inner).stand()
        store.release()
        with pytest.raises(NotLeading, match="not executed"):
            await waiting
        await until(lambda: server.state.info.term == 2, server.clock)
        assert len(server.state.overrides) == 0
        assert await keys_in(store.inner) == []

    in_world(story)


def test_a_batch_that_was_overtaken_and_trimmed_is_unknown_and_not_lost() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_hangs(lands=True)
        waiting = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        rival = Rival(store.inner)
        await rival.stand()
        await store.inner.trim("log-eu", 3)
        store.release()
        with pytest.raises(OutcomeUnknown, match="trimmed"):
            await waiting

    in_world(story)


def test_a_full_store_does_not_settle_an_append_that_was_unknown_before() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_lands_unheard()
        waiting = ask(server, "a", server.clock.wall())
        await asyncio.sleep(0)
        store.is_full = True
        await server.clock.sleep(1_000)
        assert not waiting.done()
        store.is_full = False
        assert isinstance(await waiting, Committed)
        assert len(await keys_in(store.inner)) == 1

    in_world(story)


def test_a_client_that_goes_away_does_not_cancel_the_append() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_ms = 200
        sent = server.clock.wall()
        waiting = ask(server, "a", sent)
        await server.clock.sleep(100)
        waiting.cancel()
        await server.clock.sleep(1_000)
        assert len(await keys_in(store.inner)) == 1
        assert isinstance(await ask(server, "a", sent), Repeated)

    in_world(story)


def test_a_client_that_goes_away_before_its_turn_is_not_looked_at() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_ms = 200
        first = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        second = ask(server, "b", server.clock.wall())
        await server.clock.sleep(10)
        second.cancel()
        await first
        await server.clock.sleep(1_000)
        assert len(await keys_in(store.inner)) == 1

    in_world(story)


def test_a_server_that_is_stopped_finishes_its_append_and_answers() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.append_ms = 800
        waiting = ask(server, "a", server.clock.wall())
        await server.clock.sleep(100)
        behind = ask(server, "b", server.clock.wall())
        await server.clock.sleep(100)
        await server.stop()
        assert isinstance(await waiting, Committed)
        with pytest.raises(NotLeading, match="before it decided"):
            await behind
        assert len(await keys_in(store.inner)) == 1

    in_world(story)


class BreaksItsPromise(MemoryStore):
    """Raises where the port says that it answers: what `append` did is as unknown as ever."""

    def __init__(self, error: Exception, *, lands: bool) -> None:
        super().__init__()
        self._error = error
        self._lands = lands
        self.breaks = False

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        if not self.breaks:
            return await super().append(after, batch)
        self.breaks = False
        if self._lands:
            await super().append(after, batch)
        raise self._error


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("error", [OSError(5, "fsync"), TimeoutError(), ConnectionResetError(), ValueError("a bug")])
def test_every_error_of_an_append_is_an_unknown_outcome(error: Exception, lands: bool) -> None:
    async def story(world: World) -> None:
        store = BreaksItsPromise(error, lands=lands)
        server = await world.server(store).start().leads()
        store.breaks = True
        assert isinstance(await server.override("a"), Committed)
        assert len(await keys_in(store)) == 1
        assert server.state.info.term == 1

    in_world(story)


def test_an_append_that_cancels_itself_is_unknown_too() -> None:
    """A store whose own task was cancelled: the cancellation is its own, and no wish of ours."""

    class Cancels(MemoryStore):
        times = 0

        async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
            outcome = await super().append(after, batch)
            if self.times:
                self.times -= 1
                raise asyncio.CancelledError
            return outcome

    async def story(world: World) -> None:
        store = Cancels()
        server = await world.server(store).start().leads()
        store.times = 1
        assert isinstance(await server.override("a"), Committed)
        assert len(await keys_in(store)) == 1

    in_world(story)
