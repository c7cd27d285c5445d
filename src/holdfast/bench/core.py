"""The pure core: placements decided, evolved, encoded, chained and merged per second; forking; memory per slot."""

from __future__ import annotations

import gc
import time
from statistics import median

from holdfast.bench import report
from holdfast.bench.fixtures.region import SLOTS_EACH, BenchRegion

NODES, SLOTS = 5_000, 1_000_000
SMALL_NODES, SMALL_SLOTS = 50, 4_000
#: Proposals per batch: those that eight writers have in flight, and those of sixty-four.
BATCH_OF_100 = 8
BATCH_OF_1 = 64
SINGLE_WORKLOADS = 60


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of the core. The garbage collector is off while deciding, as on a leader."""
    sheet = report.ReportBuilder()
    nodes, slots = (SMALL_NODES, SMALL_SLOTS) if small else (NODES, SLOTS)
    with sheet.part("core.batch100", "core.single", "core.fork", "core.memory.per_slot"):
        baseline = report.stores_per_second()
        before = report.resident_bytes()
        region = BenchRegion(nodes)
        singles = _rates(region, min(SINGLE_WORKLOADS, slots // SLOTS_EACH // 2), 1, BATCH_OF_1)
        batches = _rates(region, slots // SLOTS_EACH - len(region.assignments), 100, BATCH_OF_100)
        gc.collect()
        per_slot = (report.resident_bytes() - before) / slots
        sheet.add(
            report.at_least("core.batch100", median(batches), "placements/s", baseline, 80_000, batches),
            report.at_least("core.single", median(singles), "placements/s", baseline, 40_000, singles),
            _fork(region),
            report.at_most("core.memory.per_slot", per_slot, "bytes", _flat_bytes(), 1_200),
        )
    return sheet.report()


def _rates(region: BenchRegion, workloads: int, each: int, batch: int) -> list[float]:
    """Return placements per second, without the time for opening slots and writing proposals.

    The run has ten parts. The later five count, because the region is fullest then.
    """
    tenth = max(1, workloads // 10)
    rates = []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for first in range(0, workloads, tenth):
            count = min(tenth, workloads - first)
            spent = sum(_place_workload(region, each, batch) for _ in range(count))
            rates.append(count * SLOTS_EACH / spent)
    finally:
        gc.enable()
        gc.unfreeze()
    return list(report.later_half(rates))


def _place_workload(region: BenchRegion, each: int, batch: int) -> float:
    """Open a workload and place it; return the seconds of the placing."""
    envelopes = region.proposals(region.open_workload(), each)
    start = time.perf_counter()
    for first in range(0, len(envelopes), batch):
        region.commit(envelopes[first : first + batch])
    return time.perf_counter() - start


def _fork(region: BenchRegion) -> report.BenchResult:
    """Measure a fork of the full state. Baseline: the copy of one plain dict with as many rows."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        region.state.fork()
        times.append((time.perf_counter() - start) * 1000)
    plain = dict(region.state.slots.unordered())

    def copy() -> None:
        plain.copy()

    copied = report.median_of(5, copy) * 1000
    return report.at_most("core.fork", median(times), "ms", copied, 10, times)


def _flat_bytes() -> float:
    """Return the baseline of memory: a row of twenty references and its dict entry, nothing else."""
    return 16 + 21 * 8 + 100
