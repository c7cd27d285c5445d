"""Resources as users write them: a map such as `{cpu: 500m, memory: 4Gi, gpu: 1, licenses: 2}`.

A resource that is not named is 0. cpu and gpu are counted in thousandths (`500m`, 0.5, 2), memory and disk in bytes
(`512Mi`, `4Gi`); every other key is an extended resource and an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from holdfast.api.serialization.field_errors import FieldErrors, child_pointer
from holdfast.api.serialization.scalars import INVALID, QUANTITY_CHARS, IntSerializer, TextSerializer, in_range
from holdfast.api.spelling import nearest
from holdfast.core.model.values.quantities import BadQuantity, format_cpu, format_memory, parse_cpu, parse_memory
from holdfast.core.model.values.resources import Resources

COUNTED_PATTERN = r"^-?([0-9]{1,19}m|[0-9]{1,19}(\.[0-9]{1,3}0{0,6})?)$"
SIZE_PATTERN = r"^-?[0-9]{1,19}(\.[0-9]{1,3}0{0,6})?(Ki|Mi|Gi|Ti|K|M|G|T)$"

_TEXT, _WHOLE = TextSerializer(), IntSerializer()
_COUNTED, _SIZES = ("cpu", "gpu"), ("memory", "disk")
BUILT_IN = ("cpu", "memory", "disk", "gpu")


def mistaken_for(name: str) -> str:
    """Return the built-in resource that was probably meant; empty if the name is built in or plausible as an extended
    one."""
    if name in BUILT_IN:
        return ""
    near = nearest(name, BUILT_IN)
    # Short words resemble each other by chance: only a difference of about one letter counts as a typing error.
    return near if near and (name.lower() == near or (abs(len(name) - len(near)) <= 1 and _alike(name, near))) else ""


def _alike(name: str, near: str) -> bool:
    import difflib

    return difflib.SequenceMatcher(None, name.lower(), near).ratio() >= 0.8


class ResourcesSerializer:
    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, dict):
            faults.expected(at, "a map of resources", tree, "such as {cpu: 500m, memory: 4Gi}")
            return INVALID
        before = len(faults.found)
        known: dict[str, Any] = {}
        extended: dict[str, Any] = {}
        for name, amount in tree.items():
            if _TEXT.parse(name, at, faults) is INVALID:
                continue
            where = child_pointer(at, name)
            if name in BUILT_IN:
                known[name] = _counted(amount, where, faults) if name in _COUNTED else _size(amount, where, faults)
            elif not name or mistaken_for(name):
                near = mistaken_for(name)
                faults.add(where, f"there is no resource {name!r}", f"did you mean {near}?" if near else "")
            else:
                extended[name] = _WHOLE.parse(amount, where, faults)
        if len(faults.found) > before:
            return INVALID
        return Resources(**known, extended=tuple(sorted(pair for pair in extended.items() if pair[1])))

    def render(self, value: Any, _secrets: bool = False, /) -> Any:
        built_in = (
            ("cpu", _show_counted(value.cpu)),
            ("memory", _show_size(value.memory)),
            ("disk", _show_size(value.disk)),
            ("gpu", _show_counted(value.gpu)),
        )
        shown = {name: amount for name, amount in built_in if amount}
        # An extended resource never appears as a built-in one, whatever name an agent gave it.
        shown.update((name, amount) for name, amount in value.extended if amount and name not in BUILT_IN)
        return shown


def _counted(tree: object, at: str, faults: FieldErrors) -> Any:
    what = "an amount such as 500m, 2 or 0.5"
    if isinstance(tree, int) and not isinstance(tree, bool):
        return in_range(tree * 1000, tree, at, faults)
    if isinstance(tree, float) and math.isfinite(tree):
        return _parsed(parse_cpu, repr(tree), tree, at, faults, what)
    return _parsed(parse_cpu, tree, tree, at, faults, what)


def _size(tree: object, at: str, faults: FieldErrors) -> Any:
    if isinstance(tree, int | float) and not isinstance(tree, bool):
        if tree == 0:
            return 0
        faults.expected(at, "an amount with its unit", tree, "such as 512Mi, 4Gi or 2G")
        return INVALID
    return _parsed(parse_memory, tree, tree, at, faults, "an amount such as 512Mi, 4Gi or 2G")


def _parsed(parse: Callable[[str], int], text: object, came: object, at: str, faults: FieldErrors, what: str) -> Any:
    if not isinstance(text, str) or len(text) > QUANTITY_CHARS:
        faults.expected(at, what, came)
        return INVALID
    sign, plain = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return in_range(sign * parse(plain), came, at, faults)
    except BadQuantity:
        faults.expected(at, what, came)
        return INVALID


def _show_counted(milli: int) -> Any:
    if milli % 1000 == 0:
        return milli // 1000
    return format_cpu(milli) if milli > 0 else f"-{format_cpu(-milli)}"


def _show_size(mib: int) -> Any:
    if mib == 0:
        return 0
    return format_memory(mib) if mib > 0 else f"-{format_memory(-mib)}"
