"""The file in which a simulated machine keeps its server's token, and the chance that tokens are made of."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

from holdfast.core.model.secrets import SECRET_CHARACTERS

_LETTERS = string.ascii_letters + string.digits + "-_"


class TokenFile:
    """Outlives every process of its machine."""

    def __init__(self) -> None:
        self.text: str | None = None

    async def read(self) -> str | None:
        return self.text

    async def write(self, text: str) -> None:
        self.text = text


def drawing(chance: Random) -> Callable[[], tuple[str, str]]:
    """Tokens from this stream of chance: a part of a name, and a secret."""

    def draw() -> tuple[str, str]:
        return f"{chance.getrandbits(64):016x}", "".join(chance.choices(_LETTERS, k=SECRET_CHARACTERS))

    return draw
