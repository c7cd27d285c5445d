"""The files that a guard writes about its run, and their meaning.

    who          before the process begins: pid, start time and boot of process and guard, in a link's target
    record.json  then: the same, and what the driver needs to know of the run
    result.json  when nothing of the run is left: how it ended

A pid alone identifies nothing: pids are reused, and after a reboot all of them are. None of these files contains a
secret, a command or a variable. A guard may be older than the agent that finds it: fields and values are only ever
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

from holdfast.agent.drivers.driver import OWN_ERRNOS, ExitReason, RunStatus
from holdfast.agent.guard import files, kernel
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.values.structs import Revision, SlotKey


class ProcessId(Struct, frozen=True, array_like=True):
    """A process of this boot: its pid, and its start time in ticks since boot."""

    pid: int
    start: int

    def is_alive(self) -> bool:
        """Whether this very process still has the pid and has not ended. `OSError` if that cannot be examined."""
        found = kernel.seen(self.pid)
        return found is not None and found.state not in "ZX" and found.start == self.start


NOBODY = ProcessId(0, 0)


class GuardRecord(Struct, frozen=True):
    """The record of a run. The guard adds its start time and the ids of itself, the process, and the first process in
    the replica's own namespaces."""

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
    #: Its user, and its tenant if the user is that tenant's own; empty: a named user, or the agent's.
    uid: int = 0
    tenant: str = ""
    disk_bytes: int = 0
    first: ProcessId = NOBODY

    @property
    def binding(self) -> RunKey:
        return self.slot, self.epoch


class GuardIdentity(Struct, frozen=True):
    """The process ids of a run, if its record is unreadable."""

    boot: str
    guard: ProcessId = NOBODY
    process: ProcessId = NOBODY
    first: ProcessId = NOBODY


class GuardReport(Struct, frozen=True):
    """A guard's message and result. A negative code is the signal that ended the process."""

    state: ProcessState
    pid: int
    since: int
    deadline: int
    why: ExitReason
    memory_kills: int
    code: int | None


class ExecResult(Struct, frozen=True):
    """The result of a command: its exit code, negative for a signal; or the step at which it failed."""

    ran: int
    code: int = 0
    failed: str = ""


class UnreadableGuardFile(Exception):
    """A file of a guard cannot be decoded."""


T = TypeVar("T")

_records = msgspec.json.Decoder(GuardRecord)
_said = msgspec.json.Decoder(GuardReport)
_ran = msgspec.json.Decoder(ExecResult)
_who = msgspec.json.Decoder(GuardIdentity)


def read_record(folder: Path) -> GuardRecord | None:
    """Return the record in a slot's folder; None if nothing was started there."""
    return _read(folder / files.RECORD, _records)


def placeholder_record(folder: Path, binding: RunKey, groups: Sequence[str]) -> GuardRecord:
    """Return a record for a run whose own cannot be read: enough to end it."""
    who = GuardIdentity(boot_id())
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):  # unknown: only its guard can end it
        who = _who.decode(os.readlink(os.fsencode(folder / files.WHO)))
    record = GuardRecord(*binding, folder.name, who.boot, False, 0, 0, 0, 0, tuple(groups), 0, who.guard, who.process)
    return replace(record, first=who.first)


def read_result(folder: Path) -> GuardReport | None:
    """Return how the run of this folder ended; None if that is unknown, or it has not ended."""
    return _read(folder / files.RESULT, _said)


def read_report(raw: bytes) -> GuardReport | ExecResult:
    """Decode a guard's message."""
    return _ran.decode(raw) if raw.startswith(b'{"ran"') else _said.decode(raw)


def boot_id() -> str:
    """Return the id of the current boot: pids and the boot clock have no meaning in another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def status_of(record: GuardRecord, said: GuardReport) -> RunStatus:
    ended = said.state is ProcessState.ENDED
    code, number = (said.code, 0) if said.code is None or said.code >= 0 else (None, -said.code)
    why = _why(said) if ended else said.why
    detail = exit_message(why, record, said.code) if why else ""
    where = (record.slot, record.epoch, record.name, said.state, said.since)
    return RunStatus(*where, 0 if ended else said.pid, record.leased, said.deadline, code, number, why, detail)


def lost_status(record: GuardRecord, why: ExitReason, state: ProcessState = ProcessState.ENDED) -> RunStatus:
    """Return the status of a run without a guard."""
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
    """Return why a run ended, as a sentence for operators."""
    match why:
        case ExitReason.EXIT:
            return f"it ended by itself with code {code}"
        case ExitReason.SIGNALLED:
            return f"it was ended by {_named(-(code or 0))}, which was not sent by Holdfast"
        case ExitReason.STOPPED:
            return "its agent stopped it"
        case ExitReason.KILLED:
            return "its agent stopped it; it did not end within its grace, and was killed"
        case ExitReason.DEADLINE:
            return "its lease was not renewed in time"
        case ExitReason.OVER_MEMORY:
            return f"it used more than its {record.memory_bytes >> 20} MiB of memory, and was killed"
        case ExitReason.OVER_PIDS:
            return f"it had more than {record.pids} processes and threads, and was killed"
        case ExitReason.OVER_DISK:
            return f"it used more than its {record.disk_bytes >> 20} MiB of disk, and was killed"
        case ExitReason.DISK_UNKNOWN:
            return f"its disk usage, {record.disk_bytes >> 20} MiB at most, could not be measured; it was killed"
        case ExitReason.GUARD_GONE:
            return "its guard was killed or hung, and the run was killed with it"
        case ExitReason.REBOOTED:
            return "the machine was rebooted"
    return ""


def _named(number: int) -> str:
    """Return a signal's name; real-time signals have none."""
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
