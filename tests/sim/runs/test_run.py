"""A run tells what went wrong in it, in whomever: nothing that fails without a fault is taken for weather."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.host.ledger.ledger import Ledger
from holdfast.sim import scenario
from holdfast.sim.actors.users import Users
from holdfast.sim.cluster import cluster, fault_injection
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.runs.run import SimulationRun, run
from holdfast.sim.runs.settle_phase import SettlePhase
from holdfast.sim.scenario import read

SCENARIO = read(Path(__file__).parents[3] / "scenarios" / "policy-rollback.yaml")


async def fail(*_args: Any, **_named: Any) -> None:
    raise KeyError("planted")


def test_people_who_fail_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Users, "do", fail)
    report = run(SCENARIO, 1)
    assert "nothing-fails" in {finding.promise for finding in report.findings}


def test_a_server_that_fails_to_answer_is_found_though_it_is_no_answer_to_whoever_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ledger, "read", fail)
    report = run(SCENARIO, 1)
    assert {finding.promise for finding in report.findings} == {"nothing-fails"}


def test_people_who_wait_for_an_answer_for_ever_are_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Users._once

    async def deaf(self: Users, client: Any, command: Any, key: str) -> str:
        if key.endswith("-20"):
            await self._process.clock.sleep(1 << 40)
        return await once(self, client, command, key)

    monkeypatch.setattr(Users, "_once", deaf)
    report = run(SCENARIO, 1)
    assert report.verdicts.liveness == "broken"
    assert "people are not done" in report.unsettled[0]


def test_whoever_heard_badly_hears_well_once_the_world_is_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = SettlePhase.calm
    heard: list[bool] = []

    def after(self: SettlePhase) -> None:
        ears = list(self.scene.servers.watch_faults.values())
        for one in ears:
            one.become(Random(1))
        calm(self)
        heard.extend(one._chance is None for one in ears)

    monkeypatch.setattr(SettlePhase, "calm", after)
    run(SCENARIO, 1)
    assert heard
    assert all(heard)


def test_a_server_that_is_missing_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = SettlePhase.calm

    def without_one(self: SettlePhase) -> None:
        calm(self)
        del self.scene.servers.ledgers["eu-1"]

    monkeypatch.setattr(SettlePhase, "calm", without_one)
    assert any("missing" in one for one in run(SCENARIO, 1).unsettled)


def test_a_judgement_that_fails_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: SimulationRun) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(SimulationRun, "_judge", broken)
    with pytest.raises(KeyError, match="planted"):
        run(SCENARIO, 1)


def test_a_server_whose_state_is_not_the_fold_of_its_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = SimulationRun._judge_across

    def spoil(self: SimulationRun) -> None:
        judge(self)
        mine: SimulatedCluster = self.scene
        for name in mine.cast.servers["eu"]:
            mine.servers.ledgers[name].durable.state.priority_classes.drop("best-effort")

    monkeypatch.setattr(SimulationRun, "_judge_across", spoil)
    assert "same-state" in {finding.promise for finding in run(SCENARIO, 1).findings}


def test_a_task_of_a_server_that_is_given_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = SettlePhase.calm

    def give_up(self: SettlePhase) -> None:
        calm(self)
        self.scene.servers.metrics[0].count("task_gave_up", task="link")

    monkeypatch.setattr(SettlePhase, "calm", give_up)
    assert {finding.promise for finding in run(SCENARIO, 1).findings} == {"nothing-fails"}


def test_what_a_scenario_may_name_is_what_there_is() -> None:
    assert sorted(scenario.FAULTS) == sorted(fault_injection.KINDS)
    assert sorted(scenario.NETWORKS) == sorted(cluster.NETWORKS)
    assert sorted(scenario.STORES) == sorted(cluster.STORES)
