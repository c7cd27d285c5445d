"""The shape of an invariant, and how a list of them is checked: everywhere, or near what a batch has written.

    before --overlay, fold--> after --check_near--> what this batch has broken     costs what the batch touched
                                   \\--merge, check--> what is broken anywhere       costs what the state holds

A ledger writes each promise once, over *places*: rows to look at and sums to hold against them. Its places are either
all rows, and sums counted anew; or the rows that a batch wrote with those next to them, and sums that were right before
and have changed by what was written. So what is near is as sound as the state before the batch: a breakage is found in
the batch that makes it, or by the next look at everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.core.ledger.state.ledger_state import LedgerState

S = TypeVar("S", bound=LedgerState)
P = TypeVar("P")


class InvariantKind(StrEnum):
    """*always*: it holds in every state. *at commit*: it may be broken from outside, is then open as a breach, and
    never grows."""

    ALWAYS = "always"
    AT_COMMIT = "at commit"


class Coordination(StrEnum):
    """What it takes to keep it: the ledger's order, an escrow, only a hint, or nothing since it merges."""

    LEDGER = "needs the ledger"
    ESCROW = "escrow"
    HINT = "hint"
    MERGEABLE = "mergeable"


class BatchDiff(Generic[S]):
    """A batch that was folded on an overlay and is not merged yet: the state before and after, and the rows between."""

    def __init__(self, before: S, after: S) -> None:
        self.before = before
        self.after = after
        self.touched = after.changed_keys()
        self._scan: dict[Any, Any] = {}

    def rows(self, table: str) -> Iterator[tuple[Any, Any, Any]]:
        """Each row that was written: its key, what it was and what it is; None where there is none."""
        keys = self.touched.get(table)
        if keys:  # otherwise the table is not asked for, and need not have a layer
            old, new = self.before.table(table), self.after.table(table)
            for key in keys:
                yield key, old.get(key), new.get(key)

    def scan(self, make: Callable[[BatchDiff[S]], P]) -> P:
        """The places that a ledger looks at after this change, found once for all its promises."""
        if make not in self._scan:
            self._scan[make] = make(self)
        found: P = self._scan[make]
        return found


class BatchScan(Generic[S]):
    """Rows to look at after a change: those that were written, and those that a ledger draws in since they lie next."""

    def __init__(self, change: BatchDiff[S]) -> None:
        self.change = change
        self.before = change.before
        self.state = change.after
        self._keys: dict[str, dict[Any, None]] = {name: dict.fromkeys(keys) for name, keys in change.touched.items()}

    def include(self, table: str, keys: Iterable[Any]) -> None:
        """Look at these rows too."""
        self._keys.setdefault(table, {}).update(dict.fromkeys(keys))

    def keys(self, table: str) -> list[Any]:
        """The keys of the rows that are looked at, in the order in which they were drawn."""
        return list(self._keys.get(table, ()))

    def rows(self, table: str) -> Iterator[tuple[Any, Any]]:
        """The rows that are looked at, as they are now."""
        keys = self._keys.get(table)
        if keys:
            yield from present(self.state, table, list(keys))


def present(state: LedgerState, table: str, keys: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Those of the named rows that are there."""
    row_of = state.table(table).get
    for key in keys:
        row = row_of(key)
        if row is not None:
            yield key, row


class Invariant(Struct, Generic[S], frozen=True):
    """A promise. Each predicate yields a sentence for each place where it does not hold: anywhere, or near a change."""

    id: str
    sentence: str
    kind: InvariantKind
    needs: Coordination
    violations: Callable[[S], Iterator[str]]
    near: Callable[[BatchDiff[S]], Iterator[str]]


class Violation(Struct, frozen=True):
    """A promise that was found broken."""

    invariant: str
    detail: str


def check(state: S, invariants: Iterable[Invariant[S]]) -> list[Violation]:
    """Every violation of every invariant in this state."""
    return [found for inv in invariants for found in _violations(inv.id, inv.violations, state)]


def check_batch(before: S, after: S, invariants: Iterable[Invariant[S]]) -> list[Violation]:
    """Every violation that this overlay of `before` can have made."""
    change = BatchDiff(before, after)
    return [found for inv in invariants for found in _violations(inv.id, inv.near, change)]


def _violations(name: str, predicate: Callable[[P], Iterator[str]], where: P) -> Iterator[Violation]:
    """What a predicate finds. A row that it needs and that is gone is a finding too, not the end of the check."""
    try:
        for detail in predicate(where):
            yield Violation(name, detail)
    except LookupError as gone:
        yield Violation(name, f"cannot be told: {gone} is not there")


def miscounts(kept: Counter[Any], rows: Counter[Any]) -> Iterator[str]:
    """Where what is kept as a count has not changed by what its rows have."""
    for what in {**kept, **rows}:
        if kept[what] != rows[what]:
            yield f"{' '.join(map(str, what))} changed by {kept[what]}, its rows by {rows[what]}"
