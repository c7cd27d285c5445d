"""JSON schemas of kinds and of commands."""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast.api.resources import platform_types, region_types, reported_types
from holdfast.api.resources.command_catalog import rules
from holdfast.api.resources.writable import WRITTEN
from holdfast.api.serialization.json_schema import DIALECT, Schema, Schemas
from holdfast.api.serialization.registry import fields_of, form_of, written_form_of
from holdfast.api.serialization.scalars import Form


@cache
def kind_schema(name: str, *, shown: bool = False) -> Schema:
    """The schema of a kind, complete in itself: as it is written where people write it, or as it is shown."""
    schemas = Schemas("#/$defs/")
    ref: str = schemas.of(form_of_kind(name, shown=shown))["$ref"]
    title = ref.removeprefix(schemas.refs)
    own = schemas.named.pop(title)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:schema:{title}", "title": title, **own, "$defs": schemas.named}


@cache
def command_schema(ledger: str, tag: str) -> Schema:
    """The schema of a command's fields, complete in itself."""
    command: Any = rules(ledger)[tag].command
    schemas = Schemas("#/$defs/")
    schemas.of(fields_of(command))
    own = schemas.named.pop(command.__name__)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:command:{tag}", "title": tag, **own, "$defs": schemas.named}


def form_of_kind(name: str, *, shown: bool = False) -> Form:
    """The form of a kind: as it is written, unless nobody writes it or it is asked for as it is shown."""
    written: Any = WRITTEN.get(name)
    if written is not None and not shown:
        return written_form_of(written)
    of: Any = reported_types.SHOWN.get(name) or written or getattr(platform_types, name, None)
    of = of or getattr(region_types, name)
    return form_of(of)
