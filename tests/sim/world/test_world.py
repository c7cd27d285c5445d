"""A world by its verbs: each does what it says to those it names, and heals."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.host.ports.store import Head, StoreError
from holdfast.host.ports.transport import NoAnswer, Reply, Request, TransportError, Unreachable
from holdfast.sim.world.virtual_loop import SimulationStalled, run_virtual
from holdfast.sim.world.world import SimProcess, World


class Small:
    """Two machines that answer pings, count their lives, and look at a store."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.processes: dict[str, SimProcess] = {}
        self.heads: dict[str, list[Head | str]] = {"a": [], "b": []}
        for name in ("a", "b"):
            self.world.machine(name, self.live)

    async def live(self, process: SimProcess) -> None:
        self.processes[process.machine] = process

        async def pong(request: Request) -> Reply:
            return Reply(body=f"{request.body.decode()} reached {process.name}".encode())

        process.transport.serve(pong)
        store = process.store("log")
        while True:
            try:
                self.heads[process.machine].append(await store.head())
            except StoreError:
                self.heads[process.machine].append("cut")
            await process.clock.sleep(1_000)

    async def ping(self, a: str, b: str) -> str:
        try:
            reply = await self.processes[a].transport.call(b, Request("GET", "/ping", body=a.encode()), 2_000)
            return reply.body.decode()
        except TransportError as error:
            return type(error).__name__


def tell(story: Any) -> World:
    async def run() -> World:
        small = Small()
        await asyncio.sleep(0.5)
        await story(small)
        await small.world.end()
        return small.world

    return run_virtual(run())


def test_a_crashed_machine_is_gone_until_it_is_restarted_as_another_life() -> None:
    async def story(small: Small) -> None:
        assert await small.ping("a", "b") == "a reached b.1"
        await small.world.crash("b")
        assert await small.ping("a", "b") == Unreachable.__name__
        small.world.restart("b")
        await asyncio.sleep(0.1)
        assert await small.ping("a", "b") == "a reached b.2"

    assert [what for _, what in tell(story).timeline] == ["crash b", "restart b"]


def test_a_paused_machine_answers_when_it_goes_on_and_finds_that_time_has_passed() -> None:
    async def story(small: Small) -> None:
        small.world.pause("b")
        assert await small.ping("a", "b") == NoAnswer.__name__
        before = small.processes["b"].clock.boot()
        looked = len(small.heads["b"])
        await asyncio.sleep(10)
        assert len(small.heads["b"]) == looked
        small.world.resume("b")
        await asyncio.sleep(1.5)
        assert len(small.heads["b"]) > looked
        assert small.processes["b"].clock.boot() - before >= 11_000
        assert await small.ping("a", "b") == "a reached b.1"

    tell(story)


def test_a_partition_cuts_two_machines_and_join_mends_it() -> None:
    async def story(small: Small) -> None:
        small.world.partition("a", "b")
        assert await small.ping("a", "b") == NoAnswer.__name__
        small.world.join("a", "b")
        assert await small.ping("a", "b") == "a reached b.1"
        small.world.partition("a", "b", one_way=True)
        assert await small.ping("b", "a") == NoAnswer.__name__, "its answer is lost"
        small.world.heal()
        assert await small.ping("b", "a") == "b reached a.1"

    tell(story)


def test_an_isolated_machine_hears_nobody_and_reaches_its_store() -> None:
    async def story(small: Small) -> None:
        small.world.isolate("a")
        assert await small.ping("b", "a") == NoAnswer.__name__
        looked = len(small.heads["a"])
        await asyncio.sleep(3)
        assert "cut" not in small.heads["a"][looked:]
        small.world.join("a")
        assert await small.ping("b", "a") == "b reached a.1"

    tell(story)


def test_a_clogged_way_takes_longer() -> None:
    async def story(small: Small) -> None:
        small.world.clog("a", "b", 3_000)
        assert await small.ping("a", "b") == NoAnswer.__name__
        small.world.heal()
        assert await small.ping("a", "b") == "a reached b.1"

    tell(story)


def test_a_store_that_is_cut_off_or_hangs_is_so_for_one_machine_only() -> None:
    async def story(small: Small) -> None:
        small.world.cut_store("a", "log")
        await asyncio.sleep(3)
        assert small.heads["a"][-1] == "cut"
        assert "cut" not in small.heads["b"]
        small.world.mend_store("a", "log")
        await asyncio.sleep(2)
        assert small.heads["a"][-1] != "cut"
        looked = len(small.heads["b"])
        small.world.hang_store("b", "log")
        await asyncio.sleep(5)
        assert len(small.heads["b"]) <= looked + 1
        small.world.mend_store("b", "log")

    tell(story)


def test_a_clock_that_is_set_is_wrong_by_that_much_and_even_time_goes_on() -> None:
    async def story(small: Small) -> None:
        clock = small.processes["a"].clock
        wall, boot = clock.wall(), clock.boot()
        small.world.step_clock("a", -60_000)
        assert clock.wall() == wall - 60_000
        assert clock.boot() == boot

    tell(story)


def test_two_worlds_of_one_seed_are_one_and_of_two_seeds_are_two() -> None:
    async def digest(seed: int) -> str:
        small = Small(seed)
        chance = small.world.chance.stream("test")
        await asyncio.sleep(0.5)
        for _ in range(20):
            await small.ping(*chance.sample(["a", "b"], 2))
        await small.world.end()
        return small.world.digest()

    def of(seed: int) -> Coroutine[Any, Any, str]:
        return digest(seed)

    assert run_virtual(of(1)) == run_virtual(of(1))
    assert run_virtual(of(1)) != run_virtual(of(2))


def test_a_loop_in_which_nothing_will_ever_happen_says_so() -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalled):
        run_virtual(wait_for_ever())


def test_what_is_due_at_the_same_time_runs_in_the_order_in_which_it_was_asked_for() -> None:
    async def story() -> list[int]:
        found: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_later(1.0, found.append, number)
        await asyncio.sleep(2)
        return found

    assert run_virtual(story()) == list(range(50))
