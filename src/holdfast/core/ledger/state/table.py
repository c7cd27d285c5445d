"""Tables that fork by reference.

A table is a list of dicts, its shards. A fork copies the list and shares the dicts; the first write to a shared shard
copies that shard. A million rows fork in microseconds, and a write after that copies a few hundred entries. An
`OverlayTable` is the overlay on which a batch is decided: it writes to its own dict and reads through to the table.

Shards are chosen by `hash`, which is the same in every process only for integers and tuples of integers: tables with
other keys have one shard. No order depends on shards: `items` sorts. Only the chunks of a snapshot, and so the digest
of a state, depend on which rows share a shard (see `chunks`).

Size: tables, their layers and how one becomes the other, in one place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct

K = TypeVar("K")
V = TypeVar("V")

#: Primes, so that revisions, which end in many equal bits, spread over all shards. The first is for tables of up to
#: some ten thousand rows, the second for millions; fewer shards hit the processor's caches more often. Another number
#: gives the same rows other digests and needs a level of its own (RULES 16).
SOME = 509
MANY = 4093

#: Shards of a fork that are freed per step.
FREED_AT_ONCE = 64

#: Every shard that has never had a row. No table owns it: the first write creates a shard, as after a fork.
_NONE: dict[Any, Any] = {}


class TableSpec(Struct, frozen=True):
    """A table's name, types and size. A derived one can be rebuilt from the others and is not stored.

    Logs, snapshots and digests use `name`, for ever; `attribute` is the state's attribute, if it differs.

    If `kept` is false, an overlay does not cache rows that it reads: for rows that a batch reads once and seldom
    writes. The level that added the table is `since`: below it the table is empty and not written.
    """

    name: str
    key: Any
    value: Any
    shards: int = 1
    derived: bool = False
    kept: bool = True
    since: int = 1
    attribute: str = ""


class Table(Generic[K, V]):
    """A map from keys to frozen rows."""

    __slots__ = ("_count", "_filled", "_owned", "_shards")

    def __init__(self, shards: int = 1) -> None:
        self._shards: list[dict[K, V]] = [_NONE] * shards
        self._count = shards
        self._owned = bytearray(shards)
        #: The shards that have ever had a row, in order: few in a small table, so that walks skip the rest.
        self._filled: list[int] = []

    def get(self, key: K) -> V | None:
        """Return the row, or None."""
        return self._shards[hash(key) % self._count].get(key)

    def find(self, keys: Iterable[K]) -> list[V]:
        """Return the rows of these keys, all of which must exist."""
        shards, count = self._shards, self._count
        return [shards[hash(key) % count][key] for key in keys]

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return sum(map(len, map(self._shards.__getitem__, self._filled)))

    def is_empty(self) -> bool:
        """Whether there is no row."""
        return not any(map(self._shards.__getitem__, self._filled))

    def put(self, key: K, value: V) -> None:
        """Set or replace a row."""
        index = hash(key) % self._count
        if not self._owned[index]:
            self._own(index)
        self._shards[index][key] = value

    def drop(self, key: K) -> None:
        """Remove a row if it exists."""
        index = hash(key) % self._count
        if key not in self._shards[index]:
            return
        if not self._owned[index]:
            self._own(index)
        del self._shards[index][key]

    def _own(self, index: int) -> None:
        """Make a shard this table's own: it was shared, or never had a row."""
        shard = self._shards[index]
        if shard is _NONE:
            insort(self._filled, index)
        self._shards[index] = shard.copy()
        self._owned[index] = 1

    def unordered(self) -> Iterator[tuple[K, V]]:
        """Return all rows in no order: only for sums and for rows that are sorted afterwards."""
        # No Python bytecode runs per shard or row. A caller may put a row while it iterates.
        return chain.from_iterable(map(dict.items, map(self._shards.__getitem__, tuple(self._filled))))

    def items(self) -> list[tuple[K, V]]:
        """Return all rows, sorted by key."""
        return sorted(self.unordered(), key=itemgetter(0))

    def keys(self) -> list[K]:
        """Return all keys, sorted: much cheaper than `items` for many rows."""
        return sorted(chain.from_iterable(map(self._shards.__getitem__, self._filled)))  # type: ignore[type-var]

    def values(self) -> list[V]:
        """Return all values, sorted by key."""
        return [value for _, value in self.items()]

    def shard_rows(self) -> Iterator[dict[K, V]]:
        """Yield the shards, read-only, for snapshots and digests."""
        return iter(self._shards)

    def fill(self, shard: int, shards: int, rows: dict[K, V]) -> None:
        """Add the rows of one shard of a table with `shards` shards; the dict belongs to this table afterwards.

        If both tables choose shards alike, the dict is used as it is; otherwise, as under another Python, rows are put
        one by one.
        """
        count = self._count
        is_misplaced = any(hash(key) % count != shard for key in rows)
        if count != shards or is_misplaced:
            for key, value in rows.items():
                self.put(key, value)
            return
        if self._shards[shard]:
            assert self._owned[shard], f"shard {shard} is shared with a fork"
            self._shards[shard].update(rows)
        else:
            self._own(shard)
            self._shards[shard] = rows

    def fork(self) -> Table[K, V]:
        """Return a table with the same rows; later writes of either are invisible to the other."""
        other: Table[K, V] = Table.__new__(Table)
        other._shards = self._shards.copy()
        other._count = self._count
        other._filled = self._filled.copy()
        other._owned = bytearray(self._count)
        self._owned = bytearray(self._count)
        return other

    def release(self) -> Iterator[int]:
        """Empty this fork in steps and yield the number of rows freed by each: freeing a million takes a while."""
        shards, filled = self._shards, self._filled
        while filled:
            bit = filled[-FREED_AT_ONCE:]
            rows = sum(len(shards[index]) for index in bit)
            for index in bit:
                shards[index] = _NONE
            del filled[-FREED_AT_ONCE:]
            yield rows

    def layer(self, *, kept: bool = True) -> OverlayTable[K, V]:
        """Return an overlay on this table, which caches the rows it reads unless `kept` is false."""
        return OverlayTable(self, kept=kept)


class _Rows(dict[K, V | None]):
    """Rows of an overlay as first read or last written. A missing row is read through, once."""

    __slots__ = ("count", "shards")

    count: int
    shards: list[dict[K, V]]

    def __missing__(self, key: K) -> V | None:
        value = self.shards[hash(key) % self.count].get(key)
        self[key] = value
        return value


class _Writes(_Rows[K, V]):
    """Rows as last written only."""

    __slots__ = ()

    def __missing__(self, key: K) -> V | None:
        return self.shards[hash(key) % self.count].get(key)


class OverlayTable(Table[K, V]):
    """Writes on top of a table, which must not change while the overlay exists.

    Rows that were read are cached too: a batch reads the same few rows again and again. The methods `get` and `put` are
    those of the dict: no Python function runs between a handler and its rows. A merge also writes back rows that were
    only read. That changes nothing and costs less than distinguishing them.
    """

    __slots__ = ("_base", "_rows", "get", "put")

    def __init__(self, base: Table[K, V], *, kept: bool = True) -> None:
        self._base = base
        self._rows: _Rows[K, V] = _Rows() if kept else _Writes()
        self._rows.shards = base._shards
        self._rows.count = base._count
        self.get = self._rows.__getitem__  # type: ignore[assignment, method-assign]
        self.put = self._rows.__setitem__  # type: ignore[assignment, method-assign]

    def drop(self, key: K) -> None:
        self._rows[key] = None

    def find(self, keys: Iterable[K]) -> list[V]:
        return [self[key] for key in keys]

    def is_empty(self) -> bool:
        return next(self.unordered(), None) is None if self._rows else self._base.is_empty()

    def __len__(self) -> int:
        return sum(1 for _ in self.unordered())

    def unordered(self) -> Iterator[tuple[K, V]]:
        rows, base = self._rows, self._base
        for key, below in base.unordered():
            row = rows.get(key, below)
            if row is not None:
                yield key, row
        for key, row in rows.items():
            if row is not None and base.get(key) is None:
                yield key, row

    def keys(self) -> list[K]:
        return sorted(key for key, _ in self.unordered())  # type: ignore[type-var]

    def shard_rows(self) -> Iterator[dict[K, V]]:
        raise AssertionError("readers, snapshots and digests see durable state only, never an overlay")

    def fork(self) -> Table[K, V]:
        other = self._base.fork()
        self.merge_into(other)
        return other

    def changed_keys(self) -> list[K]:
        """Return the keys, sorted, of the rows that differ from the table below; rows that were only read are not among
        them."""
        below = self._base.get
        rows = self._rows.items()
        return sorted(key for key, row in rows if (was := below(key)) is not row and was != row)  # type: ignore[type-var]

    def merge_into(self, table: Table[K, V]) -> None:
        """Write every change to the table."""
        shards, owned, count = table._shards, table._owned, table._count
        for key, value in self._rows.items():
            index = hash(key) % count
            if not owned[index]:
                if value is None and shards[index] is _NONE:
                    continue
                table._own(index)
            if value is None:
                shards[index].pop(key, None)
            else:
                shards[index][key] = value
