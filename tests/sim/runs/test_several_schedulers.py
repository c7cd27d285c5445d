"""Several schedulers of every region, embedded and standalone, produce nothing that one could not: all judges agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.scheduling.queue import peers
from holdfast.sim.runs.run import SimulationRun, run, run_with_logs
from holdfast.sim.scenario import Scenario, read

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def crowded(name: str) -> Scenario:
    """A scenario whose regions have three embedded schedulers and two standalone ones."""
    found = read(SCENARIOS / f"{name}.yaml")
    regions = {
        region: replace(shape, schedulers=2, beside=True, leader_schedulers=3)
        for region, shape in found.topology.regions.items()
    }
    return replace(found, topology=replace(found.topology, regions=regions))


def by_scheduler(played: SimulationRun, counter: str) -> dict[str, int]:
    """A counter of all leaders, by scheduler."""
    found: dict[str, int] = {}
    for metrics in played.scene.servers.metrics:
        for (name, labels), count in metrics.counts.items():
            if name == counter:
                scheduler = dict(labels)["scheduler"]
                found[scheduler] = found.get(scheduler, 0) + count
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["partition-skew", "stale-cache", "zone-loss"])
@pytest.mark.parametrize("seed", [1, 2])
def test_five_schedulers_of_each_region_keep_every_promise(name: str, seed: int) -> None:
    report, played = run_with_logs(crowded(name), seed)
    assert report.findings == ()
    assert (report.verdicts.safety, report.verdicts.liveness) == ("held", "held")
    bound = by_scheduler(played, "scheduler_bound")
    # A small request is left whole to one of them, and not every seed has one for each.
    assert len(bound) >= 3
    assert {name.split("/")[0] for name in bound} == {"controller", "scheduler"}


@pytest.mark.timeout(300)
def test_the_same_seed_gives_the_same_run_with_several_schedulers() -> None:
    first, second = (run(crowded("partition-skew"), 3) for _ in range(2))
    assert first == second


@pytest.mark.timeout(300)
@pytest.mark.soak
@pytest.mark.parametrize("name", ["partition-skew", "stale-cache", "zone-loss", "leader-restart"])
def test_ten_seeds_keep_every_promise(name: str) -> None:
    for seed in range(1, 11):
        report = run(crowded(name), seed)
        assert (report.findings, report.verdicts.safety, report.verdicts.liveness) == ((), "held", "held"), seed


@pytest.mark.timeout(300)
def test_schedulers_that_are_told_of_nobody_are_refused_and_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of live schedulers is a hint: the ledger decides whatever it says."""

    def nobody(*_: Any) -> peers.SchedulerPeers:
        return peers.ALONE

    monkeypatch.setattr("holdfast.host.scheduler.embedded.peers_of", nobody)
    monkeypatch.setattr("holdfast.host.scheduler.standalone.peers_of", nobody)
    report, played = run_with_logs(crowded("partition-skew"), 1)
    assert (report.findings, report.verdicts.safety) == ((), "held")
    assert sum(by_scheduler(played, "scheduler_conflicts").values()) > 0
