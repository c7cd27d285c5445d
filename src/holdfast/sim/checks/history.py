"""All records of all logs of a run, in the order in which they became durable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.resources import first_exceeded
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import events as p
from holdfast.core.platform.queries.completion import ON_TIME
from holdfast.core.region import events as e


class HistoryEntry(Struct, frozen=True):
    """One record of a log: when it became durable, its position, its actor, command and cause, and its events."""

    when: int
    ledger: str
    revision: Revision
    actor: str
    command: str
    cause: Revision
    events: tuple[Any, ...]

    @property
    def position(self) -> str:
        """The position as text, such as `eu 41.3`."""
        return f"{self.ledger} {format_revision(self.revision)}"


class History:
    """The entries of all ledgers."""

    def __init__(self) -> None:
        self.entries: list[HistoryEntry] = []

    def note(self, when: int, ledger: str, batch: Batch[Any]) -> None:
        """Add the next batch of a ledger."""
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            self.entries.append(
                HistoryEntry(when, ledger, position, record.actor, record.command, record.cause, record.events)
            )
            position += len(record.events)

    def counts(self) -> dict[str, int]:
        """Count commands, causes of moves, stops and releases, session ends, terms and breaches."""
        found: dict[str, int] = {}
        for entry in self.entries:
            for what in (f"command.{entry.command}", *(tag for event in entry.events for tag in _told(event))):
                found[what] = found.get(what, 0) + 1
        return found


def _told(event: Any) -> Iterator[str]:
    """Yield the counters of an event."""
    match event:
        case e.SlotsMoved(moves):
            yield from (f"moved.{move.cause}" for move in moves)
        case e.SlotsReleased(releases):
            yield from (f"released.{one.cause}" for one in releases)
        case e.SlotsStopping():
            yield f"stopped.{event.cause}"
        case e.PendingReported(reasons=reasons):
            yield from (f"waits.{reason.code}" for reason in reasons)
        case e.OrdinalsFinished(done=done):
            yield "finished.done" if done else "finished.failed"
        case p.StatusReported(status=status):
            late = [one for one in status.conditions if one.type == ON_TIME]
            yield from ("late.missed" for one in late if one.reason is ConditionReason.DEADLINE_MISSED)
        case p.RegionJudged():
            yield f"region.{event.health.value}"
        case p.BreachStored(breach):
            yield f"breach.{breach.invariant}"
        case p.GrantStored(_, True):
            yield "grant.claimed"
        case p.GrantStored(grant) if first_exceeded(grant.offered, grant.target):
            yield "grant.lowered"
