"""A million slots: opened and placed, their decisions kept meanwhile, and looked up by the names of slots.

slots are opened ──▶ bound ──▶ the last one, durably ──▶ every decision kept ──▶ slots drawn from all, over HTTP
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from holdfast.api.server import Api
from holdfast.bench.fixtures.live_region import Yard, running
from holdfast.bench.fixtures.raw_file import RawLoop
from holdfast.bench.report import Result, Unmeasured, at_most, must, p99
from holdfast.client.async_client import Holdfast
from holdfast.client.config import Access
from holdfast.core.model.objects.principals import Principal, PrincipalSpec, Right, Token, TokenSpec, hashed, spoken
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.host.ports.clock import SystemClock
from holdfast.host.scheduler.embedded import SchedulerBeside
from holdfast.transports.http_transport import HttpTransport

ROWS = ("schedule.c1m", "schedule.c1m_indexed", "schedule.c1m_lookup_p99", "schedule.c1m_lookup_max")
WITHIN_S = 600
OPERATOR = "person/bench"
SECRET = "b" * 43


class Size(NamedTuple):
    """So many slots, of which so many are opened at a time, in workloads of so many; and so many are looked up."""

    slots: int
    at_once: int
    each: int
    looked_up: int


WHOLE, SMALL = Size(1_000_000, 10_000, 1_000, 200), Size(2_000, 1_000, 500, 20)


async def measure_million(folder: Path, nodes: int, *, small: bool = False) -> list[Result]:
    """Until all are bound, until all decisions are kept, and how long it takes to find that of one slot."""
    size = SMALL if small else WHOLE
    async with running(folder / "million", nodes) as yard:
        raw = sum(RawLoop(folder / "raw").times(200_000, 100)) / 100
        start = time.perf_counter()
        await _place(yard, size)
        placed = time.perf_counter() - start
        await yard.decisions.reach(yard.state.facts.seq, WITHIN_S * 1_000)
        kept = time.perf_counter() - start
        yard.must_be_bound()
        return [
            at_most("schedule.c1m", placed, "s", raw * size.slots / 1_000, 60),
            at_most("schedule.c1m_indexed", kept, "s", placed, 60),
            *await _lookups(yard, size.looked_up),
        ]


async def _place(yard: Yard, size: Size) -> None:
    """Open so many slots while a scheduler places them; until the last one is durably bound."""
    if yard.ledger.leader is None:
        raise Unmeasured("the ledger does not lead any more")
    scheduler = asyncio.create_task(SchedulerBeside(yard.ledger, BUILT_IN).run(yard.ledger.leader))
    try:
        for _ in range(size.slots // size.at_once):
            await yard.open([(yard.region.template, size.each)] * (size.at_once // size.each))
        await yard.placed(WITHIN_S, scheduler)
    finally:
        scheduler.cancel()
        await asyncio.wait({scheduler})


async def _lookups(yard: Yard, looked_up: int) -> list[Result]:
    """The decisions of slots drawn from all of them, each asked for by its name. The baseline is `whoami`."""
    slots, chance = [slot for _, slot in yard.state.slots.items()], Random(1)
    async with _served(yard) as client:
        await client.whoami()  # what is needed to ask at all is there from now on
        plain = [(await _timed(client.whoami))[0] for _ in range(looked_up)]
        took = [await _look_up(yard, client, slot) for slot in chance.sample(slots, looked_up)]
    usual = statistics.median(plain)
    return [
        at_most("schedule.c1m_lookup_p99", p99(took), "ms", usual, 50, took),
        at_most("schedule.c1m_lookup_max", max(took), "ms", usual, 50, took),
    ]


async def _look_up(yard: Yard, client: Holdfast, slot: Slot) -> float:
    """The milliseconds until the decision for a slot is there, which must be the one by which it stands there."""
    assignment, node = yard.state.assignments[slot.assignment], yard.state.nodes[slot.node]
    name = f"{assignment.workload_name}/{yard.state.place.name}/{slot.ordinal}"
    took, found = await _timed(lambda: client.decisions(slot=f"{assignment.tenant}/{name}"))
    went = [placement for one in found["items"] for placement in one["placements"]]
    must(went == [{"slot": name, "node": node.name}], f"{name} is on {node.name}; found: {went}")
    return took


async def _timed(ask: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = await ask()
    return (time.perf_counter() - start) * 1_000, found


@asynccontextmanager
async def _served(yard: Yard) -> AsyncIterator[Holdfast]:
    """The API of the region on loopback, and an operator who asks it."""
    principal = Principal(meta=Meta(name=OPERATOR), spec=PrincipalSpec(rights=tuple(Right)))
    spec = TokenSpec(principal=OPERATOR, hash=hashed(SECRET), expires=yard.ledger.clock.wall() + 10**9)
    await yard.ship(c.PrincipalShipped(principal), c.TokenShipped(Token(meta=Meta(name="operator"), spec=spec)))
    clock = SystemClock()
    server, caller = HttpTransport(clock, listen="127.0.0.1:0"), HttpTransport(clock)
    api = Api(yard.ledger, server, kept=yard.decisions)
    server.serve(api.serve)
    await server.start()
    await caller.start()
    beside = asyncio.create_task(api.run())
    try:
        yield Holdfast(caller, clock, Access(servers=(server.address,), token=spoken("operator", SECRET)))
    finally:
        beside.cancel()
        await asyncio.wait({beside})
        await caller.close()
        await server.close()
