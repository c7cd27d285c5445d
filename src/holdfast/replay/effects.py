"""The effect of each event on a state: the rows that it changed, and a short digest of them.

    EffectTracker(definition, state).fold(batch) --> one effect per event        production's own `fold` does the work

The state's tables are replaced by ones that record writes. The effect of an event is all that differs between its
beginning and that of the next event. It includes rows of derived tables, scalars, and after the last event of a command
the stored answer for its retries. A row that was written without a change is no effect, and the order of writes does
not count, so code may reach the same state in another way. The position in the log is no effect: the chain of batches
covers it.

Each digest covers the one before it. An overlay per event would cost more than the event itself, since it has thirty
tables and most stay unused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.sorted_list import SortedList

#: Another effect has the recorded digest with a chance of one in 2^64.
EFFECT_BYTES = 8
#: An integer with fewer bits is encoded as one.
_INTEGER_BITS = 64

_Apply = Callable[[Any, Any, Stamp], None]


class RowChange(NamedTuple):
    """A row after an event; None: it was deleted. A scalar has no key."""

    table: str
    key: Any
    row: Any


class EventEffect(NamedTuple):
    """The changes of one event, and the digest of them and of everything before."""

    digest: bytes
    changes: list[RowChange]


class FoldedBatch(NamedTuple):
    """The effects of a batch, up to the event at which the fold failed, if it did."""

    effects: list[EventEffect]
    error: Exception | None

    def digests(self) -> bytes:
        """Return all digests, concatenated."""
        return b"".join(effect.digest for effect in self.effects)


class _Noted(Table[Any, Any]):
    """A table that records the earlier content of written rows, and lists itself at the first write."""

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
        """Return the changed rows in the order of their encoded keys, and start again from the current rows."""
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
    """The apply functions of a ledger, each after a call of `begin`; also for events without a function."""

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
    raise LookupError(f"this version has no function for {type(event).__name__}")


class EffectTracker(Generic[S]):
    """Folds batches on a state and returns the changes. It owns the state from then on."""

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
        """Apply a batch from the log. After an error the state is unusable."""
        self._effects = []
        self._is_under_way = False
        try:
            fold(self._definition, self.state, batch)
            if self._is_under_way:
                self._end()
        except Exception as error:  # code that cannot apply an event may raise any error
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
        self._chained = hashlib.blake2b(self._chained + _encoded(changes), digest_size=EFFECT_BYTES).digest()
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
    """Return whether both are encoded alike. Equality is not enough: True is 1."""
    return row is before or (row == before and _encoded(_plain(row)) == _encoded(_plain(before)))


def _encoded(value: Any) -> bytes:
    """Encode rows. One integer of a derived row may contain many numbers as bits (`model.values.bitsets`)."""
    try:
        return encode(value)
    except OverflowError:
        return encode(_bounded(msgspec.to_builtins(value, builtin_types=(bytes,))))


def _bounded(tree: Any) -> Any:
    """Return a tree with long integers as text."""
    if isinstance(tree, list | tuple):
        return [_bounded(one) for one in tree]
    if isinstance(tree, dict):
        return {key: _bounded(one) for key, one in tree.items()}
    return hex(tree) if isinstance(tree, int) and tree.bit_length() >= _INTEGER_BITS else tree


def _plain(row: Any) -> Any:
    """Return what is encoded of a row: a sorted list as a tuple of its items."""
    return tuple(row) if isinstance(row, SortedList) else row
