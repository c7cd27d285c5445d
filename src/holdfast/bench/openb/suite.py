"""Unallocated devices at full demand: the published experiment on a real GPU cluster, through scheduler and ledger.

Pods arrive one at a time, and each is placed at once or dropped; nobody leaves. A figure is what is not allocated when
arrivals reach the capacity, in percent of all devices: the mean of ten seeds, with the best and the worst of them. The
baseline of a list is the published figure of fragmentation gradient descent (FGD), which is the target as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from holdfast.bench.fixtures.openb_trace import node_shapes, workload_shapes
from holdfast.bench.fixtures.region import NodeShape
from holdfast.bench.openb.arrivals import arrivals, asked_milli
from holdfast.bench.openb.baselines import BestFitScore
from holdfast.bench.openb.pool import Pool
from holdfast.bench.report import BenchReport, ReportBuilder, Unmeasured, at_most, require
from holdfast.core.model.objects.policies import PolicyDocument
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.resources import Resources
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins

#: Published, in percent: of fragmentation gradient descent by list, and of best fit on the default list.
FGD = {"default": 4.77, "gpushare40": 6.04, "multigpu20": 4.47, "gpuspec10": 5.34, "cpu100": 4.79}
BEST_FIT = 7.14
#: Points by which best fit may differ here: another order of equal nodes, and another shuffle.
NEAR_POINTS = 0.3
SEEDS = range(42, 52)
#: Processor time of a decision, in those of best fit.
COST_MOST = 3.0
UNIT = "percent unallocated"

_REQUIRES = (("arch", "x86"),)
_TOLERATES = (Toleration("dedicated", "batch"),)
_BEST_FIT = Plugins(BUILT_IN.filters, (BestFitScore(),)), PolicyDocument(scores=((BestFitScore.name, 1),))
_OURS = BUILT_IN, PolicyDocument()
ROWS = (
    "openb.default.bestfit", "openb.default.cost", *(f"openb.{name}.ours" for name in FGD),
    "openb.default.schedulers4", "openb.default.regions3",
)  # fmt: skip


class _Outcome(NamedTuple):
    """Of one seed: percent unallocated, and processor seconds per decision."""

    unallocated: float
    decision_s: float


class _Cluster(NamedTuple):
    """Nodes, pods by list, and seeds."""

    machines: list[NodeShape]
    pods: dict[str, list[Template]]
    seeds: Sequence[int]

    def run(
        self, name: str, rules: tuple[Plugins, PolicyDocument], *, schedulers: int = 1, regions: int = 1
    ) -> list[_Outcome]:
        """Run the experiment once per seed."""
        return [self._run(name, rules, schedulers, regions, seed) for seed in self.seeds]

    def _run(
        self, name: str, rules: tuple[Plugins, PolicyDocument], schedulers: int, regions: int, seed: int
    ) -> _Outcome:
        capacity = sum(one.capacity.gpu for one in self.machines)
        pools = [Pool(self.machines[first::regions], *rules, schedulers) for first in range(regions)]
        arrived = 0
        for pod in arrivals(self.pods[name], capacity, seed):
            arrived += asked_milli(pod)
            if arrived > capacity:
                break
            # A pod goes to the region with most free devices, and on to the next one where it finds no node.
            for pool in sorted(pools, key=lambda pool: -pool.free_milli):
                if pool.place(pod):
                    break
        for pool in pools:
            pool.must_add_up()
        placed, decisions = sum(pool.placed_milli for pool in pools), sum(pool.decisions for pool in pools)
        return _Outcome(100 - 100 * placed / capacity, sum(pool.spent_s for pool in pools) / decisions)


def run(traces: Path | None, *, small: bool = False) -> BenchReport:
    """Measure all figures."""
    sheet = ReportBuilder()
    with sheet.part(*ROWS):
        cluster = _small() if small else _published(traces)
        with sheet.part(*ROWS[:3]):
            _measure_default(sheet, cluster, small=small)
        for name in list(FGD)[1:]:
            with sheet.part(f"openb.{name}.ours"):
                _add(sheet, f"openb.{name}.ours", cluster.run(name, _OURS), FGD[name], FGD[name])
        with sheet.part("openb.default.schedulers4"):
            found = cluster.run("default", _OURS, schedulers=4)
            _add(sheet, "openb.default.schedulers4", found, FGD["default"], BEST_FIT)
        with sheet.part("openb.default.regions3"):
            found = cluster.run("default", _OURS, regions=3)
            _add(sheet, "openb.default.regions3", found, FGD["default"], BEST_FIT)
    return sheet.report()


def _measure_default(sheet: ReportBuilder, cluster: _Cluster, *, small: bool) -> None:
    best_fit, ours = cluster.run("default", _BEST_FIT), cluster.run("default", _OURS)
    if not small:
        found = mean(one.unallocated for one in best_fit)
        require(found >= BEST_FIT - NEAR_POINTS, f"best fit leaves {found:.2f} %: this is not the published experiment")
    _add(sheet, "openb.default.bestfit", best_fit, BEST_FIT, round(BEST_FIT + NEAR_POINTS, 2))
    costs = [mine.decision_s / other.decision_s for mine, other in zip(ours, best_fit, strict=True)]
    other_us = 1e6 * mean(one.decision_s for one in best_fit)
    sheet.add(at_most("openb.default.cost", median(costs), "times best fit", other_us, COST_MOST, costs))
    _add(sheet, "openb.default.ours", ours, FGD["default"], FGD["default"])


def _add(sheet: ReportBuilder, figure: str, found: list[_Outcome], baseline: float, most: float) -> None:
    left = [one.unallocated for one in found]
    sheet.add(at_most(figure, mean(left), UNIT, baseline, most, left))


def _published(traces: Path | None) -> _Cluster:
    if traces is None:
        raise Unmeasured("the trace is missing: pass --traces FOLDER")
    pods = {name: workload_shapes(traces, _REQUIRES, _TOLERATES, name) for name in FGD}
    return _Cluster(node_shapes(traces), pods, SEEDS)


def _small() -> _Cluster:
    """A few nodes and pods of the same kinds, and two seeds."""
    machines = [
        NodeShape(Resources(96_000, 393_216, 0, 8_000), (Device("G2"),) * 8),
        NodeShape(Resources(104_000, 524_288, 0, 2_000), (Device("T4"),) * 2),
        NodeShape(Resources(16_000, 122_880, 0, 2_000), (Device("P100"),) * 2),
    ] * 4
    pods = [_pod(cpu, gpus, milli) for cpu, gpus, milli in ((12, 1, 1000), (4, 1, 470), (8, 1, 810), (9, 2, 1000))]
    pods += [_pod(12, 0, 1000), _pod(6, 1, 1000, ("T4",))]
    return _Cluster(machines, dict.fromkeys(FGD, pods * 8), SEEDS[:2])


def _pod(cores: int, gpus: int, milli: int, models: tuple[str, ...] = ()) -> Template:
    need = Resources(cores * 1_000, cores * 3_000, 0, gpus * milli)
    return Template(
        ("work",), need=need, gpus=gpus, gpu_milli=milli, gpu_models=models, require=_REQUIRES, tolerate=_TOLERATES
    )
