"""A table looked through in parts: whoever lists a million rows holds up nobody.

    few rows  ──▶ at once, from the state as it is
    many rows ──▶ a fork of that moment ──▶ rows in parts, each filtered and sorted ──▶ merged, in parts, too

Between two parts everybody else has a turn. The fork costs nothing but what changes meanwhile, and is let go of in
parts when it is not needed any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from heapq import merge
from typing import Any

from holdfast.api.kinds import Kind
from holdfast.api.resources.tables import Found, ledger_of, rows, table_of, unordered_rows
from holdfast.core.ledger.state.ledger_state import LedgerState

#: So many rows are looked at before others have their turn, and so many are put in order at once.
AT_ONCE, SORTED_AT_ONCE = 2_000, 20_000
#: So many objects are shown before others have their turn.
SHOWN_AT_ONCE = 100

#: Whether a row is wanted, by the state, its key and itself.
Wanted = Callable[[Any, Any, Any], bool]


def is_large(kind: Kind, state: LedgerState) -> bool:
    """Whether the kind has more rows than are looked through at once."""
    is_plain = kind.name not in ("SchedulerPolicy", "Override") and ledger_of(state) in kind.ledger
    return is_plain and len(table_of(kind, state)) > AT_ONCE


def at_once(kind: Kind, state: LedgerState, wanted: Wanted) -> list[Found]:
    """The rows of a small table that are wanted, by key."""
    return [(key, one) for key, one in rows(kind, state) if wanted(state, key, one)]


async def in_parts(kind: Kind, fork: LedgerState, wanted: Wanted) -> list[Found]:
    """The rows of a large table that are wanted, by key, from a fork that nobody changes."""
    runs: list[list[Found]] = []
    part: list[Found] = []
    for number, (key, one) in enumerate(unordered_rows(kind, fork), 1):
        if wanted(fork, key, one):
            part.append((key, one))
        if number % AT_ONCE == 0:
            runs.append(sorted(part, key=_key))
            part = []
            await asyncio.sleep(0)
    runs.append(sorted(part, key=_key))
    if sum(map(len, runs)) <= SORTED_AT_ONCE:
        return sorted([one for run in runs for one in run], key=_key)
    found: list[Found] = []
    for one in merge(*runs, key=_key):
        found.append(one)
        if len(found) % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


async def shown(found: list[Found], show: Callable[[Any, Any], Any]) -> AsyncIterator[Any]:
    """These rows as objects, few at a time. Their state must not change meanwhile."""
    for number, (key, one) in enumerate(found, 1):
        yield show(key, one)
        if number % SHOWN_AT_ONCE == 0:
            await asyncio.sleep(0)


async def let_go(fork: LedgerState) -> None:
    """Free a fork in parts."""
    for _ in fork.let_go():
        await asyncio.sleep(0)


def _key(found: Found) -> Any:
    return found[0]
