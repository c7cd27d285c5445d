"""Sets of numbers as ranges: (first, after the last), in order and disjoint. A thousand consecutive numbers are one
pair.

All lists of ordinals have this form. Writers may name single numbers, too, and older logs contain nothing else:
`ranges_of` reads both. A change of a few numbers copies the pairs, without a step per number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING

Range = tuple[int, int]
Ranges = tuple[Range, ...]
#: Numbers and ranges in any order: the form in which users, older logs and commands may name a set.
Named = tuple[int | Range, ...]

if TYPE_CHECKING:
    #: The type of a field that is stored as ranges and accepts both forms: the struct converts it with `ranges_of`.
    Ordinals = Ranges
else:
    Ordinals = Named

#: Up to this many ranges are inserted one by one; more are merged.
_FEW = 8


def ranges_of(named: Iterable[int | Range]) -> Ranges:
    """Return the set of all named numbers. Empty or reversed ranges name none."""
    found: list[Range] = []
    pairs = [(one, one + 1) if isinstance(one, int) else one for one in named]
    for first, after in pairs if all(left[0] <= right[0] for left, right in pairwise(pairs)) else sorted(pairs):
        if first >= after:
            continue
        if found and first <= found[-1][1]:
            if after > found[-1][1]:
                found[-1] = found[-1][0], after
        else:
            found.append((first, after))
    return tuple(found)


def as_named(named: int | Iterable[int | Range]) -> tuple[int | Range, ...]:
    """Return the numbers and ranges that a command names, possibly as one number."""
    return (named,) if isinstance(named, int) else tuple(named)


def is_named_once(named: Iterable[int | Range]) -> bool:
    """Whether no number is named twice, and no range is empty or reversed."""
    sizes = [1 if isinstance(one, int) else one[1] - one[0] for one in named]
    return all(count > 0 for count in sizes) and sum(sizes) == count_numbers(ranges_of(named))


def contains(runs: Ranges, number: int) -> bool:
    place = bisect_right(runs, number, key=_first)
    return place > 0 and number < runs[place - 1][1]


def count_numbers(runs: Ranges) -> int:
    """Return how many numbers are in the set."""
    return sum(after - first for first, after in runs)


def numbers(runs: Ranges) -> Iterator[int]:
    """Yield the numbers in ascending order."""
    return chain.from_iterable(range(first, after) for first, after in runs)


def expanded(runs: Ranges) -> tuple[int, ...]:
    """Return a tuple of the numbers, as older logs list them."""
    return tuple(numbers(runs))


def with_numbers(runs: Ranges, named: Iterable[int | Range]) -> Ranges:
    """Return the set with these numbers added."""
    more = ranges_of(named)
    if not runs or not more:
        return runs or more
    if len(more) > _FEW:
        return ranges_of((*runs, *more))
    for first, after in more:
        low = bisect_left(runs, first, key=_after)
        high = bisect_right(runs, after, key=_first)
        if low < high:
            first, after = min(first, runs[low][0]), max(after, runs[high - 1][1])
        runs = (*runs[:low], (first, after), *runs[high:])
    return runs


def without(runs: Ranges, gone: Ranges) -> Ranges:
    """Return the set without these numbers."""
    if not runs or not gone:
        return runs
    if len(gone) > _FEW:
        return tuple(_left_of(runs, gone))
    for first, after in gone:
        low = bisect_right(runs, first, key=_after)
        high = bisect_left(runs, after, key=_first)
        if low < high:
            ends = ((runs[low][0], first), (after, runs[high - 1][1]))
            runs = (*runs[:low], *(run for run in ends if run[0] < run[1]), *runs[high:])
    return runs


def _left_of(runs: Ranges, gone: Ranges) -> Iterator[Range]:
    """Yield the remainders of each range, in one walk along both lists."""
    place = 0
    for first, after in runs:
        while place < len(gone) and gone[place][1] <= first:
            place += 1
        at = place
        while at < len(gone) and gone[at][0] < after:
            if first < gone[at][0]:
                yield first, gone[at][0]
            first = gone[at][1]
            at += 1
        if first < after:
            yield first, after


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return the intersection of two sets."""
    return without(one, without(one, other))


def is_within(runs: Ranges, outer: Ranges) -> bool:
    """Whether the set is a subset of the other."""
    return not without(runs, outer)


def first_of(runs: Ranges, count: int) -> Ranges:
    """Return the smallest numbers, at most `count`."""
    found: list[Range] = []
    for first, after in runs:
        if count <= 0:
            break
        found.append((first, min(after, first + count)))
        count -= after - first
    return tuple(found)


def last_of(runs: Ranges, count: int) -> Ranges:
    """Return the largest numbers, at most `count`."""
    found: list[Range] = []
    for first, after in reversed(runs):
        if count <= 0:
            break
        found.append((max(first, after - count), after))
        count -= after - first
    return tuple(reversed(found))


def split_ranges(runs: Ranges, most: int) -> Iterator[Ranges]:
    """Split the set into sets of `most` numbers, in ascending order; the last may have fewer."""
    part: list[Range] = []
    left = most
    for first, after in runs:
        while first < after:
            end = min(after, first + left)
            part.append((first, end))
            left -= end - first
            first = end
            if not left:
                yield tuple(part)
                part, left = [], most
    if part:
        yield tuple(part)


def is_well_formed(runs: Ranges) -> bool:
    """Whether the ranges are in order, disjoint and not empty."""
    edges = [edge for run in runs for edge in run]
    return all(left < right for left, right in pairwise(edges))


def format_ranges(runs: Ranges) -> list[str]:
    """Return the displayed form of the ranges: `7`, `0-99999`."""
    return [str(first) if after == first + 1 else f"{first}-{after - 1}" for first, after in runs]


def _first(run: Range) -> int:
    return run[0]


def _after(run: Range) -> int:
    return run[1]
