"""The data folder of a platform on this machine: its ownership, its notes, and checks before a start.

DATA/
    dev.json      marks the folder; to which log the example was applied, and the number of nodes
    lock          held by the one supervisor that uses it
    platform/     the platform's store, its ready file, the operator's token
    REGION/       a region's store, its ready file, its token for the platform
    nodes/        the agents' tokens, and a folder for each node
    logs/         output of each part, truncated when it has grown
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
#: Default number of nodes in each region, each with an agent: enough for the example.
AGENTS = 4


class DevStartupError(Exception):
    """Why a start is not possible, and what to do next."""


class DevOptions(Struct, frozen=True):
    """The options of `holdfast dev`. `file` is applied at every start, the example once for each log.

    Each region has `agents` nodes with an agent each, or instead `declared_nodes` simulated ones; None: as at the last
    start.
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
    """Lock the folder for this supervisor. `DevStartupError` if it is used for something else."""
    data = options.data
    try:
        make_folder(data)
        has_other = any(data.iterdir()) and not (data / "dev.json").exists() and not (data / "lock").exists()
    except OSError as error:
        raise DevStartupError(f"the data folder {data}: {error.strerror}\nhint: use another --data FOLDER") from error
    if has_other:
        raise DevStartupError(f"{data} holds other files\nhint: use --data with a new folder, or one of an earlier dev")
    try:
        lock = FolderLock(data)
    except StoreInUse as error:
        holder = str(error).partition("\n")[0]
        hint = "hint: stop that one, or use --data FOLDER --port PORT for a second one"
        raise DevStartupError(f"{holder}, another `holdfast dev`\n{hint}") from error
    except StoreError as error:
        raise DevStartupError(str(error)) from error
    if not (data / "dev.json").exists():
        write_note(data, DevNote())
    return lock


def clear_data_folder(data: Path) -> None:
    """Delete the content of the folder, but not the folder."""
    for name in ("platform", *REGIONS, NODES, "logs"):
        shutil.rmtree(data / name, ignore_errors=True)
    write_note(data, DevNote())


def check_ports_free(ports: list[int]) -> None:
    """Raise `DevStartupError` if one of these ports is in use."""
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError as error:
                hint = f"hint: `holdfast dev --port {port + 100}` uses other ports"
                raise DevStartupError(f"port {port}: {error.strerror}\n{hint}") from error


def address(name: str, first: int) -> str:
    """Return the URL of the platform or of a region. Their ports are consecutive and stay the same."""
    return f"http://{HOST}:{port(name, first)}"


def port(name: str, first: int) -> int:
    """Return the port of the platform, which is the first, or of a region."""
    return first + ("platform", *REGIONS).index(name)


def node_name(region: str, number: int) -> str:
    """Return the name of the node of this number, counted from 0."""
    return f"{region}-{number + 1}"


def token_file(data: Path, node: str = "") -> Path:
    """Return the token file of a node's agent; without a node, of the process with all declared nodes."""
    return data / NODES / f"{node or 'agents'}.token"


def read_ready_file(folder: Path) -> ReadyFile | None:
    """Return the ready file of a folder; None if there is none, or an unreadable one."""
    try:
        return msgspec.json.decode((folder / "ready.json").read_bytes(), type=ReadyFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_note(data: Path) -> DevNote:
    """Return the content of `dev.json`."""
    try:
        return msgspec.json.decode((data / "dev.json").read_bytes(), type=DevNote)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return DevNote()


def write_note(data: Path, note: DevNote) -> None:
    write_private(data / "dev.json", json.dumps(msgspec.to_builtins(note)) + "\n")


def example() -> Path | None:
    """Return the example of this checkout; None if there is none, as in an installation."""
    path = Path(holdfast.__file__).parents[2] / "examples" / "platform.yaml"
    return path if path.exists() else None


def documents_in(file: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file. `DevStartupError` if it contains something else."""
    import yaml  # type: ignore[import-untyped]

    try:
        found = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DevStartupError(
            f"{file} cannot be read: {error}\nhint: `holdfast validate -f {file}` shows details"
        ) from error
    for one in found:
        if not isinstance(one, dict) or not one.get("kind") or not (one.get("metadata") or {}).get("name"):
            raise DevStartupError(
                f"{file}: each document needs a kind and a metadata.name\nhint: `holdfast validate -f {file}`"
            )
    return found
