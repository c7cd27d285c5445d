"""What guards write about a replica, and what it means.

    who            before the process begins: who it is and who its guard is, by pid, start time and boot, in a link
    record.json    then: the same, and what its driver knows of it
    result.json    when nothing of it is left: how it ended

A pid alone names nobody: pids are used again, and after a reboot all of them are. None of these files holds a secret,
nor what the process was given to run. A guard may be older than the agent that finds it: fields and words are only ever
added, fields with a default.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drivers.driver import OWN_ERRNOS, ExitReason, RunKey, RunState, RunStatus
from holdfast.agent.guard import files, kernel
from holdfast.core.model.values.structs import Revision, SlotKey


class ProcessId(Struct, frozen=True, array_like=True):
    """A process of this boot: its pid, and when it was started, in ticks since boot."""

    pid: int
    start: int

    def is_alive(self) -> bool:
        """Whether it is this very process that has the pid now, and that it has not ended. `OSError` when that cannot
        be looked at."""
        found = kernel.seen(self.pid)
        return found is not None and found.state not in "ZX" and found.start == self.start


NOBODY = ProcessId(0, 0)


class GuardRecord(Struct, frozen=True):
    """A replica that was begun. The guard adds when it was, who it is itself, who the process is, and the first one in
    the namespaces of the replica, if it has its own."""

    slot: SlotKey
    epoch: Revision
    name: str
    boot: str
    leased: bool
    deadline: int
    grace_ms: int
    memory_bytes: int
    pids: int
    groups: tuple[str, ...]
    since: int = 0
    guard: ProcessId = NOBODY
    process: ProcessId = NOBODY
    #: The user that it runs as, and the tenant whose alone that is; none: a user that was named, or the agent's.
    uid: int = 0
    tenant: str = ""
    disk_bytes: int = 0
    first: ProcessId = NOBODY

    @property
    def binding(self) -> RunKey:
        """Whose it is."""
        return self.slot, self.epoch


class GuardIdentity(Struct, frozen=True):
    """Who a replica is, where that is all that is known."""

    boot: str
    guard: ProcessId = NOBODY
    process: ProcessId = NOBODY
    first: ProcessId = NOBODY


class GuardReport(Struct, frozen=True):
    """What a guard says on its line, and as its result. A negative code is the signal that ended the process."""

    state: RunState
    pid: int
    since: int
    deadline: int
    why: ExitReason
    memory_kills: int
    code: int | None


class ExecResult(Struct, frozen=True):
    """What a guard says on its line of a command that it was asked to run: its exit code, negative for the signal that
    ended it; or at which step it failed."""

    ran: int
    code: int = 0
    failed: str = ""


class UnreadableGuardFile(Exception):
    """A file of a guard's says nothing that can be understood."""


T = TypeVar("T")

_records = msgspec.json.Decoder(GuardRecord)
_said = msgspec.json.Decoder(GuardReport)
_ran = msgspec.json.Decoder(ExecResult)
_who = msgspec.json.Decoder(GuardIdentity)


def read_record(folder: Path) -> GuardRecord | None:
    """The record in a slot's folder; None when nothing was begun there."""
    return _read(folder / files.RECORD, _records)


def placeholder_record(folder: Path, binding: RunKey, groups: Sequence[str]) -> GuardRecord:
    """What is held of a replica whose record cannot be read: enough to end it, and no more."""
    who = GuardIdentity(boot_id())
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):  # nobody knows: its guard is asked, if it answers
        who = _who.decode(os.readlink(os.fsencode(folder / files.WHO)))
    record = GuardRecord(*binding, folder.name, who.boot, False, 0, 0, 0, 0, tuple(groups), 0, who.guard, who.process)
    return replace(record, first=who.first)


def read_result(folder: Path) -> GuardReport | None:
    """How the replica of this folder ended; None when that is not known, or it has not."""
    return _read(folder / files.RESULT, _said)


def read_report(raw: bytes) -> GuardReport | ExecResult:
    """What a guard said on its line."""
    return _ran.decode(raw) if raw.startswith(b'{"ran"') else _said.decode(raw)


def boot_id() -> str:
    """Which life of the machine this is: pids and its even clock mean nothing in another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def status_of(record: GuardRecord, said: GuardReport) -> RunStatus:
    """A replica as its guard tells of it."""
    ended = said.state is RunState.ENDED
    code, number = (said.code, 0) if said.code is None or said.code >= 0 else (None, -said.code)
    why = _why(said) if ended else said.why
    detail = exit_message(why, record, said.code) if why else ""
    where = (record.slot, record.epoch, record.name, said.state, said.since)
    return RunStatus(*where, 0 if ended else said.pid, record.leased, said.deadline, code, number, why, detail)


def lost_status(record: GuardRecord, why: ExitReason, state: RunState = RunState.ENDED) -> RunStatus:
    """A replica of which no guard tells any more."""
    where = (record.slot, record.epoch, record.name, state, record.since)
    return RunStatus(*where, 0, record.leased, record.deadline, None, 0, why, exit_message(why, record, None))


def _why(said: GuardReport) -> ExitReason:
    if said.memory_kills:
        return ExitReason.OVER_MEMORY
    if said.why is ExitReason.STOPPED and said.code == -signal.SIGKILL:
        return ExitReason.KILLED
    if said.why:
        return said.why
    return ExitReason.SIGNALLED if (said.code or 0) < 0 else ExitReason.EXIT


def exit_message(why: ExitReason, record: GuardRecord, code: int | None) -> str:
    """Why a replica ended, for people."""
    match why:
        case ExitReason.EXIT:
            return f"it ended by itself with code {code}"
        case ExitReason.SIGNALLED:
            return f"it was ended by {_named(-(code or 0))}, which nobody here had sent"
        case ExitReason.STOPPED:
            return "it was asked to end, and did"
        case ExitReason.KILLED:
            return "it was asked to end, did not within its grace, and was killed"
        case ExitReason.DEADLINE:
            return "its lease was not renewed in time"
        case ExitReason.OVER_MEMORY:
            return f"it used more than its {record.memory_bytes >> 20} MiB of memory, and was killed"
        case ExitReason.OVER_PIDS:
            return f"it had more than {record.pids} processes and threads, and was killed"
        case ExitReason.OVER_DISK:
            return f"it used more than its {record.disk_bytes >> 20} MiB of disk, and was killed"
        case ExitReason.DISK_UNKNOWN:
            return f"what it keeps on disk, {record.disk_bytes >> 20} MiB at most, could not be measured; it was killed"
        case ExitReason.GUARD_GONE:
            return "its guard was killed or hung, and it was killed with it"
        case ExitReason.REBOOTED:
            return "the machine was started anew"
    return ""


def _named(number: int) -> str:
    """A signal for people; those of real time have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _read(path: Path, decoder: msgspec.json.Decoder[T]) -> T | None:
    try:
        return decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno in OWN_ERRNOS:
            raise
        raise UnreadableGuardFile(f"{path}: {error}") from None
