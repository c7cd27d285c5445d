"""Whether values have exactly their declared types (RULES 25).

A member of a text enum equals its text and every other member with that text, and all have the same bytes. Neither
equality nor a digest of bytes distinguishes them, but code that compares with `is` does. The function `type_checker`
makes the check for one declared type. Types that cannot be confused, such as numbers, are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

#: Whether a value, and every value in it, has its declared type.
Check = Callable[[Any], bool]


@cache
def type_checker(declared: Any) -> Check | None:
    """Return the check of values of a declared type; None: no value in them can be confused."""
    origin, parts = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return type_checker(parts[0])
    if origin in (Union, UnionType):
        return _of_union(parts)
    if origin is tuple:
        return _of_tuple(parts)
    kind = origin or declared
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Struct):
        return _of_struct(kind)
    if issubclass(kind, str | Enum):
        return lambda value: type(value) is kind
    return None


def type_names(values: Any) -> list[str]:
    """Return the names of the types of these values and of the values in them, sorted."""
    found: set[str] = set()
    _gather(values, found)
    return sorted(found)


def _gather(value: Any, found: set[str]) -> None:
    if isinstance(value, tuple):
        for one in value:
            _gather(one, found)
    elif isinstance(value, Struct):
        _gather(tuple(getattr(value, name) for name in value.__struct_fields__), found)
    elif isinstance(value, str | Enum):
        found.add(f"{type(value).__module__}.{type(value).__qualname__}")


def _of_tuple(parts: tuple[Any, ...]) -> Check | None:
    if len(parts) == 2 and parts[1] is ...:
        one = type_checker(parts[0])
        return None if one is None else lambda value: all(map(one, value))
    checks = [(place, found) for place, part in enumerate(parts) if (found := type_checker(part)) is not None]
    return (lambda value: all(found(value[place]) for place, found in checks)) if checks else None


def _of_union(parts: tuple[Any, ...]) -> Check | None:
    """Return the check of a union: a struct is checked by its type, other values by every alternative."""
    structs = {part: type_checker(part) for part in parts if isinstance(part, type) and issubclass(part, Struct)}
    others = [part for part in parts if part not in structs]
    checks = [type_checker(part) for part in others]
    if not any(structs.values()) and not any(checks):
        return None
    plain = tuple(part for part, found in zip(others, checks, strict=True) if found is None and isinstance(part, type))

    def check(value: Any) -> bool:
        if isinstance(value, Struct):
            found = structs.get(type(value))
            return type(value) in structs and (found is None or found(value))
        return type(value) in plain or any(found(value) for found in checks if found is not None)

    return check


def _of_struct(kind: type[Struct]) -> Check:
    """Return the check of a struct's fields. It is built on first use, since a struct may contain itself."""
    fields: list[tuple[str, Check]] = []
    is_ready = False

    def check(value: Any) -> bool:
        nonlocal is_ready
        if not is_ready:
            hints = get_type_hints(kind, include_extras=True)
            found = ((name, type_checker(hints[name])) for name in kind.__struct_fields__)
            fields.extend((name, one) for name, one in found if one is not None)
            is_ready = True
        return type(value) is kind and all(one(getattr(value, name)) for name, one in fields)

    return check
