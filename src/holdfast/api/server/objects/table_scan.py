"""Scans of a table in parts, so that a list of a million rows does not delay other requests.

    few rows  ──▶ at once, from the current state
    many rows ──▶ a fork of that state ──▶ rows in parts, each filtered and sorted ──▶ merged, in parts, too

Other requests run between two parts. The fork costs only what changes meanwhile, and is released in parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from heapq import merge
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.tables import KeyedRow, iter_rows, iter_rows_unordered, ledger_of, table_of
from holdfast.core.ledger.state.ledger_state import LedgerState

#: Rows that are scanned in one turn, and rows that are sorted in one turn.
ROWS_PER_TURN, ROWS_SORTED_PER_TURN = 2_000, 20_000
#: Objects that are rendered in one turn.
OBJECTS_PER_TURN = 100

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
    """Release a fork in parts."""
    for _ in fork.release():
        await asyncio.sleep(0)


def _key(found: KeyedRow) -> Any:
    return found[0]
