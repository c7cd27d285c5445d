"""What people did and were denied, found again by time, actor, command and outcome: an index of a log (`log_index`).

The log itself is read, and never on the event loop: batches are handed as they are to where the index is kept, which
reads them on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from holdfast.core.ledger.audited import Entry, entries_in, has_entries
from holdfast.core.ledger.codec import Batch, Corrupt, UpgradeNeeded
from holdfast.core.model.shapes import Instant
from holdfast.host.kept import KeptRows, Place
from holdfast.host.ledger import Ledger
from holdfast.host.log_index import Lasting, LogIndex, Measured
from holdfast.host.store import Stored, StoreError

#: So much of the log is handed over at once.
HANDED_BYTES = 1 << 20

#: The entries of a batch; called on another thread than the loop's.
Reader = Callable[[Stored], list[Entry]]


class AuditAsked(Struct, frozen=True):
    """Which entries, newest first: what is unset does not matter.

    `before` is a batch and one of its entries: only older ones. `tenant`: only what is about it, or what is about
    nobody and was done by `actors`, who are its own. At most `limit`.
    """

    since: Instant = 0
    actor: str = ""
    command: str = ""
    outcome: str = ""
    before: tuple[int, int] | None = None
    tenant: str | None = None
    actors: tuple[str, ...] = ()
    limit: int = 50


class AuditPage(Struct, frozen=True):
    """What was found. `going_on`: there are more, older than this batch and entry."""

    items: tuple[Entry, ...]
    going_on: tuple[int, int] | None = None


class KeptAudit(KeptRows, Protocol):
    """Keeps what people did."""

    async def add(self, batches: Sequence[Stored], reader: Reader, place: Place) -> int:
        """Keep the entries of these batches, and how far the log was read, in one step; how many they are."""

    async def find(self, asked: AuditAsked) -> AuditPage:
        """Entries as asked for."""


class Audit(LogIndex[Any]):
    """The audit of one ledger, on one of its servers. `run` it beside the ledger."""

    def __init__(self, ledger: Ledger[Any], kept: KeptAudit, lasting: Lasting | None = None) -> None:
        super().__init__("audit", ledger, kept, lasting)
        self._kept = kept
        self._taken: list[Stored] = []
        self._bytes = 0

    async def find(self, asked: AuditAsked) -> AuditPage:
        """What is kept and was asked for, newest first. `StoreError` when it cannot be read."""
        return await self._kept.find(asked)

    def concerns(self, batch: Batch[Any]) -> bool:
        return has_entries(batch)

    def restart(self) -> None:
        self._taken, self._bytes = [], 0

    async def take(self, stored: Stored, place: Place, *, learning: bool = False) -> Place:  # noqa: ARG002  # all are taken, always
        self._taken.append(stored)
        self._bytes += len(stored.raw)
        self._place = Place(stored.log_id, stored.seq, stored.digest, place.since)
        if self._bytes >= HANDED_BYTES:
            await self._write()
        return self._place

    async def write(self, place: Place) -> int:
        taken = self._taken
        self.restart()
        return await self._kept.add(taken, self._read, place)

    def _read(self, stored: Stored) -> list[Entry]:
        book = self._ledger.book
        try:
            return entries_in(stored.raw, stored.digest, book.batches, book.envelopes)
        except (Corrupt, UpgradeNeeded) as error:
            raise StoreError(f"{self._ledger.store.name}: batch {stored.seq}: {error}") from error

    def measure(self, what: Measured, value: int) -> None:
        meters = self._ledger.meters
        match what:
            case Measured.FAILED:
                meters.count("audit_failed", value)
            case Measured.BEGUN_ANEW:
                meters.count("audit_begun_anew", value)
            case Measured.BEHIND:
                meters.gauge("audit_behind", value)
            case Measured.KEPT:
                meters.count("audit_kept", value)
            case Measured.BYTES:
                meters.gauge("audit_bytes", value)
