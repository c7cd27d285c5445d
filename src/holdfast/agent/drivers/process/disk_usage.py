"""Disk usage of replicas' folders, and the end of a replica whose folder exceeds its limit.

It is measured periodically, as `du` counts: blocks, each file once, no links followed, one file system. `du` is a
separate process, so that a folder of ten million files costs the agent's loop nothing. A replica may exceed its limit
between two measurements, and deleted files that it holds open are not counted: the limit is enforced, but not to the
byte. A replica whose folder cannot be measured several times in a row, because it moves or creates too many folders
meanwhile, is ended too.

File system quotas are not used. Project quotas do not bind the owner of the files, who may assign them to another
project; user quotas do not distinguish replicas (docs/design/decisions/0029).
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.agent.drivers.driver import ExitReason
from holdfast.agent.drivers.process.environment import PATH
from holdfast.agent.drivers.process.guarded_run import GuardedRun
from holdfast.agent.drivers.process.run_folders import RunFolders, run_name
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.blocking_calls import BlockingCalls
from holdfast.host.runtime.telemetry import Logger

#: A measurement that takes longer is stopped and repeated.
MEASURE_SECONDS = 600
#: Failed measurements in a row that end a replica. Moving folders now and then makes only one or two fail.
TRIES = 10
#: After a measurement the replica is not measured again for this multiple of its duration.
REST = 10


class DiskWatch:
    """The disk measurements of one driver. Folders that take long to measure do not delay those of other tenants."""

    def __init__(self, every_ms: int, folders: RunFolders, clock: Clock, calls: BlockingCalls, logger: Logger) -> None:
        self._every_ms = every_ms
        self._folders = folders
        self._clock = clock
        self._calls = calls
        self._logger = logger
        #: Replicas that are being measured, or were a moment ago.
        self._measured: dict[GuardedRun, asyncio.Task[None]] = {}

    async def watch(self, held: Mapping[RunKey, GuardedRun]) -> None:
        """Measure replicas with a limit, until cancelled."""
        try:
            while True:
                await self._clock.sleep(self._every_ms)
                for one in list(held.values()):
                    if one.record.disk_bytes and one.live.state is ProcessState.RUNNING and one not in self._measured:
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
                if used is not None or held.live.state is not ProcessState.RUNNING:
                    break
                self._logger.warning("not-measured", name=record.name, folder=folder)
                await self._clock.sleep(self._every_ms)
            if held.live.state is ProcessState.RUNNING and (used is None or used > record.disk_bytes):
                self._logger.warning("over-disk", name=record.name, used=used, limit=record.disk_bytes)
                held.stop(0, ExitReason.DISK_UNKNOWN if used is None else ExitReason.OVER_DISK)
            await self._clock.sleep(REST * (self._clock.boot() - began))
        except OSError as error:  # an error of the machine, not of the replica: the measurement cannot be tried
            self._logger.warning("not-measured", name=record.name, folder=folder, why=error)
        finally:
            del self._measured[held]


def can_measure() -> bool:
    """Whether this machine has `du`."""
    return shutil.which("du", path=PATH) is not None


def used_bytes(folder: Path) -> int | None:
    """Return the folder's disk usage; None if unknown. Files may vanish meanwhile. `OSError` if it cannot be tried."""
    try:
        done = subprocess.run(
            ["du", "-skx", "--", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={"PATH": PATH}, timeout=MEASURE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    size = done.stdout.split(maxsplit=1)[:1]
    return int(size[0]) * 1_024 if size and size[0].isdigit() else None
