"""Defaults of documents, kept for ever: they are not written, and so they are a part of what was written.

`make golden` adds those of new fields to `tests/golden/defaults.json`, and changes none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.model.values.structs import Document

PAGE = Path(__file__).parents[2] / "golden" / "defaults.json"

#: By document and field: the default as it is written.
Defaults = dict[str, dict[str, Any]]


def documents(base: type[Document] = Document) -> list[type[Document]]:
    """Every document of the core."""
    found = [one for one in base.__subclasses__() if one.__module__.startswith("holdfast.core.")]
    return sorted({*found, *(deeper for one in found for deeper in documents(one))}, key=lambda one: one.__name__)


def defaults_now() -> Defaults:
    """What the code says today."""
    found = {
        one.__name__: {field.encode_name: field.default for field in msgspec.structs.fields(one) if not field.required}
        for one in documents()
    }
    return msgspec.json.decode(msgspec.json.encode(found), type=Defaults)


def defaults_kept() -> Defaults:
    """What was ever written by."""
    return msgspec.json.decode(PAGE.read_bytes(), type=Defaults) if PAGE.exists() else {}


def keep_defaults() -> None:
    """Add what is new."""
    now, kept = defaults_now(), defaults_kept()
    everything = {name: {**now.get(name, {}), **kept.get(name, {})} for name in sorted({*now, *kept})}
    PAGE.write_text(json.dumps(everything, indent=2, sort_keys=True) + "\n", encoding="utf-8")
