"""All chance of a run comes from its seed, in one stream per name, so that no stream changes the draws of another."""

from __future__ import annotations

import hashlib
from random import Random


class SeedStreams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *names: str | int) -> Random:
        """Return the stream of these names: the same in every run of this seed."""
        text = "\0".join(str(name) for name in (self.seed, *names))
        return Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))
