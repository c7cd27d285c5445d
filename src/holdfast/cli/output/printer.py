"""Printing: tables for users, JSON and YAML for programs. Data goes to stdout, without colours unless stdout is a
terminal.

Tables are built from plain strings, because importing a table library takes longer than a command may take.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

#: Characters of a pending reason in a table.
WHY_SHOWN = 100
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}

#: Our own colours (group 1), and every character that controls a terminal: move, hide, set a title, answer.
_STEERING = re.compile(r"(\x1b\[(?:[0-2]|3[1-3])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def print_data(text: str) -> None:
    """Print data. On a terminal, control characters are escaped, whatever their origin; a program gets the text
    unchanged."""
    sys.stdout.write(f"{escape_controls(text) if sys.stdout.isatty() else text}\n")


def escape_controls(text: str) -> str:
    """Return the text with control characters escaped. Line ends, tabs and our colours stay."""
    return _STEERING.sub(lambda found: found[1] or _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_terminal() -> bool:
    """Return whether stdout is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Return the text in a colour if stdout is a terminal."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if is_terminal() else text


def as_json(value: Any, *, compact: bool = False) -> str:
    """Return JSON in the server's field order."""
    import msgspec

    raw = msgspec.json.encode(value)
    return (raw if compact else msgspec.json.format(raw, indent=2)).decode()


def as_yaml(value: Any) -> str:
    """Return YAML: kind and name first, then the server's field order."""
    from holdfast.api.serialization.yaml_documents import dump_documents

    return dump_documents([value]).rstrip("\n")


class TextTable:
    """Rows under headings. Later rows use the widths of the first ones, so that a watch stays readable."""

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> None:
        self.rows = [list(row) for row in rows]
        self.headings = list(headings)
        self._widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]

    def line(self, row: Sequence[str]) -> str:
        """Format one row."""
        padded = [cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)]
        return "  ".join(padded).rstrip()

    def lines(self) -> list[str]:
        """Return the headings and all rows."""
        return [paint(self.line(self.headings), "bold"), *map(self.line, self.rows)]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(TextTable(headings, rows).lines())


def format_value(value: Any) -> str:
    """Format a value for a table cell."""
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={format_value(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(format_value(one) for one in value)
    return str(value)


def format_cell(value: Any, hint: str) -> str:
    """Format a value for a table cell by the column's hint."""
    if hint == "age":
        return format_age(value)
    if hint == "until":
        return format_until(value)
    if hint == "flag":
        return "yes" if value else ""
    if hint == "count":
        return str(len(value or ()))
    if hint == "why":
        return format_why(value or ())
    return format_value(value)


def format_why(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return in one line why replicas fail or are not placed; empty if none does."""
    bad = [one for kind in ("Healthy", "Placed") for one in conditions if one.get("type") == kind]
    found: Mapping[str, Any] = next((one for one in bad if one.get("status") not in (None, "true")), {})
    text = ": ".join(str(found[key]) for key in ("reason", "message") if found.get(key))
    return text if len(text) <= WHY_SHOWN else f"{text[: WHY_SHOWN - 3]}..."


def parse_instant(text: str) -> datetime | None:
    """Parse a time of the API; None if it is none."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def format_age(text: Any) -> str:
    """Format the age of a time of the API: `5s`, `3m`, `2h`, `4d`."""
    then = parse_instant(str(text)) if text else None
    if then is None:
        return "-"
    return format_span(time.time() - then.timestamp())


def format_until(text: Any) -> str:
    """Format the time until a time of the API: `5s`, `3m`, or `2h ago`."""
    then = parse_instant(str(text)) if text else None
    if then is None:
        return "-"
    left = then.timestamp() - time.time()
    return format_span(left) if left >= 0 else f"{format_span(-left)} ago"


def format_span(seconds: float) -> str:
    """Format a span of time as a number and a unit."""
    if seconds < 0:
        return f"in {format_span(-seconds)}"
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    for unit, size, least in (("d", 86400, 172800), ("h", 3600, 7200), ("m", 60, 120)):
        if seconds >= least:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def flush() -> None:
    """Flush stdout: a watch may print nothing for long."""
    sys.stdout.flush()


def instant_in(ms: int) -> str:
    """Return the time `ms` from now, in the API's format."""
    from datetime import UTC, datetime

    then = datetime.fromtimestamp(int(time.time() * 1000 + ms) / 1000, UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OutputFormat(StrEnum):
    """Output formats of a report."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def print_structured(value: Any, output: OutputFormat) -> bool:
    """Print the value as JSON or YAML; return False if text output was requested."""
    if output is OutputFormat.TEXT:
        return False
    print_data(as_json(value) if output is OutputFormat.JSON else as_yaml(value))
    return True


def pairs(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    """Format pairs of a name and a value, one per line."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0) + 2
    return "\n".join(f"{indent}{name.ljust(width)}{value}".rstrip() for name, value in known)
