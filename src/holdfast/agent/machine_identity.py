"""The identity of this machine and of its current boot (RULES 23).

The id is random and is created once, in the agent's folder: an agent with another folder is another machine, even with
the same node name. Copied folders are detected, since their record of runs may be wrong. On another host the host's
machine id and boot id differ. On the same host, or after a restore from a backup, `machine.id` is another file, with
another inode and change time.
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
    """Return the machine whose agent uses this folder. `ValueError` if its id cannot be read."""
    return Machine(_id_of(folder / NAME), _said(host), _said(boot))


def _id_of(file: Path) -> str:
    try:
        found = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = secrets.token_hex(_BYTES)
        write_atomically(file, f"{found}\n")
    if not found.isalnum() or len(found) > MACHINE_NAME_MAX:
        raise ValueError(f"{file} holds no valid machine id; remove it, and the agent registers as a new machine")
    at = file.stat()
    return blake2b(f"{found} {at.st_ino} {at.st_ctime_ns}".encode(), digest_size=_BYTES).hexdigest()


def _said(file: Path) -> str:
    """Return the content of a system file; empty if there is none, as in some containers."""
    try:
        return file.read_text(encoding="ascii").strip()[:MACHINE_NAME_MAX]
    except (OSError, UnicodeDecodeError):
        return ""
