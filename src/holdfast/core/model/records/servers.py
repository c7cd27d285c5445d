"""Servers: what each is called, and what the log keeps of the token by which it proves itself.

    platform/SERVER           a server of the platform's ledger
    region/NAME/SERVER        a server of that region's; `region/NAME` alone is the region, as its platform knows it

A server is no principal that somebody could create, and no token of people's is one of its: who can write the store of
a ledger is a server of it. It has no rights; it acts for others, and they are judged.
"""

from __future__ import annotations

import re
from typing import ClassVar

from holdfast.core.model.objects.principals import is_hash, is_token_name
from holdfast.core.model.values.structs import Instant, Row, Secret

#: No token of a server lasts longer; so long after its end it is remembered that it was one.
SERVER_TOKEN_LIFE = 7 * 24 * 3_600_000
#: What a part of a server's principal may be: no part can hold what joins them.
_PART = r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?"
_SERVER = re.compile(rf"(platform|region/{_PART})/({_PART})")


class ServerToken(Row, frozen=True):
    """A server's token: its name, whose it is, the hash of its secret, and until when it is honoured."""

    SINCE: ClassVar[int] = 2

    name: str
    principal: str
    hash: Secret
    expires: Instant


def is_valid_server_token(token: ServerToken) -> bool:
    """Whether it can be a server's token at all."""
    return is_token_name(token.name) and is_hash(token.hash) and bool(ledger_of(token.principal))


def ledger_of(principal: str) -> str:
    """The ledger of which a server of this name is one: `platform` or `region/NAME`; empty: it is no server's name."""
    found = _SERVER.fullmatch(principal)
    return found[1] if found else ""


def is_server_name(principal: str) -> bool:
    """Whether this name is no machine's, person's or tenant's, whoever has it."""
    kind, _, rest = principal.partition("/")
    return kind == "platform" or (kind == "region" and "/" in rest)


def server_principal(ledger: str, server: str) -> str:
    """How a server of a ledger is called: by its address, in letters that a name may have; empty: it cannot be."""
    short = re.sub(r"[^a-z0-9]+", "-", server.lower().removeprefix("https://").removeprefix("http://")).strip("-")
    name = f"{ledger}/{short[-120:].strip('-') or 'server'}"
    return name if ledger_of(name) == ledger else ""
