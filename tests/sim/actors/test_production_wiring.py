"""Who is in a simulated world is who production has: each is put together by the wiring, over ports of that world."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.region.definition import REGION
from holdfast.host.ledger.ledger import Role
from holdfast.replay.recording import PlannedFault, PlannedVariant, RunPlan
from holdfast.sim.actors.servers import url
from holdfast.sim.checks.ledger_audit import LedgerAudit
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.cluster.fault_injection import FaultInjector
from holdfast.sim.scenario import Scenario, parse
from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.virtual_loop import run_virtual
from holdfast.wiring.server_ports import CONTROLLER_OPTIONS

ROOT = Path(__file__).parents[3]
CALM = """
name: calm
says: Nothing goes wrong.
network: calm
stores: calm
length: 30s
workloads:
  risk-api: {replicas: 4, regions: [REGION]}
"""


def a_world(region: str = "eu") -> Scenario:
    return parse(CALM.replace("REGION", region), "in a test")


def told(
    scenario: Scenario,
    story: Callable[[SimulatedCluster], Coroutine[Any, Any, None]],
    *faults: PlannedFault,
    odd: tuple[PlannedVariant, ...] = (),
) -> None:
    """A story in a world in which people ask for workloads and nothing else."""

    async def play() -> None:
        scene = SimulatedCluster(scenario, 1, RunPlan(30_000, faults, (), odd))
        try:
            await story(scene)
        finally:
            await scene.world.end()

    run_virtual(play())


async def passed(scene: SimulatedCluster, ms: int) -> None:
    await asyncio.sleep(ms / 1000)
    assert scene.world.failures() == []


def serving(scene: SimulatedCluster, region: str) -> int:
    return sum(slot.phase.value == "serving" for slot in scene.audits[region].state.slots.values())


def counted(scene: SimulatedCluster, name: str) -> int:
    return sum(metrics.counted(name) for metrics in scene.servers.metrics)


@pytest.mark.parametrize(("region", "apart"), [("eu", 1), ("us", 0)])
def test_replicas_are_placed_by_a_scheduler_apart_and_by_one_beside_the_leader(region: str, apart: int) -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 30_000)
        assert serving(scene, region) == 4
        sessions = [one.principal for one in scene.audits[region].state.sessions.values()]
        assert sum(one.startswith("scheduler/") for one in sessions) == apart == len(scene.cast.schedulers[region])

    told(a_world(region), story)


def test_a_leader_runs_as_many_schedulers_as_its_settings_say() -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 30_000)
        assert serving(scene, "us") == 4
        tasks = [scene.servers.ledgers[name].leader_tasks for name in scene.cast.servers["us"]]
        named = [sorted(name for name in one if name.startswith("scheduler")) for one in tasks]
        assert named == [["scheduler", "scheduler-2", "scheduler-3"]] * len(tasks)

    found = a_world("us")
    regions = found.topology.regions
    regions = {**regions, "us": replace(regions["us"], leader_schedulers=3)}
    told(replace(found, topology=replace(found.topology, regions=regions)), story)


@pytest.mark.parametrize("region", ["eu", "us"])
def test_a_region_with_one_scheduler_more_has_one_apart_and_one_beside_its_leader(region: str) -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 30_000)
        assert serving(scene, region) == 4
        sessions = [one.principal for one in scene.audits[region].state.sessions.values()]
        assert [one for one in sessions if one.startswith("scheduler/")] == [f"scheduler/{region}-s1"]
        assert scene.cast.schedulers[region] == [f"{region}-s1"]
        beside = [scene.servers.ledgers[name].leader_tasks for name in scene.cast.servers[region]]
        assert all("scheduler" in one for one in beside)

    told(a_world(region), story, odd=(PlannedVariant(f"region/{region}", "scheduler", 7),))


def test_servers_keep_their_name_and_their_token_through_their_lives() -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 10_000)
        for name in ("eu-1", "eu-2"):
            await scene.world.crash(name)
            scene.world.restart(name)
            await passed(scene, 10_000)
        ledgers = scene.servers.ledgers
        assert [ledgers[name].identity.server for name in ("eu-1", "eu-2")] == [url("eu-1"), url("eu-2")]
        assert counted(scene, "server_tokens_minted") == len(scene.audits) * 2

    told(a_world(), story)


def test_a_follower_hands_on_what_people_ask_of_it() -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 30_000)
        assert counted(scene, "api_forwarded") > 0

    told(a_world(), story)


def test_a_server_that_cannot_start_is_started_again_until_it_can() -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 5_000)
        await scene.world.crash("eu-1")
        scene.world.cut_store("eu-1", "eu")
        del scene.servers.ledgers["eu-1"]
        scene.world.restart("eu-1")
        await passed(scene, 5_000)
        assert "eu-1" not in scene.servers.ledgers
        scene.world.mend_store("eu-1", "eu")
        await passed(scene, 5_000)
        assert scene.servers.ledgers["eu-1"].role in (Role.LEADING, Role.FOLLOWING)

    told(a_world(), story)


def test_a_server_that_has_to_stop_is_told_as_a_failure_that_no_fault_explains() -> None:
    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 10_000)
        scene.world.store("eu").go_backwards(5)
        with pytest.raises(AssertionError, match="ended with STOPPED"):
            await passed(scene, 20_000)

    told(a_world(), story)


@pytest.mark.parametrize("draw", range(4))
def test_a_stale_view_grows_old_while_its_session_lives_on(draw: int) -> None:
    fault = PlannedFault(15_000, "stale-view", "eu-s1", 12_000, draw)

    async def story(scene: SimulatedCluster) -> None:
        await passed(scene, 15_000)
        mirror = scene.mirrors["eu-s1"]
        assert mirror.age_ms() < 2_000
        session = [one for one in scene.audits["eu"].state.sessions.values() if one.principal == "scheduler/eu-s1"]
        strike = FaultInjector(scene)
        striking = asyncio.create_task(strike.run((fault,), lambda: None))
        oldest = 0
        for _ in range(11):
            await passed(scene, 1_000)
            oldest = max(oldest, mirror.age_ms())
        assert oldest >= 400
        await passed(scene, 10_000)
        await striking
        assert mirror.age_ms() < 2_000
        left = [one for one in scene.audits["eu"].state.sessions.values() if one.principal == "scheduler/eu-s1"]
        assert left == session

    told(a_world(), story)


def test_servers_of_a_world_have_as_many_workers_as_those_of_production() -> None:
    async def story(scene: SimulatedCluster) -> None:
        assert scene.servers.manner.controller_options is CONTROLLER_OPTIONS

    told(a_world(), story)


def test_what_a_person_was_told_to_be_done_and_is_not_in_the_log_is_found() -> None:
    async def story() -> None:
        audit = LedgerAudit(REGION, SimDisk("eu"))
        audit.accepted("person/root", "a-key", 0)
        assert [one.promise for one in await audit.finish()] == ["acknowledged-is-durable"]

    run_virtual(story())


def test_nobody_in_a_world_is_put_together_but_by_the_wiring() -> None:
    """Of the parts of servers, agents and schedulers none is made in the simulator, but for a server left behind."""
    parts = {"Api", "Agent", "Controllers", "Endpoints", "Link", "Mirror", "SchedulerApart", "SchedulerBeside", "Voice"}
    made = {
        (path.name, node.func.id)
        for path in sorted((ROOT / "src" / "holdfast" / "sim").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {one for one in made if one[1] in parts} == set()
    assert {name for name, call in made if call == "Ledger"} == {"servers.py"}
