"""Lists in pages: all pages show the state of the first. Rows are scanned in parts, so that a list of a million rows
does not delay other requests.

A list with further pages stores a fork of the state, which costs only what changes meanwhile. Few forks are stored, and
each for at most a minute after its last page. A late client, or one that continues at another server, must list again.
A page can be requested again.

few rows  ──▶ at once, from the current state
    many rows ──▶ a fork of that state ──▶ rows in parts, each filtered and sorted ──▶ merged, in parts, too

Other requests run between two parts. The fork costs only what changes meanwhile, and is released in parts.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from heapq import merge
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import ResourceKind
from holdfast.api.problems import problem
from holdfast.api.resources.tables import KeyedRow, iter_rows, iter_rows_unordered, ledger_of, table_of
from holdfast.api.server.request import ApiError
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.ports.clock import Clock

KEPT_MAX = 64
#: Lists of one caller: a caller that starts many lists and finishes none does not evict those of others.
KEPT_EACH = 8
KEPT_MS = 60_000
#: Rows that are scanned in one turn, and rows that are sorted in one turn.
ROWS_PER_TURN, ROWS_SORTED_PER_TURN = 2_000, 20_000
#: Objects that are rendered in one turn.
OBJECTS_PER_TURN = 100


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
        task = asyncio.create_task(release_fork(fork), name="let go of a list")
        self._letting_go[task] = None
        task.add_done_callback(self._letting_go.pop)


#: Whether a row belongs to the result, by state, key and row.
RowPredicate = Callable[[Any, Any, Any], bool]


def is_large(kind: ResourceKind, state: LedgerState) -> bool:
    """Whether the kind has more rows than one turn scans."""
    is_plain = kind.name not in ("SchedulerPolicy", "Override") and ledger_of(state) in kind.ledger
    return is_plain and len(table_of(kind, state)) > ROWS_PER_TURN


def scan_at_once(kind: ResourceKind, state: LedgerState, wanted: RowPredicate) -> list[KeyedRow]:
    """Return the matching rows of a small table, sorted by key."""
    return [(key, one) for key, one in iter_rows(kind, state) if wanted(state, key, one)]


async def scan_in_parts(kind: ResourceKind, fork: LedgerState, wanted: RowPredicate) -> list[KeyedRow]:
    """Return the matching rows of a large table, sorted by key, from a fork that does not change."""
    runs: list[list[KeyedRow]] = []
    part: list[KeyedRow] = []
    for number, (key, one) in enumerate(iter_rows_unordered(kind, fork), 1):
        if wanted(fork, key, one):
            part.append((key, one))
        if number % ROWS_PER_TURN == 0:
            runs.append(sorted(part, key=_key))
            part = []
            await asyncio.sleep(0)
    runs.append(sorted(part, key=_key))
    if sum(map(len, runs)) <= ROWS_SORTED_PER_TURN:
        return sorted([one for run in runs for one in run], key=_key)
    found: list[KeyedRow] = []
    for one in merge(*runs, key=_key):
        found.append(one)
        if len(found) % ROWS_PER_TURN == 0:
            await asyncio.sleep(0)
    return found


async def render_in_parts(found: list[KeyedRow], show: Callable[[Any, Any], Any]) -> AsyncIterator[Any]:
    """Yield these rows as objects, a few per turn. Their state must not change meanwhile."""
    for number, (key, one) in enumerate(found, 1):
        yield show(key, one)
        if number % OBJECTS_PER_TURN == 0:
            await asyncio.sleep(0)


async def release_fork(fork: LedgerState) -> None:
    for _ in fork.release():
        await asyncio.sleep(0)


def _key(found: KeyedRow) -> Any:
    return found[0]
