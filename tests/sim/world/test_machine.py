"""Machines that crash, restart and pause, with real ledger hosts on them."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.store import Head, StoredBatch, WriteOutcome
from holdfast.sim.world.machine import Incarnation, SeedStreams, SimClock, SimMachine, track_incarnations
from holdfast.sim.world.virtual_loop import VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import an_override, keys_in, start_log, until
from tests.support.ledgers.region import ROOT


class Door:
    """A way to a store that falls silent when its process dies: an append takes a while, and lands all the same."""

    def __init__(self, store: MemoryStore, incarnation: Incarnation, takes_ms: int = 20) -> None:
        self._store = store
        self._takes = takes_ms
        self._dead = asyncio.Event()
        incarnation.on_death(self._dead.set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        landing = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(self._takes / 1000, landing.set_result, None)
        await asyncio.shield(landing)
        outcome = await self._store.append(after, batch)
        if self._dead.is_set():
            await asyncio.Event().wait()
        return outcome


class Servers:
    """Ledgers by machine: what the program of each life made."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        track_incarnations(loop)
        self.loop = loop
        self.store = MemoryStore()
        self.ledgers: dict[str, Ledger[RegionState]] = {}

    def machine(self, name: str) -> SimMachine:
        clock = SimClock(self.loop)

        async def program(incarnation: Incarnation) -> None:
            door: Any = Door(self.store, incarnation)
            ledger = Ledger(REGION, door, clock, ServerIdentity(incarnation.name, start_log()))
            self.ledgers[name] = ledger
            await ledger.run()

        return SimMachine(self.loop, name, clock, program)

    async def leads(self, machine: SimMachine) -> Ledger[RegionState]:
        await until(lambda: self.ledgers[machine.name].role is Role.LEADING, machine.clock)
        return self.ledgers[machine.name]


async def submit(machine: SimMachine, ledger: Ledger[RegionState], key: str) -> object:
    now = machine.clock.wall()
    return await ledger.submit(Envelope(ROOT, an_override(now, key), now, key=key))


def test_a_server_that_crashes_and_restarts_goes_on_from_what_was_durable() -> None:
    async def story() -> None:
        servers = Servers()
        machine = servers.machine("s1")
        machine.start()
        await asyncio.sleep(0)
        for number in range(5):
            ledger = await servers.leads(machine)
            assert isinstance(await submit(machine, ledger, f"k{number}"), Committed)
            await machine.crash()
            machine.start()
            await asyncio.sleep(0)
        assert len(await keys_in(servers.store)) == 5
        assert (await servers.leads(machine)).durable.state.info.term == 6
        await machine.crash()

    run_virtual(story())


def test_a_crash_in_an_append_leaves_no_task_and_answers_nobody() -> None:
    async def story() -> None:
        servers = Servers()
        machine = servers.machine("s1")
        machine.start()
        await asyncio.sleep(0)
        ledger = await servers.leads(machine)
        asking = asyncio.create_task(submit(machine, ledger, "a"))
        await asyncio.sleep(0.005)
        mine = {asyncio.current_task(), asking}
        await machine.crash()
        assert {task for task in asyncio.all_tasks() if not task.done()} <= mine
        machine.start()
        await asyncio.sleep(0)
        again = await servers.leads(machine)
        assert again is not ledger
        asking.cancel()
        await asyncio.wait({asking})
        await machine.crash()

    run_virtual(story())


def test_a_paused_server_is_followed_by_another_and_steps_down_when_it_wakes() -> None:
    async def story() -> None:
        servers = Servers()
        first, second = servers.machine("s1"), servers.machine("s2")
        first.start()
        await asyncio.sleep(0)
        old = await servers.leads(first)
        second.start()
        await second.clock.sleep(1_000)
        first.pause()
        new = await servers.leads(second)
        assert isinstance(await submit(second, new, "b"), Committed)
        first.resume()
        await until(lambda: old.role is Role.FOLLOWING, second.clock)
        await until(lambda: old.durable.state.info == new.durable.state.info, second.clock)
        for machine in (first, second):
            await machine.crash()

    run_virtual(story())


def test_streams_of_chance_are_their_own_and_the_same_in_every_run() -> None:
    drawn = [SeedStreams(7).stream("network", "a").random() for _ in range(2)]
    assert drawn[0] == drawn[1] == 0.8312158590514809
    assert SeedStreams(7).stream("network", "b").random() != drawn[0]
    assert SeedStreams(8).stream("network", "a").random() != drawn[0]


def test_a_clock_that_runs_fast_shows_more_time_than_it_sleeps() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        fast, even = SimClock(loop, fast_per_million=1_000), SimClock(loop)
        before = (fast.boot(), even.boot())
        await fast.sleep(1_000_000)
        assert fast.boot() - before[0] == 1_000_000
        assert even.boot() - before[1] == 999_001
        fast.step(3_600_000)
        assert fast.wall() - even.wall() == 3_600_000

    run_virtual(story())
