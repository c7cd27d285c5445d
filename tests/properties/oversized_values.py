"""What no ledger takes, in its plainest form: texts and lists that are too long, as far as programs draw them."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.platform.commands import Assign, PutWorkload
from holdfast.core.region.commands import Propose

#: By field: the most that differs from what others have. What regions are shipped has none.
LISTS = {
    "labels": 64,
    "taints": 64,
    "tenancy": 64,
    "devices": 64,
    "facts": 64,
    "denials": 200,
    "puts": 1 << 30,
    "gone": 1 << 30,
}
TEXTS = {"note": 1_000, "reason": 1_000, "message": 4_096, "address": 4_096, "key": 4_096}


def excess_of(command: Any) -> Code | None:
    """Why a command is refused before anybody looks at what it means."""
    for name in command.__struct_fields__:
        value = getattr(command, name)
        most = 100_000 if isinstance(command, Assign) else LISTS.get(name, 1_000)
        if isinstance(value, tuple) and len(value) > most:
            return Code.TOO_LARGE
        if isinstance(value, str) and len(value) > TEXTS.get(name, 256):
            return Code.MALFORMED
    if isinstance(command, Propose) and any(len(group.placements) > 1_000 for group in command.groups):
        return Code.TOO_LARGE
    if isinstance(command, PutWorkload) and any(len(word) > 32_768 for word in command.workload.spec.template.command):
        return Code.MALFORMED
    return None
