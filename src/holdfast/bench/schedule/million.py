"""A million slots: opened and placed, their decisions indexed meanwhile, and looked up by the names of slots.

slots are opened ──▶ bound ──▶ the last one, durably ──▶ every decision indexed ──▶ random slots looked up over HTTP
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

from holdfast.api.server.app import ApiServer
from holdfast.api.server.context import ServerContext
from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.report import BenchResult, Unmeasured, at_most, p99, require
from holdfast.bench.store import RawFile
from holdfast.client.async_client import AsyncClient
from holdfast.client.config import ClientConfig
from holdfast.core.model.objects.principals import (
    Permission,
    Principal,
    PrincipalSpec,
    Token,
    TokenSpec,
    format_token,
    hash_secret,
)
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.host.ports.clock import SystemClock
from holdfast.host.scheduler.embedded import EmbeddedScheduler
from holdfast.transports.http_transport import HttpTransport

ROWS = ("schedule.c1m", "schedule.c1m_indexed", "schedule.c1m_lookup_p99", "schedule.c1m_lookup_max")
WITHIN_S = 600
OPERATOR = "person/bench"
SECRET = "b" * 43


class MillionSize(NamedTuple):
    """Slots, slots opened at a time, slots per workload, and lookups."""

    slots: int
    at_once: int
    each: int
    looked_up: int


WHOLE, SMALL = MillionSize(1_000_000, 10_000, 1_000, 200), MillionSize(2_000, 1_000, 500, 20)


async def measure_million(folder: Path, nodes: int, *, small: bool = False) -> list[BenchResult]:
    """Measure the time until all are bound, until all decisions are indexed, and of a lookup by slot."""
    size = SMALL if small else WHOLE
    async with live_region(folder / "million", nodes) as yard:
        raw = sum(RawFile(folder / "raw").times(200_000, 100)) / 100
        start = time.perf_counter()
        await _place(yard, size)
        placed = time.perf_counter() - start
        await yard.decisions.reach(yard.state.info.seq, WITHIN_S * 1_000)
        kept = time.perf_counter() - start
        yard.must_be_bound()
        return [
            at_most("schedule.c1m", placed, "s", raw * size.slots / 1_000, 60),
            at_most("schedule.c1m_indexed", kept, "s", placed, 60),
            *await _lookups(yard, size.looked_up),
        ]


async def _place(yard: LiveRegion, size: MillionSize) -> None:
    """Open the slots while a scheduler places them, until the last one is durably bound."""
    if yard.ledger.leader is None:
        raise Unmeasured("the ledger is no longer leader")
    scheduler = asyncio.create_task(EmbeddedScheduler(yard.ledger, BUILT_IN).run(yard.ledger.leader))
    try:
        for _ in range(size.slots // size.at_once):
            await yard.open([(yard.region.template, size.each)] * (size.at_once // size.each))
        await yard.placed(WITHIN_S, scheduler)
    finally:
        scheduler.cancel()
        await asyncio.wait({scheduler})


async def _lookups(yard: LiveRegion, looked_up: int) -> list[BenchResult]:
    """Look up the decisions of random slots by name. Baseline: `whoami`."""
    slots, chance = [slot for _, slot in yard.state.slots.items()], Random(1)
    async with _served(yard) as client:
        await client.whoami()  # Warm-up of the connection.
        plain = [(await _timed(client.whoami))[0] for _ in range(looked_up)]
        took = [await _look_up(yard, client, slot) for slot in chance.sample(slots, looked_up)]
    usual = statistics.median(plain)
    return [
        at_most("schedule.c1m_lookup_p99", p99(took), "ms", usual, 50, took),
        at_most("schedule.c1m_lookup_max", max(took), "ms", usual, 50, took),
    ]


async def _look_up(yard: LiveRegion, client: AsyncClient, slot: Slot) -> float:
    """Return the milliseconds of a lookup. It must find the decision that placed the slot on its node."""
    assignment, node = yard.state.assignments[slot.assignment], yard.state.nodes[slot.node]
    name = f"{assignment.workload_name}/{yard.state.region.name}/{slot.ordinal}"
    took, found = await _timed(lambda: client.decisions(slot=f"{assignment.tenant}/{name}"))
    went = [placement for one in found["items"] for placement in one["placements"]]
    require(went == [{"slot": name, "node": node.name}], f"{name} is on {node.name}; found: {went}")
    return took


async def _timed(ask: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = await ask()
    return (time.perf_counter() - start) * 1_000, found


@asynccontextmanager
async def _served(yard: LiveRegion) -> AsyncIterator[AsyncClient]:
    """Serve the region's API on loopback, and yield an operator's client."""
    principal = Principal(meta=Meta(name=OPERATOR), spec=PrincipalSpec(rights=tuple(Permission)))
    spec = TokenSpec(principal=OPERATOR, hash=hash_secret(SECRET), expires=yard.ledger.clock.wall() + 10**9)
    await yard.ship(c.ShippedPrincipal(principal), c.ShippedToken(Token(meta=Meta(name="operator"), spec=spec)))
    clock = SystemClock()
    server, caller = HttpTransport(clock, listen="127.0.0.1:0"), HttpTransport(clock)
    api = ApiServer(ServerContext(yard.ledger, server, decisions=yard.decisions))
    server.serve(api.serve)
    await server.start()
    await caller.start()
    beside = asyncio.create_task(api.run())
    try:
        yield AsyncClient(
            caller, clock, ClientConfig(servers=(server.address,), token=format_token("operator", SECRET))
        )
    finally:
        beside.cancel()
        await asyncio.wait({beside})
        await caller.close()
        await server.close()
