"""Files that only their owner can read: tokens, and other files with secrets.

Writes are atomic: to another name first, with mode 0600 from the first byte on, synced, then renamed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from pathlib import Path

from holdfast.host.runtime.files import sync_folder


class NotPrivate(Exception):
    """A file with a secret is readable by others, or has another owner; the message contains the remedy."""


def make_folder(folder: Path) -> None:
    """Create the folder, accessible to its owner only, if it is missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write this text durably. A reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        beside.unlink()
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_private(path: Path) -> str | None:
    """Return the content, or None if there is no file. `NotPrivate` if another user could have read or written it."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with open(file, encoding="utf-8") as opened:
        found = os.fstat(file)
        if found.st_uid not in (os.getuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            raise NotPrivate(
                f"{path} contains a secret, and other users may read it (mode {mode}, owner {found.st_uid})\n"
                f"hint: if no other user has read it, `chmod 600 {path}`; else revoke the token and remove the file"
            )
        return opened.read().strip()


class OwnerFile:
    """A private file, read and written in a thread, since a disk may be slow."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> str | None:
        """Return the content, or None if there is no file. `NotPrivate` if others can read it."""
        return await asyncio.to_thread(read_private, self._path)

    async def write(self, text: str) -> None:
        """Write the content, atomically and durably."""
        await asyncio.to_thread(write_private, self._path, text + "\n")

    def __str__(self) -> str:
        return str(self._path)
