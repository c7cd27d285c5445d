"""The folder of a platform on this machine: whose it is, what was noted in it, and what is in the way of a start.

DATA/
  dev.json      that this folder is ours, to which log the example was applied, how many nodes there are
  lock          held by the one supervisor that uses it
  platform/     the platform's store, its ready file, the operator's token
  REGION/       a region's store, its ready file, its token at the platform
  nodes/        the agents' token, and a folder for each node
  logs/         what each part wrote, cut when it has grown
"""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import holdfast
from holdfast.host.ports.store import StoreError, StoreInUse
from holdfast.stores.files.folder import FolderLock
from holdfast.wiring.config.private_files import make_folder, write_private

REGIONS = ("eu-central", "us-east", "us-west")
HOST = "127.0.0.1"
NODES = "nodes"
#: Nodes of each region, each with an agent, where nothing else was said: enough for the example.
AGENTS = 4


class DevStartupError(Exception):
    """What is in the way, and what to do next."""


class DevOptions(Struct, frozen=True):
    """What `holdfast dev` was asked for. `file` is applied at every start, the example once for each log.

    `agents` is how many nodes each region has, each with an agent, and `declared_nodes` how many instead that run
    nothing; None: as at the last start.
    """

    data: Path
    port: int = 7400
    fresh: bool = False
    apply: bool = True
    file: Path | None = None
    agents: int | None = None
    declared_nodes: int | None = None


class ReadyFile(Struct, frozen=True, rename="camel"):
    """A server's ready file."""

    pid: int
    address: str
    log_id: str


class DevNote(Struct, rename="camel"):
    """`dev.json`: to which log of the platform the example was applied, and how many nodes each region has."""

    applied_to: str = ""
    agents: int = AGENTS
    declared_nodes: int = 0


def lock_data_folder(options: DevOptions) -> FolderLock:
    """The folder, ours alone from now on. `DevStartupError` when it is somebody else's."""
    data = options.data
    try:
        make_folder(data)
        has_other = any(data.iterdir()) and not (data / "dev.json").exists() and not (data / "lock").exists()
    except OSError as error:
        raise DevStartupError(f"the data folder {data}: {error.strerror}\nhint: say --data FOLDER") from error
    if has_other:
        raise DevStartupError(f"{data} holds other files\nhint: say --data with a new folder, or one of an earlier dev")
    try:
        lock = FolderLock(data)
    except StoreInUse as error:
        holder = str(error).partition("\n")[0]
        hint = "hint: stop that one, or say --data FOLDER --port PORT for a second one"
        raise DevStartupError(f"{holder}, another `holdfast dev`\n{hint}") from error
    except StoreError as error:
        raise DevStartupError(str(error)) from error
    if not (data / "dev.json").exists():
        write_note(data, DevNote())
    return lock


def clear_data_folder(data: Path) -> None:
    """Forget all that the folder holds; it stays ours."""
    for name in ("platform", *REGIONS, NODES, "logs"):
        shutil.rmtree(data / name, ignore_errors=True)
    write_note(data, DevNote())


def check_ports_free(ports: list[int]) -> None:
    """`DevStartupError` when somebody listens on one of these already."""
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError as error:
                hint = f"hint: `holdfast dev --port {port + 100}` uses others"
                raise DevStartupError(f"port {port}: {error.strerror}\n{hint}") from error


def address(name: str, first: int) -> str:
    """The URL of the platform, or of a region: their ports are in a row, so that a restart is found where it was."""
    return f"http://{HOST}:{port(name, first)}"


def port(name: str, first: int) -> int:
    """The port of the platform, which is the first, or of a region."""
    return first + ("platform", *REGIONS).index(name)


def node_name(region: str, number: int) -> str:
    """What the node of this number, counted from 0, is called."""
    return f"{region}-{number + 1}"


def token_file(data: Path, node: str = "") -> Path:
    """Where the token of a node's agent lies; without one, that of the process which is the agent of all declared
    nodes."""
    return data / NODES / f"{node or 'agents'}.token"


def read_ready_file(folder: Path) -> ReadyFile | None:
    """What the ready file there says; None when there is none, or none of ours."""
    try:
        return msgspec.json.decode((folder / "ready.json").read_bytes(), type=ReadyFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_note(data: Path) -> DevNote:
    """What `dev.json` says."""
    try:
        return msgspec.json.decode((data / "dev.json").read_bytes(), type=DevNote)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return DevNote()


def write_note(data: Path, note: DevNote) -> None:
    """Keep it."""
    write_private(data / "dev.json", json.dumps(msgspec.to_builtins(note)) + "\n")


def example() -> Path | None:
    """The example in this checkout; None where there is none, as in an installation without one."""
    path = Path(holdfast.__file__).parents[2] / "examples" / "platform.yaml"
    return path if path.exists() else None


def documents_in(file: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file. `DevStartupError` when it holds something else."""
    import yaml  # type: ignore[import-untyped]

    try:
        found = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DevStartupError(
            f"{file} cannot be read: {error}\nhint: `holdfast validate -f {file}` says more"
        ) from error
    for one in found:
        if not isinstance(one, dict) or not one.get("kind") or not (one.get("metadata") or {}).get("name"):
            raise DevStartupError(
                f"{file}: each document has a kind and a metadata.name\nhint: `holdfast validate -f {file}`"
            )
    return found
