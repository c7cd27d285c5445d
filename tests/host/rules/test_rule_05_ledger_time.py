"""RULES 5: ledger time always runs; my own absence is not your death.

Otherwise a clock one hour fast leads for five seconds, expires everything, and freezes time for an hour; or a paused
leader wakes and declares 2,000 nodes dead. Who stands, and when, is in `test_rule_05_standing`.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from holdfast.core.model.values.settings import DEFAULTS, with_drift
from holdfast.host.errors import Unavailable
from holdfast.host.leader.session_monitor import MARGIN_MS
from holdfast.host.leader.term import SLEW_PER_MILLION, STEP_MS, LedgerTime
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.store import Head, WriteOutcome
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, stop_the_world
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world, until
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease
PROOF = DEFAULTS.proof_interval
PATIENCE = with_drift(LEASE, DEFAULTS) + MARGIN_MS
HOUR = 3_600_000


# Time


def test_after_a_leader_whose_clock_is_an_hour_ahead_time_still_runs_and_nothing_ends_twice() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        fast = await world.server(store, "fast", clock=world.clock(wrong_by=HOUR)).start().leads()
        await fast.override("a")
        await fast.clock.sleep(5_000)
        await fast.stop()
        right = await world.server(store, "right").start().leads()
        stamps = []
        for number in range(20):
            answer = await right.accept(
                ROOT, an_override(right.state.info.at, "a"), key=f"k{number}", sent=right.clock.wall()
            )
            assert answer.revision > 0
            stamps.append((right.clock.boot(), right.state.info.at))
            await right.clock.sleep(1_000)
        elapsed = stamps[-1][0] - stamps[0][0]
        # Time runs on, at the right pace, an hour ahead: it is worn down and never jumps back.
        assert elapsed * 0.999 <= stamps[-1][1] - stamps[0][1] <= elapsed * 1.001
        assert [at for _, at in stamps] == sorted({at for _, at in stamps})
        assert all(at > right.clock.wall() + HOUR - 60_000 for _, at in stamps)

    in_world(story)


@pytest.mark.parametrize("by", [-HOUR, -61_000, 61_000, HOUR])
def test_a_wall_clock_that_is_set_moves_ledger_time_by_nothing_and_observation_begins_anew(by: int) -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        await server.override("a", sent=server.state.info.at)
        before, at = server.clock.boot(), server.state.info.at
        server.clock.wrong_by += by
        await server.clock.sleep(10_000)
        at_the_latest = server.state.info.at
        await server.accept(ROOT, an_override(at_the_latest, "b"), key="b", sent=at_the_latest)
        moved = server.state.info.at - at
        elapsed = server.clock.boot() - before
        assert abs(moved - elapsed) <= elapsed * SLEW_PER_MILLION // 1_000_000 + 1
        assert server.ledger.metrics.counted("observation_restarts", why="clock-set") == 1

    in_world(story)


def test_a_small_correction_of_the_wall_clock_is_followed_slowly_and_restarts_nothing() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        server.clock.wrong_by += 5_000
        for number in range(10):
            await server.clock.sleep(10_000)
            await server.override(f"k{number}")
        assert server.ledger.metrics.counted("observation_restarts", why="clock-set") == 0
        assert 0 < server.state.info.at - (server.clock.wall() - 5_000) <= 100_000 * SLEW_PER_MILLION // 1_000_000 + 1

    in_world(story)


def timed(step_ms: int, steps: int, *, ahead: int) -> tuple[int, int]:
    """How far ledger time came, and how much time passed, when it is asked every `step_ms`."""

    async def story() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop)
        time = LedgerTime(clock, clock.wall() + ahead)
        first = last = time.now()
        for _ in range(steps):
            await clock.sleep(step_ms)
            now = time.now()
            assert now >= last
            last = now
        return last - first, step_ms * steps

    return run_virtual(story())


@pytest.mark.parametrize(("step_ms", "steps"), [(1, 20_000), (2, 10_000), (3, 7_000), (20, 1_000), (20_000, 1)])
def test_an_offset_is_worn_down_by_500_in_a_million_however_often_the_time_is_asked(step_ms: int, steps: int) -> None:
    moved, elapsed = timed(step_ms, steps, ahead=HOUR)
    worn = elapsed - moved
    assert worn == pytest.approx(elapsed * SLEW_PER_MILLION / 1_000_000, abs=1.1)


def test_ledger_time_reaches_the_wall_clock_and_stays_with_it() -> None:
    moved, elapsed = timed(1_000, 4_000, ahead=1_000)
    assert elapsed - moved == 1_000


def test_ledger_time_starts_at_the_later_of_the_log_and_the_wall_clock() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        slow = await world.server(store, "slow", clock=world.clock(wrong_by=-HOUR)).start().leads()
        await slow.override("a")
        await slow.stop()
        right = await world.server(store, "right").start().leads()
        assert abs(right.state.info.at - right.clock.wall()) <= 1_000
        stamps = [record.at for batch in await batches_in(store) for record in batch.records]
        assert stamps == sorted(stamps)

    in_world(story)


# Absence


async def beat(server: Server, actor: str, session: int) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            server.ledger.renew(actor, session)
        await server.clock.sleep(LEASE // 4)


async def nodes(server: Server, count: int, *, spread: bool = True) -> dict[str, tuple[int, asyncio.Task[None]]]:
    """Sessions of so many node agents, with heartbeats that are spread over their interval."""
    await server.prepare()
    found = {}
    opened = [server.open_session(f"agent/n{number:04}") for number in range(count)]
    for number, session in enumerate(await asyncio.gather(*opened)):
        actor = f"agent/n{number:04}"

        async def life(actor: str = actor, session: int = session, number: int = number) -> None:
            await asyncio.sleep((LEASE / 4 * number / count if spread else 0) / 1000)
            await beat(server, actor, session)

        found[actor] = (session, asyncio.create_task(life(), name=actor))
    return found


def test_a_leader_that_was_paused_for_30_seconds_ends_none_of_2000_sessions() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        await nodes(server, 2_000)
        await server.clock.sleep(LEASE * 2)
        world.loop.call_later(1.3, stop_the_world, world.loop, 30_000)
        await server.clock.sleep(30_000 + LEASE * 3)
        assert len(server.state.sessions) == 2_000
        assert server.ledger.role is Role.LEADING

    in_world(story)


class Pausing(MemoryStore):
    """Stops the world so many loop turns after a touch."""

    def __init__(self, turns: int, pause_ms: int) -> None:
        super().__init__()
        self._turns = turns
        self._pause_ms = pause_ms
        self.pauses = False
        self._task: asyncio.Task[None] | None = None

    async def touch(self, at: Head) -> WriteOutcome:
        if self.pauses:
            self.pauses = False
            self._task = asyncio.create_task(self._pause())
        return await super().touch(at)

    async def _pause(self) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        stop_the_world(loop, self._pause_ms)


@pytest.mark.parametrize("pause_ms", [9_000, 30_000])
@pytest.mark.parametrize("turns", range(12))
def test_wherever_a_leader_is_paused_it_judges_nobody_by_its_own_absence(turns: int, pause_ms: int) -> None:
    """Two sessions are too few to be a mass: nothing but the restart of observation protects them."""

    async def story(world: World) -> None:
        store = Pausing(turns, pause_ms)
        server = await world.server(store).start().leads()
        await nodes(server, 2)
        await server.clock.sleep(LEASE * 2)
        store.pauses = True
        await server.clock.sleep(pause_ms + LEASE * 4)
        assert not store.pauses
        assert len(server.state.sessions) == 2
        await until(lambda: server.ledger.leader is not None, server.clock)

    in_world(story)


@pytest.mark.parametrize("stall", ["hang", "cut", "slow"])
def test_after_a_stall_of_the_store_observation_begins_anew(stall: str) -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        found = await nodes(server, 2)
        await server.clock.sleep(LEASE * 2)
        if stall == "hang":
            store.hang(for_ms=9_000)
        elif stall == "cut":
            store.cut(for_ms=9_000)
        else:
            store.answer_ms = 6_000
        await server.clock.sleep(9_000)
        store.answer_ms = 0
        for session, _ in found.values():
            assert session in server.state.sessions
        await server.clock.sleep(LEASE * 3)
        assert len(server.state.sessions) == 2

    in_world(story)


def test_one_node_that_falls_silent_is_ended_after_one_period() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        found = await nodes(server, 20)
        await server.clock.sleep(LEASE * 2)
        session, life = found["agent/n0007"]
        life.cancel()
        silent_at = server.clock.boot()
        await until(lambda: session not in server.state.sessions, server.clock)
        assert server.clock.boot() - silent_at <= PATIENCE + 3 * PROOF
        assert len(server.state.sessions) == 19

    in_world(story)


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(("count", "silenced"), [(20, 5), (20, 20), (100, 30), (400, 400)])
def test_silence_of_more_than_a_fifth_in_one_window_needs_a_second_period(
    count: int, silenced: int, spread: bool
) -> None:
    """Heartbeats are spread over 2.5 s, so a cut shows itself a fifth of them at a time: none of these may be ended."""

    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        found = await nodes(server, count, spread=spread)
        await server.clock.sleep(LEASE * 2)
        for _, life in list(found.values())[:silenced]:
            life.cancel()
        silent_at = server.clock.boot()
        while server.clock.boot() < silent_at + 2 * PATIENCE - LEASE // 2:
            assert len(server.state.sessions) == count
            await server.clock.sleep(100)
        await until(lambda: len(server.state.sessions) == count - silenced, server.clock, 3 * LEASE)

    in_world(story)


def test_a_mass_that_is_heard_again_in_the_second_period_loses_nobody_and_is_doubted_again_next_time() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        found = await nodes(server, 20)
        for _ in range(3):
            await server.clock.sleep(LEASE * 2)
            for _, life in found.values():
                life.cancel()
            await server.clock.sleep(PATIENCE + LEASE // 2)
            assert len(server.state.sessions) == 20
            found = {
                actor: (session, asyncio.create_task(beat(server, actor, session)))
                for actor, (session, _) in found.items()
            }
        await server.clock.sleep(LEASE * 4)
        assert len(server.state.sessions) == 20

    in_world(story)


def test_a_heartbeat_that_is_ready_in_the_turn_of_the_judgement_is_read_first() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        await server.prepare()
        session = await server.open_session("agent/n1")
        leader = server.ledger.leader
        assert leader is not None
        await server.clock.sleep(PATIENCE - PROOF)
        judging = asyncio.create_task(leader._end_silent_sessions())
        stop_the_world(world.loop, 2 * PROOF)
        world.loop.call_soon(server.ledger.renew, "agent/n1", session)
        await judging
        await server.clock.sleep(LEASE // 2)
        assert session in server.state.sessions

    in_world(story)


@pytest.mark.parametrize(("by", "steps"), [(STEP_MS, 0), (STEP_MS + 1, 1), (-STEP_MS, 0), (-STEP_MS - 1, 1)])
def test_a_wall_clock_that_moved_by_more_than_a_minute_was_set_and_each_time_is_counted(by: int, steps: int) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop)
        time = LedgerTime(clock, clock.wall())
        for times in (1, 2):
            await clock.sleep(1_000)
            clock.wrong_by += by
            time.now()
            assert time.steps == times * steps
        time.now()
        assert time.steps == 2 * steps

    run_virtual(story())
