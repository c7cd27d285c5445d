"""Where a server keeps its own token, and where the chance comes from that it is made of."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from holdfast.wiring.private import NotPrivate, read_private, write_private

#: In the server's data folder.
FILE = "server-token.json"


class ServerTokenFile:
    """A file in the data folder that its owner alone can read. A thread reads and writes it: a disk may be slow."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> str | None:
        """What it says; `OSError` also when others can read it: then it is no secret."""
        try:
            return await asyncio.to_thread(read_private, self._path)
        except NotPrivate as error:
            raise PermissionError(f"{error}; another is made; `revoke-server` ends the one that was read") from error

    async def write(self, text: str) -> None:
        """Put this there, whole and durably."""
        await asyncio.to_thread(write_private, self._path, text + "\n")


def drawn() -> tuple[str, str]:
    """A part of a name that no other token has, and a secret: 32 random bytes."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)
