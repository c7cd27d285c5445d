"""What logs and snapshots of a level may hold, by the types: structs and their fields, tables, words of enums."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from msgspec import Struct, structs

from holdfast.core.ledger.levels import columns_at, members
from holdfast.core.platform.events import PlatformEvent
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.events import RegionEvent
from holdfast.core.region.state.tables import RegionState


def held(level: int) -> list[str]:
    """What a level could hold when there was no higher one. It never changes: what is added is of the next level."""
    return (Path(__file__).parent / f"level_{level}.txt").read_text(encoding="utf-8").splitlines()


def written_at(level: int) -> list[str]:
    """A line for each table, struct and enum."""
    found: dict[Any, str] = {}
    lines = []
    for state in (RegionState, PlatformState):
        specs = [spec for spec in state.TABLES if not spec.derived and spec.since <= level]
        lines += [f"table {state.__name__}.{spec.name} of {spec.shards}" for spec in specs]
        for declared in [part for spec in specs for part in (spec.key, spec.value)]:
            _gather(declared, level, found)
        for scalar in state.SCALARS:
            _gather(type(getattr(state(), scalar)), level, found)
    for event in (*get_args(RegionEvent), *get_args(PlatformEvent)):
        if getattr(event, "SINCE", 1) <= level:
            _gather(event, level, found)
    return sorted({*lines, *found.values()})


def _gather(declared: Any, level: int, found: dict[Any, str]) -> None:
    for part in get_args(declared):
        _gather(part, level, found)
    if not isinstance(declared, type) or declared in found:
        return
    if issubclass(declared, Enum):
        found[declared] = f"enum {declared.__name__}: {' '.join(str(one.value) for one in members(declared, level))}"
    elif issubclass(declared, Struct):
        names = {field.name: field.encode_name for field in structs.fields(declared)}
        kept = [name for name, _ in columns_at(declared, level)]
        tag = declared.__struct_config__.tag
        what = f"struct {declared.__name__}" + (f" tagged {tag}" if tag is not None else "")
        found[declared] = f"{what}: {' '.join(names[name] for name in kept)}"
        hints = get_type_hints(declared, include_extras=True)
        for name in kept:
            _gather(hints[name], level, found)
