"""A region's ledger as a server runs it, on SQLite with every commit synced: rate, restart, memory, snapshots.

One region passes through all steps: 5,000 nodes; single placements with 64 writers in flight; proposals of a hundred
with eight writers until all slots are placed; a snapshot during commits; a tail of 10,000 batches; and a restart in a
new process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.bench import report
from holdfast.bench.fixtures.ledger_load import LedgerLoad, leading_ledger
from holdfast.bench.fixtures.region import SLOTS_EACH
from holdfast.bench.store import RawFile
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.region.definition import REGION
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.clock import SystemClock
from holdfast.stores.sqlite.store import SqliteStore

#: The code of the new process.
_CODE = "import sys; from holdfast.bench.ledger import main; main(*sys.argv[1:])"
TAIL_EACH = 10
SINGLE_WORKLOADS = 60
#: Workloads that are opened before their proposals, which are valid for seconds, are sent.
AT_ONCE = 20

#: Figures of this benchmark, and of its restart in a new process.
ROWS = (
    "ledger.batch100.sqlite", "ledger.single64.sqlite", "ledger.commit_p99.during_snapshot",
    "ledger.commit_max.during_snapshot",
)  # fmt: skip
RESTART_ROWS = ("ledger.restart.1m", "ledger.memory.per_slot")


class LedgerSize(NamedTuple):
    """Size of the region: nodes, slots, and batches after its snapshot."""

    nodes: int
    slots: int
    tail: int


WHOLE, SMALL = LedgerSize(5_000, 1_000_000, 10_000), LedgerSize(1_000, 12_000, 100)


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of a ledger on SQLite."""
    sheet, size = report.ReportBuilder(), SMALL if small else WHOLE
    with sheet.part(*ROWS, *RESTART_ROWS), report.temporary_folder() as folder:
        with sheet.part(*ROWS):
            asyncio.run(_measure(sheet, folder, size))
        with sheet.part(*RESTART_ROWS):
            sheet.add(*measure_restart(folder / "ledger", size.slots))
    return sheet.report()


async def _measure(sheet: report.ReportBuilder, folder: Path, size: LedgerSize) -> None:
    async with leading_ledger(folder / "ledger", size.nodes) as load:
        raw = RawFile(folder / "raw")
        workloads = size.slots // SLOTS_EACH
        in_tail = -(-size.tail * TAIL_EACH // SLOTS_EACH)
        singles = min(SINGLE_WORKLOADS, workloads // 4)
        in_snapshot = max(1, min(20, workloads // 10))
        others = workloads - singles - in_tail - in_snapshot
        with sheet.part("ledger.single64.sqlite"):
            sheet.add(await _rate(load, raw, "ledger.single64.sqlite", singles, 1, 64, 30_000))
        with sheet.part("ledger.batch100.sqlite"):
            sheet.add(await _rate(load, raw, "ledger.batch100.sqlite", others, 100, 8, 60_000))
        with sheet.part("ledger.commit_p99.during_snapshot", "ledger.commit_max.during_snapshot"):
            sheet.add(*await _snapshot(load, raw, in_snapshot))
        for _ in range(in_tail):
            for envelope in await load.open(TAIL_EACH, 1):
                await load.send(envelope)


async def _rate(
    load: LedgerLoad, raw: RawFile, name: str, workloads: int, each: int, writers: int, least: float
) -> report.BenchResult:
    """Return durable placements per second, without the time for opening slots and writing proposals.

    The run has ten parts, of which the later five count. Baseline: placements per second that the raw file loop writes
    in the same parts, in batches of the same size.
    """
    tenth = max(1, workloads // 10)
    rates: list[tuple[float, float]] = []
    durable = load.ledger.durable
    for first in range(0, workloads, tenth):
        spent, batches, size, count = 0.0, 0, 0, min(tenth, workloads - first)
        for done in range(0, count, AT_ONCE):
            envelopes = await load.open(each, min(AT_ONCE, count - done))
            seq, before, start = durable.state.info.seq, durable.log_bytes, time.perf_counter()
            await load.write(envelopes, writers)
            spent += time.perf_counter() - start
            batches += durable.state.info.seq - seq
            size += durable.log_bytes - before
        plain = raw.times(size // batches, 50)
        placed = count * SLOTS_EACH
        rates.append((placed / spent, placed / batches * 50 / sum(plain)))
    measured, plain_rates = zip(*report.later_half(rates), strict=True)
    return report.at_least(name, median(measured), "placements/s", median(plain_rates), least, measured)


async def _snapshot(load: LedgerLoad, raw: RawFile, workloads: int) -> list[report.BenchResult]:
    """Measure commits of single placements by eight writers while a full snapshot is written."""
    plain = [took * 1_000 for took in raw.times(1_000, 500)]
    taking = asyncio.create_task(load.ledger.snapshots.take())
    took: list[float] = []
    for _ in range(workloads):
        for batch in _cut(await load.open(1, 1), 100):
            part = await load.write(batch, 8)
            if not taking.done():
                took += [one * 1_000 for one in part]
    await taking
    report.require(len(took) >= 100, f"the snapshot ended after {len(took)} commits, too few to measure")
    return [
        report.at_most("ledger.commit_p99.during_snapshot", report.p99(took), "ms", report.p99(plain), 25, took),
        report.at_most("ledger.commit_max.during_snapshot", max(took), "ms", max(plain), 60, took),
    ]


def _cut(items: list[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


class RestartMeasurement(Struct, frozen=True):
    """Report of the new process: time of its first accepted command, and its memory before and after."""

    accepted: float
    slots: int
    empty_bytes: int
    resident_bytes: int


def measure_restart(folder: Path, slots: int) -> list[report.BenchResult]:
    """Start a process on this store and wait until it accepts a command."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", _CODE, str(folder)], check=False, capture_output=True, timeout=600)
    report.require(
        not done.returncode, f"the new process ended with {done.returncode}: {done.stderr.decode()[-400:].strip()}"
    )
    found = msgspec.json.decode(done.stdout, type=RestartMeasurement)
    report.require(found.slots == slots, f"{found.slots} slots after the restart, not {slots}")
    per_slot = (found.resident_bytes - found.empty_bytes) / slots
    return [
        report.at_most("ledger.restart.1m", found.accepted - start, "s", _read_seconds(folder), 10),
        report.at_most("ledger.memory.per_slot", per_slot, "bytes", size / slots, 1_536),
    ]


def _read_seconds(folder: Path) -> float:
    """Return the baseline of a restart: the seconds to read every file of the store once."""
    start = time.perf_counter()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.read_bytes()
    return time.perf_counter() - start


def main(folder: str) -> None:
    """Run in the new process: print the measurement as JSON."""
    empty = report.resident_bytes()
    print(msgspec.json.encode(asyncio.run(_restart(Path(folder), empty))).decode())


async def _restart(folder: Path, empty: int) -> RestartMeasurement:
    clock = SystemClock()
    store = await SqliteStore.open(folder)
    ledger = Ledger(REGION, store, clock, ServerIdentity("again"))
    serving = asyncio.create_task(ledger.run())
    try:
        while ledger.role is not Role.LEADING:
            report.require(not serving.done(), "the ledger ended before it became leader")
            await asyncio.sleep(0.005)
        command = OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "bench", "", "measured", clock.wall() + 3_600_000)
        answer = await ledger.submit(Envelope("person/bench", command, clock.wall(), key="restart"))
        report.require(isinstance(answer, Committed), answer)
        accepted = time.monotonic()
        state = ledger.durable.state
        return RestartMeasurement(accepted, len(state.slots), empty, report.resident_bytes())
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await store.close()
