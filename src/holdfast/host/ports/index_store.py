"""The ports to the indexes of a log: rows and position of each, audit entries, decisions.

Rows and the log position up to which they were read are written in one transaction. Up to there an index is complete,
except for what retention, the size limit or a trim of the log removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct, field

from holdfast.core.ledger.builtin.audit import AuditEntry
from holdfast.core.model.records.decisions import DecisionOutcome, DecisionWithParts, StoredDecision
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.store import StoredBatch

#: At most this many requests and placements of one decision are returned, with their total numbers.
PARTS_MAX = 20
PLACEMENTS_MAX = 20


class IndexPosition(Struct, frozen=True):
    """The last batch that an index has read, and the time from which it is complete."""

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    since: Instant = 0


class IndexStore(Protocol):
    """An index and its position in the log.

    Every call may raise `StoreError`. After damage, the next call starts with an empty index.
    """

    async def position(self) -> IndexPosition:
        """Return the position up to which the log was read."""

    async def begin(self, position: IndexPosition) -> None:
        """Drop everything and start after this position."""

    async def settle(self) -> int:
        """Make everything durable; return the batch up to which the log was read."""

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop rows older than `before`, then the oldest until the index has at most `size_bytes`; return its size."""

    async def close(self) -> None:
        """Close the index."""


#: Returns the audit entries of a batch; called outside the loop's thread.
EntryReader = Callable[[StoredBatch], list[AuditEntry]]


class AuditIndexQuery(Struct, frozen=True):
    """A filter of audit entries, newest first. An unset field matches everything.

    Entries are older than `before`, a batch and an index in it. `tenant` selects entries about it, and those about no
    tenant by `actors`, its own principals. At most `limit` are returned.
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
    """Entries that match a query. `going_on` is the batch and entry to continue before, if there are more."""

    items: tuple[AuditEntry, ...]
    going_on: tuple[int, int] | None = None


class AuditStore(IndexStore, Protocol):
    """The index of audit entries."""

    async def add(self, batches: Sequence[StoredBatch], reader: EntryReader, position: IndexPosition) -> int:
        """Store the entries of batches and the index position in one transaction; return their number."""

    async def find(self, query: AuditIndexQuery) -> AuditPage:
        """Return the entries that match the query."""


class AssignmentRef(Struct, frozen=True):
    """An assignment with its workload, tenant, name and purpose."""

    uid: Revision
    workload: Revision
    tenant: str
    name: str
    purpose: str


class DecisionBatch(Struct):
    """Decisions to store, with the names of their assignments and nodes."""

    found: list[DecisionWithParts] = field(default_factory=list)
    assignments: dict[Revision, AssignmentRef] = field(default_factory=dict)
    nodes: dict[Revision, str] = field(default_factory=dict)


class DecisionQuery(Struct, frozen=True):
    """A filter of decisions, newest first. An unset field matches everything.

    The `workload` and the `node` are a name or a uid; `ordinal` is one slot of the workload. Decisions are older than
    `until`, a time, and `before`, a number. At most `limit` are returned.
    """

    tenant: str = ""
    workload: str = ""
    ordinal: int | None = None
    node: str = ""
    since: Instant = 0
    until: Instant = 0
    outcome: DecisionOutcome | None = None
    before: Revision = 0
    limit: int = 50


class DecidedRequest(Struct, frozen=True):
    """One request of a decision, and how many of its slots were placed."""

    assignment: Revision
    workload: Revision
    generation: int
    placed: int


class DecisionRecord(Struct, frozen=True):
    """A decision, with at most `PARTS_MAX` requests and `PLACEMENTS_MAX` placements that match the query.

    A placement is an assignment, an ordinal and a node. `requests` and `placed` are total numbers.
    """

    decided: StoredDecision
    parts: tuple[DecidedRequest, ...]
    placements: tuple[tuple[Revision, int, Revision], ...]
    requests: int
    placed: int


class DecisionPage(Struct, frozen=True):
    """Decisions that match a query, with names. `going_on` is the number to continue before; 0: there are no more."""

    items: tuple[DecisionRecord, ...]
    position: IndexPosition
    going_on: Revision = 0
    assignments: dict[Revision, AssignmentRef] = {}
    nodes: dict[Revision, str] = {}


class DecisionStore(IndexStore, Protocol):
    """The index of decisions."""

    async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
        """Store decisions and the index position in one transaction; existing ones are not duplicated."""

    async def find(self, query: DecisionQuery) -> DecisionPage:
        """Return matching decisions. After a long search a page may be short or empty and still continue."""
