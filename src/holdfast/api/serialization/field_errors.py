"""What is wrong with a document: where, what was expected and what came, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: A document with more faults than this is another kind of document; nobody reads on.
ERRORS_MAX = 100
#: What came is repeated up to so many characters.
_SHOWN = 40
_KEY_SHOWN = 200


class FieldError(NamedTuple):
    """One thing that is wrong. The pointer is a JSON pointer into the document; empty: the whole of it."""

    pointer: str
    message: str
    hint: str = ""


class InvalidDocument(Exception):
    """A document that cannot be taken, with everything that is wrong with it."""

    def __init__(self, faults: Iterable[FieldError]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(format_error(fault) for fault in self.faults))


class FieldErrors:
    """Faults as they are found, in the order of the document."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[FieldError] = []

    def add(self, pointer: str, message: str, hint: str = "") -> None:
        """Note a fault, unless there are more than anybody reads."""
        if len(self.found) < ERRORS_MAX:
            self.found.append(FieldError(pointer, message, hint))

    def expected(self, pointer: str, what: str, came: object, hint: str = "") -> None:
        """Note that something else was expected."""
        self.add(pointer, f"expected {what}, got {describe_value(came)}", hint)


def format_error(fault: FieldError) -> str:
    """The fault as people read it: `spec.replicas: message (hint)`."""
    place = dotted_path(fault.pointer)
    hint = f" ({fault.hint})" if fault.hint else ""
    return f"{place}: {fault.message}{hint}" if place else f"{fault.message}{hint}"


def child_pointer(pointer: str, key: str | int) -> str:
    """The pointer to a member of what this pointer points to."""
    if isinstance(key, int):
        return f"{pointer}/{key}"
    key = _encodable(key if len(key) <= _KEY_SHOWN else key[:_KEY_SHOWN] + "...")
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def dotted_path(pointer: str) -> str:
    """A pointer as people read it: `/spec/template/spread/0` is `spec.template.spread[0]`."""
    place = ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        place += f"[{name}]" if name.isdigit() and place else f".{name}" if place else name
    return place


def describe_value(came: object) -> str:
    """What came, in few words."""
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
