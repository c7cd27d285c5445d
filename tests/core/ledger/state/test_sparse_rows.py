"""Rows that exist only with a content."""

from __future__ import annotations

from holdfast.core.ledger.state.sparse_rows import add_count, put_or_drop
from holdfast.core.ledger.state.table import Table


def test_a_count_of_zero_has_no_row() -> None:
    table: Table[str, int] = Table()
    add_count(table, "acme", 2)
    add_count(table, "acme", -1)
    add_count(table, "beta", 1)
    assert dict(table.items()) == {"acme": 1, "beta": 1}
    add_count(table, "acme", -1)
    add_count(table, "gamma", 0)
    assert dict(table.items()) == {"beta": 1}


def test_an_empty_row_drops_the_one_before() -> None:
    table: Table[str, tuple[int, ...] | str] = Table()
    put_or_drop(table, "a", (1,))
    put_or_drop(table, "b", "row")
    assert dict(table.items()) == {"a": (1,), "b": "row"}
    put_or_drop(table, "a", ())
    put_or_drop(table, "b", None)
    put_or_drop(table, "never", None)
    assert table.is_empty()
