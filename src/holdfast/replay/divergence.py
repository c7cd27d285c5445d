"""The first difference between two folds of one log, or two runs of one seed: an event, by its position in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import Batch, LogRecord, UpgradeNeeded, chain, encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import format_revision, pack_revision, seq_of
from holdfast.core.ledger.state.ledger_state import LedgerInfo
from holdfast.core.model.values.structs import Instant, Revision

#: Characters of one row or value that are shown.
_TEXT_MAX = 400


class DivergenceKind(StrEnum):
    """The kind of a difference."""

    CANNOT_BE_READ = "cannot be read"
    CANNOT_BE_APPLIED = "cannot be applied"
    CHAIN_BROKEN = "chain broken"
    EFFECT_DIFFERS = "effect differs"
    LOGGED_DIGEST_DIFFERS = "state digest in the log differs"
    STATE_DIFFERS = "final state digest differs"
    LOG_DIFFERS = "log differs"
    MADE_OTHERWISE = "made otherwise"


class Divergence(Struct, frozen=True, kw_only=True):
    """The first difference: its event and command, and today's result."""

    ledger: str
    what: DivergenceKind
    detail: tuple[str, ...]
    #: Zero if it is in no batch.
    revision: Revision = 0
    #: Ledger time of the event.
    at: Instant = 0
    command: str = ""
    actor: str = ""
    #: The event's tag, as in the log; empty: the batch as a whole.
    event: str = ""

    @property
    def seq(self) -> int:
        """The batch of the revision."""
        return seq_of(self.revision)

    def __str__(self) -> str:
        where = f"{self.ledger} at {format_revision(self.revision)}" if self.revision else self.ledger
        who = " of ".join(part for part in (self.event, self.command) if part)
        by = f"{who} by {self.actor}" if self.actor else who
        first = ": ".join(part for part in (where, by, str(self.what)) if part)
        return "\n  ".join([first, *self.detail])


def earliest(found: Iterable[Divergence | None]) -> Divergence | None:
    """Return the divergence that happened first, since later ones in other ledgers may follow from it. One without a
    time is last."""
    return min((one for one in found if one is not None), key=lambda one: (not one.at, one.at), default=None)


def at_event(ledger: str, batch: Batch[Any], index: int, what: DivergenceKind, detail: Iterable[str]) -> Divergence:
    """Return a divergence at the event with this index in its batch."""
    position, told = pack_revision(batch.header.seq, index), tuple(detail)
    for number, (record, event) in enumerate(events_of(batch)):
        if number == index:
            return Divergence(
                ledger=ledger, what=what, detail=told, revision=position, at=record.at, command=record.command,
                actor=record.actor, event=type(event).__struct_config__.tag,
            )  # fmt: skip
    return Divergence(ledger=ledger, what=what, detail=told, revision=position)


def at_batch(ledger: str, facts: LedgerInfo, what: DivergenceKind, *detail: str) -> Divergence:
    """Return a divergence at the next batch as a whole."""
    return Divergence(ledger=ledger, what=what, detail=detail, revision=pack_revision(facts.seq + 1), at=facts.at)


def unreadable(
    ledger: str, definition: LedgerDefinition[Any], facts: LedgerInfo, raw: bytes, error: UpgradeNeeded
) -> Divergence:
    """Find the first event of an intact batch that this version cannot read, by decoding each alone."""
    found = at_batch(ledger, facts, DivergenceKind.CANNOT_BE_READ, str(error))
    try:
        header, records, _ = msgspec.msgpack.decode(raw)
        position = found.revision
        for *first, events in records:
            for event in events:
                alone = encode([header, [[*first, [event]]], []])
                try:
                    definition.batches.read(alone, facts.digest, chain(facts.digest, alone))
                except UpgradeNeeded as why:
                    return Divergence(
                        ledger=ledger, what=DivergenceKind.CANNOT_BE_READ, detail=(str(why),), revision=position,
                        at=first[0],
                        command=first[3], actor=first[2], event=str(event[0]),
                    )  # fmt: skip
                position += 1
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
        pass  # even the outline is unknown
    return found


def events_of(batch: Batch[Any]) -> Iterator[tuple[LogRecord[Any], Any]]:
    """Yield every event of a batch with its record."""
    return ((record, event) for record in batch.records for event in record.events)


def cut(text: str) -> str:
    """Cut a text to a readable length."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}... ({len(text):,} characters)"
