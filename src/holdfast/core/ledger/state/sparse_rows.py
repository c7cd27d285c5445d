"""Rows of derived tables that exist only with a content: a count of zero, an empty tuple or list of ids has no row."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.sorted_list import SortedList

K = TypeVar("K")
V = TypeVar("V", bound=Any)
_NONE: SortedList[Any] = SortedList()


def put_or_drop(table: Table[K, V], key: K, row: V | None) -> None:
    """Store the row, or drop the row of that key if this one is empty."""
    if row:
        table.put(key, row)
    else:
        table.drop(key)


def add_count(table: Table[K, int], key: K, change: int) -> None:
    put_or_drop(table, key, (table.get(key) or 0) + change)


def add_to_list(table: Table[K, SortedList[V]], key: K, value: V) -> None:
    """Add a value that is not listed yet."""
    table.put(key, (table.get(key) or _NONE).with_(value))


def remove_from_list(table: Table[K, SortedList[V]], key: K, value: V) -> None:
    """Remove a value from the list that contains it."""
    put_or_drop(table, key, table[key].without(value))
