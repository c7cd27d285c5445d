"""The connection between an agent and a guard: the order of a guard and its answer, then small JSON messages over a
socket in the slot's folder.

The order is sent to the guard's stdin, and the guard's own environment is empty: commands, variables and secrets appear
in no process list and no file. The guard answers once: the process has begun, or the step at which it failed.

The guard sends its report when an agent connects and after each change; an agent sends extend, stop, run and go. The
socket preserves message boundaries and closes with either side. Sending never waits: a guard that does not read its
messages is not renewed, and ends its process at the deadline, as it should.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.agent.drivers.driver import OWN_ERRNOS, CannotStart, ExitReason, RunSpec, StartFault
from holdfast.agent.drivers.process.cgroups import MEBIBYTE, Cgroups
from holdfast.agent.drivers.process.guard_files import ExecResult, GuardRecord, GuardReport, read_report
from holdfast.agent.drivers.process.run_folders import GUARD_LOG
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.agent.drivers.process.tenant_users import TenantUser
from holdfast.agent.guard import files, kernel

#: The program of a guard.
PROGRAM = (sys.executable, "-I", "-S", os.path.join(os.path.dirname(files.__file__), "__main__.py"))
#: An exec that fails for lack of resources does not show a fault of the binary.
_NOT_THE_BINARY = {errno.E2BIG, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EIO, 0}


def record_of(work: RunSpec, groups: list[str], boot: str, most_ms: int, user: TenantUser | None) -> GuardRecord:
    """Return the record of a run before it begins. Leased work has a grace of at most `most_ms`."""
    grace = min(work.grace_ms, most_ms) if work.leased else work.grace_ms
    leased = (work.leased, work.deadline if work.leased else 0, grace)
    limits = (work.need.memory * MEBIBYTE, work.pids, tuple(groups))
    who = (os.geteuid(), "") if user is None else (user.uid, user.tenant)
    disk_bytes = 0 if work.folder else work.need.disk * MEBIBYTE  # other folders may contain files of others
    record = GuardRecord(work.slot, work.epoch, work.name, boot, *leased, *limits)
    return replace(record, uid=who[0], tenant=who[1], disk_bytes=disk_bytes)


def order_of(
    record: GuardRecord,
    work: RunSpec,
    environment: dict[str, str],
    folder: str,
    user: TenantUser | None,
    cgroups: Cgroups,
    settings: ProcessSettings,
    namespaces: bool,
) -> dict[str, Any]:
    """Return a guard's order. It samples if the kernel enforces no limit, or kills only a part of the run."""
    sampled_bytes = 0 if "memory" in cgroups.controllers else record.memory_bytes
    sampled_pids = 0 if "pids" in cgroups.controllers else record.pids
    kills_a_part = record.memory_bytes and any(os.path.exists(f"{one}/memory.oom_control") for one in record.groups)
    return {
        "record": msgspec.to_builtins(record),
        "command": list(work.command),
        "environment": environment,
        "folder": folder,
        "own": not work.folder,
        "user": None if user is None else [user.uid, user.gid],
        "groups": list(record.groups),
        "leased": record.leased,
        "deadline": record.deadline,
        "grace": record.grace_ms,
        "sample": settings.sample_ms if sampled_bytes or sampled_pids or kills_a_part else 0,
        "sampled_bytes": sampled_bytes,
        "sampled_pids": sampled_pids,
        "logs": [settings.log_bytes, settings.log_files],
        "namespaces": namespaces_of(settings, record.memory_bytes) if namespaces else None,
    }


def namespaces_of(settings: ProcessSettings, memory_bytes: int) -> dict[str, Any]:
    """Return the settings of a replica's own namespaces. Its `/tmp` is in memory."""
    hidden = (settings.folder, settings.secret_folder, settings.tenant_map, *settings.hidden)
    return {
        "hidden": [os.path.realpath(path) for path in hidden if path],
        "shown": list(settings.shown),
        "bytes": memory_bytes or settings.tmp_bytes,
    }


def why_no_namespaces(settings: ProcessSettings) -> str:
    """Return why a guard cannot create namespaces here, by trying it; empty: it can."""
    order = {"groups": [], "own": False, "namespaces": namespaces_of(settings, 0)}
    try:
        tried = subprocess.run(
            PROGRAM, input=_encoded({"trial": order}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={}, cwd="/", timeout=settings.start_ms / 1_000,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return tried.stdout.decode().strip() if tried.returncode == 0 else "the trial run failed"


def launch(order: dict[str, Any], folder: Path, limit_ms: int) -> None:
    """Start a guard; return when its process has begun. Raises `CannotStart`. It waits for the disk without a limit,
    since giving up would leave open whether anything begins."""
    log = folder / files.LOGS / GUARD_LOG
    try:
        with log.open("ab") as errors:
            started = subprocess.Popen(
                PROGRAM,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env={},
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:  # its folder was removed, or no process can be created: nothing has begun
        raise CannotStart(StartFault.DRIVER, f"its guard cannot be started: {error}") from error
    with started:
        try:
            answer, _ = started.communicate(_encoded(order), limit_ms / 1_000)
        except subprocess.TimeoutExpired:
            started.kill()  # only this process waits for it, so its pid is not reused yet
            raise CannotStart(StartFault.DRIVER, f"its guard did not begin within {limit_ms} ms") from None
    said = answer.decode()
    if not said:
        complaint = kernel.read(str(log)).rstrip().rpartition("\n")[2]
        raise CannotStart(StartFault.DRIVER, f"its guard ended before it began: {complaint}")
    if said != "begun":
        who = "" if order["user"] is None else f" by user {order['user'][0]}"
        raise fault(said, order["command"][0], order["folder"], who)


def _encoded(order: dict[str, Any]) -> bytes:
    """Encode as JSON in ASCII, which preserves all bytes of secrets and paths."""
    return json.dumps(order).encode("ascii")


def fault(said: str, command: str, folder: str, who: str = "") -> CannotStart:
    """Return why a guard could not run a command, from its answer: the step and the error number."""
    step, _, number = said.partition(" ")
    code = int(number or 0)
    why = os.strerror(code) if code else "not a command"
    match step:
        case "exec" if code not in _NOT_THE_BINARY:
            hint = "\nhint: the program and its interpreter must exist on the node" if code == errno.ENOENT else ""
            return CannotStart(StartFault.MISSING_BINARY, f"{command}: {why}{hint}")
        case "folder":
            return CannotStart(StartFault.FOLDER, f"{folder}: cannot be entered{who}: {why}")
        case "user":
            return CannotStart(StartFault.USER_NOT_ALLOWED, f"cannot be run{who}: {why}")
        case "lease":
            return CannotStart(StartFault.DRIVER, "its lease had run out when it could have begun")
        case "ending":
            return CannotStart(StartFault.DRIVER, "its process is ending, so no command can run beside it")
        case "busy":
            return CannotStart(StartFault.DRIVER, "too many commands run beside it already")
    return CannotStart(StartFault.DRIVER, f"{step}: {why}")


#: Called with each message of the guard; with None when it has gone.
OnGuardMessage = Callable[[GuardReport | ExecResult | None], None]


class GuardConnection:
    """One connection to a guard. `heard` is called from the event loop."""

    def __init__(self, connection: socket.socket, heard: OnGuardMessage) -> None:
        self._socket = connection
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection.fileno(), self._read)

    def extend(self, message: bytes) -> bool:
        """Send a message made by `extension`, the same for all guards; whether it was sent."""
        return self._send(message)

    def stop(self, grace_ms: int, why: ExitReason) -> bool:
        """Request the end of the process, for this reason; whether the request was sent."""
        return self._send(msgspec.json.encode({"stop": grace_ms, "why": why}))

    def run(self, number: int, command: tuple[str, ...], limit_ms: int) -> bool:
        """Request a command beside the process, for at most `limit_ms`; whether the request was sent."""
        return self._send(msgspec.json.encode({"run": number, "command": command, "limit": limit_ms}))

    def cancel(self, number: int) -> None:
        """Cancel a command: its caller no longer waits."""
        self._send(msgspec.json.encode({"cancel": number}))

    def go(self) -> None:
        """Let the guard exit: its run is forgotten."""
        self._send(b'{"go": true}')

    def close(self) -> None:
        """Disconnect. No more messages are received."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _send(self, message: bytes) -> bool:
        try:
            return self._socket.send(message) == len(message)
        except OSError:
            return False

    def _read(self) -> None:
        said = None
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            said = read_report(self._socket.recv(65_536))
        if said is None:
            self.close()
        self._heard(said)


def extension(deadline: int, grace_ms: int) -> bytes:
    """Return the message that extends a guard's deadline and bounds its grace."""
    return msgspec.json.encode({"extend": deadline, "grace": grace_ms})


def connect(folder: Path) -> socket.socket | None:
    """Return a connection to the folder's guard; None if none listens. `OSError` if that is uncertain, such as
    `BlockingIOError` while its queue is full. It may block on the disk."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        # by a descriptor: a socket address holds about a hundred characters
        there = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{there}/{files.SOCKET}")
        finally:
            os.close(there)
    except OSError as error:
        connection.close()
        if error.errno in OWN_ERRNOS or isinstance(error, BlockingIOError):
            raise
        return None
    return connection
