"""The digest of a whole state: of the names of its chunks, in order.

Each name is the digest of a chunk's bytes, and these follow from the rows alone: a follower, a replay and a restored
snapshot agree exactly when their rows do. Writing a snapshot gives the digest of its state for nothing, and whoever has
verified every chunk by its name has verified the state. Derived tables are left out: they are rebuilt, and the
invariants compare them with what they come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from holdfast.core.ledger.chunks import steps
from holdfast.core.ledger.codec import DIGEST_BYTES
from holdfast.core.ledger.state import LedgerState


def digest_steps(state: LedgerState) -> Iterator[str | None]:
    """The names of the state's chunks as they are found; a host gives way after each step."""
    for chunk in steps(state):
        yield chunk.name if chunk is not None else None


def combined(names: Iterable[str]) -> bytes:
    """The digest of the state whose chunks have these names."""
    return hashlib.blake2b(b"".join(map(bytes.fromhex, names)), digest_size=DIGEST_BYTES).digest()


def state_digest(state: LedgerState) -> bytes:
    """The digest of everything in the state that is not derived."""
    return combined(name for name in digest_steps(state) if name is not None)
