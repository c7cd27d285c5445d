"""RULES 24: the region's lease, grace and margin travel with the session, to agents and guards.

Otherwise a region with short times fences a process that its guard, on compiled-in defaults, ends later.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.driver import ExitReason
from holdfast.agent.drivers.process.driver import KILL_MARGIN_MIN_MS, ProcessDriver
from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.agent.lease_times import NAME, AgentLeaseTimes, lease_times_on_disk
from holdfast.core.agent.processes import ProcessState
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULT_TIMES, DEFAULTS, Settings, agent_times, settings_problems
from tests.support.api.api_cluster import OPERATOR, Part, World, in_world
from tests.support.event_loop import in_a_loop
from tests.support.hosts.agent_world import Node, a_region, bind
from tests.support.processes.process_world import CLOCK, ProcessFolder, a_work, until

#: A safe set whose fence is past long before an agent with the defaults has ended anything.
SHORT = replace(DEFAULTS, session_lease=3_000, grace=2_000, kill_margin=1_000, fence_time=6_100)
TIMES = agent_times(SHORT)
DEFAULTS_BUT_ONE = replace(DEFAULTS, reservation_life=29_000)
#: A grace that nobody waits for.
LONG_MS = 100_000
STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"


def test_the_short_set_is_safe_and_the_defaults_do_not_keep_it() -> None:
    assert not settings_problems(SHORT)
    assert SHORT.fence_time < DEFAULTS.grace + DEFAULTS.kill_margin


@in_a_loop
async def test_a_guard_gets_the_grace_of_the_region_with_its_next_extension(yard: ProcessFolder) -> None:
    """It was begun under longer times, which hold for the session of then."""
    async with yard.driver() as driver:
        driver.keep(replace(DEFAULT_TIMES, grace=LONG_MS))
        deadline = CLOCK.boot() + 4_000
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=LONG_MS))
        driver.keep(replace(DEFAULT_TIMES, grace=100))
        driver.extend(deadline)
        assert (await until(driver, ProcessState.ENDED, limit=60)).why is ExitReason.DEADLINE
        assert CLOCK.boot() < deadline + LONG_MS


@in_a_loop
async def test_a_guard_that_hangs_is_killed_when_the_grace_of_its_last_extension_is_over(yard: ProcessFolder) -> None:
    """The agent counts with what it has told the guard, not with what that began with."""
    async with yard.driver() as driver:
        driver.keep(replace(DEFAULT_TIMES, grace=LONG_MS))
        deadline = CLOCK.boot() + 4_000
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=LONG_MS))
        driver.keep(replace(DEFAULT_TIMES, grace=100))
        driver.extend(deadline)
        os.kill(yard.record().guard.pid, signal.SIGSTOP)
        await until(driver, ProcessState.ENDED, limit=60)
        assert CLOCK.boot() < deadline + LONG_MS


def test_a_driver_says_for_how_long_work_outlives_its_lease(yard: ProcessFolder) -> None:
    driver = ProcessDriver(yard.settings(), CLOCK)
    assert driver.keep(TIMES) == TIMES.grace + TIMES.kill_margin
    hasty = replace(TIMES, kill_margin=1)
    assert driver.keep(hasty) == TIMES.grace + KILL_MARGIN_MIN_MS, "no guard is so quick"


def wait_for_times(folder: Path) -> None:
    for _ in range(1_000):
        if (folder / NAME).exists():
            return
        time.sleep(0.01)


def test_numbers_survive_the_agent(tmp_path: Path) -> None:
    first = lease_times_on_disk(tmp_path)
    assert first.now == DEFAULT_TIMES
    assert first.told(TIMES)
    assert not first.told(TIMES)
    assert not first.told(None), "a server that tells none changes nothing"
    wait_for_times(tmp_path)
    assert lease_times_on_disk(tmp_path).now == TIMES


def test_numbers_that_cannot_be_kept_on_disk_are_acted_by_all_the_same(tmp_path: Path) -> None:
    kept = lease_times_on_disk(tmp_path / "nowhere")
    assert kept.told(TIMES)
    assert kept.now == TIMES


@pytest.mark.parametrize("text", ["", "[]", '{"lease": 1}', "\xff"])
def test_numbers_that_cannot_be_read_are_told_again(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    assert lease_times_on_disk(tmp_path).now == DEFAULT_TIMES


async def configured(world: World, settings: Settings) -> tuple[Part, Node]:
    """A region with these numbers, and a node whose agent has heard them."""
    region = await a_region(world, exclusive=True, ordinals=(0, 1))
    await region.submit(OPERATOR, Configure(settings), key="configured")
    node = Node(world, region).start()
    await node.is_known()
    return region, node


def test_an_agent_says_anew_what_it_keeps_once_it_was_told_the_regions_numbers() -> None:
    async def main(world: World) -> None:
        region, node = await configured(world, SHORT)
        await world.until(lambda: region.state.nodes[node.uid].overrun == 3_000)
        assert node.times.now == TIMES
        await bind(region, node, 0)
        await world.until(lambda: region.state.slots[1, 0].phase is Phase.READY)
        assert [(one.overrun, one.work.grace_ms) for one in node.machine.processes.values()] == [(3_000, 2_000)]
        await node.kill()

    in_world(main)


def test_an_agent_registers_with_the_numbers_that_it_has_kept() -> None:
    """They are those of the region, which so tells it nothing new: it would say so never again."""

    async def main(world: World) -> None:
        region = await a_region(world, exclusive=True, ordinals=(0, 1))
        await region.submit(OPERATOR, Configure(SHORT), key="configured")
        node = Node(world, region)
        node.times = AgentLeaseTimes(TIMES)
        node.start()
        await node.is_known()
        assert region.state.nodes[node.uid].overrun == 3_000
        await bind(region, node, 0)
        await world.until(lambda: region.state.slots[1, 0].phase is Phase.READY)
        await node.kill()

    in_world(main)


def test_the_numbers_of_a_renewal_hold_before_the_lease_that_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the lease first, a guard would have the new one with the grace of before."""
    done: list[str] = []

    def noted(name: str, what: Any) -> Any:
        def play(driver: SimulatedDriver, told: Any) -> Any:
            done.append(name)
            return what(driver, told)

        return play

    monkeypatch.setattr(SimulatedDriver, "keep", noted("keep", SimulatedDriver.keep))
    monkeypatch.setattr(SimulatedDriver, "extend", noted("extend", SimulatedDriver.extend))

    async def main(world: World) -> None:
        _, node = await configured(world, SHORT)
        await world.until(lambda: "extend" in done)
        await node.kill()

    in_world(main)
    assert done[:3] == ["keep", "keep", "extend"], "its own, the region's, and then the lease"


def test_numbers_that_change_in_a_session_reach_what_runs_with_the_next_renewal() -> None:
    async def main(world: World) -> None:
        region, node = await configured(world, DEFAULTS_BUT_ONE)
        await bind(region, node, 0)
        await world.until(lambda: region.state.slots[1, 0].phase is Phase.READY)
        assert [one.overrun for one in node.machine.processes.values()] == [11_000]
        await region.submit(OPERATOR, Configure(SHORT), key="lowered")
        await world.until(lambda: [one.overrun for one in node.machine.processes.values()] == [3_000])
        await world.until(lambda: region.state.nodes[node.uid].overrun == 3_000)
        await node.kill()

    in_world(main)
