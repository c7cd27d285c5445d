"""JSON of requests and files: strict and bounded, with a fault for a duplicate key."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from holdfast.api.serialization.field_errors import FieldErrors, InvalidDocument


def decoder(faults: FieldErrors) -> json.JSONDecoder:
    """Return a decoder that adds a fault for a duplicate key and raises `ValueError` for NaN and infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = sorted(key for key, _ in pairs)
            twice = next(key for key, after in pairwise(keys) if key == after)
            faults.add("", f"{twice[:64]!r} appears twice in one map")
        return found

    return json.JSONDecoder(object_pairs_hook=once, parse_constant=_no_number)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def parse_json(raw: bytes) -> Any:
    """Return the tree in these bytes. Raise `InvalidDocument` if they are not JSON or not UTF-8, have a duplicate key,
    or are nested too deep."""
    faults = FieldErrors()
    try:
        tree = decoder(faults).decode(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        faults.add("", f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except UnicodeDecodeError as error:
        faults.add("", f"not UTF-8 at byte {error.start}")
    except ValueError as error:
        faults.add("", f"not JSON: {error}"[:200])
    except RecursionError:
        faults.add("", "nested too deep")
    else:
        if not faults.found:
            return tree
    raise InvalidDocument(faults.found)
