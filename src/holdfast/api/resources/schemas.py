"""JSON Schema of kinds and of commands."""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast.api.resources import platform_types, region_types, reported_types
from holdfast.api.resources.command_catalog import rules
from holdfast.api.resources.writable import WRITABLE
from holdfast.api.serialization.json_schema import DIALECT, Schema, SchemaBuilder
from holdfast.api.serialization.registry import serializer_for, struct_serializer_for, writable_serializer_for
from holdfast.api.serialization.scalars import Serializer


@cache
def kind_schema(name: str, *, shown: bool = False) -> Schema:
    """Return the self-contained schema of a kind: as it is written, if it is writable and not `shown`, or as it is
    shown."""
    schemas = SchemaBuilder("#/$defs/")
    ref: str = schemas.of(serializer_for_kind(name, shown=shown))["$ref"]
    title = ref.removeprefix(schemas.refs)
    own = schemas.named.pop(title)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:schema:{title}", "title": title, **own, "$defs": schemas.named}


@cache
def command_schema(ledger: str, tag: str) -> Schema:
    """Return the self-contained schema of a command's fields."""
    command: Any = rules(ledger)[tag].command
    schemas = SchemaBuilder("#/$defs/")
    schemas.of(struct_serializer_for(command))
    own = schemas.named.pop(command.__name__)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:command:{tag}", "title": tag, **own, "$defs": schemas.named}


def serializer_for_kind(name: str, *, shown: bool = False) -> Serializer:
    """Return the serializer of a kind: as it is written, if it is writable and not `shown`, or as it is shown."""
    written: Any = WRITABLE.get(name)
    if written is not None and not shown:
        return writable_serializer_for(written)
    view = reported_types.VIEWS_BY_KIND.get(name)
    of: Any = view or written or getattr(platform_types, f"{name}View", None) or getattr(region_types, f"{name}View")
    return serializer_for(of)
