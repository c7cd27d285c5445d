"""Rows of one table as bytes, column by column.

A page has the rows of one shard, sorted by key, or some of them. A million slots differ in few fields, so a column
stores only the differences:

    alike  one value, for every row            same   a reference to an equal earlier column
    plain  a value for each row                coded  the distinct values, and one byte for each row
    odd    one of these with a value that is not of its declared type, and the types of its values

This takes a quarter of the bytes of complete rows, and reading creates few duplicate objects. Equal names in a page
become one object, and a `pool` extends that to all pages (RULES 22). Each declared type has its own pool: a text and an
enum member can be equal but are not the same (RULES 25). The bytes depend only on the rows and the log's level, so
equal rows have equal bytes. Digests are made of these bytes; from level 2 on they distinguish types. Rows that lack the
last fields, as earlier levels wrote them, get the defaults. A page with more columns than this version has is rejected.

Complete rows, interned after decoding, took twice as long to read and four times the space.
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

#: Names read so far, by declared type.
Pool = dict[Any, dict[Any, Any]]

#: One byte numbers every distinct value of a page.
PAGE_ROWS = 256


class ConstantColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=0, gc=False):
    """One value for every row."""

    value: T


class RepeatedColumn(Struct, array_like=True, forbid_unknown_fields=True, tag=1, gc=False):
    """A reference to an equal earlier column."""

    column: int


class PlainColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=2, gc=False):
    """A value for each row."""

    values: list[T]


class DictionaryColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=3, gc=False):
    """The distinct values in order of appearance, and the number of each row's value."""

    values: list[T]
    codes: bytes


class TypedColumn(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=4, gc=False):
    """A column with a value that is not of its declared type. Reading converts it to the declared type."""

    types: list[str]
    column: ConstantColumn[T] | RepeatedColumn | PlainColumn[T] | DictionaryColumn[T]


class BadPage(Exception):
    """The columns of a page contradict each other."""


class _Codes(dict[Any, int]):
    """Numbers values in order of appearance."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class PageCodec:
    """Writes and reads the pages of tables with one key type and one row type."""

    def __init__(self, key: Any, value: Any) -> None:
        parts = get_args(key) if get_origin(key) is tuple else ()
        fields = msgspec.structs.fields(value) if isinstance(value, type) and issubclass(value, Row) else ()
        self._key_columns = len(parts)
        self._make = value if fields else None
        types = [*(parts or (key,)), *([field.type for field in fields] or (value,))]
        self._types = types
        self._named = [isinstance(one, type) and issubclass(one, str | Enum) for one in types]
        self._checks = [type_checker(one) for one in types]
        #: The earlier columns of each column's type. Values of different types can be equal but not the same: True is
        #: 1.
        self._alikes = [[n for n in range(place) if types[n] == one] for place, one in enumerate(types)]
        self.type = _page_type(types)

    def write(self, shard: int, keys: Sequence[Any], rows: dict[Any, Any], level: int = LEVEL) -> bytes:
        """Return the page of these keys of a shard: sorted, at least 1 and at most `PAGE_ROWS`."""
        assert 0 < len(keys) <= PAGE_ROWS, len(keys)
        values = tuple(map(rows.__getitem__, keys))
        columns: list[tuple[Any, ...]] = list(zip(*keys, strict=True)) if self._key_columns else [tuple(keys)]
        columns += zip(*map(msgspec.structs.astuple, values), strict=True) if self._make else [values]
        if level < LEVEL:
            columns = self._lowered(columns, level)
        return encode([shard, len(keys), *(self._column(columns, place, level) for place in range(len(columns)))])

    def _lowered(self, columns: list[tuple[Any, ...]], level: int) -> list[tuple[Any, ...]]:
        """Return the columns that exist at a level, in the form of that level."""
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
        """Return the shard and rows of a decoded page. Names are taken from the pool; new ones are added to it."""
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
        """Check a reference to an earlier column: that column must have the same type."""
        if said not in self._alikes[place]:
            raise BadPage(f"column {place} cannot be the same as column {said}, which is of another type")
        return said


def _page_type(types: Sequence[Any]) -> Any:
    """Return a struct type of shard, row count and columns; columns missing in older pages are None."""
    fields: list[Any] = [("shard", int), ("count", int)]
    for place, one in enumerate(types):
        column = ConstantColumn[one] | RepeatedColumn | PlainColumn[one] | DictionaryColumn[one] | TypedColumn[one]  # type: ignore[valid-type]
        fields.append((f"column_{place}", column | None, None))
    return msgspec.defstruct("Page", fields, array_like=True, forbid_unknown_fields=True, gc=False)


@cache
def pages_of(key: Any, value: Any) -> PageCodec:
    """Return the page codec of tables with these types."""
    return PageCodec(key, value)
