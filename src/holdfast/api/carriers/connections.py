"""All connections to a process that serves, and who must leave when there are too many of them.

    accepted ──▶ a stranger, counted for its address ──a request that proved who asks──▶ that caller's
                     └─ too many of its address, or in all: the stranger that came first leaves

Whoever opens connections and leaves them has only its own to lose: a newcomer takes the place of the oldest stranger,
and to prove who one is takes one request. Those who are known are bounded by caller, so that one that is known cannot
take all there is; beyond what a process bears in all, newcomers are turned away.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from msgspec import Struct


class Most(Struct, frozen=True):
    """How many connections a process bears: in all, of one caller, and of one address before it is known who asks."""

    connections: int = 30_000
    of_caller: int = 5_000
    strangers_of_address: int = 512


class Ends(Protocol):
    """What can be ended at once, whatever it waits for: a transport of asyncio."""

    def abort(self) -> None:
        """End it."""


class Place:
    """One connection's place among all others."""

    __slots__ = ("address", "caller", "transport")

    def __init__(self, address: str, transport: Ends) -> None:
        self.address = address
        self.transport = transport
        #: Who has proven itself on it; empty: a stranger.
        self.caller = ""


class Connections:
    """The places that are taken."""

    def __init__(self, most: Most) -> None:
        self._most = most
        #: Those who are not known, oldest first; and the same by address.
        self._strangers: OrderedDict[Place, None] = OrderedDict()
        self._of_address: dict[str, OrderedDict[Place, None]] = {}
        self._of_caller: dict[str, OrderedDict[Place, None]] = {}
        self._known = 0
        #: How many had to leave for others, and how many were turned away.
        self.ended = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._known + len(self._strangers)

    def take(self, address: str, transport: Ends) -> Place | None:
        """A place for a connection that was accepted; None: there is none, not even a stranger's."""
        others = self._of_address.get(address)
        if others is not None and len(others) >= self._most.strangers_of_address:
            self._end(next(iter(others)))
        elif len(self) >= self._most.connections:
            if not self._strangers:
                self.refused += 1
                return None
            self._end(next(iter(self._strangers)))
        place = Place(address, transport)
        self._strangers[place] = None
        self._of_address.setdefault(address, OrderedDict())[place] = None
        return place

    def know(self, place: Place, caller: str) -> None:
        """A request on it has proven who asks. Too many of one caller: that caller's first one leaves."""
        if place.caller or place not in self._strangers:
            return
        self._forget_stranger(place)
        mine = self._of_caller.setdefault(caller, OrderedDict())
        if len(mine) >= self._most.of_caller:
            self._end(next(iter(mine)))
            mine = self._of_caller.setdefault(caller, OrderedDict())
        place.caller = caller
        mine[place] = None
        self._known += 1

    def leave(self, place: Place) -> None:
        """It is gone."""
        if place in self._strangers:
            self._forget_stranger(place)
            return
        mine = self._of_caller.get(place.caller)
        if mine is not None and place in mine:
            del mine[place]
            self._known -= 1
            if not mine:
                del self._of_caller[place.caller]

    def _end(self, place: Place) -> None:
        self.leave(place)
        self.ended += 1
        place.transport.abort()

    def _forget_stranger(self, place: Place) -> None:
        del self._strangers[place]
        others = self._of_address[place.address]
        del others[place]
        if not others:
            del self._of_address[place.address]
