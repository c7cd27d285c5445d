"""Tokens in files that only their owner can read; the only place where a secret is drawn."""

from __future__ import annotations

import secrets
from pathlib import Path

from holdfast.core.model.objects.principals import format_token, parse_token
from holdfast.wiring.config.private_files import NotPrivate, OwnerFile, read_private, write_private

#: In the server's data folder.
SERVER_TOKEN_FILE = "server-token.json"


class ServerTokenFile(OwnerFile):
    """A file in the data folder that its owner alone can read."""

    async def read(self) -> str | None:
        """What it says; `OSError` also when others can read it: then it is no secret."""
        try:
            return await super().read()
        except NotPrivate as error:
            raise PermissionError(f"{error}; another is made; `revoke-server` ends the one that was read") from error


def draw_secret() -> tuple[str, str]:
    """A part of a name that no other token has, and a secret: 32 random bytes."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)


def new_token(name: str, file: Path) -> str:
    """Another token, into its file: 32 random bytes under a name that no token had before."""
    text = format_token(f"{name}-{secrets.token_hex(4)}", secrets.token_urlsafe(32))
    write_private(file, text + "\n")
    return text


def read_or_create_token(name: str, file: Path) -> str:
    """The token in the file; a new one where there is none. `NotPrivate` when others can read it."""
    text = read_private(file) or ""
    return text if parse_token(text) is not None else new_token(name, file)
