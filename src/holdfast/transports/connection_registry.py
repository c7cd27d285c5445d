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

    def know(self, place: ConnectionSlot, caller: str) -> None:
        """A request on it has proven who asks. Too many of one caller: that caller's first one leaves."""
        if place.caller or place not in self._strangers:
            return
        self._forget_stranger(place)
        self._weigh(place, 0)
        mine = self._of_caller.setdefault(caller, OrderedDict())
        if len(mine) >= self._most.of_caller:
            self._end(next(iter(mine)))
            mine = self._of_caller.setdefault(caller, OrderedDict())
        place.caller = caller
        mine[place] = None
        self._known += 1
        if len(mine) > self._most.many:
            self._with_many[caller] = None
        self.weigh(place)

    def weigh(self, place: ConnectionSlot) -> None:
        """What is kept of it has changed. Too much of one caller: whoever has kept us waiting for longest leaves."""
        if place not in self._strangers and place not in self._of_caller.get(place.caller, ()):
            return
        self._weigh(place, place.coming + place.going)
        most = self._most.bytes_of_caller if place.caller else self._most.bytes_of_strangers
        while self._bytes.get(place.caller, 0) > most and len(waited_for := self._waited_for[place.caller]) > 1:
            self._end(next(iter(waited_for)))

    def _weigh(self, place: ConnectionSlot, size: int) -> None:
        waited_for = self._waited_for.get(place.caller)
        if waited_for is None:
            if not size:
                return
            waited_for = self._waited_for[place.caller] = OrderedDict()
        self._bytes[place.caller] = self._bytes.get(place.caller, 0) + size - waited_for.get(place, 0)
        if size:
            waited_for[place] = size  # where it was in the row
        else:
            waited_for.pop(place, None)
        if not waited_for:
            del self._waited_for[place.caller], self._bytes[place.caller]

    def leave(self, place: ConnectionSlot) -> None:
        """It is gone."""
        self._weigh(place, 0)
        if place in self._strangers:
            self._forget_stranger(place)
            return
        mine = self._of_caller.get(place.caller)
        if mine is not None and place in mine:
            del mine[place]
            self._known -= 1
            if len(mine) <= self._most.many:
                self._with_many.pop(place.caller, None)
            if not mine:
                del self._of_caller[place.caller]

    def _end(self, place: ConnectionSlot) -> None:
        self.leave(place)
        self.ended += 1
        place.transport.abort()

    def _forget_stranger(self, place: ConnectionSlot) -> None:
        del self._strangers[place]
        others = self._of_address[place.address]
        del others[place]
        if not others:
            del self._of_address[place.address]
