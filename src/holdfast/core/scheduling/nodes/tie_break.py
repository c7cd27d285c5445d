"""A seeded one-to-one mixing of row numbers, which breaks ties without an array of their order (RULES 17).

    row ──▶ xor with the seed ──▶ times an odd number ──▶ xor with its own upper half ──▶ again ──▶ rank

Each step is invertible, so no two rows get one rank. All numbers are integers, so every machine gets the same.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

_ODD = (0x2545F491, 0x1B873593)
#: Up to this many rows are mixed one by one.
_FEW = 4
#: Bits of a rank in a sort key; scores are above them. No region has more rows.
BITS_MAX = 24


def seed_of(*identity: Any) -> int:
    """Return a number that depends only on these names and revisions."""
    return int.from_bytes(blake2b(repr(identity).encode(), digest_size=6).digest(), "big")


def bits_for(count: int) -> int:
    """Return the bits that the ranks of this many rows take."""
    bits = max(2, (count - 1).bit_length())
    assert bits <= BITS_MAX, count
    return bits


def tie_ranks(rows: Rows, seed: int, bits: int) -> Rows:
    """Return the rank of each row: unique for rows below 2**bits."""
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
    """Return the rank of one row. For a few rows this is faster than an array."""
    found = row ^ (seed & mask)
    for turn, odd in enumerate(_ODD):
        found = found * ((odd ^ (seed >> (8 * turn + 8) << 1)) & mask | 1) & mask
        found ^= found >> half
    return found


_MASK = (1 << 64) - 1


def place_of(uid: int) -> int:
    """Return a node's place in the row order: a one-to-one mixing of its uid."""
    mixed = uid * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & _MASK
    return mixed ^ mixed >> 32
