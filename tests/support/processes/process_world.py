"""Real processes for tests: a folder for drivers, work for them, and everything ended by its identity afterwards."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.driver import Driver, RunSpec, RunStatus
from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.guard_files import GuardRecord, UnreadableGuardFile, read_record
from holdfast.agent.drivers.process.launch import why_no_namespaces
from holdfast.agent.drivers.process.leftovers import kill_once
from holdfast.agent.drivers.process.run_folders import run_name
from holdfast.agent.drivers.process.settings import TENANT_USERS, ProcessSettings
from holdfast.agent.guard import kernel
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.values.settings import DEFAULT_TIMES
from holdfast.host.ports.clock import SystemClock

CLOCK = SystemClock()
#: What is left of a lease when leased work is started: more than a busy machine takes for starting it.
LEASE_MS = 1_500
#: So late may it be seen on a busy machine that something has ended: far below what it would take to end by itself.
LATE_MS = 20_000
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as another user")
BINDING: RunKey = ((7, 0), 11)
#: Whose work is, if nothing else is said; and the user that this tenant has where it is the first.
TENANT = "shop"
FIRST_USER = TENANT_USERS[0]

#: A program that goes on when its first thread has ended, of which the kernel tells as of one that is dead; and which
#: has told the kernel not to end it with its parent. Its argument says how many MiB it holds.
WITHOUT_ITS_FIRST_THREAD = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
libc.prctl(1, 0, 0, 0, 0)
def live():
    while open("/proc/self/stat").read().split()[2] != "Z":
        time.sleep(0.01)
    held = b"x" * (int(sys.argv[1]) << 20)
    print("goes on", flush=True)
    time.sleep(60)
threading.Thread(target=live).start()
libc.pthread_exit(None)
"""


def a_work(script: str, **fields: Any) -> RunSpec:
    """A shell script as work. Its grace is short."""
    given = {"slot": BINDING[0], "epoch": BINDING[1], "name": "web/eu/0", "command": ("sh", "-c", script), **fields}
    return RunSpec(**{"grace_ms": 300, "tenant": TENANT, **given})


class ProcessFolder:
    """A folder that users of tenants can pass through, and the drivers that use it one after the other."""

    def __init__(self, root: Path, *, cgroups: bool, namespaces: bool = False) -> None:
        self.root = root
        self.data = root / "data"
        self.cgroups = cgroups
        self.namespaces = namespaces

    def settings(self, **given: Any) -> ProcessSettings:
        own = {"folder": str(self.data), "tenant_map": str(self.root / "users.json"), "cgroups": self.cgroups}
        own |= {"namespaces": self.namespaces}
        return ProcessSettings(**{**own, "sample_ms": 50, "disk_ms": 50, **given})

    @asynccontextmanager
    async def driver(
        self, grace_ms: int = DEFAULT_TIMES.grace, kill_margin_ms: int = DEFAULT_TIMES.kill_margin, **given: Any
    ) -> AsyncIterator[ProcessDriver]:
        driver = ProcessDriver(self.settings(**given), CLOCK)
        driver.keep(replace(DEFAULT_TIMES, grace=grace_ms, kill_margin=kill_margin_ms))
        await driver.open()
        try:
            yield driver
        finally:
            await driver.close()

    def slot(self, binding: RunKey = BINDING) -> Path:
        return self.data / "slots" / run_name(binding)

    def record(self, binding: RunKey = BINDING) -> GuardRecord:
        record = read_record(self.slot(binding))
        assert record is not None
        return record

    def log(self, stream: str = "stdout", binding: RunKey = BINDING) -> str:
        return kernel.read(str(self.slot(binding) / "logs" / stream))

    def pids(self, binding: RunKey = BINDING) -> list[int]:
        """The pids that a process has written, by which it knows others, as they are seen from here."""
        words = [int(word) for word in self.log(binding=binding).split()]
        if not self.namespaces:
            return words
        seen: dict[int, int] = {}
        for pid in kernel.descendants(self.record(binding).guard.pid):
            own = [line.split()[-1] for line in kernel.read(f"/proc/{pid}/status").splitlines() if "NSpid" in line]
            seen |= {int(word): pid for word in own}
        return [seen[word] for word in words]

    def working(self, binding: RunKey = BINDING) -> Path:
        return self.data / "work" / str(self.record(binding).uid) / run_name(binding)

    async def until_empty(self) -> None:
        """See that nothing is on record, nor where processes worked; what they left may take a while to be removed."""
        work, gone = self.data / "work", self.data / "work" / "gone"
        assert (list((self.data / "slots").iterdir()), list(work.iterdir())) == ([], [gone])
        await until_true(lambda: not list(gone.iterdir()))

    def clear(self) -> None:
        """End what is left, each by its identity, and remove the folders."""
        groups = Cgroups(Path("/sys/fs/cgroup"), self.data)
        if self.cgroups:
            groups.find()
        for record in end_work(self.data):
            groups.remove(record.groups)
        groups.leave()
        shutil.rmtree(self.root, ignore_errors=True)


def end_work(data: Path) -> list[GuardRecord]:
    """End all work on record in an agent's folder, each by its identity. Work outlives its agent on purpose."""
    records = []
    for slot in (data / "slots").glob("*"):
        with suppress(UnreadableGuardFile):
            if (record := read_record(slot)) is not None:
                records.append(record)
                while kill_once(record):
                    time.sleep(0.01)
    return records


@contextmanager
def a_process_folder(*, cgroups: bool, namespaces: bool = False, where: str | None = None) -> Iterator[ProcessFolder]:
    """A yard; skips the test where it asks for cgroups and none can be written to, or for namespaces and there are
    none to be had."""
    root = Path(tempfile.mkdtemp(prefix="holdfast-", dir=where if os.geteuid() == 0 else None))
    root.chmod(0o711)
    yard = ProcessFolder(root, cgroups=cgroups, namespaces=namespaces)
    try:
        if cgroups and not can_use_cgroups(yard.data):
            pytest.skip("no cgroup for memory, cpu and pids can be written to on this machine")
        if namespaces and (why := no_namespaces()):
            pytest.skip(f"replicas can have no namespaces of their own on this machine: {why}")
        yield yard
    finally:
        yard.clear()


@cache
def no_namespaces() -> str:
    """Why there are none; empty: there are."""
    return why_no_namespaces(ProcessSettings(folder="/no/such")) if os.geteuid() == 0 else "the tests are not root"


def can_use_cgroups(owner: Path) -> bool:
    groups = Cgroups(Path("/sys/fs/cgroup"), owner)
    groups.find()
    groups.leave()
    return len(groups.controllers) == 3


def found(driver: Driver, binding: RunKey = BINDING) -> RunStatus | None:
    """What the driver says of a binding."""
    return next((live for live in driver.runs() if (live.slot, live.epoch) == binding), None)


async def until(driver: Driver, state: ProcessState, binding: RunKey = BINDING, limit: float = 60) -> RunStatus:
    """Wait until the driver says so."""

    async def wait() -> RunStatus:
        while (live := found(driver, binding)) is None or live.state is not state:
            await driver.changed()
        return live

    return await asyncio.wait_for(wait(), limit)


async def until_true(what: Callable[[], object], limit: float = 60) -> None:
    """Wait until something that nobody tells of is so."""
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether a process has this pid, and has not ended."""
    one = kernel.seen(pid)
    return one is not None and one.state not in "ZX"
