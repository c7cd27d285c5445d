"""One spelling for what is as it is by default.

A document leaves out fields that have their default, and msgspec finds those by identity: a 10,000 that somebody wrote
is another object than the 10,000 of the class, and would be spelled out. Then equal documents would have two encodings,
and the digests of templates, bodies and states would depend on who wrote what (ADR 0019). So whoever makes a document,
also by decoding one, gets the default itself wherever a value equals it.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, force_setattr


class Canonical(Struct, frozen=True):
    """A struct whose fields hold their defaults themselves, and never something that only equals them."""

    def __post_init__(self) -> None:
        for name, default in _spelled_in_two_ways(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                force_setattr(self, name, default)


@cache
def _spelled_in_two_ways(struct: type[Canonical]) -> tuple[tuple[str, Any], ...]:
    """The fields whose default another object can equal: None, truths, enums, and what is empty or small, are one."""
    found = ((field.name, field.default) for field in fields(struct) if field.default is not NODEFAULT)
    return tuple((name, default) for name, default in found if not _is_one_object(default))


def _is_one_object(value: Any) -> bool:
    if type(value) is int:
        return 0 <= value <= 256
    return value is None or isinstance(value, bool | Enum) or (type(value) in (str, tuple) and not value)
