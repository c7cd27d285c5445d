"""Durable events as watches tell them, and who wants to hear of which.

An event becomes a `ChangeEvent` only when somebody hears of it, and is encoded only when somebody needs bytes: once,
however many hear of it (RULES 22).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.codec import Batch, LogRecord, encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.revision import RevisionToken, pack_revision
from holdfast.core.model.values.structs import Revision


class ChangeEvent:
    """One durable event: where and when it stands in the log, who caused it with which command, and why."""

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
        """`[revision, at, actor, command, cause, event]` in canonical bytes, made when first asked for."""
        if self._raw is None:
            self._raw = encode((self.revision, self.at, self.actor, self.command, self.cause, self.event))
        return self._raw


class ChangeBatch(Struct, frozen=True):
    """What a subscriber hears of one batch, in order. None of them: a bookmark, which says how far nothing was missed.

    Whoever has acted on it resumes from `token`.
    """

    token: RevisionToken
    changes: tuple[ChangeEvent, ...] = ()

    def size_bytes(self) -> int:
        """How much it takes to send."""
        return sum(len(change.raw) for change in self.changes)


class WatchFilter(Struct, frozen=True):
    """Which events a subscriber hears of: those that touch one of the keys or kinds, or all there are."""

    keys: frozenset[WatchKey] = frozenset()
    kinds: frozenset[str] = frozenset()
    everything: bool = False

    def meets(self, keys: tuple[WatchKey, ...]) -> bool:
        """Whether an event with these keys is of interest."""
        return self.everything or any(key in self.keys or key[0] in self.kinds for key in keys)


EVERYTHING = WatchFilter(everything=True)


def filter_for(*wanted: WatchKey | str) -> WatchFilter:
    """Interest in keys, `("node", uid)`, and in whole kinds, `"node"`."""
    kinds = frozenset(one for one in wanted if isinstance(one, str))
    return WatchFilter(frozenset(one for one in wanted if not isinstance(one, str)), kinds)


def positions(batch: Batch[Any]) -> Iterator[tuple[Revision, LogRecord[Any], Any]]:
    """Every event of a batch with its revision and its record, in the order of the log."""
    position = pack_revision(batch.header.seq)
    for record in batch.records:
        for event in record.events:
            yield position, record, event
            position += 1


def matching(definition: LedgerDefinition[Any], batch: Batch[Any], interest: WatchFilter) -> tuple[ChangeEvent, ...]:
    """What of a batch is of interest. Told from the events alone: the same now and in any later reading of the log."""
    return tuple(
        ChangeEvent(position, record, event)
        for position, record, event in positions(batch)
        if interest.meets(definition.keys[type(event)](event, position))
    )
