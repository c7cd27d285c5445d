"""The variables of a process: what its node and its template give, what Holdfast tells it, and its secrets.

Nothing else: what the agent itself has in its environment is not handed on. Of the names that Holdfast gives a meaning
to, the template cannot set any: a fencing token that can be chosen is none.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.agent.driver import CannotStart, StartFault, Work
from holdfast.agent.process.settings import ProcessSettings

PATH = "/usr/local/bin:/usr/bin:/bin"
SECRET_BYTES_MAX = 64 << 10


def environment_of(work: Work, folder: str, settings: ProcessSettings) -> dict[str, str]:
    """All of it. Reads the files of secrets."""
    variables = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": folder}
    variables |= {**dict(settings.environment), **dict(work.environment)}
    variables |= {name: _secret(name, where, settings) for name, where in work.secrets}
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


def _secret(name: str, where: str, settings: ProcessSettings) -> str:
    """The value of a secret. No message ever holds one, nor a part of one."""
    kind, _, place = where.partition(":")
    match kind:
        case "file":
            return _from_file(name, Path(place), settings)
        case "env":
            if place not in settings.secret_variables:
                raise _cannot(name, f"the variable {place} is not among those that this node hands on")
            if place not in os.environ:
                raise _cannot(name, f"the agent has no variable {place}")
            return os.environ[place]
    raise _cannot(name, "a secret is at file:/path or env:NAME")


def _from_file(name: str, path: Path, settings: ProcessSettings) -> str:
    try:
        real = path.resolve(strict=True)
        folders = [Path(folder).resolve() for folder in settings.secret_folders]
        if not path.is_absolute() or not any(real.is_relative_to(folder) for folder in folders):
            raise _cannot(name, f"{path} is in none of the folders that this node hands secrets on from")
        with real.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise _cannot(name, f"{path}: {error.strerror}") from None
    if len(content) > SECRET_BYTES_MAX or b"\0" in content:
        raise _cannot(name, f"{path}: larger than {SECRET_BYTES_MAX} bytes, or it has a zero byte")
    return os.fsdecode(content.removesuffix(b"\n"))


def _cannot(name: str, why: str) -> CannotStart:
    return CannotStart(StartFault.SECRET, f"{name}: {why}\nhint: ask the node's operator where its secrets are")
