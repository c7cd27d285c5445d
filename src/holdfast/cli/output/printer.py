"""How things are printed: tables for people, JSON and YAML for programs. Data goes to stdout, plain where stdout is no
terminal. Tables are set with plain strings: a library for them takes longer to import than the whole answer may take.
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

#: So much of why something waits is shown in a table.
WHY_SHOWN = 100
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


#: Our own colours, and what else would have a terminal do something: move, hide, set a title, answer.
_STEERING = re.compile(r"(\x1b\[(?:[0-2]|3[1-3])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def print_data(text: str) -> None:
    """Print data: to a terminal without what would steer it, whoever wrote that; to programs as it is."""
    sys.stdout.write(f"{escape_controls(text) if sys.stdout.isatty() else text}\n")


def escape_controls(text: str) -> str:
    """The text as a terminal can show it: what would steer it is written out. Lines, tabs and our colours stay."""
    return _STEERING.sub(lambda found: found[1] or _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_terminal() -> bool:
    """Whether somebody looks at stdout and wants colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if is_terminal() else text


def as_json(value: Any, *, compact: bool = False) -> str:
    """JSON, in the order in which the server wrote it."""
    import msgspec

    raw = msgspec.json.encode(value)
    return (raw if compact else msgspec.json.format(raw, indent=2)).decode()


def as_yaml(value: Any) -> str:
    """YAML: what it is and its name first, the rest in the order in which the server wrote it."""
    from holdfast.api.serialization.yaml_documents import dump_documents

    return dump_documents([value]).rstrip("\n")


class TextTable:
    """Rows under their headings. Later rows keep to the widths of the first ones, so that a watch stays readable."""

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> None:
        self.rows = [list(row) for row in rows]
        self.headings = list(headings)
        self._widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]

    def line(self, row: Sequence[str]) -> str:
        """One row."""
        padded = [cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)]
        return "  ".join(padded).rstrip()

    def lines(self) -> list[str]:
        """The headings and all rows."""
        return [paint(self.line(self.headings), "bold"), *map(self.line, self.rows)]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A whole table."""
    return "\n".join(TextTable(headings, rows).lines())


def format_value(value: Any) -> str:
    """A value within a table."""
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
    """A value within a table, as the column wants it written."""
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
    """Why replicas fail or have no node, in one line; empty when all are well."""
    bad = [one for kind in ("Healthy", "Placed") for one in conditions if one.get("type") == kind]
    found: Mapping[str, Any] = next((one for one in bad if one.get("status") not in (None, "true")), {})
    text = ": ".join(str(found[key]) for key in ("reason", "message") if found.get(key))
    return text if len(text) <= WHY_SHOWN else f"{text[: WHY_SHOWN - 3]}..."


def parse_instant(text: str) -> datetime | None:
    """A time of the API, or None for what is none."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def format_age(text: Any, now: datetime | None = None) -> str:
    """How long ago a time of the API was, roughly: `5s`, `3m`, `2h`, `4d`."""
    then = parse_instant(str(text)) if text else None
    if then is None:
        return "-"
    return format_span(_seconds(now) - then.timestamp())


def format_until(text: Any, now: datetime | None = None) -> str:
    """How long it is until a time of the API: `5s`, `3m`, or `2h ago`."""
    then = parse_instant(str(text)) if text else None
    if then is None:
        return "-"
    left = then.timestamp() - _seconds(now)
    return format_span(left) if left >= 0 else f"{format_span(-left)} ago"


def _seconds(now: datetime | None) -> float:
    return now.timestamp() if now is not None else time.time()


def format_span(seconds: float) -> str:
    """A span of time in one or two digits and a unit."""
    if seconds < 0:
        return f"in {format_span(-seconds)}"
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    for unit, size, least in (("d", 86400, 172800), ("h", 3600, 7200), ("m", 60, 120)):
        if seconds >= least:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def flush() -> None:
    """Show what was printed now: a watch may be silent for long."""
    sys.stdout.flush()


def instant_in(ms: int) -> str:
    """The time that is so much later than now, as the API writes it."""
    from datetime import UTC, datetime

    then = datetime.fromtimestamp(int(time.time() * 1000 + ms) / 1000, UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OutputFormat(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def print_structured(value: Any, output: OutputFormat) -> bool:
    """Print it for programs, if that is what was asked for."""
    if output is OutputFormat.TEXT:
        return False
    print_data(as_json(value) if output is OutputFormat.JSON else as_yaml(value))
    return True


def pairs(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    """Names and what they are, one below the other."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0) + 2
    return "\n".join(f"{indent}{name.ljust(width)}{value}".rstrip() for name, value in known)
