"""A plugin that reserves some slots before it binds them. No built-in plugin of Holdfast does so."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins

#: One in this many templates is reserved first; one in this many of its slots fails its first binding.
RESERVED_ONE_IN = 4
UNBOUND_ONE_IN = 8


class ReserveThenBind:
    """Reserves the slots of some templates first, and refuses the first binding of some of these slots."""

    name, version = "two-steps", "1"

    def __init__(self) -> None:
        self._doubted: set[SlotKey] = set()

    def waits(self, ask: SlotAsk) -> bool:
        """Decide by the template digest."""
        return int(ask.digest[:4], 16) % RESERVED_ONE_IN == 0

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        """Decide by the slot and its node."""
        if slot in self._doubted or (slot[1] + node) % UNBOUND_ONE_IN:
            return ""
        self._doubted.add(slot)
        return "it thought better of it"


def with_reserve_then_bind() -> Plugins:
    """Return the plugins of one incarnation of a scheduler."""
    two_steps = ReserveThenBind()
    return replace(BUILT_IN, binds=(two_steps,), reserves=(two_steps,))
