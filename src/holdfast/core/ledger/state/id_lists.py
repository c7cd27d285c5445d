"""Rows of derived tables that list the ids of their key, in order. An empty list has no row."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.core.ledger.state.sparse_rows import put_or_drop
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.sorted_list import SortedList

K = TypeVar("K")
V = TypeVar("V", bound=Any)

_NONE: SortedList[Any] = SortedList()


def add_to_list(table: Table[K, SortedList[V]], key: K, value: V) -> None:
    """Add a value that is not listed yet."""
    table.put(key, (table.get(key) or _NONE).with_(value))


def remove_from_list(table: Table[K, SortedList[V]], key: K, value: V) -> None:
    """Remove a value from the list that contains it."""
    put_or_drop(table, key, table[key].without(value))
