"""A restart of a ledger in a new process: from its start to its first accepted command, and its memory then."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.bench.report import BenchResult, at_most, require, resident_bytes
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.region.definition import REGION
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.clock import SystemClock
from holdfast.stores.sqlite.store import SqliteStore

#: The code of the new process.
_CODE = "import sys; from holdfast.bench.ledger_restart import main; main(*sys.argv[1:])"


class RestartMeasurement(Struct, frozen=True):
    """Report of the new process: time of its first accepted command, and its memory before and after."""

    accepted: float
    slots: int
    empty_bytes: int
    resident_bytes: int


def measure_restart(folder: Path, slots: int) -> list[BenchResult]:
    """Start a process on this store and wait until it accepts a command."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", _CODE, str(folder)], check=False, capture_output=True, timeout=600)
    require(not done.returncode, f"the new process ended with {done.returncode}: {done.stderr.decode()[-400:].strip()}")
    found = msgspec.json.decode(done.stdout, type=RestartMeasurement)
    require(found.slots == slots, f"{found.slots} slots after the restart, not {slots}")
    per_slot = (found.resident_bytes - found.empty_bytes) / slots
    return [
        at_most("ledger.restart.1m", found.accepted - start, "s", _read_seconds(folder), 10),
        at_most("ledger.memory.per_slot", per_slot, "bytes", size / slots, 1_536),
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
    empty = resident_bytes()
    print(msgspec.json.encode(asyncio.run(_restart(Path(folder), empty))).decode())


async def _restart(folder: Path, empty: int) -> RestartMeasurement:
    clock = SystemClock()
    store = await SqliteStore.open(folder)
    ledger = Ledger(REGION, store, clock, ServerIdentity("again"))
    serving = asyncio.create_task(ledger.run())
    try:
        while ledger.role is not Role.LEADING:
            require(not serving.done(), "the ledger ended before it became leader")
            await asyncio.sleep(0.005)
        command = OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "bench", "", "measured", clock.wall() + 3_600_000)
        answer = await ledger.submit(Envelope("person/bench", command, clock.wall(), key="restart"))
        require(isinstance(answer, Committed), answer)
        accepted = time.monotonic()
        state = ledger.durable.state
        return RestartMeasurement(accepted, len(state.slots), empty, resident_bytes())
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await store.close()
