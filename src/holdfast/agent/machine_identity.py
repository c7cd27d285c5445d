"""Which machine this is, and which life of it (RULES 23).

The id is random and made once, in the agent's folder: whoever has another folder is another machine, though it may have
the node's name. A folder that was copied to another host is told apart by what that calls itself and its life; one that
was copied on this host, or restored from a backup, by its file, which is not the one that was written first: such a
folder may know nothing of what runs.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from pathlib import Path

from holdfast.core.model.records.nodes import MACHINE_NAME_MAX, Machine
from holdfast.host.runtime.files import write_atomically

NAME = "machine.id"
HOST = Path("/etc/machine-id")
BOOT = Path("/proc/sys/kernel/random/boot_id")
_BYTES = 16


def machine_of(folder: Path, host: Path = HOST, boot: Path = BOOT) -> Machine:
    """The machine whose agent keeps what it needs in this folder. `ValueError` when its id cannot be read."""
    return Machine(_id_of(folder / NAME), _said(host), _said(boot))


def _id_of(file: Path) -> str:
    try:
        found = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = secrets.token_hex(_BYTES)
        write_atomically(file, f"{found}\n")
    if not found.isalnum() or len(found) > MACHINE_NAME_MAX:
        raise ValueError(f"{file} does not say which machine this is; remove it, and it is a new one")
    at = file.stat()
    return blake2b(f"{found} {at.st_ino} {at.st_ctime_ns}".encode(), digest_size=_BYTES).hexdigest()


def _said(file: Path) -> str:
    """What a file of the system says; empty where there is none, as in some containers."""
    try:
        return file.read_text(encoding="ascii").strip()[:MACHINE_NAME_MAX]
    except (OSError, UnicodeDecodeError):
        return ""
