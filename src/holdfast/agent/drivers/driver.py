"""The port to what runs on a node. An agent decides what should run; a driver makes it so and says what is.

    start ──▶ running ──stop · deadline · over a limit · its own end──▶ stopping ──▶ ended ──forget──▶ gone

A binding, (slot, epoch), has at most one process. What runs outlives the agent: the next one's driver finds it when it
opens. All times are milliseconds on the machine's boot-time clock (`host.clock`).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from holdfast.core.model.objects.workloads import DriverKind as Kind
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.model.values.structs import Revision, SlotKey

#: Errors of whoever looks, and not of what is looked at: no descriptors, no memory. Nobody is dead or ill by them.
OWN_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Which process: of which slot, under which binding.
RunKey = tuple[SlotKey, Revision]


class RunSpec(Struct, frozen=True):
    """What is to run, complete: nothing is looked up later.

    `folder` and `user` empty: the driver's own for the slot, and its tenant's. `need` is the limit of what is named in
    it, and `pids` of processes and threads; 0: the driver's own limit, if it has one. `secrets` are pairs of a variable
    and where the node has its value among those of the tenant: `file:PATH` or `env:NAME`. Leased work ends at its
    `deadline` unless that is extended; a lease allows no longer grace than the driver's settings do.
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


class RunState(StrEnum):
    """What a process is doing, as far as its driver has a say in it."""

    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class ExitReason(StrEnum):
    """Why a process ends or has ended. A guard knows some of these words, too."""

    NOT_YET = ""
    #: By itself: with an exit code, or by a signal that nobody here sent.
    EXIT = "exit"
    SIGNALLED = "signalled"
    #: When it was asked to: within its grace, or killed after that.
    STOPPED = "stopped"
    KILLED = "killed"
    DEADLINE = "deadline"
    OVER_MEMORY = "over-memory"
    OVER_PIDS = "over-pids"
    OVER_DISK = "over-disk"
    #: How much it keeps on disk could not be told.
    DISK_UNKNOWN = "disk-unknown"
    #: Its guard was gone, or did not act, and what was left of it was killed; or the machine was started anew.
    GUARD_GONE = "guard-gone"
    REBOOTED = "rebooted"


class RunStatus(Struct, frozen=True):
    """A process that a driver has started, until it is forgotten. `pid` 0: unknown; `code` None and `signal` 0: it
    has not ended in that way. `detail` is a sentence for people."""

    slot: SlotKey
    epoch: Revision
    name: str
    state: RunState
    since: int
    pid: int = 0
    leased: bool = False
    deadline: int = 0
    code: int | None = None
    signal: int = 0
    why: ExitReason = ExitReason.NOT_YET
    detail: str = ""


class StartFault(StrEnum):
    """Why something cannot be started."""

    MISSING_BINARY = "missing-binary"
    UNKNOWN_USER = "unknown-user"
    USER_NOT_ALLOWED = "user-not-allowed"
    #: Its tenant has no user of its own here, and none can be given to it.
    NO_USER = "no-user"
    FOLDER = "folder"
    SECRET = "secret"
    PORT = "port"
    DRIVER = "driver"


class CannotStart(Exception):
    """It was not started, and nothing of it is left. The message never holds a secret."""

    def __init__(self, code: StartFault, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ExecNotRun(Exception):
    """Whoever would run a command does not answer: nothing is known of the process."""


class LimitMethod(StrEnum):
    """How a limit is kept: by the kernel, by looking every so often, or not at all."""

    CGROUP = "cgroup"
    SAMPLED = "sampled"
    NOT_LIMITED = "not-limited"


class Capabilities(Struct, frozen=True):
    """What a driver can promise on this machine. `whole`: what leaves its session ends with it, even if its guard was
    killed. `users`: each tenant has a user of its own. `namespaces`: each replica has pids, mounts and a
    `/tmp` of its own, and sees nothing of the agent's or of other replicas'. `missing` are sentences for people."""

    memory: LimitMethod
    cpu: LimitMethod
    pids: LimitMethod
    disk: LimitMethod
    whole: bool
    users: bool
    namespaces: bool
    missing: tuple[str, ...] = ()


class Driver(Protocol):
    """Starts processes and ends them. One agent at a time uses it, on one event loop."""

    async def open(self) -> None:
        """Find what an earlier agent started, and take it over."""

    @property
    def kinds(self) -> Collection[Kind]:
        """Which drivers of templates it is."""

    def capabilities(self) -> Capabilities:
        """What this driver can promise here; after `open`."""

    def runs(self) -> Sequence[RunStatus]:
        """What there is, by binding; what has ended, too, until it is forgotten."""

    async def start(self, work: RunSpec) -> None:
        """Start it; returns when it runs. Raises `CannotStart`. Whoever stops waiting does not undo it."""

    async def stop(self, slot: SlotKey, epoch: Revision, grace_ms: int) -> None:
        """Begin to end it: it is asked to, and killed after the grace. Of what is not there nothing is to be ended."""

    async def exec(self, work: RunSpec, command: tuple[str, ...], limit_ms: int) -> int:
        """Run a command beside a process, as it runs itself and as a part of it; its exit code, or minus the signal
        that ended it. Raises `CannotStart`, and `ExecNotRun`. It ends with all it started when its time is over,
        with its process, and when whoever waits for it stops."""

    def keep(self, times: AgentTimes) -> int:
        """Act by these numbers of the region from now on; what runs already does so with its next extension. Returns
        for how long at most leased work lives on after its deadline then: more than they say, if they cannot be kept.
        """

    def extend(self, deadline: int) -> None:
        """Give all leased work until then. A deadline is never lowered, nor moved once it has passed."""

    async def forget(self, slot: SlotKey, epoch: Revision) -> None:
        """Let go of what has ended. Its last logs stay for a while."""

    async def changed(self) -> None:
        """Return when `lives` may say something else than when this returned last. For one waiter."""

    async def close(self) -> None:
        """The agent goes; what runs stays."""
