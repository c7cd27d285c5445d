"""Rows of one table as bytes, column by column.

A page holds the rows of one shard, sorted by key, or a piece of them. Rows of a million slots differ in few of their
fields, so a column says only what it must:

    alike  one value, for every row            same   what an earlier column says
    plain  a value for each row                coded  the distinct values, and one byte for each row

That is a quarter of the bytes that whole rows take, and reading it back makes few objects twice: equal names in a page
are one object, and a `pool` makes them one over all pages (RULES 22). What is written follows from the rows alone, so
the bytes of equal rows are equal: digests are taken of them. Rows that lack their last fields, as older versions wrote
them, get the defaults; a page with more columns than this version knows is not read.

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
from holdfast.core.model.shapes import Row

T = TypeVar("T")

#: One byte numbers every distinct value of a page.
PAGE_ROWS = 256


class Alike(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=0, gc=False):
    """One value for every row."""

    value: T


class Same(Struct, array_like=True, forbid_unknown_fields=True, tag=1, gc=False):
    """What an earlier column says."""

    column: int


class Plain(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=2, gc=False):
    """A value for each row."""

    values: list[T]


class Coded(Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=3, gc=False):
    """The distinct values in the order in which they come, and which of them each row has."""

    values: list[T]
    codes: bytes


class Misread(Exception):
    """A page whose columns contradict one another."""


class _Codes(dict[Any, int]):
    """Numbers values as they come."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class Pages:
    """Writes and reads the pages of tables with one type of keys and one of rows."""

    def __init__(self, key: Any, value: Any) -> None:
        parts = get_args(key) if get_origin(key) is tuple else ()
        fields = msgspec.structs.fields(value) if isinstance(value, type) and issubclass(value, Row) else ()
        self._key_columns = len(parts)
        self._make = value if fields else None
        types = [*(parts or (key,)), *([field.type for field in fields] or (value,))]
        self._named = [isinstance(one, type) and issubclass(one, str | Enum) for one in types]
        #: For each column the earlier ones of its type. Of another type, equal is not the same: True is 1.
        self._alikes = [[n for n in range(place) if types[n] == one] for place, one in enumerate(types)]
        self.type = _page_type(types)

    def write(self, shard: int, keys: Sequence[Any], rows: dict[Any, Any]) -> bytes:
        """The page of these keys of a shard, which are sorted, at least one and at most `PAGE_ROWS`."""
        count = len(keys)
        assert 0 < count <= PAGE_ROWS, count
        values = tuple(map(rows.__getitem__, keys))
        columns: list[tuple[Any, ...]] = list(zip(*keys, strict=True)) if self._key_columns else [tuple(keys)]
        columns += zip(*map(msgspec.structs.astuple, values), strict=True) if self._make else [values]
        page: list[Any] = [shard, count]
        for place, column in enumerate(columns):
            first = column[0]
            if column.count(first) == count:
                page.append((0, first))
                continue
            same = next((n for n in self._alikes[place] if columns[n] == column), None)
            if same is not None:
                page.append((1, same))
            elif self._named[place]:
                codes = _Codes()
                numbers = bytes(map(codes.__getitem__, column))
                page.append((3, list(codes), numbers))
            else:
                page.append((2, column))
        return encode(page)

    def read(self, page: Any, pool: dict[Any, Any]) -> tuple[int, dict[Any, Any]]:
        """The shard of a decoded page and its rows. Names are taken from the pool, and put into it when new."""
        shard, count, *columns = msgspec.structs.astuple(page)
        lists: list[Any] = []
        for column, named in zip(columns, self._named, strict=True):
            kind = type(column)
            if kind is Alike:
                value = column.value
                lists.append([pool.setdefault(value, value) if named else value] * count)
            elif kind is Same:
                lists.append(lists[column.column])
            elif kind is Plain:
                lists.append(column.values)
            elif kind is Coded:
                values = [pool.setdefault(value, value) for value in column.values]
                lists.append(list(map(values.__getitem__, column.codes)))
            else:
                break  # older rows have fewer fields
        if any(len(one) != count for one in lists):
            raise Misread(f"a page of {count} rows has columns of {sorted({len(one) for one in lists})} values")
        wide = self._key_columns
        keys = zip(*lists[:wide], strict=True) if wide else lists[0]
        make, fields = self._make, lists[wide or 1 :]
        rows = dict(zip(keys, map(make, *fields) if make else fields[0], strict=True))
        if len(rows) != count:
            raise Misread(f"a page of {count} rows has {len(rows)} keys")
        return shard, rows


def _page_type(types: Sequence[Any]) -> Any:
    """A struct of a shard, a number of rows, and their columns; those that an older writer did not know are None."""
    fields: list[Any] = [("shard", int), ("count", int)]
    for place, one in enumerate(types):
        column = Alike[one] | Same | Plain[one] | Coded[one]  # type: ignore[valid-type]
        fields.append((f"column_{place}", column | None, None))
    return msgspec.defstruct("Page", fields, array_like=True, forbid_unknown_fields=True, gc=False)


@cache
def pages_of(key: Any, value: Any) -> Pages:
    """The pages of every table with these types."""
    return Pages(key, value)
