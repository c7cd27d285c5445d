"""RULES 3: a renewal is worth what the leader's last proof is worth.

Otherwise a deposed leader, cut from the store but not from the nodes, renews them from memory for ever while the new
leader starts the same exclusive work elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.builtin.sessions import SessionEnded
from holdfast.core.model.values.settings import DEFAULTS, with_drift
from holdfast.host.errors import NotLeading, NotProven, ReadOnly, Unavailable
from holdfast.host.leader.session_monitor import MARGIN_MS
from holdfast.host.leader.term import SessionRenewal, TermProof
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import Store
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, Rival
from tests.support.hosts.ledger_world import Server, World, batches_in, in_world, until
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease
PROOF = DEFAULTS.proof_interval
PATIENCE = with_drift(LEASE, DEFAULTS) + MARGIN_MS
AGENT = "agent/n1"


async def a_leader(world: World, name: str = "s1") -> tuple[Server, FaultyStore]:
    store = FaultyStore(MemoryStore())
    server = await world.server(store, name).start().leads()
    return await server.prepare(), store


def renewal(server: Server, session: int, actor: str = AGENT) -> SessionRenewal:
    answer = server.ledger.renew(actor, session)
    assert isinstance(answer, SessionRenewal), answer
    return answer


async def beat(server: Server, session: int, actor: str = AGENT, times: int = 1_000) -> None:
    """A node agent's heartbeats; what is answered does not matter to whoever calls this."""
    for _ in range(times):
        with contextlib.suppress(Unavailable):
            server.ledger.renew(actor, session)
        await server.clock.sleep(LEASE // 4)


async def ends_in(store: Store) -> list[tuple[int, str, int]]:
    """Which sessions ended, why, and when by ledger time."""
    return [
        (event.session, event.reason, record.at)
        for batch in await batches_in(store)
        for record in batch.records
        for event in record.events
        if isinstance(event, SessionEnded)
    ]


def test_a_deposed_leader_that_only_nodes_can_reach_stops_renewing_before_anybody_else_may_judge() -> None:
    async def story(world: World) -> None:
        old, store = await a_leader(world)
        new = world.server(store.inner, "s2").start()
        session = await old.open_session(AGENT)
        store.cut()
        cut_at = old.clock.boot()
        ends: list[int] = []
        while old.clock.boot() < cut_at + 60_000:
            sent = old.clock.boot()
            try:
                ends.append(sent + renewal(old, session).worth)
                assert sent <= cut_at + LEASE // 2 + PROOF
            except Unavailable:
                assert sent >= cut_at + LEASE // 2 - PROOF
            await old.clock.sleep(100)
        assert max(ends) <= cut_at + LEASE
        assert new.ledger.role is Role.LEADING
        (ended,) = await ends_in(store.inner)
        assert ended[:2] == (session, "silent")
        # Both clocks show the same here: ledger time of the record, less the lease, is after every renewal's end.
        assert ended[2] - new.clock.wall() + new.clock.boot() > max(ends)

    in_world(story)


def test_a_leader_without_a_young_proof_takes_no_commands_and_no_linear_reads() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.hang()
        await server.clock.sleep(LEASE // 2 + PROOF + 1)
        with pytest.raises(NotProven):
            await server.override("a")
        with pytest.raises(NotProven):
            await server.ledger.read(ReadLevel.LINEAR, timeout_ms=100)
        with pytest.raises(NotProven):
            server.ledger.renew(AGENT, 1)
        assert server.ledger.degraded_reason() != ""
        await server.clock.sleep(LEASE)
        with pytest.raises(NotLeading):
            await server.override("a")

    in_world(story)


def test_a_leader_that_cannot_prove_itself_for_a_lease_steps_down_and_can_lead_again_when_it_heals() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.cut(for_ms=30_000)
        await until(lambda: server.ledger.leader is None, server.clock, LEASE + 2 * PROOF + LEASE // 5)
        await until(lambda: server.ledger.leader is not None, server.clock, 60_000)
        assert server.state.info.term == 2

    in_world(story)


def test_an_unknown_touch_proves_nothing() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.refuse("touch")
        await server.clock.sleep(LEASE // 2 + PROOF + 1)
        with pytest.raises(NotProven):
            await server.override("a")

    in_world(story)


def test_an_append_that_landed_proves_as_much_as_a_touch() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        store.refuse("touch")
        for number in range(60):
            await server.override(f"k{number}")
            assert renewal(server, session).worth >= LEASE - PROOF
            await server.clock.sleep(PROOF)
        assert server.state.info.term == 1

    in_world(story)


def test_where_no_second_server_can_open_the_store_reading_the_head_is_proof_enough() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        store.shared = False
        server = await world.server(store).start().leads()
        await server.prepare()
        session = await server.open_session(AGENT)
        await server.clock.sleep(60_000)
        assert store.calls.get("touch", 0) == 0
        assert renewal_or_none(server, session) is None
        assert isinstance(await server.override("a"), object)
        store.refuse("head")
        await server.clock.sleep(LEASE // 2 + 2 * PROOF)
        with pytest.raises(NotProven):
            await server.override("b")

    in_world(story)


def renewal_or_none(server: Server, session: int) -> SessionRenewal | None:
    answer = server.ledger.renew(AGENT, session)
    return answer if isinstance(answer, SessionRenewal) else None


@pytest.mark.parametrize("way", ["request", "answer"])
def test_worth_is_counted_from_when_a_proof_began(way: str) -> None:
    """What happened between its beginning and its answer is not covered by it: somebody else may have begun to lead."""

    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        if way == "request":
            store.request_ms = 800
        else:
            store.answer_ms = 800
        await server.clock.sleep(3_000)
        worths = []
        for _ in range(40):
            worths.append(renewal(server, session).worth)
            await server.clock.sleep(100)
        assert max(worths) <= LEASE - 800

    in_world(story)


@pytest.mark.parametrize("append_ms", [0, 2_000])
def test_a_new_leader_judges_nobody_before_its_term_has_landed_and_a_lease_has_passed(append_ms: int) -> None:
    async def story(world: World) -> None:
        old, store = await a_leader(world)
        sessions = [await old.open_session(f"agent/n{number}") for number in range(2)]
        await old.stop()
        way = FaultyStore(store.inner)
        way.append_ms = append_ms
        new = await world.server(way, "s2").start().leads()
        led_at = new.clock.boot()
        way.append_ms = 0
        await until(lambda: len(new.state.sessions) == 0, new.clock)
        assert new.clock.boot() >= led_at + PATIENCE
        assert new.clock.boot() <= led_at + PATIENCE + 3 * PROOF
        assert [end[0] for end in await ends_in(store.inner)] == sessions

    in_world(story)


def test_a_session_lives_as_long_as_it_is_heard_of_and_not_much_longer() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        session = await server.open_session(AGENT)
        beating = asyncio.create_task(beat(server, session))
        await server.clock.sleep(120_000)
        assert session in server.state.sessions
        beating.cancel()
        silent_at = server.clock.boot()
        await until(lambda: session not in server.state.sessions, server.clock)
        assert PATIENCE - LEASE // 4 <= server.clock.boot() - silent_at <= PATIENCE + 3 * PROOF

    in_world(story)


@pytest.mark.parametrize("led_for_ms", [0, 3_000, 20_000, 300_000])
def test_a_session_is_not_ended_before_it_had_a_whole_lease_to_be_heard_of(led_for_ms: int) -> None:
    """However long the leader has been watching others: this one was not there to be watched."""

    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        await server.clock.sleep(led_for_ms)
        session = await server.open_session(AGENT)
        opened_at = server.clock.boot()
        await until(lambda: session not in server.state.sessions, server.clock)
        assert server.clock.boot() - opened_at >= PATIENCE

    in_world(story)


def test_from_the_moment_its_end_is_queued_a_session_is_never_renewed() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        await server.clock.sleep(PATIENCE - 2 * PROOF)
        store.append_ms = 4_000
        answers: list[Any] = []
        while session in server.state.sessions:
            await server.clock.sleep(100)
            if store.calls["append"] > 3:  # log, principals, session; the fourth is the end
                answers.append(server.ledger.renew(AGENT, session))
        assert len(answers) > 30
        assert all(isinstance(answer, Refused) and answer.code is Code.NO_SESSION for answer in answers)
        assert [end[0] for end in await ends_in(store.inner)] == [session]

    in_world(story)


def test_while_another_session_of_its_name_is_written_down_a_session_is_not_renewed() -> None:
    """Its fence is counted from when that was decided: what a renewal is worth after that would outlast it."""

    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        store.append_ms = PROOF - 100
        opening = asyncio.create_task(server.open_session(AGENT))
        await until(lambda: store.calls["append"] > 3, server.clock)  # log, principals, session; the fourth ends it
        answers: list[Any] = []
        while session in server.state.sessions:
            answers.append(server.ledger.renew(AGENT, session))
            await server.clock.sleep(50)
        assert len(answers) > 5
        assert all(isinstance(answer, Refused) and answer.code is Code.NO_SESSION for answer in answers)
        assert renewal(server, await opening).worth > 0

    in_world(story)


def test_a_session_lives_on_when_there_was_no_room_to_write_down_another_of_its_name() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        store.is_full = True
        with pytest.raises(ReadOnly):
            await server.open_session(AGENT)
        assert renewal(server, session).worth > 0

    in_world(story)


def test_an_end_that_is_delayed_in_the_store_while_the_network_heals_is_an_end_or_was_none() -> None:
    """The end hangs for 30 s; the node is heard again meanwhile, and another server takes over."""

    async def story(world: World, lands: bool) -> None:
        old, store = await a_leader(world)
        new = world.server(store.inner, "s2").start()
        session = await old.open_session(AGENT)
        store.append_hangs(lands=lands)
        await until(lambda: store.calls["append"] > 3, old.clock)
        queued_at = old.clock.boot()
        renewed: list[int] = []
        while old.clock.boot() < queued_at + 30_000:
            for server in (old, new):
                try:
                    answer = server.ledger.renew(AGENT, session)
                except Unavailable:
                    continue
                if isinstance(answer, SessionRenewal):
                    assert server is new
                    renewed.append(server.clock.boot())
            await old.clock.sleep(100)
        store.release()
        await old.clock.sleep(5_000)
        if lands:
            assert renewed == []
            assert session not in new.state.sessions
        else:
            assert renewed != []
        assert old.state.info == new.state.info

    in_world(lambda world: story(world, lands=True))
    in_world(lambda world: story(world, lands=False))


def test_a_session_whose_end_was_not_logged_for_lack_of_room_may_live_on() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        store.is_full = True
        await until(
            lambda: server.ledger.metrics.counted("append_unknown") or "full" in server.ledger.degraded_reason(),
            server.clock,
        )
        await server.clock.sleep(100)
        assert renewal(server, session).worth > 0
        store.is_full = False
        await beat(server, session, times=20)
        assert session in server.state.sessions

    in_world(story)


def test_nobody_keeps_the_session_of_another_alive() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        session = await server.open_session(AGENT)
        beating = asyncio.create_task(beat(server, session, actor="agent/n2"))
        answer = server.ledger.renew("agent/n2", session)
        assert isinstance(answer, Refused)
        await until(lambda: session not in server.state.sessions, server.clock, PATIENCE + 3 * PROOF)
        beating.cancel()

    in_world(story)


def test_a_dead_session_is_told_so_and_which_one_is_alive() -> None:
    async def story(world: World) -> None:
        server, _ = await a_leader(world)
        first = await server.open_session(AGENT)
        second = await server.open_session(AGENT)
        answer = server.ledger.renew(AGENT, first)
        assert isinstance(answer, Refused)
        assert answer.facts["current"] == second
        assert renewal(server, second).worth > 0

    in_world(story)


def test_a_renewal_names_the_log_and_the_term_so_that_a_lower_one_can_be_ignored() -> None:
    async def story(world: World) -> None:
        old, store = await a_leader(world)
        session = await old.open_session(AGENT)
        before = renewal(old, session)
        await old.stop()
        new = await world.server(store.inner, "s2").start().leads()
        after = renewal(new, session)
        assert (before.log_id, before.term) == ("log-eu", 1)
        assert (after.log_id, after.term) == ("log-eu", 2)

    in_world(story)


def test_a_leader_that_was_deposed_without_noticing_finds_out_by_its_next_proof() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        session = await server.open_session(AGENT)
        await Rival(store.inner).stand()
        await until(lambda: server.ledger.leader is None, server.clock, 2 * PROOF + 20)
        with pytest.raises(NotLeading):
            server.ledger.renew(AGENT, session)

    in_world(story)


class At:
    """An even clock that shows what it is told."""

    now = 0

    def boot(self) -> int:
        return self.now


@pytest.mark.parametrize(("age", "is_young"), [(LEASE // 2, True), (LEASE // 2 + 1, False)])
def test_a_proof_is_young_for_half_a_lease_to_the_millisecond(age: int, is_young: bool) -> None:
    clock = At()
    proof = TermProof(clock)  # type: ignore[arg-type]
    assert not proof.is_fresh(DEFAULTS), "nothing was proven yet"
    proof.confirm(100, proof.next_question())
    clock.now = 100 + age
    assert proof.is_fresh(DEFAULTS) is is_young
    assert (proof.age(), proof.lease_left(DEFAULTS)) == (age, LEASE - age)


def test_a_term_has_proven_itself_from_its_first_proof_to_its_latest_in_whatever_order_they_come() -> None:
    proof = TermProof(At())  # type: ignore[arg-type]
    assert proof.span() == 0
    for began, span in ((1_000, 0), (1_700, 700), (1_400, 700), (2_000, 1_000)):
        proof.confirm(began, proof.next_question())
        assert proof.span() == span


def test_a_refusal_that_cannot_be_proven_within_half_a_lease_is_no_answer() -> None:
    async def story(world: World) -> None:
        server, store = await a_leader(world)
        store.hang()
        asked_at = server.clock.boot()
        with pytest.raises(NotProven):
            await server.send(ROOT, EndOverride(999, "there is none"), key="a")
        assert server.clock.boot() - asked_at == LEASE // 2

    in_world(story)
