"""Serializers of single values: text, booleans, integers, enums, times, durations, revisions.

The method `parse` turns what users wrote into a value of the model; `render` does the reverse. Unreadable input becomes
a fault and the value `INVALID`; a serializer never raises and never guesses.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any, Final, Protocol

from holdfast.api.serialization.field_errors import FieldErrors
from holdfast.api.spelling import did_you_mean
from holdfast.core.ledger import revision as revisions
from holdfast.core.model.values.quantities import BadQuantity, format_duration, parse_duration

INT_MAX = 2**63 - 1
#: A longer text is not a quantity.
QUANTITY_CHARS = 64

DURATION_PATTERN = r"^-?([0-9]{1,15}(ms|s|m|h|d))+$"
PERCENT_PATTERN = r"^-?[0-9]{1,19}%$"
#: A sequence number and an index, which together have at most 63 bits.
_SEQ = (
    r"([1-9][0-9]{0,11}|[1-7][0-9]{12}|8[0-6][0-9]{11}|87[0-8][0-9]{10}|879[0-5][0-9]{9}"
    r"|87960[0-8][0-9]{7}|879609[0-2][0-9]{6}|87960930[01][0-9]{4}|879609302[01][0-9]{3}|8796093022[01][0-9]{2}"
    r"|879609302220[0-7])"
)
_INDEX = r"([1-9][0-9]{0,5}|10[0-3][0-9]{4}|104[0-7][0-9]{3}|1048[0-4][0-9]{2}|10485[0-6][0-9]|104857[0-5])"
REVISION_PATTERN = rf"^(0|{_SEQ})\.(0|{_INDEX})$"
#: The same without 0.0, which is no revision: as a precondition it would require nothing.
PLACE_PATTERN = rf"^({_SEQ}\.(0|{_INDEX})|0\.{_INDEX})$"
INSTANT_PATTERN = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)

#: An idempotency key: it makes the retry of a write harmless.
KEY_PATTERN = r"^[!-~]{1,200}$"
#: A revision token, the log position of a reply: `log:term:seq:digest`.
TOKEN_PATTERN = r"^[!-9;-~]{1,128}:[0-9]{1,18}:[0-9]{1,18}:([0-9a-f]{2}){0,64}$"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


class InvalidValue:
    """The type of `INVALID`: the result of a serializer that added a fault."""


INVALID: Final = InvalidValue()


class Serializer(Protocol):
    """How one type of the model is parsed and rendered."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        """Return the value, or add a fault and return `INVALID`."""

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        """Return the value as plain JSON; without secrets, unless they are requested."""


class TextSerializer:
    """Any text that UTF-8 can encode."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, str):
            hint = "write it in quotes" if isinstance(tree, bool | int | float) else ""
            faults.expected(at, "text", tree, hint)
            return INVALID
        if not tree.isascii():
            try:
                tree.encode()
            except UnicodeEncodeError:
                faults.add(at, "expected text, got an unpaired surrogate")
                return INVALID
        return str(tree)

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return value


class SecretSerializer(TextSerializer):
    """Text that is accepted and never shown. Empty or missing text leaves the stored one unchanged."""


class BoolSerializer:
    """True or false."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if isinstance(tree, bool):
            return tree
        hint = "write it without quotes" if isinstance(tree, str) and tree.lower() in ("true", "false") else ""
        faults.expected(at, "true or false", tree, hint)
        return INVALID

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return value


class IntSerializer:
    """A signed integer of 64 bits."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if isinstance(tree, bool) or not isinstance(tree, int):
            digits = isinstance(tree, str) and tree.isascii() and tree.lstrip("-").isdigit()
            faults.expected(at, "a whole number", tree, "write it without quotes" if digits else "")
            return INVALID
        return in_range(tree, tree, at, faults)

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return value


def in_range(number: int, came: object, at: str, faults: FieldErrors) -> Any:
    """Return the number, if it fits into the 64 bits of the log."""
    if -INT_MAX - 1 <= number <= INT_MAX:
        return number
    faults.expected(at, "a number of at most 63 bits", came)
    return INVALID


class EnumSerializer:
    """One value of a closed list."""

    def __init__(self, words: type[Enum]) -> None:
        self.members: dict[str, Enum] = {str(member.value): member for member in words}
        self.names = words

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        found = self.members.get(tree) if isinstance(tree, str) else None
        if found is not None:
            return found
        what = f"one of {', '.join(self.members)}"
        faults.expected(at, what, tree, did_you_mean(tree, self.members) if isinstance(tree, str) else "")
        return INVALID

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return value.value


class DurationSerializer:
    """A duration: `30s`, `1h30m`."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if isinstance(tree, str) and len(tree) <= QUANTITY_CHARS:
            sign, text = (-1, tree[1:]) if tree.startswith("-") else (1, tree)
            try:
                return in_range(sign * parse_duration(text), tree, at, faults)
            except BadQuantity as bad:
                faults.expected(at, bad.expected, tree)
                return INVALID
        number = isinstance(tree, int) and not isinstance(tree, bool) and 0 <= tree < 10**9
        faults.expected(at, "a duration such as 30s, 5m or 1h30m", tree, f"{tree}s is seconds" if number else "")
        return INVALID

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return format_duration(value) if value >= 0 else f"-{format_duration(-value)}"


class PercentSerializer:
    """A percentage: `15%`."""

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if isinstance(tree, str) and len(tree) <= QUANTITY_CHARS:
            digits = tree.removesuffix("%").removeprefix("-")
            if tree.endswith("%") and digits.isascii() and digits.isdecimal():
                return in_range(int(tree[:-1]), tree, at, faults)
        number = isinstance(tree, int) and not isinstance(tree, bool) and 0 <= tree <= 100
        faults.expected(at, "a whole number of percent, such as 15%", tree, f"write {tree}%" if number else "")
        return INVALID

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return f"{value}%"


class InstantSerializer:
    """A point in time, RFC 3339. With 0 as the default, 0 means none and is shown as null."""

    def __init__(self, unset: bool = False) -> None:
        self.unset = unset

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if tree is None and self.unset:
            return 0
        found = parse_instant(tree) if isinstance(tree, str) and len(tree) <= QUANTITY_CHARS else None
        if found is None:
            faults.expected(at, "a time such as 2026-11-15T17:00:00.000Z", tree)
            return INVALID
        return found

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return None if self.unset and value == 0 else format_instant(value)


class RevisionSerializer:
    """A revision, opaque to callers: `41.3`. With 0 as the default, 0 means none and is shown as null; `0.0` is
    rejected then, since as a precondition it would require nothing."""

    def __init__(self, unset: bool = False) -> None:
        self.unset = unset

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if tree is None and self.unset:
            return 0
        found = revisions.parse_revision(tree) if isinstance(tree, str) and len(tree) <= QUANTITY_CHARS else None
        if found is None or (self.unset and not found):
            faults.expected(at, 'a revision such as "41.3"', tree, "write it in quotes" if type(tree) is float else "")
            return INVALID
        return found

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        return None if self.unset and value == 0 else revisions.format_revision(value)


def parse_instant(text: str) -> int | None:
    """Return the milliseconds since 1970 of an RFC 3339 time with any offset, rounded down; None if it is no time."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    *whole, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        moment = datetime(*map(int, whole), tzinfo=timezone(offset))  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(((fraction or "") + "000")[:3])


def format_instant(ms: int) -> str:
    """Return RFC 3339 in UTC with milliseconds. A time outside the years 1 to 9999 becomes the nearest one inside."""
    moment = _EPOCH + timedelta(milliseconds=min(max(ms, _FIRST), _LAST))
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
