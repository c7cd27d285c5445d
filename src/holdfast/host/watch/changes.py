"""Durable events as watches deliver them, the filters of subscribers, and changed keys for controllers.

An event becomes a `ChangeEvent` only for a matching subscriber, and is encoded only when bytes are needed: once, for
any number of subscribers (RULES 22).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from holdfast.core.ledger.codec import Batch, LogRecord, encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.revision import RevisionToken, pack_revision
from holdfast.core.model.values.structs import Revision


class ChangeEvent:
    """One durable event: position and time in the log, actor, command and cause."""

    __slots__ = ("_raw", "actor", "at", "cause", "command", "event", "revision")

    def __init__(self, position: Revision, record: LogRecord[Any], event: Any) -> None:
        self.revision = position
        self.at = record.at
        self.actor = record.actor
        self.command = record.command
        self.cause = record.cause
        self.event = event
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """`[revision, at, actor, command, cause, event]` in canonical bytes, encoded at the first call."""
        if self._raw is None:
            self._raw = encode((self.revision, self.at, self.actor, self.command, self.cause, self.event))
        return self._raw


class ChangeBatch(Struct, frozen=True):
    """The matching changes of one batch, in order. Without any it is a bookmark: nothing was missed.

    A subscriber that has processed it resumes from `token`.
    """

    token: RevisionToken
    changes: tuple[ChangeEvent, ...] = ()

    def size_bytes(self) -> int:
        return sum(len(change.raw) for change in self.changes)


class WatchFilter(Struct, frozen=True):
    """Selects events that touch one of the keys or kinds, or all."""

    keys: frozenset[WatchKey] = frozenset()
    kinds: frozenset[str] = frozenset()
    everything: bool = False

    def meets(self, keys: tuple[WatchKey, ...]) -> bool:
        """Whether an event with these keys matches."""
        return self.everything or any(key in self.keys or key[0] in self.kinds for key in keys)


EVERYTHING = WatchFilter(everything=True)


def filter_for(*wanted: WatchKey | str) -> WatchFilter:
    """Return a filter for keys, `("node", uid)`, and for whole kinds, `"node"`."""
    kinds = frozenset(one for one in wanted if isinstance(one, str))
    return WatchFilter(frozenset(one for one in wanted if not isinstance(one, str)), kinds)


def positions(batch: Batch[Any]) -> Iterator[tuple[Revision, LogRecord[Any], Any]]:
    """Yield every event of a batch with its revision and record, in order."""
    position = pack_revision(batch.header.seq)
    for record in batch.records:
        for event in record.events:
            yield position, record, event
            position += 1


def matching(definition: LedgerDefinition[Any], batch: Batch[Any], interest: WatchFilter) -> tuple[ChangeEvent, ...]:
    """Return the matching changes of a batch, the same at any later read."""
    return tuple(
        ChangeEvent(position, record, event)
        for position, record, event in positions(batch)
        if interest.meets(definition.keys[type(event)](event, position))
    )


class ChangedKeys(Struct, frozen=True):
    """The keys that batches touched, and the revision of a view that contains them."""

    revision: Revision
    keys: tuple[tuple[str, Hashable], ...]


class KeyChanges(Protocol):
    """A feed with an item for every later durable batch, also for one without keys.

    Batches between two reads become one item. The feed ends when it had to drop keys: then list everything and open a
    new one.
    """

    def __aiter__(self) -> AsyncIterator[ChangedKeys]: ...

    def close(self) -> None:
        """End the feed."""
