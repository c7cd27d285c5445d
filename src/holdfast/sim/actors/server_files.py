"""What a simulated machine stores for its server across incarnations, and the random source of tokens."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

from holdfast.core.model.objects.principals import SECRET_CHARACTERS
from holdfast.stores.indexes.audit_store import AuditDatabase
from holdfast.stores.indexes.decision_rows import DecisionDatabase

_LETTERS = string.ascii_letters + string.digits + "-_"


class TokenFile:
    """A token file. It outlives every process of its machine."""

    def __init__(self) -> None:
        self.text: str | None = None

    async def read(self) -> str | None:
        return self.text

    async def write(self, text: str) -> None:
        self.text = text


class ServerFiles:
    """The data directory of one server."""

    def __init__(self) -> None:
        self.own_token = TokenFile()
        self.operator_token = TokenFile()
        self.decisions = DecisionDatabase()
        self.audit = AuditDatabase()


def token_source(chance: Random) -> Callable[[], tuple[str, str]]:
    """Return a function that draws a token from this stream: part of a name, and a secret."""

    def draw() -> tuple[str, str]:
        return f"{chance.getrandbits(64):016x}", "".join(chance.choices(_LETTERS, k=SECRET_CHARACTERS))

    return draw
