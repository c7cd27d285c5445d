"""What a simulated machine keeps for its server through all its lives, and the chance that tokens are made of."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

from holdfast.core.model.objects.principals import SECRET_CHARACTERS
from holdfast.stores.indexes.audit_store import MemoryAuditStore
from holdfast.stores.indexes.decision_store import MemoryDecisionStore

_LETTERS = string.ascii_letters + string.digits + "-_"


class TokenFile:
    """Outlives every process of its machine."""

    def __init__(self) -> None:
        self.text: str | None = None

    async def read(self) -> str | None:
        return self.text

    async def write(self, text: str) -> None:
        self.text = text


class _Decisions(MemoryDecisionStore):
    async def close(self) -> None:
        """A process lets go of it, and it stays."""


class _Audit(MemoryAuditStore):
    async def close(self) -> None:
        """A process lets go of it, and it stays."""


class ServerFiles:
    """The folder of one server."""

    def __init__(self) -> None:
        self.own_token = TokenFile()
        self.operator_token = TokenFile()
        self.decisions = _Decisions()
        self.audit = _Audit()


def token_source(chance: Random) -> Callable[[], tuple[str, str]]:
    """Tokens from this stream of chance: a part of a name, and a secret."""

    def draw() -> tuple[str, str]:
        return f"{chance.getrandbits(64):016x}", "".join(chance.choices(_LETTERS, k=SECRET_CHARACTERS))

    return draw
