"""The variables of a process: what its node and its template give, what Holdfast tells it, and its secrets.

A tenant's secrets are the files below SECRETS/TENANT, and the variables of the agent that are listed for it. Where a
path leads is asked of the file once it is open: whoever can change a link there gains nothing by being quick.

Nothing else: what the agent itself has in its environment is not handed on. Of the names that Holdfast gives a meaning
to, the template cannot set any: a fencing token that can be chosen is none.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.agent.drivers.driver import CannotStart, RunSpec, StartFault
from holdfast.agent.drivers.process.settings import ProcessSettings

PATH = "/usr/local/bin:/usr/bin:/bin"
SECRET_BYTES_MAX = 64 << 10


def environment_of(work: RunSpec, folder: str, settings: ProcessSettings) -> dict[str, str]:
    """All of it. Reads the files of secrets."""
    variables = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": folder}
    variables |= {**dict(settings.environment), **dict(work.environment)}
    variables |= {name: _secret(name, where, work.tenant, settings) for name, where in work.secrets}
    devices = ",".join(str(index) for index in work.devices)
    told = {
        "HOLDFAST_SLOT": work.name,
        "HOLDFAST_FENCING_TOKEN": str(work.epoch),
        "HOLDFAST_DEVICES": devices,
        "CUDA_VISIBLE_DEVICES": devices,  # empty hides all of them from whoever was given none
    }
    if work.ports:
        told |= {"PORT": str(work.ports[0]), "PORTS": ",".join(str(port) for port in work.ports)}
    variables |= told
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise CannotStart(StartFault.DRIVER, f"{name!r} is no name of a variable, or its value has a zero byte")
    return variables


def _secret(name: str, where: str, tenant: str, settings: ProcessSettings) -> str:
    """The value of a secret. No message ever holds one, nor a part of one."""
    kind, _, place = where.partition(":")
    match kind:
        case "file":
            return _from_file(name, place, tenant, settings)
        case "env":
            if (tenant, place) not in settings.secret_variables:
                raise _cannot(name, f"the variable {place} is not among those that this node hands on to {tenant}")
            if place not in os.environ:
                raise _cannot(name, f"the agent has no variable {place}")
            return os.environ[place]
    raise _cannot(name, "a secret is at file:PATH or env:NAME")


def _from_file(name: str, path: str, tenant: str, settings: ProcessSettings) -> str:
    if not settings.secret_folder:
        raise _cannot(name, "this node hands on no files: its agent has no --secret-folder")
    if tenant in ("", ".", "..") or "/" in tenant or "\0" in tenant + path:
        raise _cannot(name, f"no folder can be named {tenant!r}, or no file so")
    try:
        root = Path(settings.secret_folder).resolve(strict=True)
        _see_that_it_is_closed(name, root)
        own = root / tenant
        real = Path(os.path.realpath(own / path))  # whether there is such a file elsewhere is not told either
        if not real.is_relative_to(own):
            raise _cannot(name, f"{path} is not in {own}, where the secrets of {tenant} are")
        with real.open("rb") as file:
            if not Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).is_relative_to(own):
                raise _cannot(name, f"{path} has led out of {own}, where the secrets of {tenant} are")
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise _cannot(name, f"{path}: {error.strerror}") from None
    if len(content) > SECRET_BYTES_MAX or b"\0" in content:
        raise _cannot(name, f"{path}: larger than {SECRET_BYTES_MAX} bytes, or it has a zero byte")
    return os.fsdecode(content.removesuffix(b"\n"))


def _see_that_it_is_closed(name: str, root: Path) -> None:
    """Through a folder that others can pass, every process reads the secrets of all by itself."""
    if os.geteuid() == 0 and root.stat().st_mode & 0o007:
        raise _cannot(name, f"{root} is open to others, and so to all tenants: `chmod o-rwx {root}`")


def _cannot(name: str, why: str) -> CannotStart:
    return CannotStart(StartFault.SECRET, f"{name}: {why}\nhint: ask the node's operator where its secrets are")
