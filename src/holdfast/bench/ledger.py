"""A region's ledger as a server runs it, on SQLite with every commit synced: rate, restart, memory, snapshots.

One region goes through it all: 5,000 nodes; single placements with 64 writers in flight; proposals of a hundred with
eight, until the slots stand; a snapshot while commits go on; a tail of 10,000 batches; and a restart in a new process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from holdfast.bench.raw import RawLoop
from holdfast.bench.region import MACHINE, SETTINGS, SLOTS_EACH, BenchRegion, Machine
from holdfast.bench.report import Report, Result, Sheet, Unmeasured, at_least, at_most, later_half, must, p99, scratch
from holdfast.bench.restart import measure_restart
from holdfast.core.ledger.draft import Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.settings import Settings
from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from holdfast.host.clock import SystemClock
from holdfast.host.ledger import Identity, Ledger, Role
from holdfast.host.proof import Renewal
from holdfast.host.snapshots import Keeping
from holdfast.host.store import Head, Stored, Written
from holdfast.stores.sqlite import SqliteStore

TAIL_EACH = 10
SINGLE_WORKLOADS = 60
#: How many workloads are opened before their proposals, which are valid for seconds, are sent.
AT_ONCE = 20
#: Snapshots are taken when the benchmark says so.
BY_HAND = Keeping(log_bytes=1 << 50, log_batches=1 << 50)


#: Of this benchmark, and of its restart in a new process.
ROWS = (
    "ledger.batch100.sqlite", "ledger.single64.sqlite", "ledger.commit_p99.during_snapshot",
    "ledger.commit_max.during_snapshot",
)  # fmt: skip
AGAIN = ("ledger.restart.1m", "ledger.memory.per_slot")


class Size(NamedTuple):
    """How large the region is: its nodes, its slots, and the batches after its snapshot."""

    nodes: int
    slots: int
    tail: int


WHOLE, SMALL = Size(5_000, 1_000_000, 10_000), Size(1_000, 12_000, 100)


def run(*, small: bool = False) -> Report:
    """All figures of a ledger on SQLite."""
    sheet, size = Sheet(), SMALL if small else WHOLE
    with sheet.part(*ROWS, *AGAIN), scratch() as folder:
        with sheet.part(*ROWS):
            asyncio.run(_measure(sheet, folder, size))
        with sheet.part(*AGAIN):
            sheet.add(*measure_restart(folder / "ledger", size.slots))
    return sheet.report()


class Load:
    """A ledger under load, and the region's own view of what to send it."""

    def __init__(self, ledger: Ledger[RegionState], region: BenchRegion) -> None:
        self.ledger = ledger
        self.region = region

    async def send(self, envelope: Envelope[Any]) -> None:
        """One command, which must be accepted whole."""
        answer = await self.ledger.submit(envelope)
        must(isinstance(answer, Landed), answer)
        must(isinstance(answer, Landed) and not answer.answer, "a placement was refused")

    async def open(self, each: int, workloads: int) -> list[Envelope[Any]]:
        """Workloads whose slots wait, and the proposals for all of them."""
        assignments = []
        for _ in range(workloads):
            state = self.ledger.durable.state
            assignment, shipped, opened = self.region.next_workload(state.place.cursor)
            now = self.region.at
            await self.send(Envelope("controller/link", shipped, now))
            await self.send(Envelope("controller/replica", opened, now))
            assignments.append(assignment)
        self.region.at = self.ledger.clock.wall()
        seq = self.ledger.durable.state.facts.seq
        return [envelope for one in assignments for envelope in self.region.proposals(one, each, seq)]

    async def heartbeats(self) -> None:
        """Every agent and the scheduler renew their sessions, as they would over their streams."""
        while True:
            for number, (uid, session) in enumerate(self.ledger.durable.state.sessions.items()):
                renewed = self.ledger.renew(session.principal, uid)
                must(isinstance(renewed, Renewal), renewed)
                if number % 100 == 0:
                    await asyncio.sleep(0.05)

    async def write(self, envelopes: list[Envelope[Any]], writers: int) -> list[float]:
        """Send everything with so many in flight; the seconds that each took."""
        waiting = iter(envelopes)
        took: list[float] = []
        submit, clock = self.ledger.submit, time.perf_counter

        async def writer() -> None:
            for envelope in waiting:
                start = clock()
                answer = await submit(envelope)
                took.append(clock() - start)
                if type(answer) is not Landed or answer.answer:
                    raise Unmeasured(f"a placement was refused: {answer}")

        await asyncio.gather(*(writer() for _ in range(writers)))
        return took


async def _measure(sheet: Sheet, folder: Path, size: Size) -> None:
    async with leading(folder / "ledger", size.nodes) as load:
        raw = RawLoop(folder / "raw")
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


@asynccontextmanager
async def leading(
    folder: Path, nodes: int, machines: Sequence[Machine] = (MACHINE,), server: str = "bench"
) -> AsyncIterator[Load]:
    """A region of so many nodes on SQLite whose ledger leads, with the heartbeats of its agents."""
    clock = SystemClock()
    store = await SqliteStore.open(folder)
    try:
        region = await prepared(store, nodes, clock, machines)
        ledger = Ledger(REGION, store, clock, Identity(server), keeping=BY_HAND)
        tasks = [asyncio.create_task(ledger.run())]
        try:
            while ledger.role is not Role.LEADING:
                must(not tasks[0].done(), "the ledger ended before it led")
                await asyncio.sleep(0.01)
            load = Load(ledger, region)
            tasks.append(asyncio.create_task(load.heartbeats()))
            yield load
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.wait(tasks)
    finally:
        await store.close()


async def prepared(
    store: SqliteStore,
    nodes: int,
    clock: SystemClock,
    machines: Sequence[Machine] = (MACHINE,),
    fill: Callable[[BenchRegion], None] | None = None,
    settings: Settings = SETTINGS,
) -> BenchRegion:
    """A region with its nodes, and what it is filled with, in the store."""
    batches: list[tuple[bytes, bytes]] = []
    region = BenchRegion(nodes, clock.wall(), lambda raw, digest: batches.append((raw, digest)), machines, settings)
    if fill is not None:
        fill(region)
    head = Head()
    for number, (raw, digest) in enumerate(batches, 1):
        outcome = await store.append(head, Stored("bench", number, digest, raw))
        if not isinstance(outcome, Written):
            raise Unmeasured(f"the store did not take batch {number}: {outcome}")
        head = outcome.head
    return region


async def _rate(load: Load, raw: RawLoop, name: str, workloads: int, each: int, writers: int, least: float) -> Result:
    """Durable placements per second; opening slots and writing proposals is not counted.

    The run is cut into tenths, of which the later half counts. The baseline is how many placements a second the raw
    loop writes, in batches of the same size, beside the same tenths.
    """
    tenth = max(1, workloads // 10)
    rates: list[tuple[float, float]] = []
    durable = load.ledger.durable
    for first in range(0, workloads, tenth):
        spent, batches, size, count = 0.0, 0, 0, min(tenth, workloads - first)
        for done in range(0, count, AT_ONCE):
            envelopes = await load.open(each, min(AT_ONCE, count - done))
            seq, before, start = durable.state.facts.seq, durable.log_bytes, time.perf_counter()
            await load.write(envelopes, writers)
            spent += time.perf_counter() - start
            batches += durable.state.facts.seq - seq
            size += durable.log_bytes - before
        plain = raw.times(size // batches, 50)
        placed = count * SLOTS_EACH
        rates.append((placed / spent, placed / batches * 50 / sum(plain)))
    measured, plain_rates = zip(*later_half(rates), strict=True)
    return at_least(name, median(measured), "placements/s", median(plain_rates), least, measured)


async def _snapshot(load: Load, raw: RawLoop, workloads: int) -> list[Result]:
    """Commits of single placements by eight writers while a snapshot of everything is written."""
    plain = [took * 1_000 for took in raw.times(1_000, 500)]
    taking = asyncio.create_task(load.ledger.snapshots.take())
    took: list[float] = []
    for _ in range(workloads):
        for batch in _cut(await load.open(1, 1), 100):
            part = await load.write(batch, 8)
            if not taking.done():
                took += [one * 1_000 for one in part]
    await taking
    must(len(took) >= 100, f"the snapshot was over after {len(took)} commits, which is too soon to measure them")
    return [
        at_most("ledger.commit_p99.during_snapshot", p99(took), "ms", p99(plain), 25, took),
        at_most("ledger.commit_max.during_snapshot", max(took), "ms", max(plain), 60, took),
    ]


def _cut(items: list[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]
