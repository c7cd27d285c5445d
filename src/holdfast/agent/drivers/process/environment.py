"""The variables of a process: those of its node and its template, those that Holdfast sets, and its secrets.

A tenant's secrets are the files below SECRETS/TENANT, and the agent's own variables that are listed for it. The target
of a path is checked on the opened file, so that changing a link in between gains nothing.

No other variable of the agent is passed on. A template cannot set the variables that Holdfast sets: a fencing token
that a tenant can choose protects nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.agent.drivers.driver import CannotStart, RunSpec, StartFault
from holdfast.agent.drivers.process.settings import ProcessSettings

PATH = "/usr/local/bin:/usr/bin:/bin"
SECRET_BYTES_MAX = 64 << 10


def environment_of(work: RunSpec, folder: str, settings: ProcessSettings) -> dict[str, str]:
    """Return all variables. Reads the files of secrets."""
    variables = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": folder}
    variables |= {**dict(settings.environment), **dict(work.environment)}
    variables |= {name: _secret(name, where, work.tenant, settings) for name, where in work.secrets}
    devices = ",".join(str(index) for index in work.devices)
    told = {
        "HOLDFAST_SLOT": work.name,
        "HOLDFAST_FENCING_TOKEN": str(work.epoch),
        "HOLDFAST_DEVICES": devices,
        "CUDA_VISIBLE_DEVICES": devices,  # empty hides all devices from runs that were given none
    }
    if work.ports:
        told |= {"PORT": str(work.ports[0]), "PORTS": ",".join(str(port) for port in work.ports)}
    variables |= told
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise CannotStart(StartFault.DRIVER, f"{name!r} is no variable name, or its value has a zero byte")
    return variables


def _secret(name: str, where: str, tenant: str, settings: ProcessSettings) -> str:
    """Return the value of a secret. No message contains one, nor a part of one."""
    kind, _, place = where.partition(":")
    match kind:
        case "file":
            return _from_file(name, place, tenant, settings)
        case "env":
            if (tenant, place) not in settings.secret_variables:
                raise _cannot(name, f"the variable {place} is not one that this node passes to {tenant}")
            if place not in os.environ:
                raise _cannot(name, f"the agent has no variable {place}")
            return os.environ[place]
    raise _cannot(name, "a secret is named as file:PATH or env:NAME")


def _from_file(name: str, path: str, tenant: str, settings: ProcessSettings) -> str:
    if not settings.secret_folder:
        raise _cannot(name, "this node has no secret files: its agent has no --secret-folder")
    if tenant in ("", ".", "..") or "/" in tenant or "\0" in tenant + path:
        raise _cannot(name, f"no folder can be named {tenant!r}, or no file so")
    try:
        root = Path(settings.secret_folder).resolve(strict=True)
        _see_that_it_is_closed(name, root)
        own = root / tenant
        real = Path(os.path.realpath(own / path))  # the message is the same whether or not such a file exists elsewhere
        if not real.is_relative_to(own):
            raise _cannot(name, f"{path} is not in {own}, where the secrets of {tenant} are")
        with real.open("rb") as file:
            if not Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).is_relative_to(own):
                raise _cannot(name, f"{path} has led out of {own}, where the secrets of {tenant} are")
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise _cannot(name, f"{path}: {error.strerror}") from None
    if len(content) > SECRET_BYTES_MAX or b"\0" in content:
        raise _cannot(name, f"{path}: larger than {SECRET_BYTES_MAX} bytes, or contains a zero byte")
    return os.fsdecode(content.removesuffix(b"\n"))


def _see_that_it_is_closed(name: str, root: Path) -> None:
    """Refuse a folder that other users can enter: every process could read the secrets of all tenants."""
    if os.geteuid() == 0 and root.stat().st_mode & 0o007:
        raise _cannot(name, f"{root} is open to other users, and so to all tenants: `chmod o-rwx {root}`")


def _cannot(name: str, why: str) -> CannotStart:
    return CannotStart(StartFault.SECRET, f"{name}: {why}\nhint: ask the node's operator where its secrets are")
