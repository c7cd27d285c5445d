"""The port to where audit entries are indexed, and how they are queried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.builtin.audit import Entry
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.index_store import KeptRows, Place
from holdfast.host.ports.store import Stored

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
