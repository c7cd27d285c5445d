"""RULES 5: who stands, and when. A sign of life is a touch; whoever cannot read the head does not stand.

Otherwise two servers depose one another for ever, or one that is cut off takes over from one that works.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable

import pytest

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import NotLeading
from holdfast.host.ledger.follower import WAIT_MAX_MS, Election
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.store import Head, Store, StoredBatch
from holdfast.sim.world.machine import SimClock
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore, Rival, stop_the_world
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world, keys_in, until
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease
PROOF = DEFAULTS.proof_interval
SILENCE = 6 * PROOF


async def terms_in(store: Store) -> list[tuple[int, str, int]]:
    """Each term, its leader, and when it began by ledger time."""
    return [
        (event.term, event.leader, record.at)
        for batch in await batches_in(store)
        for record in batch.records
        for event in record.events
        if isinstance(event, TermStarted)
    ]


async def folded(store: Store) -> RegionState:
    state = RegionState()
    for batch in await batches_in(store):
        fold(REGION, state, batch)
    return state


def test_of_several_servers_on_an_empty_store_exactly_one_leads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        servers = [world.server(FaultyStore(store), f"s{number}").start() for number in range(4)]
        await servers[0].clock.sleep(60_000)
        assert [server.ledger.role for server in servers].count(Role.LEADING) == 1
        assert len(await terms_in(store)) == 1

    in_world(story)


@pytest.mark.parametrize("how", ["stopped", "killed", "paused"])
def test_when_a_leader_goes_another_takes_over_after_six_proof_intervals_and_not_before(how: str) -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        way = FaultyStore(inner)
        clock = SimClock(world.loop)
        first = await world.server(way, "s1", clock=clock).start().leads()
        second = world.server(inner, "s2").start()
        await first.override("a")
        await first.clock.sleep(LEASE)
        if how == "stopped":
            await first.stop()
        elif how == "killed":
            way.hang()
        else:
            way.hang()
            clock.pause()
        gone_at = second.clock.boot()
        await second.leads()
        assert SILENCE - PROOF <= second.clock.boot() - gone_at <= SILENCE + 3 * PROOF
        assert isinstance(await second.override("b"), Committed)
        clock.resume()
        way.heal()
        await second.clock.sleep(LEASE * 2)
        assert second.ledger.role is Role.LEADING
        assert how == "stopped" or first.ledger.role is Role.FOLLOWING

    in_world(story)


def test_of_two_leaders_at_once_the_deposed_one_steps_down_on_its_next_write_and_nothing_is_applied_twice() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        old = await world.server(store, "s1").start().leads()
        sent = old.clock.wall()
        await old.send(ROOT, an_override(sent, "a"), key="a", sent=sent)
        rival = Rival(inner)
        await rival.stand()
        await rival.write(Envelope(ROOT, an_override(sent, "b"), rival.state.info.at, key="b"))
        assert old.ledger.role is Role.LEADING
        with pytest.raises(NotLeading, match="not executed"):
            await old.send(ROOT, an_override(sent, "b"), key="b", sent=sent)
        await until(lambda: old.state.info.seq == rival.state.info.seq, old.clock, 2 * PROOF)
        assert len(await keys_in(inner)) == 2
        assert state_digest(old.state) == state_digest(rival.state) == state_digest(await folded(inner))

    in_world(story)


def test_a_follower_that_is_cut_off_from_the_store_does_not_stand() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        leader = await world.server(inner, "s1").start().leads()
        way = FaultyStore(inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        for spoil in (way.cut, way.hang):
            spoil()
            await follower.clock.sleep(SILENCE * 4)
            assert follower.ledger.degraded_reason() != ""
            way.heal()
            await follower.clock.sleep(SILENCE * 4)
            assert follower.ledger.degraded_reason() == ""
        assert leader.ledger.role is Role.LEADING
        assert len(await terms_in(inner)) == 1

    in_world(story)


def test_a_follower_that_cannot_read_batches_does_not_stand_and_says_so() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        leader = await world.server(inner, "s1").start().leads()
        way = FaultyStore(inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        way.refuse("read")
        await leader.override("a")
        await leader.stop()
        await follower.clock.sleep(SILENCE * 4)
        assert follower.ledger.role is Role.FOLLOWING
        assert "read" in follower.ledger.degraded_reason()
        way.refuse()
        await follower.leads()
        assert len(follower.state.overrides) == 1

    in_world(story)


def test_a_reading_that_hangs_is_given_up_and_tried_again() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        leader = await world.server(inner, "s1").start().leads()
        way = Hanging(inner)
        follower = world.server(way, "s2").start()
        await until(lambda: follower.state.info.seq == 1, follower.clock)
        way.hangs = 1
        await leader.override("a")
        await until(lambda: follower.state.info.seq == 2, follower.clock)
        assert follower.ledger.degraded_reason() == ""

    in_world(story)


class Hanging(FaultyStore):
    """So many of its reads are never answered."""

    hangs = 0

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        if self.hangs:
            self.hangs -= 1
            await asyncio.Event().wait()
        return await super().read(first, size_bytes)


@pytest.mark.parametrize("pause_ms", [SILENCE, SILENCE * 3, 120_000])
@pytest.mark.parametrize("late_by_ms", [0, 1, 100, 250, 499])
def test_a_follower_that_was_paused_does_not_depose_a_leader_that_works(pause_ms: int, late_by_ms: int) -> None:
    """It wakes with an old answer of the store in its hands, and a clock that says that nobody gave a sign."""

    async def story(world: World) -> None:
        inner = MemoryStore()
        leader = await world.server(inner, "s1").start().leads()
        way, clock = FaultyStore(inner), SimClock(world.loop)
        follower = world.server(way, "s2", clock=clock).start()
        await follower.clock.sleep(LEASE)
        await asyncio.sleep(late_by_ms / 1000)
        way.answer_ms = pause_ms
        await asyncio.sleep(PROOF / 1000 * 2)
        way.answer_ms = 0
        await asyncio.sleep(pause_ms / 1000 + 60)
        assert leader.ledger.role is Role.LEADING
        assert follower.ledger.role is Role.FOLLOWING
        assert len(await terms_in(inner)) == 1

    in_world(story)


def test_a_pause_of_everybody_does_not_change_the_leader() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        leader = await world.server(inner, "s1").start().leads()
        world.server(inner, "s2").start()
        await leader.clock.sleep(LEASE)
        for _ in range(5):
            stop_the_world(world.loop, LEASE // 3)
            await leader.clock.sleep(LEASE)
        assert leader.ledger.role is Role.LEADING
        assert len(await terms_in(inner)) == 1

    in_world(story)


def test_terms_that_end_before_they_proved_themselves_for_a_lease_come_ever_more_slowly() -> None:
    """Touches fail on every server, appends do not: whoever leads must step down, and the next one fares no better."""

    async def gaps_with(servers: int, world: World) -> list[int]:
        inner = MemoryStore()
        for number in range(servers):
            way = FaultyStore(inner)
            way.refuse("touch")
            world.server(way, f"s{number}").start()
        await world.clock().sleep(900_000)
        began = [at for _, _, at in await terms_in(inner)]
        return [later - earlier for earlier, later in itertools.pairwise(began)]

    for servers in (1, 2, 3):
        gaps = in_world(functools.partial(gaps_with, servers))
        assert len(gaps) <= 13
        assert max(gaps) >= WAIT_MAX_MS
        assert max(gaps) <= WAIT_MAX_MS + 3 * LEASE
        assert gaps[0] < gaps[2] < gaps[4]


def test_a_term_that_proved_itself_for_a_lease_is_followed_at_once() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        for number in range(5):
            server = await world.server(inner, f"s{number}").start().leads()
            await server.clock.sleep(LEASE * 2)
            await server.stop()
            stopped_at = server.clock.boot()
            last = await world.server(inner, f"t{number}").start().leads()
            assert last.clock.boot() - stopped_at <= SILENCE + 4 * PROOF
            await last.clock.sleep(LEASE * 2)
            await last.stop()

    in_world(story)


def terms_story(check: Callable[[Election, VirtualClock], object]) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop)
        result = check(Election(clock, alone=False), clock)
        if asyncio.iscoroutine(result):
            await result

    run_virtual(story())


def test_the_wait_is_forgotten_after_ten_minutes() -> None:
    async def check(terms: Election, clock: VirtualClock) -> None:
        for term in range(1, 8):
            terms.saw(Head("log", term, b"d"), term, DEFAULTS, clock.boot())
            await clock.sleep(1_000)
        assert terms.wait(DEFAULTS) == WAIT_MAX_MS
        await clock.sleep(600_001)
        assert terms.wait(DEFAULTS) == SILENCE

    terms_story(check)


def test_a_server_that_may_not_start_a_log_can_lead_one_that_another_started() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        guest = world.server(inner, "guest", start=None).start()
        await guest.clock.sleep(LEASE)
        assert guest.ledger.role is Role.FOLLOWING
        first = await world.server(inner, "s1").start().leads()
        await first.clock.sleep(LEASE)
        await first.stop()
        await guest.leads()

    in_world(story)


def test_a_server_that_deposed_itself_waits_its_turn_like_everybody() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server: Server = await world.server(store).start().leads()
        await Rival(store.inner).stand()
        await until(lambda: server.ledger.leader is None, server.clock, 2 * PROOF + 20)
        deposed_at = server.clock.boot()
        await server.leads()
        assert server.clock.boot() - deposed_at >= SILENCE - 2 * PROOF

    in_world(story)


def test_a_server_that_stepped_down_and_follows_another_well_has_no_trouble() -> None:
    async def story(world: World) -> None:
        way = FaultyStore(MemoryStore())
        first = await world.server(way, "s1").start().leads()
        second = world.server(way.inner, "s2").start()
        way.cut()
        await second.leads()
        await until(lambda: first.ledger.leader is None, first.clock)
        assert first.ledger.degraded_reason() != ""
        way.heal()
        await first.clock.sleep(LEASE)
        assert first.state.info == second.state.info
        assert first.ledger.degraded_reason() == ""

    in_world(story)
