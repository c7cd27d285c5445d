"""The port to the runs on a node. The agent decides what should run; a driver starts and ends it, and reports its
state.

    start ──▶ running ──stop · deadline · over a limit · own end──▶ stopping ──▶ ended ──forget──▶ removed

A binding, (slot, epoch), has at most one run. Runs outlive the agent: the driver of the next one adopts them when it
opens. All times are milliseconds on the machine's boot clock (`host.clock`).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.objects.isolation import Capability
from holdfast.core.model.objects.workloads import DriverKind as Kind
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.model.values.structs import Revision, SlotKey

#: Errors of the agent itself: no free descriptors, no memory. They show nothing about the process that is examined.
OWN_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class RunSpec(Struct, frozen=True):
    """A complete run specification: nothing is looked up later.

    Empty `folder` and `user`: the slot's folder and the tenant's user. `need` and `pids` (processes and threads) are
    limits; 0: the driver's default, if any. `secrets` are pairs of a variable and its place among the tenant's secrets:
    `file:PATH` or `env:NAME`. Leased work ends at its `deadline` unless extended, with at most the grace of the
    driver's settings.
    """

    slot: SlotKey
    epoch: Revision
    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    user: str = ""
    need: Resources = ZERO
    pids: int = 0
    ports: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    leased: bool = False
    deadline: int = 0
    grace_ms: int = 10_000
    tenant: str = ""


class ExitReason(StrEnum):
    """Why a run ends or has ended. Some of these values are also written by guards."""

    NOT_YET = ""
    #: By itself: with an exit code, or by a signal that neither agent nor guard sent.
    EXIT = "exit"
    SIGNALLED = "signalled"
    #: Stopped by the agent: within its grace, or killed after it.
    STOPPED = "stopped"
    KILLED = "killed"
    DEADLINE = "deadline"
    OVER_MEMORY = "over-memory"
    OVER_PIDS = "over-pids"
    OVER_DISK = "over-disk"
    #: Its disk usage could not be measured.
    DISK_UNKNOWN = "disk-unknown"
    #: Its guard died or hung, and the rest of the run was killed; or the machine rebooted.
    GUARD_GONE = "guard-gone"
    REBOOTED = "rebooted"


class RunStatus(Struct, frozen=True):
    """A run until it is forgotten. `pid` 0: unknown; `code` None and `signal` 0: it has not ended in that way. `detail`
    is for operators."""

    slot: SlotKey
    epoch: Revision
    name: str
    state: ProcessState
    since: int
    pid: int = 0
    leased: bool = False
    deadline: int = 0
    code: int | None = None
    signal: int = 0
    why: ExitReason = ExitReason.NOT_YET
    detail: str = ""


class StartFault(StrEnum):
    """Why a run cannot be started."""

    MISSING_BINARY = "missing-binary"
    UNKNOWN_USER = "unknown-user"
    USER_NOT_ALLOWED = "user-not-allowed"
    #: Its tenant has no user of its own here, and none can be assigned.
    NO_USER = "no-user"
    FOLDER = "folder"
    SECRET = "secret"
    PORT = "port"
    DRIVER = "driver"


class CannotStart(Exception):
    """The run was not started and left nothing behind. The message never contains a secret."""

    def __init__(self, code: StartFault, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ExecNotRun(Exception):
    """The guard that runs commands does not answer: the state of the process is unknown."""


class LimitMethod(StrEnum):
    """How a limit is enforced: by the kernel, by periodic sampling, or not at all."""

    CGROUP = "cgroup"
    SAMPLED = "sampled"
    NOT_LIMITED = "not-limited"


class Capabilities(Struct, frozen=True):
    """What a driver enforces on this machine. `whole`: processes that leave the session end with the run, even without
    its guard. `users`: one user per tenant. `namespaces`: each replica has its own pids, mounts and `/tmp`.
    `missing` are sentences for operators."""

    memory: LimitMethod
    cpu: LimitMethod
    pids: LimitMethod
    disk: LimitMethod
    whole: bool
    users: bool
    namespaces: bool
    missing: tuple[str, ...] = ()


class Driver(Protocol):
    """Starts and ends runs. One agent at a time uses it, on one event loop."""

    async def open(self) -> None:
        """Adopt the runs that an earlier agent started."""

    @property
    def kinds(self) -> Collection[Kind]:
        """The driver kinds of templates that it accepts."""

    def capabilities(self) -> Capabilities:
        """Return what this driver can enforce here; after `open`."""

    def runs(self) -> Sequence[RunStatus]:
        """Return all runs by binding, including ended ones that are not yet forgotten."""

    async def start(self, work: RunSpec) -> None:
        """Start a run; return when it runs. Raises `CannotStart`. Cancelling the wait does not undo the start."""

    async def stop(self, slot: SlotKey, epoch: Revision, grace_ms: int) -> None:
        """Begin to end a run: TERM, then KILL after the grace. Without such a run it does nothing."""

    async def exec(self, work: RunSpec, command: tuple[str, ...], limit_ms: int) -> int:
        """Run a command beside a process, and return its exit code, or minus the signal that ended it. Raises
        `CannotStart` and `ExecNotRun`. It ends with all it started at the limit, with the process, and when the wait is
        cancelled."""

    def keep(self, times: AgentTimes) -> int:
        """Use these durations of the region; running work uses them from its next extension. Return how long leased
        work runs at most after its deadline: more than they allow, if the driver needs more."""

    def extend(self, deadline: int) -> None:
        """Extend the deadline of all leased work. A deadline is never lowered, nor moved after it has passed."""

    async def forget(self, slot: SlotKey, epoch: Revision) -> None:
        """Discard an ended run. Its last logs are retained for a while."""

    async def changed(self) -> None:
        """Return when `runs` may have changed since this returned last. For one waiter."""

    async def close(self) -> None:
        """Close the driver; runs continue."""


#: Methods that do not enforce a limit at every moment.
_LOOSE = (LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED)


def enforced_capabilities(can: Capabilities) -> tuple[Capability, ...]:
    """Return what is enforced between tenants, sorted."""
    found = {
        Capability.USERS: can.users,
        Capability.PID_NAMESPACE: can.namespaces,
        Capability.MOUNT_NAMESPACE: can.namespaces,
        Capability.PRIVATE_TMP: can.namespaces,
        Capability.MEMORY_LIMIT: can.memory not in _LOOSE,
        Capability.CPU_LIMIT: can.cpu not in _LOOSE,
        Capability.PIDS_LIMIT: can.pids not in _LOOSE,
        Capability.DISK_LIMIT: can.disk not in _LOOSE,
    }
    return tuple(sorted(word for word, holds in found.items() if holds))
