"""An immutable sorted list: a change makes a new list that shares most chunks with the old one.

A change copies one chunk and the list of chunks: about two hundred references for 5,000 values, where a tuple would be
copied completely. How values are split into chunks depends on the history.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

V = TypeVar("V", bound=Any)

#: Largest number of values in a chunk; a larger one is split in two.
CHUNK = 128


class SortedList(Generic[V]):
    """Distinct values in ascending order. A list never changes."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self, values: Iterable[V] = ()) -> None:
        """Make a list of values in any order."""
        found = sorted(values)
        half = CHUNK // 2
        self._take(tuple(tuple(found[first : first + half]) for first in range(0, len(found), half)))

    def _take(self, chunks: tuple[tuple[V, ...], ...]) -> None:
        self._chunks = chunks
        self._firsts = [chunk[0] for chunk in chunks]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[V]:
        for chunk in self._chunks:
            yield from chunk

    def __eq__(self, other: object) -> bool:
        """Whether both have the same values, however split into chunks."""
        return isinstance(other, SortedList) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ordered({list(self)})"

    def __contains__(self, value: V) -> bool:
        chunk, place = self._find(value)
        return self._chunks[chunk][place : place + 1] == (value,) if self._chunks else False

    def with_(self, value: V) -> SortedList[V]:
        """Return this list with one more value."""
        chunk, place = self._find(value)
        old = self._chunks[chunk] if self._chunks else ()
        new = (*old[:place], value, *old[place:])
        parts = (new,) if len(new) <= CHUNK else (new[: CHUNK // 2], new[CHUNK // 2 :])
        return self._replaced(chunk, parts)

    def without(self, value: V) -> SortedList[V]:
        """Return this list without a value, which must be in it."""
        chunk, place = self._find(value)
        old = self._chunks[chunk]
        assert old[place] == value, f"{value} is not there"
        new = (*old[:place], *old[place + 1 :])
        return self._replaced(chunk, (new,) if new else ())

    def place_of(self, value: V) -> int:
        """Return the number of smaller values."""
        chunk, place = self._find(value)
        return sum(map(len, self._chunks[:chunk])) + place

    def each(self, places: Iterable[int]) -> list[V]:
        """Return the values at these positions, which must be descending."""
        found: list[V] = []
        chunk, first = len(self._chunks), len(self)
        for place in places:
            while place < first:
                chunk -= 1
                first -= len(self._chunks[chunk])
            found.append(self._chunks[chunk][place - first])
        return found

    def _find(self, value: V) -> tuple[int, int]:
        """Return the chunk in which a value is or would be, and the position there."""
        chunk = max(0, bisect_right(self._firsts, value) - 1)
        return chunk, bisect_left(self._chunks[chunk], value) if self._chunks else 0

    def _replaced(self, chunk: int, parts: tuple[tuple[V, ...], ...]) -> SortedList[V]:
        other: SortedList[V] = SortedList.__new__(SortedList)
        other._chunks = (*self._chunks[:chunk], *parts, *self._chunks[chunk + 1 :])
        other._firsts = self._firsts.copy()
        other._firsts[chunk : chunk + 1] = [part[0] for part in parts]
        return other
