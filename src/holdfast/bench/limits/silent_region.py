"""All agents of a region become silent at once: the longest callback of its leader until their work waits again.

    log with 5,000 nodes, four slots each ──▶ a server leads it, and no agent renews
    ──▶ one period, and a second one, since they are many ──▶ all sessions end ──▶ all nodes are silent
    ──▶ the slots of a fifth of them are unknown, then lost after the fence time, and wait to be placed again

The server is the one that `holdfast server` runs, with every controller, on SQLite with every commit synced. It has no
platform: in a region that is cut off, nothing else would happen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec.structs import replace

from holdfast.bench.fixtures.ledger_load import prepared_region, quiet_logs
from holdfast.bench.fixtures.loop_stalls import longest, measure_stalls
from holdfast.bench.fixtures.region import SETTINGS, SLOTS_EACH, BenchRegion
from holdfast.bench.report import BenchResult, at_most, require
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.values.settings import Settings
from holdfast.core.reconcilers.region.node_health import GONE_PERCENT
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.clock import SystemClock
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.wiring.config.private_files import new_token
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.server import Server
from holdfast.wiring.server_ports import machine_ports

NODES, SMALL_NODES = 5_000, 250
SLOTS_PER_NODE = 4
#: Short times, so that a small region is silent within seconds.
SHORT = replace(SETTINGS, session_lease=1_500, proof_interval=200, grace=100, kill_margin=100, fence_time=2_000)
ROWS = ("limits.silence_stall_ms",)
#: Longer than all waits together: two periods of silence, the fence time, and the work.
WITHIN_SECONDS = 300.0
LOOK_SECONDS = 0.5
STALL_MS = 100


async def measure_silence(folder: Path, rows_ms: float, *, small: bool = False) -> list[BenchResult]:
    """Measure from the end of the sessions until the slots of the first fifth wait again. Baseline: storing 10,000
    rows."""
    settings = _settings(folder)
    await (_prepare(folder, SMALL_NODES, SHORT) if small else _prepare(folder, NODES, SETTINGS))
    async with AsyncExitStack() as stack:
        stack.enter_context(quiet_logs(logging.ERROR))  # Silent agents and an absent platform are intended.
        server = await Server.open(settings, machine_ports(settings, SystemClock()), stack)
        asked = asyncio.Event()
        serving = asyncio.create_task(server.run(asked), name="server")
        with measure_stalls(asyncio.get_running_loop()) as stalls:
            await _until(serving, lambda: server.ledger.role is Role.LEADING)
            began = time.monotonic()
            for reached in (_is_silent, _is_given_up):
                await _until(serving, lambda reached=reached: reached(server.ledger.durable.state))  # type: ignore[misc]
            worst = longest(stalls, began)
        asked.set()
        await serving
    return [at_most("limits.silence_stall_ms", worst.ms, "ms", rows_ms, STALL_MS)]


def _settings(folder: Path) -> ServerSettings:
    token = folder / "token"
    new_token("bench", token)  # Unused: there is no platform.
    return ServerSettings(
        role="region", region="bench", data=str(folder), listen="127.0.0.1:0", name="bench", advertise="http://bench",
        platform=("http://127.0.0.1:9",), token_file=str(token),
    )  # fmt: skip


async def _prepare(folder: Path, nodes: int, terms: Settings) -> None:
    """Write the log of a region whose nodes all have slots."""
    store = await SqliteStore.open(folder / "ledger")
    try:
        await prepared_region(store, nodes, SystemClock(), fill=_fill, settings=terms)
    finally:
        await store.close()


def _fill(region: BenchRegion) -> None:
    for _ in range(len(region.node_uids) * SLOTS_PER_NODE // SLOTS_EACH):
        for envelope in region.proposals(region.open_workload(), SLOTS_EACH):
            region.commit([envelope])


async def _until(serving: asyncio.Task[object], reached: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_SECONDS
    while not reached():
        require(not serving.done(), "the server ended")
        require(time.monotonic() < until, f"not reached within {WITHIN_SECONDS:g} s")
        await asyncio.sleep(LOOK_SECONDS)


def _is_silent(state: RegionState) -> bool:
    """Return whether every node is silent."""
    return not state.session_of and all(node.health is not NodeHealth.READY for _, node in state.nodes.unordered())


def _is_given_up(state: RegionState) -> bool:
    """Return whether the slots of the nodes that are lost first wait to be placed again."""
    waiting = sum(slot.phase is Phase.PENDING for _, slot in state.slots.unordered())
    return waiting * 100 >= len(state.slots) * GONE_PERCENT
