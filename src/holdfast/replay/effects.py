"""What each event of a log does to a state: which rows it changed, and a short digest of that.

    Watched(book, state).fold(batch) --> one effect for each event        production's own `fold` does the work

The state's tables are replaced by ones that note which rows are written. An event's effect is everything that differs
between its beginning and the next one's: rows of derived tables too, scalars, and after the last event of a command
what a repeat of it is answered. A row that was written and is as before is no change, and the order of writes does not
matter: code may do the same in another way. Where the log stands is no effect: the chain of batches covers it.

Each digest covers the one before it. Folding an event on an overlay of its own would cost more than the event does:
thirty layers are made, and most of them for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.sorted_list import SortedList

S = TypeVar("S", bound=LedgerState)

#: Another effect passes for the recorded one with a chance of one in 2^64.
EFFECT_BYTES = 8

_Apply = Callable[[Any, Any, Stamp], None]


class RowChange(NamedTuple):
    """A row as an event left it; None: it is gone. A scalar has no key."""

    table: str
    key: Any
    row: Any


class EventEffect(NamedTuple):
    """What one event did, and the digest of it and of everything before."""

    digest: bytes
    changes: list[RowChange]


class FoldedBatch(NamedTuple):
    """The effects of a batch, up to the event at which folding failed, if it did."""

    effects: list[EventEffect]
    error: Exception | None

    def digests(self) -> bytes:
        """All digests, one after another."""
        return b"".join(effect.digest for effect in self.effects)


class _Noted(Table[Any, Any]):
    """A table that notes which rows are written, as they were before, and puts itself on a list with the first."""

    __slots__ = ("_touched", "before", "name")

    def __init__(self, name: str, table: Table[Any, Any], touched: list[_Noted]) -> None:
        shards = list(table.shard_rows())
        super().__init__(len(shards))
        self.name = name
        self.before: dict[Any, Any] = {}
        self._touched = touched
        for number, rows in enumerate(shards):
            if rows:
                self.fill(number, len(shards), rows.copy())

    def put(self, key: Any, value: Any) -> None:
        if key not in self.before:
            self._note(key)
        super().put(key, value)

    def drop(self, key: Any) -> None:
        if key not in self.before:
            self._note(key)
        super().drop(key)

    def _note(self, key: Any) -> None:
        if not self.before:
            self._touched.append(self)
        self.before[key] = self.get(key)

    def changes(self) -> list[RowChange]:
        """What differs from before, in the order of the encoded keys; from now on it is before."""
        found = []
        for key, before in self.before.items():
            row = self.get(key)
            if not _same(row, before):
                found.append(RowChange(self.name, key, _plain(row)))
        self.before.clear()
        if len(found) > 1:
            found.sort(key=lambda change: encode(change.key))
        return found


class _Functions(dict[type, _Apply]):
    """What a book's events do, each after a word to whoever watches; also for events that do nothing it knows of."""

    def __init__(self, definition: LedgerDefinition[Any], begin: Callable[[], None]) -> None:
        self._begin = begin
        super().__init__({kind: self._watched(apply) for kind, apply in definition.apply.items()})

    def __missing__(self, kind: type) -> _Apply:
        return self._watched(_nothing_applies)

    def _watched(self, apply: _Apply) -> _Apply:
        begin = self._begin

        def watched(state: Any, event: Any, stamp: Stamp) -> None:
            begin()
            apply(state, event, stamp)

        return watched


def _nothing_applies(state: Any, event: Any, stamp: Stamp) -> None:
    raise LookupError(f"no function of this version applies {type(event).__name__}")


class EffectTracker(Generic[S]):
    """A state that is folded on and says what changed. It takes the state over."""

    def __init__(self, definition: LedgerDefinition[S], state: S) -> None:
        self.state = state
        self._definition = replace(definition, apply=_Functions(definition, self._begin))
        self._touched: list[_Noted] = []
        for spec in state.TABLES:
            state.set_table(spec.name, _Noted(spec.name, state.table(spec.name), self._touched))
        self._names = (*state.SCALARS, *state.DERIVED_SCALARS)
        self._scalars = {name: self._scalar(name) for name in self._names}
        self._chained = state.info.digest
        self._effects: list[EventEffect] = []
        self._is_under_way = False

    def fold(self, batch: Batch[Any]) -> FoldedBatch:
        """Apply a batch from the log. After an error the state is of no use."""
        self._effects = []
        self._is_under_way = False
        try:
            fold(self._definition, self.state, batch)
            if self._is_under_way:
                self._end()
        except Exception as error:  # code that cannot apply an event may fail in any way
            return FoldedBatch(self._effects, error)
        return FoldedBatch(self._effects, None)

    def _begin(self) -> None:
        if self._is_under_way:
            self._end()
        self._is_under_way = True

    def _end(self) -> None:
        self._touched.sort(key=lambda table: table.name)
        changes = [change for table in self._touched for change in table.changes()]
        self._touched.clear()
        changes += self._changed_scalars()
        self._chained = hashlib.blake2b(self._chained + encode(changes), digest_size=EFFECT_BYTES).digest()
        self._effects.append(EventEffect(self._chained, changes))

    def _changed_scalars(self) -> list[RowChange]:
        changes = []
        for name in self._names:
            value = self._scalar(name)
            if not _same(value, self._scalars[name]):
                self._scalars[name] = value
                changes.append(RowChange(self.state.STORED_NAMES.get(name, name), None, value))
        return changes

    def _scalar(self, name: str) -> Any:
        if name == "info":
            return replace(self.state.info, seq=0, digest=b"", at=0)
        return getattr(self.state, name)


def _same(row: Any, before: Any) -> bool:
    """Whether both are written alike. Equal is not enough: True is 1."""
    return row is before or (row == before and encode(_plain(row)) == encode(_plain(before)))


def _plain(row: Any) -> Any:
    """What is written of a row: of a list in order what it lists, however it lies."""
    return tuple(row) if isinstance(row, SortedList) else row
