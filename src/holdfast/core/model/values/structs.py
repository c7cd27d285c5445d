"""Two kinds of struct, and why there are two.

A *document* is what people write and read: named fields, camelCase outside, unknown fields refused. A *row* is what
the log and the tables hold by the million: encoded as an array in field order, without the collector's header. Both are
frozen: changing an object means replacing it, so that a fork of the state copies references only.

Both say which level of the log's format added them, or some of their fields (see `ledger.levels`).

One spelling for what is as it is by default.

A document leaves out fields that have their default, and msgspec finds those by identity: a 10,000 that somebody wrote
is another object than the 10,000 of the class, and would be spelled out. Then equal documents would have two encodings,
and the digests of templates, bodies and states would depend on who wrote what (ADR 0019). So whoever makes a document,
also by decoding one, gets the default itself wherever a value equals it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields, force_setattr


class Canonical(Struct, frozen=True):
    """A struct whose fields hold their defaults themselves, and never something that only equals them."""

    def __post_init__(self) -> None:
        for name, default in _spelled_in_two_ways(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                force_setattr(self, name, default)


class Document(Canonical, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """An object, or a part of one, that people write."""

    #: By field: the level that added it. It has a default, which is what it holds in logs of lower levels.
    ADDED: ClassVar[Mapping[str, int]] = {}


class Row(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A compact record. It never refers back to what refers to it, so the collector need not look at it."""

    #: The level that added it: below that it cannot be written.
    SINCE: ClassVar[int] = 1
    #: By field: the level that added it. Those come last and have a default, which is what they hold below that.
    ADDED: ClassVar[Mapping[str, int]] = {}
    #: By field: how it is written below level 2, where that is not as it is held.
    LOWERED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}


# Whole numbers inside; `form` says how people see them (see `api.documents`). Decoding does not look at it.

#: A log revision packed into one integer (see `ledger.revision`). Uids and epochs are revisions.
Revision = Annotated[int, Meta(extra={"form": "revision"})]
#: Ledger time in milliseconds since 1970, as the leader stamped it.
Instant = Annotated[int, Meta(extra={"form": "instant"})]
#: A span of time in milliseconds.
Duration = Annotated[int, Meta(extra={"form": "duration"})]
#: A share of something, in percent.
Percent = Annotated[int, Meta(extra={"form": "percent"})]
#: Text that is taken and never shown again.
Secret = Annotated[str, Meta(extra={"form": "secret"})]
#: The identity of a slot: (workload uid, ordinal).
SlotKey = tuple[int, int]


@cache
def _spelled_in_two_ways(struct: type[Canonical]) -> tuple[tuple[str, Any], ...]:
    """The fields whose default another object can equal: None, truths, enums, and what is empty or small, are one."""
    found = ((field.name, field.default) for field in fields(struct) if field.default is not NODEFAULT)
    return tuple((name, default) for name, default in found if not _is_one_object(default))


def _is_one_object(value: Any) -> bool:
    if type(value) is int:
        return 0 <= value <= 256
    return value is None or isinstance(value, bool | Enum) or (type(value) in (str, tuple) and not value)
