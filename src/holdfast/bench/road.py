"""From the platform to its regions, between the processes of `holdfast dev`, durable on SQLite.

One platform and three regions, each with its own server. First, one workload is changed repeatedly while nothing else
happens: the time until the change is in every region's log. Then a thousand workloads are applied at once: the time
until all are assigned to three regions and acknowledged from their logs, and the growth of the platform's log. The
second part is repeated on several platforms, one after the other. Last, a million replicas, in `road_million`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.bench import report
from holdfast.bench.fixtures.dev_clients import (
    LOOK_SECONDS,
    BenchClients,
    Document,
    dev_clients,
    watch_timers,
    workload,
)
from holdfast.bench.road_million import ROWS, measure_road_million
from holdfast.client.async_client import AsyncClient
from holdfast.core.ledger.revision import parse_revision
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.wiring.dev.data_folder import REGIONS

#: Pause between two changes, so that the first has no work left in progress.
PAUSE_SECONDS = 0.1
#: Time limit for a round.
WITHIN_SECONDS = 600
THREE: Document = {"replicas": 3}
APPLIED = ("road.ship_p99", "road.apply1000", "road.apply1000_bytes")


class RoadSize(NamedTuple):
    """Warm-up changes, measured changes, workloads applied at once, and platforms for these."""

    warm_up: int
    changes: int
    workloads: int
    rounds: int


WHOLE, SMALL = RoadSize(20, 200, 1_000, 5), RoadSize(1, 2, 3, 1)


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of the link to the regions."""
    sheet, size = report.ReportBuilder(), SMALL if small else WHOLE
    with sheet.part(*APPLIED, *ROWS), report.temporary_folder() as folder:
        with sheet.part(*APPLIED):
            rounds = [asyncio.run(_round(sheet, folder / str(turn), size, turn)) for turn in range(size.rounds)]
            sheet.add(*_of(rounds))
        sheet.add(*asyncio.run(measure_road_million(folder / "standing", small=small)))
    return sheet.report()


async def _shipped(clients: BenchClients, size: RoadSize) -> report.BenchResult:
    """Measure from the change of a spec until the last region shows it, the 99th percentile. Baseline: the write."""
    took, wrote = [], []
    async with watch_timers(clients.regions, "assignments", _generation) as watches:
        for number in range(1, size.warm_up + size.changes + 1):
            document = workload("shipped", str(number), THREE)
            began = time.monotonic()
            await clients.tenant.put(document)
            written = time.monotonic()
            heard = await asyncio.gather(*(watch.told(number) for watch in watches))
            if number > size.warm_up:
                took.append((max(heard) - began) * 1_000)
                wrote.append((written - began) * 1_000)
            await asyncio.sleep(PAUSE_SECONDS)
    return report.at_most("road.ship_p99", report.p99(took), "ms", statistics.median(wrote), 50, took)


def _generation(assignment: Document) -> int:
    generation: int = assignment["spec"]["generation"]
    return generation


class _Applied(Struct, frozen=True):
    """Workloads applied at once: seconds until all were acknowledged and until the request was answered; growth of the
    log in bytes per thousand workloads, and in batches."""

    seconds: float
    written: float
    size_bytes: float
    batches: int


def _of(rounds: list[_Applied]) -> list[report.BenchResult]:
    seconds, sizes = [one.seconds for one in rounds], [one.size_bytes for one in rounds]
    written, batches = (statistics.median(one) for one in zip(*((r.written, r.batches) for r in rounds), strict=True))
    return [
        report.at_most("road.apply1000", statistics.median(seconds), "s", written, 5, seconds),
        report.at_most("road.apply1000_bytes", statistics.median(sizes), "bytes", batches, 2_000_000, sizes),
    ]


async def _round(sheet: report.ReportBuilder, folder: Path, size: RoadSize, turn: int) -> _Applied:
    """Measure one new platform; on the first one, the single changes too."""
    async with dev_clients(folder) as clients, report.time_limit(WITHIN_SECONDS):
        if not turn:
            with sheet.part("road.ship_p99"):
                sheet.add(await _shipped(clients, size))
        seconds, written, first, last = await _applied(clients, size.workloads)
    size_bytes, batches = await _logged(folder / "platform", first, last)
    return _Applied(seconds, written, size_bytes * 1_000 / size.workloads, batches)


class _Look(Struct, frozen=True):
    """The platform at one moment: its batch, and the acknowledged cursor of each region."""

    when: float
    seq: int
    cursors: tuple[int, ...]


async def _applied(clients: BenchClients, workloads: int) -> tuple[float, float, int, int]:
    """Apply all workloads. Return the seconds from the request until every region has acknowledged the last assignment,
    and until its answer; and the platform's batches before and after."""
    platform = clients.platform
    first = (await _look(platform)).seq
    documents = [workload(f"applied-{number:04}", "1", THREE) for number in range(workloads)]
    began = time.monotonic()
    for one in await clients.tenant.batch(documents):
        report.require(one.outcome == "created", one)
    written = time.monotonic()
    looks: list[_Look] = []
    newest = 0
    while not newest or min(looks[-1].cursors) < newest:
        await asyncio.sleep(LOOK_SECONDS)
        looks.append(await _look(platform))
        if not newest and _is_quiet(looks):
            newest = await _newest(platform, workloads * len(REGIONS))
    done = next(look for look in looks if min(look.cursors) >= newest)
    return done.when - began, written - began, first, done.seq


def _is_quiet(looks: list[_Look]) -> bool:
    """Return whether no region has acknowledged anything for a second: only then is the long list requested."""
    settled = [look.cursors for look in looks if look.when >= looks[-1].when - 1.0]
    return len(settled) > 10 and all(cursors == settled[0] for cursors in settled)


async def _look(platform: AsyncClient) -> _Look:
    listed = await platform.list("regions")
    cursors = tuple(parse_revision(one["status"]["cursor"] or "0.0") or 0 for one in listed.items)
    return _Look(time.monotonic(), int(listed.token.split(":")[2]), cursors)


async def _newest(platform: AsyncClient, count: int) -> int:
    """Return the revision of the newest assignment once there are `count`; 0 before."""
    found = (await platform.list("assignments")).items
    mine = [one for one in found if one["metadata"]["name"].startswith("applied-")]
    return max(parse_revision(one["metadata"]["revision"]) or 0 for one in mine) if len(mine) >= count else 0


async def _logged(folder: Path, first: int, last: int) -> tuple[int, int]:
    """Return bytes and batches of the platform's log after batch `first`, up to `last`."""
    store = await SqliteStore.open(folder / "ledger")
    try:
        size = batches = 0
        for seq in range(first + 1, last + 1):
            (stored,) = await store.read(seq, 1)
            size, batches = size + len(stored.raw), batches + 1
        return size, batches
    finally:
        await store.close()
