"""Amounts in the form of operators and tenants, parsed and formatted.

Inside Holdfast cpu is an integer of milli-cpu, memory and disk of MiB, time of milliseconds. Outside they are written
`500m`, `4Gi`, `1h30m`. Every function rejects an invalid text with `BadQuantity`, which names the text and the accepted
forms; none of them guesses.
"""

from __future__ import annotations

import re

_MIB = 1024 * 1024
_MEMORY_UNITS = {
    "Ki": 1024,
    "Mi": _MIB,
    "Gi": 1024 * _MIB,
    "Ti": 1024 * 1024 * _MIB,
    "K": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
}
_TIME_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: Enough digits for every 63-bit amount.
_DECIMAL = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?")
_MEMORY = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)(Ki|Mi|Gi|Ti|K|M|G|T)")
_DURATION = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


class BadQuantity(ValueError):
    """A text is not the quantity it should be."""

    def __init__(self, text: str, expected: str) -> None:
        super().__init__(f"{text!r} is not {expected}")
        self.text = text
        self.expected = expected


def _thousandths(text: str) -> int | None:
    """Return the decimal number in thousandths, or None if it is no decimal or more precise than that."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match.group(1), match.group(2) or ""
    if fraction[3:].strip("0"):
        return None
    return int(whole) * 1000 + int((fraction + "000")[:3])


def parse_cpu(text: str) -> int:
    """Return milli-cpu from `500m`, `2` or `0.5`."""
    if text.endswith("m") and text[:-1].isascii() and text[:-1].isdigit() and len(text) <= 20:
        return int(text[:-1])
    milli = _thousandths(text)
    if milli is None:
        raise BadQuantity(text, "an amount of cpu such as 500m, 2 or 0.5")
    return milli


def parse_memory(text: str) -> int:
    """Return MiB from `512Mi`, `4Gi`, `1.5Gi` or `2G`; a fraction of a MiB is rounded up."""
    match = _MEMORY.fullmatch(text)
    number = _thousandths(match.group(1)) if match else None
    if match is None or number is None:
        raise BadQuantity(text, "an amount of memory or disk such as 512Mi, 4Gi or 2G")
    size_bytes = number * _MEMORY_UNITS[match.group(2)]
    return -(-size_bytes // (1000 * _MIB))


def parse_duration(text: str) -> int:
    """Return milliseconds from `30s`, `1h30m` or `500ms`."""
    total, position = 0, 0
    for match in _DURATION.finditer(text):
        if match.start() != position:
            break
        total += int(match.group(1)) * _TIME_UNITS[match.group(2)]
        position = match.end()
    if not text or position != len(text):
        raise BadQuantity(text, "a duration such as 30s, 5m, 1h30m or 500ms")
    return total


def format_cpu(milli: int) -> str:
    """Return the shortest text that `parse_cpu` reads back."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_memory(mib: int) -> str:
    """Return the shortest exact text that `parse_memory` reads back."""
    for unit, size_mib in (("Ti", 1024 * 1024), ("Gi", 1024)):
        if mib and mib % size_mib == 0:
            return f"{mib // size_mib}{unit}"
    return f"{mib}Mi"


def format_amount(resource: str, amount: int) -> str:
    """Return the text of an amount, in the resource's usual unit."""
    if resource in ("cpu", "gpu"):
        return format_cpu(amount)
    return format_memory(amount) if resource in ("memory", "disk") else str(amount)


def format_duration(milliseconds: int) -> str:
    """Return the shortest text that `parse_duration` reads back."""
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
