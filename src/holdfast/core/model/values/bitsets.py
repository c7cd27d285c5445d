"""Sets of numbers as bits, in blocks of consecutive numbers: like `ranges`, but for sets with many gaps.

A dict maps each block (its first number divided by `BLOCK`) to one bit per number. Empty blocks are left out. Adding or
removing a number copies its block, whatever its position and however many others there are; two sets are compared block
by block. Large numbers cost no more than small ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from holdfast.core.model.values.ranges import Range, Ranges

#: Numbers per block.
BLOCK = 1024
_FULL = (1 << BLOCK) - 1

#: The bits of each block. Nothing modifies a dict that others may share.
Bitset = dict[int, int]

_ones = re.compile("1+").finditer


def bitset_of(runs: Iterable[Range]) -> Bitset:
    """Return the set of all numbers in these ranges."""
    found: Bitset = {}
    for first, after in runs:
        while first < after:
            block, place = divmod(first, BLOCK)
            end = min(after, (block + 1) * BLOCK)
            found[block] = found.get(block, 0) | ((1 << end - first) - 1) << place
            first = end
    return found


def masks(numbers: Iterable[int]) -> Bitset:
    """Return the set of these numbers."""
    found: Bitset = {}
    for number in numbers:
        block = number // BLOCK
        found[block] = found.get(block, 0) | 1 << number % BLOCK
    return found


def as_ranges(blocks: Bitset) -> Ranges:
    """Return the set as ranges."""
    found: list[Range] = []
    for block in sorted(blocks):
        bits, base = blocks[block], block * BLOCK
        spans = _spans(bits)
        if found and spans and not spans[0][0] and found[-1][1] == base:
            found[-1] = found[-1][0], base + spans[0][1]
            del spans[0]
        found += [(base + first, base + after) for first, after in spans]
    return tuple(found)


def _spans(bits: int) -> list[Range]:
    """Return the ranges within a block."""
    if bits and not bits & bits - 1:  # one number: the usual case
        return [(bits.bit_length() - 1, bits.bit_length())]
    return [(0, BLOCK)] if bits == _FULL else [one.span() for one in _ones(f"{bits:b}"[::-1])]


def each(blocks: Bitset) -> Iterator[int]:
    """Iterate over the numbers in ascending order."""
    if len(blocks) == 1:
        ((block, bits),) = blocks.items()
        if not bits & bits - 1:  # one number: the usual case
            return iter((block * BLOCK + bits.bit_length() - 1,) if bits else ())
    return chain.from_iterable(range(first, after) for first, after in as_ranges(blocks))


def count(blocks: Bitset) -> int:
    """Return how many numbers are in the set."""
    return sum(map(int.bit_count, blocks.values()))


def union(sets: Iterable[Bitset]) -> Bitset:
    found: Bitset = {}
    for blocks in sets:
        for block, bits in blocks.items():
            found[block] = found.get(block, 0) | bits
    return found


def shared(one: Bitset, other: Bitset) -> Bitset:
    """Return the intersection of two sets."""
    found = {block: bits & other.get(block, 0) for block, bits in one.items()}
    return {block: bits for block, bits in found.items() if bits}


def minus(one: Bitset, other: Bitset) -> Bitset:
    """Return the numbers of the first set that are not in the second."""
    found = {block: bits & ~other.get(block, 0) for block, bits in one.items()}
    return {block: bits for block, bits in found.items() if bits}


def lowest(blocks: Bitset, most: int) -> Bitset:
    """Return the smallest numbers, at most `most`."""
    if len(blocks) == 1 and next(iter(blocks.values())).bit_count() <= most:
        return blocks
    found: Bitset = {}
    for block in sorted(blocks):
        if most <= 0:
            break
        bits = blocks[block]
        found[block] = bits if bits.bit_count() <= most else _lowest_bits(bits, most)
        most -= bits.bit_count()
    return found


def lowest_free(taken: Bitset, first: int, most: int) -> Bitset:
    """Return the `most` smallest numbers from `first` on that are not in the set."""
    found: Bitset = {}
    block, place = divmod(first, BLOCK)
    while most > 0:
        free = (_FULL & ~taken.get(block, 0)) >> place << place
        bits = free if free.bit_count() <= most else _lowest_bits(free, most)
        if bits:
            found[block] = bits
        most -= bits.bit_count()
        block, place = block + 1, 0
    return found


def _lowest_bits(bits: int, most: int) -> int:
    """Return the `most` lowest set bits, of more bits than that."""
    low, high = 0, BLOCK
    while high - low > 1:
        middle = (low + high) // 2
        if (bits & ((1 << middle) - 1)).bit_count() <= most:
            low = middle
        else:
            high = middle
    return bits & ((1 << low) - 1)
