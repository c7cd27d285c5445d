"""All connections to a server, and which one is closed when there are too many.

    accepted ──▶ unauthenticated, counted for its address ──an authenticated request──▶ counted for the caller
                     └─ too many of its address, or in total: the oldest unauthenticated connection is closed

A client that opens connections and leaves them unused loses only its own: a new connection replaces the oldest
unauthenticated one, and one request authenticates. Each caller has a limit, so that one caller cannot use all
connections. At the total limit, the caller with the most connections loses its oldest. So neither a few callers
together nor a token for many principals can use them all. Only if no caller has many connections are new ones rejected.

Buffers of incomplete requests and unread replies are limited in the same way: for each caller, and for all
unauthenticated connections together. Above the limit, the connection that has been awaited longest is closed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from msgspec import Struct


class ConnectionCaps(Struct, frozen=True):
    """Limits of connections: in total, for each caller, and for each address before authentication. Limits of buffers:
    for each caller, and for all unauthenticated connections. `many` is the number above which a caller has many."""

    connections: int = 30_000
    of_caller: int = 5_000
    strangers_of_address: int = 512
    bytes_of_caller: int = 256 << 20
    bytes_of_strangers: int = 64 << 20
    many: int = 100


class Abortable(Protocol):
    """A transport of asyncio, which can be closed at once."""

    def abort(self) -> None:
        """Close without waiting."""


class ConnectionSlot:
    """One connection in the registry."""

    __slots__ = ("address", "caller", "coming", "going", "transport")

    def __init__(self, address: str, transport: Abortable) -> None:
        self.address = address
        self.transport = transport
        #: The authenticated caller; empty: unauthenticated.
        self.caller = ""
        #: Buffered bytes of an incomplete request, and of unread replies.
        self.coming = self.going = 0


class ConnectionRegistry:
    """All open connections."""

    def __init__(self, most: ConnectionCaps) -> None:
        self._most = most
        #: Unauthenticated connections, oldest first; and the same by address.
        self._strangers: OrderedDict[ConnectionSlot, None] = OrderedDict()
        self._of_address: dict[str, OrderedDict[ConnectionSlot, None]] = {}
        self._of_caller: dict[str, OrderedDict[ConnectionSlot, None]] = {}
        self._known = 0
        self._with_many: dict[str, None] = {}
        #: By caller: connections with buffered bytes, the longest awaited first, and the sum of these bytes. All
        #: unauthenticated connections count as one caller.
        self._waited_for: dict[str, OrderedDict[ConnectionSlot, int]] = {}
        self._bytes: dict[str, int] = {}
        #: Connections that were closed for others, and connections that were rejected.
        self.ended = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._known + len(self._strangers)

    def take(self, address: str, transport: Abortable) -> ConnectionSlot | None:
        """Add an accepted connection; None: it is rejected."""
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
        """Return the oldest connection of the caller with the most connections; None: no caller has many."""
        caller = max(self._with_many, key=lambda one: len(self._of_caller[one]), default=None)
        return None if caller is None else next(iter(self._of_caller[caller]))

    def know(self, slot: ConnectionSlot, caller: str) -> None:
        """Set the authenticated caller. A caller with too many connections loses its oldest."""
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
        """Update the buffered bytes. A caller with too many loses the connection that has been awaited longest."""
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
            waited_for[slot] = size  # keeps its position in the order
        else:
            waited_for.pop(slot, None)
        if not waited_for:
            del self._waited_for[slot.caller], self._bytes[slot.caller]

    def leave(self, slot: ConnectionSlot) -> None:
        """Remove a closed connection."""
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
