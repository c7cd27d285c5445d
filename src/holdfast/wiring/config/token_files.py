"""Tokens in files that only their owner can read. All secrets of real tokens are generated here."""

from __future__ import annotations

import secrets
from pathlib import Path

from holdfast.core.model.objects.principals import format_token, parse_token
from holdfast.wiring.config.private_files import NotPrivate, OwnerFile, read_private, write_private

#: The server's own token, in its data folder.
SERVER_TOKEN_FILE = "server-token.json"


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
