"""Sets of numbers as runs: (first, after the last), in order and apart. A thousand in a row are one pair."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

Runs = tuple[tuple[int, int], ...]


def has(runs: Runs, number: int) -> bool:
    """Whether a number is in the set."""
    place = bisect_right(runs, number, key=_first)
    return place > 0 and number < runs[place - 1][1]


def size(runs: Runs) -> int:
    """How many numbers are in the set."""
    return sum(after - first for first, after in runs)


def joined(runs: Runs, numbers: Iterable[int]) -> Runs:
    """The set with these numbers in it, too."""
    found: list[tuple[int, int]] = []
    for first, after in sorted((*runs, *((number, number + 1) for number in numbers))):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(after, found[-1][1])
        else:
            found.append((first, after))
    return tuple(found)


def is_well_formed(runs: Runs) -> bool:
    """Whether its runs are in order and apart, and none is empty."""
    edges = [edge for run in runs for edge in run]
    return all(left < right for left, right in pairwise(edges))


def _first(run: tuple[int, int]) -> int:
    return run[0]
