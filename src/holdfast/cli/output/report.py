"""A list as commands print it: whole for programs, as a table with notes for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.cli.options import print_note
from holdfast.cli.output import field_path, printer
from holdfast.cli.output.printer import OutputFormat

#: A column's cell: the path of its value, path and hint (`printer.format_cell`), or a function of the item.
Cell = str | tuple[str, str] | Callable[[Mapping[str, Any]], str]


def print_report(
    whole: Any,
    output: OutputFormat,
    items: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Cell],
    *,
    empty: str = "",
    more: str = "",
) -> None:
    """Print `whole` as JSON or YAML, or the items as a table with these columns by heading.

    Without items, `empty` is noted instead of a table; after a table, `more`.
    """
    if printer.print_structured(whole, output):
        return
    if empty and not items:
        print_note(empty)
        return
    rows = [[_cell(one, cell) for cell in columns.values()] for one in items]
    printer.print_data(printer.table(list(columns), rows))
    if more:
        print_note(more)


def and_more(total: int, items: Sequence[Any]) -> str:
    """Return the note about items beyond the limit; empty if there are none."""
    return f"and {total - len(items)} more: raise `--limit`" if total > len(items) else ""


def _cell(one: Mapping[str, Any], cell: Cell) -> str:
    if callable(cell):
        return cell(one)
    path, hint = (cell, "text") if isinstance(cell, str) else cell
    return printer.format_cell(field_path.value_at(one, path), hint)
