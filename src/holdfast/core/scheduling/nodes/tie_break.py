"""A one-to-one mixing of row numbers, by a seed: how ties are broken without an array of their order (RULES 17).

    row ──▶ xor with the seed ──▶ times an odd number ──▶ xor with its own upper half ──▶ again ──▶ rank

Every step can be undone, so two rows never get one rank. Only integers, so every machine gets the same.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

_ODD = (0x2545F491, 0x1B873593)
#: So many rows are mixed one by one.
_FEW = 4
#: More rows than a region will ever have: ranks stay below this, and scores above it in a sort key.
BITS_MAX = 24


def seed_of(*identity: Any) -> int:
    """A number that follows from what is decided about: the same for the same names and revisions."""
    return int.from_bytes(blake2b(repr(identity).encode(), digest_size=6).digest(), "big")


def bits_for(count: int) -> int:
    """How many bits the ranks of so many rows take."""
    bits = max(2, (count - 1).bit_length())
    assert bits <= BITS_MAX, count
    return bits


def tie_ranks(rows: Rows, seed: int, bits: int) -> Rows:
    """The rank of each row among all: different for different rows below 2**bits."""
    mask, half = (1 << bits) - 1, bits // 2
    if len(rows) <= _FEW:
        return np.array([_rank(row, seed, mask, half) for row in rows.tolist()], np.int64)
    found = rows ^ (seed & mask)
    for turn, odd in enumerate(_ODD):
        found *= (odd ^ (seed >> (8 * turn + 8) << 1)) & mask | 1
        found &= mask
        found ^= found >> half
    return found


def _rank(row: int, seed: int, mask: int, half: int) -> int:
    """The same of one row: of a few they are quicker found one by one."""
    found = row ^ (seed & mask)
    for turn, odd in enumerate(_ODD):
        found = found * ((odd ^ (seed >> (8 * turn + 8) << 1)) & mask | 1) & mask
        found ^= found >> half
    return found
