"""A guard's order, and its answer.

The order goes through the guard's stdin, and its own environment is empty: what a process is given, secrets too, stands
in no list of processes and in no file. The guard answers once: the process has begun, or at which step it failed.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.agent.drivers.driver import CannotStart, RunSpec, StartFault
from holdfast.agent.drivers.process.cgroups import MEBIBYTE, Cgroups
from holdfast.agent.drivers.process.guard_files import GuardRecord
from holdfast.agent.drivers.process.run_folders import GUARD_LOG
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.agent.drivers.process.tenant_users import TenantUser
from holdfast.agent.guard import files, kernel

#: The program of a guard.
PROGRAM = (sys.executable, "-I", "-S", os.path.join(os.path.dirname(files.__file__), "__main__.py"))
#: An exec that fails for want of room is no fault of the binary.
_NOT_THE_BINARY = {errno.E2BIG, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EIO, 0}


def record_of(work: RunSpec, groups: list[str], boot: str, most_ms: int, user: TenantUser | None) -> GuardRecord:
    """What is known of a replica before it begins. That of leased work has no longer grace than `most_ms`."""
    grace = min(work.grace_ms, most_ms) if work.leased else work.grace_ms
    leased = (work.leased, work.deadline if work.leased else 0, grace)
    limits = (work.need.memory * MEBIBYTE, work.pids, tuple(groups))
    who = (os.geteuid(), "") if user is None else (user.uid, user.tenant)
    disk_bytes = 0 if work.folder else work.need.disk * MEBIBYTE  # what is not the driver's own may be others', too
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
    """What a guard is told. It looks every so often where the kernel keeps no limit, or kills only a part."""
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
    """What a replica sees of the node, in namespaces of its own. What it keeps in `/tmp` is in memory."""
    hidden = (settings.folder, settings.secret_folder, settings.tenant_map, *settings.hidden)
    return {
        "hidden": [os.path.realpath(path) for path in hidden if path],
        "shown": list(settings.shown),
        "bytes": memory_bytes or settings.tmp_bytes,
    }


def why_no_namespaces(settings: ProcessSettings) -> str:
    """Try what a guard would do: why it cannot be done here; empty: it can."""
    order = {"groups": [], "own": False, "namespaces": namespaces_of(settings, 0)}
    try:
        tried = subprocess.run(
            PROGRAM, input=_encoded({"trial": order}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={}, cwd="/", timeout=settings.start_ms / 1_000,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return tried.stdout.decode().strip() if tried.returncode == 0 else "the trial of it failed"


def launch(order: dict[str, Any], folder: Path, limit_ms: int) -> None:
    """Start a guard in this folder; returns when its process has begun. Raises `CannotStart`. It waits for the disk of
    the folder as long as that takes: who gave it up could not say whether anything begins."""
    log = folder / files.LOGS / GUARD_LOG
    try:
        with log.open("ab") as errors:
            started = subprocess.Popen(
                PROGRAM,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env={},
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:  # its folder was removed meanwhile, or there is no room for a process: nothing has begun
        raise CannotStart(StartFault.DRIVER, f"its guard cannot be started: {error}") from error
    with started:
        try:
            answer, _ = started.communicate(_encoded(order), limit_ms / 1_000)
        except subprocess.TimeoutExpired:
            started.kill()  # nobody else waits for it, and so its pid is nobody else's
            raise CannotStart(StartFault.DRIVER, f"its guard did not begin within {limit_ms} ms") from None
    said = answer.decode()
    if not said:
        complaint = kernel.read(str(log)).rstrip().rpartition("\n")[2]
        raise CannotStart(StartFault.DRIVER, f"its guard ended before it began: {complaint}")
    if said != "begun":
        who = "" if order["user"] is None else f" by user {order['user'][0]}"
        raise fault(said, order["command"][0], order["folder"], who)


def _encoded(order: dict[str, Any]) -> bytes:
    """As JSON that keeps whatever bytes a secret or a path has."""
    return json.dumps(order).encode("ascii")


def fault(said: str, command: str, folder: str, who: str = "") -> CannotStart:
    """Why a guard could not run a command, in its words: the step, and the number of the error."""
    step, _, number = said.partition(" ")
    code = int(number or 0)
    why = os.strerror(code) if code else "not a command"
    match step:
        case "exec" if code not in _NOT_THE_BINARY:
            hint = "\nhint: it, or the interpreter that it names, must be on the node" if code == errno.ENOENT else ""
            return CannotStart(StartFault.MISSING_BINARY, f"{command}: {why}{hint}")
        case "folder":
            return CannotStart(StartFault.FOLDER, f"{folder}: cannot be entered{who}: {why}")
        case "user":
            return CannotStart(StartFault.USER_NOT_ALLOWED, f"cannot be run{who}: {why}")
        case "lease":
            return CannotStart(StartFault.DRIVER, "its lease had run out when it could have begun")
        case "ending":
            return CannotStart(StartFault.DRIVER, "its process ends, and nothing begins for it any more")
        case "busy":
            return CannotStart(StartFault.DRIVER, "too many commands run for it already")
    return CannotStart(StartFault.DRIVER, f"{step}: {why}")
