"""Rows of one table as bytes, column by column.

A page holds the rows of one shard, sorted by key, or a piece of them. Rows of a million slots differ in few of their
fields, so a column says only what it must:

    alike  one value, for every row            same   what an earlier column says
    plain  a value for each row                coded  the distinct values, and one byte for each row
    odd    one of these, with a value in it that is not of its declared type, and the types that there are

That is a quarter of the bytes that whole rows take, and reading it back makes few objects twice: equal names in a page
are one object, and a `pool` makes them one over all pages (RULES 22), those of one declared type apart from those of
another: a word and a member of an enum are equal and not the same (RULES 25). What is written follows from the rows and
the log's level alone, so the bytes of equal rows are equal: digests are taken of them, and from level 2 on they tell
types apart. Rows that lack their last fields, as earlier levels wrote them, get the defaults; a page with more columns
than this version knows is not read.

Whole rows, each interned after it was decoded, took twice as long to read back and four times the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.levels import LEVEL, columns_at, form
from holdfast.core.ledger.state.type_checks import type_checker, type_names
from holdfast.core.model.values.structs import Row

T = TypeVar("T")

#: By declared type: names that were read, each by itself.
Pool = dict[Any, dict[Any, Any]]

#: One byte numbers every distinct value of a page.
PAGE_ROWS = 256


class ConstantColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=0, gc=False):
    """One value for every row."""

    value: T


class RepeatedColumn(Struct, array_like=True, forbid_unknown_fields=True, tag=1, gc=False):
    """What an earlier column says."""

    column: int


class PlainColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=2, gc=False):
    """A value for each row."""

    values: list[T]


class DictionaryColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=3, gc=False):
    """The distinct values in the order in which they come, and which of them each row has."""

    values: list[T]
    codes: bytes


class TypedColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=4, gc=False):
    """A column in which not everything is of its declared type. It is read as what was declared."""

    types: list[str]
    column: ConstantColumn[T] | RepeatedColumn | PlainColumn[T] | DictionaryColumn[T]


class BadPage(Exception):
    """A page whose columns contradict one another."""


class _Codes(dict[Any, int]):
    """Numbers values as they come."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class PageCodec:
    """Writes and reads the pages of tables with one type of keys and one of rows."""

    def __init__(self, key: Any, value: Any) -> None:
        parts = get_args(key) if get_origin(key) is tuple else ()
        fields = msgspec.structs.fields(value) if isinstance(value, type) and issubclass(value, Row) else ()
        self._key_columns = len(parts)
        self._make = value if fields else None
        types = [*(parts or (key,)), *([field.type for field in fields] or (value,))]
        self._types = types
        self._named = [isinstance(one, type) and issubclass(one, str | Enum) for one in types]
        self._checks = [type_checker(one) for one in types]
        #: For each column the earlier ones of its type. Of another type, equal is not the same: True is 1.
        self._alikes = [[n for n in range(place) if types[n] == one] for place, one in enumerate(types)]
        self.type = _page_type(types)

    def write(self, shard: int, keys: Sequence[Any], rows: dict[Any, Any], level: int = LEVEL) -> bytes:
        """The page of these keys of a shard, which are sorted, at least one and at most `PAGE_ROWS`."""
        assert 0 < len(keys) <= PAGE_ROWS, len(keys)
        values = tuple(map(rows.__getitem__, keys))
        columns: list[tuple[Any, ...]] = list(zip(*keys, strict=True)) if self._key_columns else [tuple(keys)]
        columns += zip(*map(msgspec.structs.astuple, values), strict=True) if self._make else [values]
        if level < LEVEL:
            columns = self._lowered(columns, level)
        return encode([shard, len(keys), *(self._column(columns, place, level) for place in range(len(columns)))])

    def _lowered(self, columns: list[tuple[Any, ...]], level: int) -> list[tuple[Any, ...]]:
        """The columns that there are at a level, each as it is written there."""
        first = self._key_columns or 1
        if self._make is None:
            return [*columns[:first], tuple(form(one, level) for one in columns[first])]
        found = columns[:first]
        for column, (_, otherwise) in zip(columns[first:], columns_at(self._make, level), strict=False):
            found.append(tuple(form(otherwise(one) if otherwise is not None else one, level) for one in column))
        return found

    def _column(self, columns: list[tuple[Any, ...]], place: int, level: int) -> tuple[Any, ...]:
        written = self._plainly(columns, place)
        check = self._checks[place]
        if level < 2 or check is None:
            return written
        column = columns[place]
        if self._named[place]:
            is_odd = len(kinds := set(map(type, column))) > 1 or self._types[place] not in kinds
        else:
            is_odd = not all(map(check, column))
        return (4, type_names(column), written) if is_odd else written

    def _plainly(self, columns: list[tuple[Any, ...]], place: int) -> tuple[Any, ...]:
        column = columns[place]
        if column.count(column[0]) == len(column):
            return 0, column[0]
        same = next((n for n in self._alikes[place] if columns[n] == column), None)
        if same is not None:
            return 1, same
        if self._named[place]:
            codes = _Codes()
            numbers = bytes(map(codes.__getitem__, column))
            return 3, list(codes), numbers
        return 2, column

    def read(self, page: Any, pool: Pool) -> tuple[int, dict[Any, Any]]:
        """The shard of a decoded page and its rows. Names are taken from the pool, and put into it when new."""
        shard, count, *columns = msgspec.structs.astuple(page)
        lists: list[Any] = []
        for place, written in enumerate(columns):
            column: Any = written.column if type(written) is TypedColumn else written
            kind, named = type(column), self._named[place]
            known = pool.setdefault(self._types[place], {}) if named else {}
            if kind is ConstantColumn:
                value = column.value
                lists.append([known.setdefault(value, value) if named else value] * count)
            elif kind is RepeatedColumn:
                lists.append(lists[self._earlier(place, column.column)])
            elif kind is PlainColumn:
                lists.append(column.values)
            elif kind is DictionaryColumn:
                values = [known.setdefault(value, value) if named else value for value in column.values]
                lists.append(list(map(values.__getitem__, column.codes)))
            else:
                break  # earlier levels have fewer fields
        if any(len(one) != count for one in lists):
            raise BadPage(f"a page of {count} rows has columns of {sorted({len(one) for one in lists})} values")
        wide = self._key_columns
        keys = zip(*lists[:wide], strict=True) if wide else lists[0]
        make, fields = self._make, lists[wide or 1 :]
        rows = dict(zip(keys, map(make, *fields) if make else fields[0], strict=True))
        if len(rows) != count:
            raise BadPage(f"a page of {count} rows has {len(rows)} keys")
        return shard, rows

    def _earlier(self, place: int, said: int) -> int:
        """The column that this one is said to be the same as. It must be one of its own type."""
        if said not in self._alikes[place]:
            raise BadPage(f"column {place} cannot be the same as column {said}, which is of another type")
        return said


def _page_type(types: Sequence[Any]) -> Any:
    """A struct of a shard, a number of rows, and their columns; those that an older writer did not know are None."""
    fields: list[Any] = [("shard", int), ("count", int)]
    for place, one in enumerate(types):
        column = ConstantColumn[one] | RepeatedColumn | PlainColumn[one] | DictionaryColumn[one] | TypedColumn[one]  # type: ignore[valid-type]
        fields.append((f"column_{place}", column | None, None))
    return msgspec.defstruct("Page", fields, array_like=True, forbid_unknown_fields=True, gc=False)


@cache
def pages_of(key: Any, value: Any) -> PageCodec:
    """The pages of every table with these types."""
    return PageCodec(key, value)
