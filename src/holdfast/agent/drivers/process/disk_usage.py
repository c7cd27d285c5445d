"""How much of the disk a replica's folder takes, and the end of a replica whose folder takes more than it asked for.

It is measured every so often, as `du` counts: blocks, each file once, no links followed, one file system. That is a
process of its own, so that a folder of ten million files costs the agent's loop nothing. Between two looks a replica
may take more, and what it has removed and still holds open is in no folder: the bound is kept, but not to the byte.
Who moves folders about while they are counted, or makes too many of them, keeps them from being counted: a replica of
which that fails time after time is ended, too.

A file system's quotas are not used. Those of projects bind nobody who owns the files, who may give them another
project; and those of users know nothing of one replica (docs/design/decisions/0029).
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.agent.drivers.driver import ExitReason, RunKey, RunState
from holdfast.agent.drivers.process.environment import PATH
from holdfast.agent.drivers.process.guarded_run import GuardedRun
from holdfast.agent.drivers.process.run_folders import RunFolders, run_name
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.blocking_calls import BlockingCalls
from holdfast.host.runtime.telemetry import Logger

#: So long it may take: then it is given up, and tried anew.
MEASURE_SECONDS = 600
#: So often in a row it may fail. One who moves folders now and then is in the way of it once or twice.
TRIES = 10
#: It is not measured again for so many times as long as that took.
REST = 10


class DiskWatch:
    """Of one driver. A tenant whose folders take long to measure holds up no other one."""

    def __init__(self, every_ms: int, folders: RunFolders, clock: Clock, calls: BlockingCalls, journal: Logger) -> None:
        self._every_ms = every_ms
        self._folders = folders
        self._clock = clock
        self._calls = calls
        self._journal = journal
        #: Those that are being measured, or were so a moment ago.
        self._measured: dict[GuardedRun, asyncio.Task[None]] = {}

    async def watch(self, held: Mapping[RunKey, GuardedRun]) -> None:
        """Measure those that have a bound, for ever."""
        try:
            while True:
                await self._clock.sleep(self._every_ms)
                for one in list(held.values()):
                    if one.record.disk_bytes and one.live.state is RunState.RUNNING and one not in self._measured:
                        self._measured[one] = asyncio.create_task(self._measure(one))
        finally:
            for task in self._measured.values():
                task.cancel()

    async def _measure(self, held: GuardedRun) -> None:
        record = held.record
        folder = self._folders.working(run_name(record.binding), record.uid)
        used, began = None, 0
        try:
            for _ in range(TRIES):
                began = self._clock.boot()
                used = await self._calls.wait(f"the disk of user {record.uid}", lambda: used_bytes(folder))
                if used is not None or held.live.state is not RunState.RUNNING:
                    break
                self._journal.warning("not-measured", name=record.name, folder=folder)
                await self._clock.sleep(self._every_ms)
            if held.live.state is RunState.RUNNING and (used is None or used > record.disk_bytes):
                self._journal.warning("over-disk", name=record.name, used=used, limit=record.disk_bytes)
                held.stop(0, ExitReason.DISK_UNKNOWN if used is None else ExitReason.OVER_DISK)
            await self._clock.sleep(REST * (self._clock.boot() - began))
        except OSError as error:  # of the machine, not of the replica: it cannot be tried
            self._journal.warning("not-measured", name=record.name, folder=folder, why=error)
        finally:
            del self._measured[held]


def can_measure() -> bool:
    """Whether there is a `du` on this machine."""
    return shutil.which("du", path=PATH) is not None


def used_bytes(folder: Path) -> int | None:
    """What is in it; None when that cannot be told. That a file went away meanwhile is no fault. `OSError` when it
    cannot even be tried."""
    try:
        done = subprocess.run(
            ["du", "-skx", "--", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={"PATH": PATH}, timeout=MEASURE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    size = done.stdout.split(maxsplit=1)[:1]
    return int(size[0]) * 1_024 if size and size[0].isdigit() else None
