"""`holdfast dev` for a benchmark: a platform and three regions, a process each, in a folder that is thrown away."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from holdfast.bench.report import Unmeasured, must
from holdfast.bench.stalls import VARIABLE
from holdfast.wiring.declared import nodes_of
from holdfast.wiring.dev_folder import HOST, NODES, REGIONS

LOOK_SECONDS = 0.02
READY_SECONDS = 120.0


@asynccontextmanager
async def running(folder: Path, *, nodes: int = 0, agents: int = 0, is_measured: bool = False) -> AsyncIterator[int]:
    """A platform and its regions on loopback, with so many declared nodes or so many agents each, ready; the first of
    their ports. Those that are measured write what holds their loops (`stalls_of`)."""
    port = _free_ports(len(REGIONS) + 1)
    command = (sys.executable, "-m", "holdfast.cli.main", "dev", "--no-apply")
    wish = ("--agents", str(agents), "--declared-nodes", str(nodes))
    own = {"HOLDFAST_CONFIG": str(folder / "config.yaml")}  # people's own contexts stay as they are
    own |= {VARIABLE: "1"} if is_measured else {}
    process = await asyncio.create_subprocess_exec(
        *command, *wish, "--data", str(folder), "--port", str(port),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | own,
    )  # fmt: skip
    try:
        until = time.monotonic() + READY_SECONDS
        parts = ["platform", *REGIONS, *([NODES] if nodes else [])]
        parts += [f"{NODES}/{node.name}" for region in REGIONS for node in nodes_of(region, agents)]
        while not all((folder / name / "ready.json").exists() for name in parts):
            must(process.returncode is None, f"`holdfast dev` ended with {process.returncode}")
            must(time.monotonic() < until, f"`holdfast dev` is not ready after {READY_SECONDS:g} s")
            await asyncio.sleep(LOOK_SECONDS)
        yield port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has."""
    begin = 21_000 + os.getpid() % 400 * 50  # so that two that look at once find others
    for first in range(begin, 60_000, 50):
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind((HOST, port))
            return first
    raise Unmeasured(f"there are no {count} free ports in a row")
