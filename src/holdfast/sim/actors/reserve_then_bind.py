"""A plugin by which some slots are reserved first and bound later: none that comes with Holdfast has that in mind."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins

#: Of so many kinds of slots one is reserved first, and of so many slots of it one is not bound after all.
RESERVED_ONE_IN = 4
UNBOUND_ONE_IN = 8


class ReserveThenBind:
    """Some kinds of slots are reserved first; of those, some are not bound at their first try."""

    name, version = "two-steps", "1"

    def __init__(self) -> None:
        self._doubted: set[SlotKey] = set()

    def waits(self, ask: SlotAsk) -> bool:
        """By what is asked for."""
        return int(ask.digest[:4], 16) % RESERVED_ONE_IN == 0

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        """By the slot and its node."""
        if slot in self._doubted or (slot[1] + node) % UNBOUND_ONE_IN:
            return ""
        self._doubted.add(slot)
        return "it thought better of it"


def with_reserve_then_bind() -> Plugins:
    """The plugins of one life of a scheduler."""
    two_steps = ReserveThenBind()
    return replace(BUILT_IN, binds=(two_steps,), reserves=(two_steps,))
