"""Identity, capacity and load of this machine, and the names of the images that are cached on it.

The identity is that of this machine and of its current boot (RULES 23). Its id is random and is created once, in the
agent's folder: an agent with another folder is another machine, even with the same node name. Copied folders are
detected, since their record of runs may be wrong. On another host the host's machine id and boot id differ. On the same
host, or after a restore from a backup, `machine.id` is another file, with another inode and change time.
"""

from __future__ import annotations

import os
import secrets
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.topology import PRESENT_MAX, PRESENT_NAME_MAX
from holdfast.core.model.records.nodes import LOAD_STEP, MACHINE_NAME_MAX, Machine
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import ReportNode
from holdfast.core.region.limits import LOAD_EVERY_MS
from holdfast.host.ports.clock import Clock
from holdfast.host.protocol.session_client import SessionClient
from holdfast.host.runtime.blocking_calls import BlockingCalls, Hangs
from holdfast.host.runtime.files import write_atomically
from holdfast.host.runtime.telemetry import Logger

#: Share of each resource that is reserved for the machine itself, in percent.
RESERVED_PERCENT = 10

_MIB = 1 << 20

#: Interval between two measurements of the node load.
POLL_MS = 5_000
#: Longest time that listing the folder of cached images may take.
PRESENT_MS = 2_000
MACHINE_ID_FILE = "machine.id"
HOST_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ID_BYTES = 16


class NodeLoad(NamedTuple):
    """Used cpu and memory, in percent, and the names of cached images."""

    cpu: int = 0
    memory: int = 0
    present: tuple[str, ...] = ()


class NodeLoadSource(Protocol):
    """Measures the load of a node."""

    async def look(self) -> NodeLoad:
        """Return the load at this moment."""


class MachineLoad:
    """The load of this machine, and the file names in one folder, if one is given."""

    def __init__(self, clock: Clock, folder: Path | None = None, proc: Path = Path("/proc")) -> None:
        self._calls = BlockingCalls(clock)
        self._folder = folder
        self._proc = proc
        self._busy, self._whole = self._times()
        #: The file names at the last listing that succeeded, and whether listing is blocked.
        self._found: tuple[str, ...] = ()
        self._hangs = False

    async def look(self) -> NodeLoad:
        """Return the load since the last call and the file names; while listing is blocked, the last names."""
        busy, whole = self._times()
        spent, passed = busy - self._busy, whole - self._whole
        self._busy, self._whole = busy, whole
        if self._folder is not None:
            await self._look_into(self._folder)
        return NodeLoad(_step(spent, passed), _step(*self._memory()), self._found)

    async def _look_into(self, folder: Path) -> None:
        try:
            self._found = await self._calls.ask(f"listing {folder}", PRESENT_MS, lambda: _present(folder))
            self._hangs = False
        except Hangs as error:
            if not self._hangs:
                Logger("agent").warning("cannot-look", why=error)
            self._hangs = True

    def _times(self) -> tuple[int, int]:
        """Return the busy time and the total time of all processors since boot."""
        words = (self._proc / "stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]
        times = [int(word) for word in words]
        return sum(times) - times[3] - times[4], sum(times)

    def _memory(self) -> tuple[int, int]:
        lines = (self._proc / "meminfo").read_text(encoding="ascii").splitlines()
        found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return found["MemTotal"] - found["MemAvailable"], found["MemTotal"]


def _present(folder: Path) -> tuple[str, ...]:
    try:
        found = os.listdir(folder)
    except OSError:
        return ()
    names = sorted(name for name in found if len(name) <= PRESENT_NAME_MAX and name.isprintable())
    return tuple(names[:PRESENT_MAX])


def _step(part: int, whole: int) -> int:
    """Return the part in percent, rounded to a multiple of `LOAD_STEP`."""
    percent = 100 * part // whole if whole > 0 else 0
    return min(100, (percent + LOAD_STEP // 2) // LOAD_STEP * LOAD_STEP)


async def report_node_load(session: SessionClient, clock: Clock, node: str, faring: NodeLoadSource) -> None:
    """Report the node load during one session. The region ignores repeated values."""
    logger = Logger("agent", node=node)
    told: NodeLoad | None = None
    told_at = 0
    while True:
        try:
            fares, now = await faring.look(), clock.boot()
        except OSError as error:
            logger.warning("cannot-look", why=error)
            await clock.sleep(POLL_MS)
            continue
        is_other = told is None or fares.present != told.present
        if is_other or (fares != told and now >= told_at + LOAD_EVERY_MS):
            answered = await session.send(ReportNode(node, *fares))
            told, told_at = fares, now
            if answered.code not in ("", Code.ALREADY):
                told = fares._replace(cpu=-1)  # refused, perhaps as too early: send it again next time
        await clock.sleep(POLL_MS)


def detect_capacity(folder: Path) -> Resources:
    """Return the capacity of this machine, less the reserved share. The disk is that of the agent's folder."""
    cpu = len(os.sched_getaffinity(0)) * 1_000
    memory = _memory_mib(Path("/proc/meminfo"))
    disk = shutil.disk_usage(folder).free // _MIB
    return Resources(_offered(cpu), _offered(memory), _offered(disk), 0)


def _offered(amount: int) -> int:
    return amount * (100 - RESERVED_PERCENT) // 100


def _memory_mib(meminfo: Path) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) // 1_024
    raise ValueError(f"{meminfo} has no line MemTotal")


def machine_of(folder: Path, host: Path = HOST_ID, boot: Path = BOOT_ID) -> Machine:
    """Return the machine whose agent uses this folder. `ValueError` if its id cannot be read."""
    return Machine(_id_of(folder / MACHINE_ID_FILE), _said(host), _said(boot))


def _id_of(file: Path) -> str:
    try:
        found = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = secrets.token_hex(_ID_BYTES)
        write_atomically(file, f"{found}\n")
    if not found.isalnum() or len(found) > MACHINE_NAME_MAX:
        raise ValueError(f"{file} holds no valid machine id; remove it, and the agent registers as a new machine")
    at = file.stat()
    return blake2b(f"{found} {at.st_ino} {at.st_ctime_ns}".encode(), digest_size=_ID_BYTES).hexdigest()


def _said(file: Path) -> str:
    """Return the content of a system file; empty if there is none, as in some containers."""
    try:
        return file.read_text(encoding="ascii").strip()[:MACHINE_NAME_MAX]
    except (OSError, UnicodeDecodeError):
        return ""
