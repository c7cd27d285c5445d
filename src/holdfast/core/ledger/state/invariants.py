"""The shape of an invariant, and the two checks: a full scan of a state, and a scan of one batch.

    before --overlay, fold--> after --check_batch--> violations of this batch     costs what the batch touched
                                   \\--merge, check--> violations anywhere         costs what the state holds

A ledger writes each predicate once, over a *scan*: rows to check, and sums to compare with them. A full scan has all
rows and recomputed sums. A batch scan has the written rows and their neighbors, and changes of sums that were right
before. So a batch scan is as sound as the state before the batch. A violation is found in the batch that causes it, or
by the next full scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.core.ledger.state.ledger_state import LedgerState, S

P = TypeVar("P")


class InvariantKind(StrEnum):
    """Always: it holds in every state. At commit: a fact from outside may break it. It is then an open breach, which
    never grows."""

    ALWAYS = "always"
    AT_COMMIT = "at commit"


class Coordination(StrEnum):
    """The means that enforces an invariant: the ledger's order, an escrow, only a hint, or none since updates merge."""

    LEDGER = "needs the ledger"
    ESCROW = "escrow"
    HINT = "hint"
    MERGEABLE = "mergeable"


class BatchDiff(Generic[S]):
    """A batch folded on an overlay and not merged yet: the states before and after, and the changed rows."""

    def __init__(self, before: S, after: S) -> None:
        self.before = before
        self.after = after
        self.touched = after.changed_keys()
        self._scan: dict[Any, Any] = {}

    def rows(self, table: str) -> Iterator[tuple[Any, Any, Any]]:
        """Yield each written row: its key, old value and new value; None for a missing row."""
        keys = self.touched.get(table)
        if keys:  # an untouched table is not read, so that it needs no overlay
            old, new = self.before.table(table), self.after.table(table)
            for key in keys:
                yield key, old.get(key), new.get(key)

    def scan(self, make: Callable[[BatchDiff[S]], P]) -> P:
        """Return the scan of this batch, made once for all invariants of a ledger."""
        if make not in self._scan:
            self._scan[make] = make(self)
        found: P = self._scan[make]
        return found


class BatchScan(Generic[S]):
    """The rows to check after a batch: those that were written, and the neighbors that a ledger includes."""

    def __init__(self, change: BatchDiff[S]) -> None:
        self.change = change
        self.before = change.before
        self.state = change.after
        self._keys: dict[str, dict[Any, None]] = {name: dict.fromkeys(keys) for name, keys in change.touched.items()}

    def include(self, table: str, keys: Iterable[Any]) -> None:
        """Add these rows to the scan."""
        self._keys.setdefault(table, {}).update(dict.fromkeys(keys))

    def keys(self, table: str) -> list[Any]:
        """Return the keys of the rows to check, in the order in which they were added."""
        return list(self._keys.get(table, ()))

    def rows(self, table: str) -> Iterator[tuple[Any, Any]]:
        """Yield the rows to check, with their current values."""
        keys = self._keys.get(table)
        if keys:
            yield from present(self.state, table, list(keys))


def present(state: LedgerState, table: str, keys: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield those of the named rows that exist."""
    row_of = state.table(table).get
    for key in keys:
        row = row_of(key)
        if row is not None:
            yield key, row


class Invariant(Struct, Generic[S], frozen=True):
    """An invariant. Each predicate yields a sentence per violation: `violations` in a state, `near` in a batch."""

    id: str
    sentence: str
    kind: InvariantKind
    needs: Coordination
    violations: Callable[[S], Iterator[str]]
    near: Callable[[BatchDiff[S]], Iterator[str]]


class Violation(Struct, frozen=True):
    """A violated invariant, and the sentence that describes where."""

    invariant: str
    detail: str


def check(state: S, invariants: Iterable[Invariant[S]]) -> list[Violation]:
    return [found for inv in invariants for found in _violations(inv.id, inv.violations, state)]


def check_batch(before: S, after: S, invariants: Iterable[Invariant[S]]) -> list[Violation]:
    """Return every violation that this overlay of `before` can have caused."""
    change = BatchDiff(before, after)
    return [found for inv in invariants for found in _violations(inv.id, inv.near, change)]


def _violations(name: str, predicate: Callable[[P], Iterator[str]], where: P) -> Iterator[Violation]:
    """Yield a predicate's findings. A missing row that it needs is a finding too, and ends this predicate only."""
    try:
        for detail in predicate(where):
            yield Violation(name, detail)
    except LookupError as gone:
        yield Violation(name, f"cannot be checked: {gone} is missing")


def miscounts(kept: Counter[Any], rows: Counter[Any]) -> Iterator[str]:
    """Yield each stored count that did not change by the same amount as its rows."""
    for what in {**kept, **rows}:
        if kept[what] != rows[what]:
            yield f"{' '.join(map(str, what))} changed by {kept[what]}, its rows by {rows[what]}"
