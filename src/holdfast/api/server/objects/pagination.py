"""Lists in pages: all pages show the state of the first.

A list with further pages stores a fork of the state, which costs only what changes meanwhile. Few forks are stored, and
each for at most a minute after its last page. A late client, or one that continues at another server, must list again.
A page can be requested again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from holdfast.api.problems import problem
from holdfast.api.server.objects import table_scan
from holdfast.api.server.request import ApiError
from holdfast.core.ledger.revision import RevisionToken
from holdfast.host.ports.clock import Clock

KEPT_MAX = 64
#: Lists of one caller: a caller that starts many lists and finishes none does not evict those of others.
KEPT_EACH = 8
KEPT_MS = 60_000


class ListSnapshot(Struct):
    """A complete list: its request and caller, the state it shows, and its rows in order.

    `is_fork`: the state is the list's own and does not change.
    """

    asked: tuple[object, ...]
    state: Any
    token: RevisionToken
    rows: list[tuple[Any, Any]]
    is_fork: bool = False
    until: int = 0


class ListSnapshots:
    """The unfinished lists of one server."""

    def __init__(self, clock: Clock, run: str) -> None:
        self._clock = clock
        #: Distinguishes this incarnation of the server from others, whose numbers mean other lists.
        self._run = run
        self._kept: OrderedDict[int, ListSnapshot] = OrderedDict()
        self._count = 0
        self._letting_go: dict[asyncio.Task[None], None] = {}

    def keep(self, listing: ListSnapshot, place: int) -> str:
        """Store a list whose next page begins at `place`; return the value of `continue`."""
        self._sweep()
        self._count += 1
        listing.until = self._clock.boot() + KEPT_MS
        self._kept[self._count] = listing
        mine = [number for number, one in self._kept.items() if one.asked[0] == listing.asked[0]]
        if len(mine) > KEPT_EACH:
            self._drop(mine[0])
        if len(self._kept) > KEPT_MAX:
            self._drop(next(iter(self._kept)))
        return self._text(self._count, place)

    def _text(self, number: int, place: int) -> str:
        return f"{self._run}.{number}.{place}"

    def take(self, text: str, asked: tuple[object, ...]) -> tuple[ListSnapshot, int, int]:
        """Return the list, its number, and where its next page begins. Raise a problem if it has expired."""
        self._sweep()
        parts = text.split(".")
        numbers = [int(part) for part in parts[1:] if part.isascii() and part.isdigit() and len(part) < 12]
        listing = self._kept.get(numbers[0]) if len(parts) == 3 and len(numbers) == 2 else None
        if parts[0] != self._run or listing is None or numbers[1] > len(listing.rows):
            raise ApiError(problem("gone", "this list has expired or is on another server: list again"))
        if listing.asked != asked:
            raise ApiError(problem("unreadable", "continue belongs to another list: send the same parameters"))
        listing.until = self._clock.boot() + KEPT_MS
        return listing, numbers[0], numbers[1]

    def on(self, number: int, place: int) -> str:
        """Return the value of `continue` for the page at `place`."""
        return self._text(number, place)

    def _sweep(self) -> None:
        now = self._clock.boot()
        for number in [number for number, listing in self._kept.items() if listing.until <= now]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self.let_go(self._kept.pop(number).state)

    def let_go(self, fork: Any) -> None:
        """Release a fork in parts: in one step it could delay all other requests."""
        task = asyncio.create_task(table_scan.release_fork(fork), name="let go of a list")
        self._letting_go[task] = None
        task.add_done_callback(self._letting_go.pop)
