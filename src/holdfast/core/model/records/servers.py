"""Servers: their names, and the stored part of the token by which a server proves its name.

    platform/SERVER           a server of the platform's ledger
    region/NAME/SERVER        a server of that region's ledger; `region/NAME` alone is the region itself

No one can create a server as a principal or give it a token of another kind: a process that can write the store of a
ledger is a server of it. A server has no permissions; it acts for others, whose permissions count.
"""

from __future__ import annotations

import re
from typing import ClassVar

from holdfast.core.model.objects.principals import is_hash, is_token_name
from holdfast.core.model.values.structs import Instant, Row, Secret

#: The longest lifetime of a server's token; after its end its record is stored for as long again.
SERVER_TOKEN_LIFE = 7 * 24 * 3_600_000
#: A part of a server's principal: it cannot contain the separator.
_PART = r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?"
_SERVER = re.compile(rf"(platform|region/{_PART})/({_PART})")


class ServerToken(Row, frozen=True):
    """A server's token: its name, the server, the hash of its secret, and its end."""

    SINCE: ClassVar[int] = 2

    name: str
    principal: str
    hash: Secret
    expires: Instant


def is_valid_server_token(token: ServerToken) -> bool:
    """Whether this can be a server's token at all."""
    return is_token_name(token.name) and is_hash(token.hash) and bool(ledger_of(token.principal))


def ledger_of(principal: str) -> str:
    """Return the ledger of a server with this name: `platform` or `region/NAME`; empty: it is no server's name."""
    found = _SERVER.fullmatch(principal)
    return found[1] if found else ""


def is_server_name(principal: str) -> bool:
    """Whether this is the name of a server, which no machine, operator or tenant can have."""
    kind, _, rest = principal.partition("/")
    return kind == "platform" or (kind == "region" and "/" in rest)


def server_principal(ledger: str, server: str) -> str:
    """Return the principal of a ledger's server, made from its address; empty: impossible."""
    short = re.sub(r"[^a-z0-9]+", "-", server.lower().removeprefix("https://").removeprefix("http://")).strip("-")
    name = f"{ledger}/{short[-120:].strip('-') or 'server'}"
    return name if ledger_of(name) == ledger else ""
