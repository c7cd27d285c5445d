"""Field errors of a document: the place, what was expected and found, and what was probably meant; strict JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

ERRORS_MAX = 100
#: The value that was found is shown up to this many characters.
_SHOWN = 40
_KEY_SHOWN = 200


class FieldError(NamedTuple):
    """One thing that is wrong. The pointer is a JSON pointer into the document; empty: the document itself."""

    pointer: str
    message: str
    hint: str = ""


class InvalidDocument(Exception):
    """A document that is not accepted, with all its faults."""

    def __init__(self, faults: Iterable[FieldError]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(format_error(fault) for fault in self.faults))


class FieldErrors:
    """The faults that were found, in the order of the document."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[FieldError] = []

    def add(self, pointer: str, message: str, hint: str = "") -> None:
        """Add a fault, unless there are `ERRORS_MAX` already."""
        if len(self.found) < ERRORS_MAX:
            self.found.append(FieldError(pointer, message, hint))

    def expected(self, pointer: str, what: str, came: object, hint: str = "") -> None:
        """Add a fault of an unexpected value."""
        self.add(pointer, f"expected {what}, got {describe_value(came)}", hint)


def format_error(fault: FieldError) -> str:
    """Return the fault as users read it: `spec.replicas: message (hint)`."""
    place = dotted_path(fault.pointer)
    hint = f" ({fault.hint})" if fault.hint else ""
    return f"{place}: {fault.message}{hint}" if place else f"{fault.message}{hint}"


def child_pointer(pointer: str, key: str | int) -> str:
    """Return the pointer to a member of the value at this pointer."""
    if isinstance(key, int):
        return f"{pointer}/{key}"
    key = _encodable(key if len(key) <= _KEY_SHOWN else key[:_KEY_SHOWN] + "...")
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def dotted_path(pointer: str) -> str:
    """Return a pointer as users read it: `/spec/template/spread/0` is `spec.template.spread[0]`."""
    place = ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        place += f"[{name}]" if name.isdigit() and place else f".{name}" if place else name
    return place


def describe_value(came: object) -> str:
    """Describe the value that was found in a few words."""
    if came is None:
        return "nothing (null)"
    if isinstance(came, bool):
        return "true" if came else "false"
    if isinstance(came, int):
        return f"the number {came}" if came.bit_length() <= 128 else f"a number of {came.bit_length()} bits"
    if isinstance(came, float):
        return f"the number {came}"
    if isinstance(came, str):
        return f"the text {_encodable(came[:_SHOWN] + ('...' if len(came) > _SHOWN else ''))!r}"
    if isinstance(came, dict):
        return "a map"
    return "a list" if isinstance(came, list | tuple) else f"a {type(came).__name__}"


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def decoder(faults: FieldErrors) -> json.JSONDecoder:
    """Return a decoder that adds a fault for a duplicate key and raises `ValueError` for NaN and infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = sorted(key for key, _ in pairs)
            twice = next(key for key, after in pairwise(keys) if key == after)
            faults.add("", f"{twice[:64]!r} appears twice in one map")
        return found

    return json.JSONDecoder(object_pairs_hook=once, parse_constant=_no_number)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def parse_json(raw: bytes) -> Any:
    """Return the tree in these bytes. Raise `InvalidDocument` if they are not JSON or not UTF-8, have a duplicate key,
    or are nested too deep."""
    faults = FieldErrors()
    try:
        tree = decoder(faults).decode(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        faults.add("", f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except UnicodeDecodeError as error:
        faults.add("", f"not UTF-8 at byte {error.start}")
    except ValueError as error:
        faults.add("", f"not JSON: {error}"[:200])
    except RecursionError:
        faults.add("", "nested too deep")
    else:
        if not faults.found:
            return tree
    raise InvalidDocument(faults.found)
