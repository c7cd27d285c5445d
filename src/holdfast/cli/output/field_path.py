"""Paths into a document, as users type them: `spec.replicas`, `{.status.ready}`, `metadata.labels['a/b']`,
`status.conditions[Ready].status`, `spec.taints[0].key`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.cli.errors import usage_error

_STEP = r"\.?([A-Za-z0-9_/-]+)|\[\s*(?:'([^']*)'|\"([^\"]*)\"|([^\]'\"]+))\s*\]"


def path_steps(path: str) -> list[str]:
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    found, place = [], 0
    step = re.compile(_STEP)
    while place < len(text):
        match = step.match(text, place)
        if match is None:
            raise usage_error(f"{path!r} is not a path", "for example spec.replicas or status.conditions[Ready].status")
        found.append(next(part for part in match.groups() if part is not None))
        place = match.end()
    return found


def value_at(document: Any, path: str) -> Any:
    """Return the value at a path, or None. In a list of conditions, `[Ready]` selects the one of that type."""
    here = document
    for step in path_steps(path):
        here = _step(here, step)
        if here is None:
            return None
    return here


def _step(here: Any, step: str) -> Any:
    if isinstance(here, Mapping):
        return here.get(step)
    if not isinstance(here, list):
        return None
    if re.fullmatch(r"-?\d+", step):
        place = int(step)
        return here[place] if -len(here) <= place < len(here) else None
    same = (one for one in here if isinstance(one, Mapping) and step.lower() in _names(one))
    return next(same, None)


def _names(item: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(item[key]).lower() for key in ("type", "name", "key") if key in item)


def conditions_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conditions of an object, wherever its kind has them."""
    found = (document.get("status") or {}).get("conditions") or []
    if isinstance(found, Mapping):
        found = found.get("conditions") or []
    return list(found)


def sort_key(value: Any) -> tuple[int, float, str]:
    """Return a sort key for values of one path: numbers and quantities by size, then texts, missing values last."""
    if value is None:
        return (3, 0.0, "")
    if isinstance(value, bool | int | float):
        return (0, float(value), "")
    text = str(value)
    amount = _amount(text)
    return (0, amount, text) if amount is not None else (1, 0.0, text)


_AMOUNT = r"(\d+(?:\.\d+)?)(m|Ki|Mi|Gi|Ti|K|M|G|T)?"
_SIZES = {"": 1.0, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SIZES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _amount(text: str) -> float | None:
    match = re.fullmatch(_AMOUNT, text)
    return float(match[1]) * _SIZES[match[2] or ""] if match else None
