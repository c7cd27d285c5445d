"""All chance of a run comes from its seed: a stream for each thing that draws, so that none changes another's draws."""

from __future__ import annotations

import hashlib
from random import Random


class SeedStreams:
    """The chance of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *names: str | int) -> Random:
        """A stream of its own for whatever these names name: the same in every run of this seed."""
        text = "\0".join(str(name) for name in (self.seed, *names))
        return Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))
