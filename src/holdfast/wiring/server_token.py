"""Where a server keeps its own token, and where the chance comes from that it is made of."""

from __future__ import annotations

import secrets

from holdfast.wiring.private import NotPrivate, OwnersFile

#: In the server's data folder.
FILE = "server-token.json"


class ServerTokenFile(OwnersFile):
    """A file in the data folder that its owner alone can read."""

    async def read(self) -> str | None:
        """What it says; `OSError` also when others can read it: then it is no secret."""
        try:
            return await super().read()
        except NotPrivate as error:
            raise PermissionError(f"{error}; another is made; `revoke-server` ends the one that was read") from error


def drawn() -> tuple[str, str]:
    """A part of a name that no other token has, and a secret: 32 random bytes."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)
