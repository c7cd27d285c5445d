"""All connections to a process that serves, and who must leave when there are too many of them.

    accepted ──▶ a stranger, counted for its address ──a request that proved who asks──▶ that caller's
                     └─ too many of its address, or in all: the stranger that came first leaves

Whoever opens connections and leaves them has only its own to lose: a newcomer takes the place of the oldest stranger,
and to prove who one is takes one request. Those who are known are bounded by caller, so that one that is known cannot
take all there is. Neither can a few together, or one that speaks for many: beyond what a process bears in all, whoever
has the most leaves with its first one, and only where nobody has many are newcomers turned away.

The same goes for what is kept of requests that have not arrived in full, and of answers that nobody reads: there is so
much of it for each caller, and for all strangers together. Where that is too little, whoever keeps us waiting for
longest leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from msgspec import Struct


class ConnectionCaps(Struct, frozen=True):
    """How many connections a process bears: in all, of one caller, and of one address before it is known who asks; how
    much it keeps of what is on its way, of one caller and of all strangers; and how many of one caller are many."""

    connections: int = 30_000
    of_caller: int = 5_000
    strangers_of_address: int = 512
    bytes_of_caller: int = 256 << 20
    bytes_of_strangers: int = 64 << 20
    many: int = 100


class Abortable(Protocol):
    """What can be ended at once, whatever it waits for: a transport of asyncio."""

    def abort(self) -> None:
        """End it."""


class ConnectionSlot:
    """One connection's place among all others."""

    __slots__ = ("address", "caller", "coming", "going", "transport")

    def __init__(self, address: str, transport: Abortable) -> None:
        self.address = address
        self.transport = transport
        #: Who has proven itself on it; empty: a stranger.
        self.caller = ""
        #: How much is kept of a request that has not arrived in full, and of answers that were not read.
        self.coming = self.going = 0


class ConnectionRegistry:
    """The places that are taken."""

    def __init__(self, most: ConnectionCaps) -> None:
        self._most = most
        #: Those who are not known, oldest first; and the same by address.
        self._strangers: OrderedDict[ConnectionSlot, None] = OrderedDict()
        self._of_address: dict[str, OrderedDict[ConnectionSlot, None]] = {}
        self._of_caller: dict[str, OrderedDict[ConnectionSlot, None]] = {}
        self._known = 0
        #: Callers who have many.
        self._with_many: dict[str, None] = {}
        #: By caller: of whom something is kept that is on its way, who has kept us waiting for longest first; and how
        #: much that is. Strangers are one caller here.
        self._waited_for: dict[str, OrderedDict[ConnectionSlot, int]] = {}
        self._bytes: dict[str, int] = {}
        #: How many had to leave for others, and how many were turned away.
        self.ended = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._known + len(self._strangers)

    def take(self, address: str, transport: Abortable) -> ConnectionSlot | None:
        """A place for a connection that was accepted; None: there is none, not even a stranger's."""
        others = self._of_address.get(address)
        if others is not None and len(others) >= self._most.strangers_of_address:
            self._end(next(iter(others)))
        elif len(self) >= self._most.connections:
            leaving = next(iter(self._strangers), None) or self._first_of_most()
            if leaving is None:
                self.refused += 1
                return None
            self._end(leaving)
        place = ConnectionSlot(address, transport)
        self._strangers[place] = None
        self._of_address.setdefault(address, OrderedDict())[place] = None
        return place

    def _first_of_most(self) -> ConnectionSlot | None:
        """The first connection of whoever has the most of them; None: nobody has many."""
        caller = max(self._with_many, key=lambda one: len(self._of_caller[one]), default=None)
        return None if caller is None else next(iter(self._of_caller[caller]))

    def know(self, slot: ConnectionSlot, caller: str) -> None:
        """A request on it has proven who asks. Too many of one caller: that caller's first one leaves."""
        if slot.caller or slot not in self._strangers:
            return
        self._forget_stranger(slot)
        self._weigh(slot, 0)
        mine = self._of_caller.setdefault(caller, OrderedDict())
        if len(mine) >= self._most.of_caller:
            self._end(next(iter(mine)))
            mine = self._of_caller.setdefault(caller, OrderedDict())
        slot.caller = caller
        mine[slot] = None
        self._known += 1
        if len(mine) > self._most.many:
            self._with_many[caller] = None
        self.weigh(slot)

    def weigh(self, slot: ConnectionSlot) -> None:
        """What is kept of it has changed. Too much of one caller: whoever has kept us waiting for longest leaves."""
        if slot not in self._strangers and slot not in self._of_caller.get(slot.caller, ()):
            return
        self._weigh(slot, slot.coming + slot.going)
        most = self._most.bytes_of_caller if slot.caller else self._most.bytes_of_strangers
        while self._bytes.get(slot.caller, 0) > most and len(waited_for := self._waited_for[slot.caller]) > 1:
            self._end(next(iter(waited_for)))

    def _weigh(self, slot: ConnectionSlot, size: int) -> None:
        waited_for = self._waited_for.get(slot.caller)
        if waited_for is None:
            if not size:
                return
            waited_for = self._waited_for[slot.caller] = OrderedDict()
        self._bytes[slot.caller] = self._bytes.get(slot.caller, 0) + size - waited_for.get(slot, 0)
        if size:
            waited_for[slot] = size  # where it was in the row
        else:
            waited_for.pop(slot, None)
        if not waited_for:
            del self._waited_for[slot.caller], self._bytes[slot.caller]

    def leave(self, slot: ConnectionSlot) -> None:
        """It is gone."""
        self._weigh(slot, 0)
        if slot in self._strangers:
            self._forget_stranger(slot)
            return
        mine = self._of_caller.get(slot.caller)
        if mine is not None and slot in mine:
            del mine[slot]
            self._known -= 1
            if len(mine) <= self._most.many:
                self._with_many.pop(slot.caller, None)
            if not mine:
                del self._of_caller[slot.caller]

    def _end(self, slot: ConnectionSlot) -> None:
        self.leave(slot)
        self.ended += 1
        slot.transport.abort()

    def _forget_stranger(self, slot: ConnectionSlot) -> None:
        del self._strangers[slot]
        others = self._of_address[slot.address]
        del others[slot]
        if not others:
            del self._of_address[slot.address]
