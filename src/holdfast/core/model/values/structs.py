"""The two kinds of struct: documents and rows.

A *document* is written and read by operators and tenants: named fields, camelCase outside, unknown fields rejected. A
*row* is stored by the million in the log and the tables: an array in field order, without the garbage collector's
header. Both are frozen: a change replaces the object, so that a fork of the state copies references only. Both declare
the ledger level that added them, or some of their fields (see `ledger.levels`).

A document has one spelling. It leaves out fields with their default value, and msgspec compares those by identity: a
10,000 from an input is another object than the 10,000 of the class, and would be written. Equal documents would then
have two encodings, and the digests of templates, bodies and states would depend on the author (ADR 0019). So
constructing or decoding a document replaces every value that equals a default with the default itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields, force_setattr


class Canonical(Struct, frozen=True):
    """A struct in which a value that equals the field's default is the default object itself."""

    def __post_init__(self) -> None:
        for name, default in _spelled_in_two_ways(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                force_setattr(self, name, default)


class Document(Canonical, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """An object, or a part of one, that operators or tenants write."""

    #: The level that added each field. Such a field has a default, its value in logs of lower levels.
    ADDED: ClassVar[Mapping[str, int]] = {}


class Row(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A compact record. It is never part of a reference cycle, so the garbage collector can skip it."""

    #: The level that added the struct: it cannot be written below that level.
    SINCE: ClassVar[int] = 1
    #: The level that added each field. Such fields come last and have a default, their value below that level.
    ADDED: ClassVar[Mapping[str, int]] = {}
    #: Conversions of fields whose form below level 2 differs from the stored one.
    LOWERED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}


# Integers inside; `form` selects the form that operators and tenants see (see `api`). Decoding ignores it.

#: A log revision packed into one integer (see `ledger.revision`). Uids and epochs are revisions.
Revision = Annotated[int, Meta(extra={"form": "revision"})]
#: Ledger time in milliseconds since 1970: the leader's timestamp.
Instant = Annotated[int, Meta(extra={"form": "instant"})]
#: A span of time in milliseconds.
Duration = Annotated[int, Meta(extra={"form": "duration"})]
#: A share in percent.
Percent = Annotated[int, Meta(extra={"form": "percent"})]
#: A text that is accepted and never shown again.
Secret = Annotated[str, Meta(extra={"form": "secret"})]
#: The identity of a slot: (workload uid, ordinal).
SlotKey = tuple[int, int]


@cache
def _spelled_in_two_ways(struct: type[Canonical]) -> tuple[tuple[str, Any], ...]:
    """Return the fields whose default could equal another object: not None, bools, enums, empty or small values."""
    found = ((field.name, field.default) for field in fields(struct) if field.default is not NODEFAULT)
    return tuple((name, default) for name, default in found if not _is_one_object(default))


def _is_one_object(value: Any) -> bool:
    if type(value) is int:
        return 0 <= value <= 256
    return value is None or isinstance(value, bool | Enum) or (type(value) in (str, tuple) and not value)
