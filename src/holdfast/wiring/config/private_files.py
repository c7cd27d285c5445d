"""Files that only their owner can read: tokens, and other files with secrets. All real tokens are generated here.

Writes are atomic: to another name first, with mode 0600 from the first byte on, synced, then renamed.

A token is replaced without a restart: write the new one to the file, then revoke the old one. A thread reads the file:
while its mount is unresponsive, requests continue with the last valid token.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.core.model.objects.principals import format_token, parse_token
from holdfast.host.ports.transport import Pairs
from holdfast.host.runtime.files import sync_folder
from holdfast.host.runtime.telemetry import Logger

#: The server's own token, in its data folder.
SERVER_TOKEN_FILE = "server-token.json"
#: At most every LOOK_EVERY_S the file is checked; a request waits for that for at most LOOK_S.
LOOK_EVERY_S, LOOK_S = 0.1, 0.05


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


class ServerTokenFile(OwnerFile):
    """A file in the data folder that only its owner can read."""

    async def read(self) -> str | None:
        """Return the content; `OSError` also if others can read it, since it is not secret then."""
        try:
            return await super().read()
        except NotPrivate as error:
            raise PermissionError(f"{error}; a new token is made; `revoke-server` revokes the exposed one") from error


def draw_secret() -> tuple[str, str]:
    """Return a part of a name that no other token has, and a secret: 32 random bytes."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)


def new_token(name: str, file: Path) -> str:
    """Write a new token to its file and return it."""
    text = format_token(f"{name}-{secrets.token_hex(4)}", secrets.token_urlsafe(32))
    write_private(file, text + "\n")
    return text


def read_or_create_token(name: str, file: Path) -> str:
    """Return the token in the file; a new one if there is none. `NotPrivate` if others can read it."""
    text = read_private(file) or ""
    return text if parse_token(text) is not None else new_token(name, file)


class NoToken(Exception):
    """There is no valid token."""


class TokenCredentials:
    """The token in a file. `NoToken` if there is none at the start; later the last valid one is used."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._logger = Logger("credentials", file=str(file))
        self._seen: tuple[int, int] = (0, 0)
        self._token = self._read()
        self._looks: threading.Thread | None = None
        self._looked = time.monotonic()

    def headers(self) -> Pairs:
        """Return the headers that authenticate a request."""
        is_due = time.monotonic() >= self._looked + LOOK_EVERY_S
        if is_due and (self._looks is None or not self._looks.is_alive()):
            self._looked = time.monotonic()
            self._looks = threading.Thread(target=self._look, name="credentials", daemon=True)
            self._looks.start()
            self._looks.join(LOOK_S)
        return (("authorization", f"Bearer {self._token}"),)

    def _look(self) -> None:
        """Reload the token, if the file has changed."""
        try:
            if self._stamp() != self._seen:
                self._token = self._read()
                self._logger.info("token-read-again")
        except (NoToken, OSError) as error:
            self._logger.warning("token-not-read", why=error)

    def speaking_as(self, actor: str) -> Callable[[], Pairs]:
        """Return headers with an actor, for a token such as `agent/*` that many principals share."""
        return lambda: (*self.headers(), ("holdfast-actor", actor))

    def _read(self) -> str:
        """Read the token from the file. Its length shows whether it is complete."""
        try:
            seen = self._stamp()
            text = read_private(self._file) or ""
        except (NotPrivate, OSError) as error:
            raise NoToken(str(error)) from error
        if parse_token(text) is None:  # the file may be half written
            raise NoToken(f"there is no token in {self._file}")
        self._seen = seen
        return text

    def _stamp(self) -> tuple[int, int]:
        found = os.stat(self._file)
        return found.st_ino, found.st_mtime_ns
