"""The order of a guard, and its answer.

The order is sent to the guard's stdin, and the guard's own environment is empty: commands, variables and secrets appear
in no process list and no file. The guard answers once: the process has begun, or the step at which it failed.
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
