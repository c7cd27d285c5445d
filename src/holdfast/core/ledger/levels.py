"""Levels: what may be written to a log, so that every server that follows it can read it (RULES 16).

A log has one level at a time, recorded in its info. The code contains all levels. An addition of a level is written,
digested and seen by `evolve` only in logs of that level or above:

    ADDED    on a struct: by field, the level that added it. Added fields come last and have a default
    LOWERED  on a struct: by field, how its value was written before level 2
    SINCE    on a struct: the level that added it. It is never omitted with its field: its effect would be lost
    since()  for one member of an enum, likewise

    at_level(value, level)  the value as `evolve` may see it: additions of later levels have their defaults
    form(value, level)      the encoded form of a value: without additions of later levels

Levels only rise, by a record in the log, when all its servers can read the next one. Below the newest level both
functions walk through every value; at the newest level they are not called.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.values.conditions import ConditionReason

#: The level that this version writes, and the highest that it reads.
LEVEL = 3
#: The first level: of all structs, fields and enum members that declare no other.
FIRST = 1

E = TypeVar("E", bound=Enum)

#: Members of enums that a level after the first added.
_words: dict[Enum, int] = dict.fromkeys(
    (
        ConditionReason.MACHINE_REPLACED, ConditionReason.REBOOTED, ConditionReason.TIMES_NOT_KEPT,
        ConditionReason.USER_SHARED, ConditionReason.TOKEN_READABLE,
        Isolation.STRICT, Permission.AUDIT,
    ),
    2,
)  # fmt: skip


class AboveLevel(Exception):
    """A value belongs to a later level than the log's: it cannot be written yet."""

    def __init__(self, what: str, level: int) -> None:
        super().__init__(f"{what} is of level {level}")
        self.level = level


def since(member: E, level: int) -> E:
    """Declare that a level added this member to its enum. Return the member."""
    _words[member] = level
    return member


def members(enum: type[E], level: int) -> tuple[E, ...]:
    """Return the members that an enum has at a level."""
    return tuple(one for one in enum if _words.get(one, FIRST) <= level)


class _Plan(Struct, frozen=True):
    """How values of one struct are written at one level."""

    #: The fields that are written, and how to convert those that had another form before.
    kept: tuple[str, ...]
    otherwise: dict[str, Callable[[Any], Any]]
    #: The omitted fields, and their defaults.
    left: tuple[tuple[str, Any], ...]
    is_array: bool
    tag: tuple[Any, ...]


@cache
def _plan(kind: type[Struct], level: int) -> _Plan:
    born = getattr(kind, "SINCE", FIRST)
    if born > level:
        raise AboveLevel(kind.__name__, born)
    added = getattr(kind, "ADDED", {})
    fields = msgspec.structs.fields(kind)
    kept = tuple(field.name for field in fields if added.get(field.name, FIRST) <= level)
    left = tuple((field.name, _default(kind, field)) for field in fields if field.name not in kept)
    config = kind.__struct_config__
    assert not config.array_like or kept == kind.__struct_fields__[: len(kept)], (
        f"{kind.__name__}: what was added is not last"
    )
    otherwise = getattr(kind, "LOWERED", {}) if level < 2 else {}
    return _Plan(kept, otherwise, left, config.array_like, () if config.tag is None else (config.tag,))


def _default(kind: type[Struct], field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    assert field.default is not NODEFAULT, f"{kind.__name__}.{field.name} was added without a default"
    return field.default


def columns_at(kind: type[Struct], level: int) -> list[tuple[str, Callable[[Any], Any] | None]]:
    """Return the fields of a row that are written at a level, each with its conversion to the older form, if any."""
    plan = _plan(kind, level)
    return [(name, plan.otherwise.get(name)) for name in plan.kept]


def at_level(value: Any, level: int) -> Any:
    """Return the value with additions of later levels at their defaults. Raise `AboveLevel` if the value itself is
    later."""
    if isinstance(value, tuple):
        found = tuple(at_level(one, level) for one in value)
        return value if all(a is b for a, b in zip(found, value, strict=True)) else found
    if not isinstance(value, Struct):
        _refuse_word(value, level)
        return value
    plan = _plan(type(value), level)
    changes = {name: default for name, default in plan.left if getattr(value, name) is not default}
    for name in changes:
        _refuse_word(getattr(value, name), level)
    for name in plan.kept:
        before = getattr(value, name)
        after = at_level(before, level)
        if after is not before:
            changes[name] = after
    return msgspec.structs.replace(value, **changes) if changes else value


def _refuse_word(value: Any, level: int) -> None:
    """Refuse a value that is later itself: omitted with its field, its effect would be lost."""
    if isinstance(value, Struct):
        _plan(type(value), level)
    if isinstance(value, Enum) and _words.get(value, FIRST) > level:
        raise AboveLevel(str(value), _words[value])


def form(value: Any, level: int) -> Any:
    """Return the encoded form of a value at a level. The value is lowered to that level already."""
    if isinstance(value, tuple | list):
        found = [form(one, level) for one in value]
        return value if all(a is b for a, b in zip(found, value, strict=True)) else found
    if not isinstance(value, Struct):
        return value
    plan = _plan(type(value), level)
    before = {name: getattr(value, name) for name in plan.kept}
    after = {name: _form_of(plan, name, one, level) for name, one in before.items()}
    if plan.is_array:
        if not plan.left and all(after[name] is one for name, one in before.items()):
            return value
        return [*plan.tag, *after.values()]
    changes = {name: one for name, one in after.items() if one is not before[name]}
    changes.update((name, default) for name, default in plan.left if getattr(value, name) is not default)
    return msgspec.structs.replace(value, **changes) if changes else value


def plainest(value: Any) -> Any:
    """Return the encoded form at the lowest level that loses nothing of the value."""
    kind: Any = type(value)
    if is_of_the_first(kind) or _leaves_out_additions(kind):
        return value
    for level in range(FIRST, LEVEL):
        try:
            if at_level(value, level) == value:
                return form(value, level)
        except AboveLevel:
            continue
    return value


@cache
def is_of_the_first(declared: Any) -> bool:
    """Whether no later level has added anything to values of a type."""
    return all(_is_first(one) for one in _within(declared, {}))


@cache
def _leaves_out_additions(kind: Any) -> bool:
    """Whether a struct omits defaults, and only its own fields were added. An addition is then encoded only if it
    differs from its default."""
    if (
        not issubclass(kind, Struct)
        or not kind.__struct_config__.omit_defaults
        or getattr(kind, "SINCE", FIRST) > FIRST
    ):
        return False
    hints = get_type_hints(kind, include_extras=True)
    added, otherwise = getattr(kind, "ADDED", {}), getattr(kind, "LOWERED", {})
    return not otherwise and all(is_of_the_first(hints[n]) for n in kind.__struct_fields__ if n not in added)


def _is_first(one: Any) -> bool:
    if not isinstance(one, type) or one is Any:
        return one is ...  # an unresolved annotation may stand for any type
    if issubclass(one, Enum):
        return members(one, FIRST) == tuple(one)
    additions = (getattr(one, "ADDED", {}), getattr(one, "LOWERED", {}))
    return getattr(one, "SINCE", FIRST) == FIRST and not any(additions)


def _within(declared: Any, seen: dict[Any, None]) -> dict[Any, None]:
    """Return the types that values of a type consist of."""
    if get_origin(declared) is Annotated:
        return _within(get_args(declared)[0], seen)
    if declared in seen:
        return seen
    parts: tuple[Any, ...] = get_args(declared)
    if not parts:
        seen[declared] = None
        if isinstance(declared, type) and issubclass(declared, Struct):
            hints = get_type_hints(declared, include_extras=True)
            parts = tuple(hints[name] for name in declared.__struct_fields__)
    for part in parts:
        _within(part, seen)
    return seen


def _form_of(plan: _Plan, name: str, value: Any, level: int) -> Any:
    otherwise = plan.otherwise.get(name)
    return form(otherwise(value) if otherwise is not None else value, level)
