"""Plain values from the events of a YAML parser, with the line of each.

The parser's own composer has no limits: deep nesting overflows its stack and ends the process, and a few lines of
aliases can fill any memory. Here both are limited.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml  # type: ignore[import-untyped]

from holdfast.api.serialization import field_errors

#: Largest number of values in one text, counted after aliases are expanded.
VALUES_MAX = 400_000
DEPTH_MAX = 64

_TAG = "tag:yaml.org,2002:"
#: The meaning of plain text. Older YAML reads every such text as a number, true, false or null, too, so writers quote
#: text that looks like it.
_PLAIN = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?(0|[1-9][0-9]*)")),
    ("float", re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+][0-9]+)?|[-+]?\.inf|\.nan")),
)

#: A tree, the line of every value by pointer, and the faults.
Tree = tuple[Any, dict[str, int], list[field_errors.FieldError]]


class UnreadableText(field_errors.InvalidDocument):
    """A text that is neither YAML nor JSON, with the line of the error."""

    def __init__(self, source: str, line: int, message: str) -> None:
        super().__init__([field_errors.FieldError("", message)])
        self.source, self.line = source, line

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.faults[0].message}"


def parse_trees(events: Iterable[Any], source: str) -> Iterator[Tree]:
    """Yield the tree of every document."""
    build = _Build(source, iter(events))
    for event in build.events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield build.document()


class _Build:
    """Builds one document after the other from the events."""

    def __init__(self, source: str, events: Iterator[Any]) -> None:
        self.source, self.events = source, events
        self._left = VALUES_MAX
        self._begin()

    def _begin(self) -> None:
        self.lines: dict[str, int] = {}
        self.faults = field_errors.FieldErrors()
        #: By anchor: its value and the number of values in it; None while it is being built.
        self._anchors: dict[str, tuple[Any, int] | None] = {}

    def document(self) -> Tree:
        self._begin()
        tree = self._value(next(self.events), "", 0)
        return tree, self.lines, self.faults.found

    def _count(self, values: int, event: Any) -> None:
        self._left -= values
        if self._left < 0:
            raise UnreadableText(self.source, _line(event), f"more than {VALUES_MAX} values")

    def _value(self, event: Any, at: str, depth: int) -> Any:
        self.lines.setdefault(at, _line(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._count(1, event)
        if depth > DEPTH_MAX:
            raise UnreadableText(self.source, _line(event), f"nested deeper than {DEPTH_MAX} levels")
        left, anchor = self._left, event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, at)
        else:
            value = self._map(at, depth) if isinstance(event, yaml.MappingStartEvent) else self._list(at, depth)
            if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
                self.faults.add(at, f"the tag {event.tag[:64]} is not supported")
        if anchor is not None:
            self._anchors[anchor] = (value, left - self._left + 1)
        return value

    def _alias(self, event: Any) -> Any:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise UnreadableText(self.source, _line(event), f"*{event.anchor[:64]} refers to no earlier anchor")
        self._count(found[1], event)
        return copy.deepcopy(found[0])

    def _list(self, at: str, depth: int) -> list[Any]:
        found: list[Any] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            found.append(self._value(event, f"{at}/{len(found)}", depth + 1))
        return found

    def _map(self, at: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, line = self._key(event, at, depth), _line(event)
            where = field_errors.child_pointer(at, key) if key is not None else at
            if key is not None and key not in found:
                self.lines[where] = line
            elif key is not None:
                self.faults.add(where, f"{key[:64]!r} appears twice, in lines {self.lines[where]} and {line}")
            value = self._value(next(self.events), where, depth + 1)
            if key is not None:
                found.setdefault(key, value)
        return found

    def _key(self, event: Any, at: str, depth: int) -> str | None:
        """Return a key, which is text; add a fault and return None if it is not."""
        plain = isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)
        key = self._value(event, field_errors.child_pointer(at, "?"), depth + 1)
        if isinstance(key, str):
            return key
        self.faults.add(
            at, f"expected text as a key, got {field_errors.describe_value(key)}", "write it in quotes" if plain else ""
        )
        return None

    def _scalar(self, event: Any, at: str) -> Any:
        text, tag = event.value, event.tag
        if tag in (None, "!"):
            plain = tag is None and event.implicit[0]
            tag = next((name for name, form in _PLAIN if form.fullmatch(text)), "str") if plain else "str"
        match tag.removeprefix(_TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" if re.fullmatch(r"[-+]?[0-9]{1,1000}", text):
                return int(text)
            case "float" if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.inf|\.nan)", text):
                return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        self.faults.add(at, f"{text[:40]!r} is not read as {tag.removeprefix(_TAG)[:40]}")
        return None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
