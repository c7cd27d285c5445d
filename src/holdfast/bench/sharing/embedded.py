"""Four embedded schedulers against one, in turns, in a region that is 60 % full. All is durable on SQLite.

one scheduler     slots are opened while it runs ──▶ the last one is bound
four schedulers   slots are opened while they run ──▶ the last one is bound

Most slots of a round are of equal requests, some of requests that differ. A conflict is a placement that the ledger
refuses. A wait is from the batch that opens a slot of an equal request to the batch that binds it, by the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from statistics import mean, median

from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.report import BenchResult, at_least, at_most, require
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsOpened, SlotsPlaced
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.host.scheduler.embedded import EmbeddedScheduler

ROWS = ("sharing.conflicts4", "sharing.scale4", "sharing.waits4")
SCHEDULERS = 4
REQUIRES, TOLERATES = (("arch", "x86"),), (Toleration("dedicated", "batch"),)
EQUAL = Template(("serve",), need=Resources(100, 128, 10), require=REQUIRES, tolerate=TOLERATES)
#: A twentieth of a node. A node has a random number of them, 12 on average.
FILLER = Template(("fill",), need=Resources(3_200, 13_107), require=REQUIRES, tolerate=TOLERATES)
LEAST, MOST = 5, 19
#: Slots of a workload with equal requests, and the part of the slots whose requests differ.
EACH, UNLIKE = 50, 20
#: Time in which schedulers load the region before slots are opened, and in which a round must end.
LOADED_S, WITHIN_S = 1.0, 120


async def measure_embedded(folder: Path, nodes: int, slots: int, rounds: int) -> list[BenchResult]:
    """Measure conflicts per placement, the rate of four against that of one, and waits of equal requests."""
    rates: dict[int, list[float]] = {1: [], SCHEDULERS: []}
    conflicts, waits = list[float](), list[float]()
    async with live_region(folder, nodes) as yard:
        await fill(yard)
        for number in range(rounds):
            for count in rates:
                refused, seq = counted(yard, "scheduler_conflicts"), yard.state.info.seq
                rates[count].append(slots / await _arriving(yard, count, wanted(f"{number}-{count}", slots)))
                if count > 1:
                    conflicts.append((counted(yard, "scheduler_conflicts") - refused) / slots)
                    waits.append(_unevenness(await _waits(yard, seq)))
        yard.must_be_bound()
    one = median(rates[1])
    scales = [many / few for few, many in zip(rates[1], rates[SCHEDULERS], strict=True)]
    return [
        at_most("sharing.conflicts4", median(conflicts), "refused per placed", one, 0.1, conflicts),
        at_least("sharing.scale4", median(scales), "of one scheduler's rate", one, 0.8, scales),
        at_most("sharing.waits4", median(waits), "times the shortest mean", one, 1.5, waits),
    ]


async def fill(yard: LiveRegion) -> None:
    """Bind fillers, a random number to each node."""
    chance, state = Random(5), yard.state
    places = [uid for uid in yard.region.node_uids for _ in range(chance.randint(LEAST, MOST))]
    await yard.open([(FILLER, len(places))])
    ((uid, (request,)),) = [(uid, rows) for uid, rows in state.requests.items()]
    for first in range(0, len(places), 1_000):
        some = enumerate(places[first : first + 1_000], first)
        group = c.PlacementGroup(uid, request.template, tuple(c.SlotPlacement(number, node) for number, node in some))
        now = yard.ledger.clock.wall()
        answer = await yard.ledger.submit(Envelope("controller/scheduler", c.Propose((group,), now + 60_000), now))
        require(isinstance(answer, Committed) and not answer.answer, answer)


def wanted(turn: str, slots: int) -> list[tuple[Template, int]]:
    """Return workloads of equal requests, and some whose requests differ."""
    unlike = slots // UNLIKE
    equal = [(EQUAL, EACH)] * ((slots - unlike) // EACH)
    left = slots - EACH * len(equal)
    found = list(equal)
    for number in range(left):
        need = Resources(100 + number % 97, 128 + number % 89, 10 + number % 83)
        own = (("NUMBER", f"{turn}-{number}"),)
        found.append((Template(("serve",), need=need, environment=own, require=REQUIRES, tolerate=TOLERATES), 1))
    return found


def counted(yard: LiveRegion, name: str) -> int:
    """Return a counter of the leader, of all schedulers."""
    return sum(count for (known, _), count in yard.ledger.metrics.counts.items() if known == name)


@asynccontextmanager
async def _schedulers(yard: LiveRegion, count: int) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run embedded schedulers."""
    leader = yard.ledger.leader
    assert leader is not None
    each = [EmbeddedScheduler(yard.ledger, BUILT_IN, number) for number in range(1, count + 1)]
    tasks = [asyncio.create_task(one.run(leader)) for one in each]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _arriving(yard: LiveRegion, count: int, work: list[tuple[Template, int]]) -> float:
    """Open work while schedulers run; return the seconds until the last slot is durably bound."""
    async with _schedulers(yard, count) as tasks:
        await asyncio.sleep(LOADED_S)
        start = time.perf_counter()
        await yard.open(work)
        await yard.placed(WITHIN_S, tasks[0])
        return time.perf_counter() - start


async def _waits(yard: LiveRegion, seq: int) -> dict[str, list[int]]:
    """Return the waits of equal requests since a batch, by scheduler."""
    ledger, digest = yard.ledger, template_digest(EQUAL)
    opened, found = dict[tuple[int, int], int](), dict[str, list[int]]()
    for stored in await ledger.store.read(seq + 1, 1 << 30):
        previous = REGION.batches.header(stored.raw).previous
        for record in REGION.batches.read(stored.raw, previous, stored.digest).records:
            for event in record.events:
                if isinstance(event, SlotsOpened):
                    opened |= {(event.workload, one): record.at for one in numbers(event.ordinals)}
                elif isinstance(event, SlotsPlaced) and event.template == digest:
                    waits = [record.at - opened[event.workload, one.ordinal] for one in event.placements]
                    found.setdefault(record.actor, []).extend(waits)
    return found


def _unevenness(waits: dict[str, list[int]]) -> float:
    """Return the longest mean wait of a scheduler's slots by the shortest one of another's."""
    require(len(waits) == SCHEDULERS, f"only {', '.join(waits)} placed")
    means = [max(1.0, mean(one)) for one in waits.values()]
    return max(means) / min(means)
