"""The port to the index of decisions.

Rows and the log position up to which they were read are written in one transaction. Up to there an index is complete,
except for what retention, the size limit or a trim of the log removed.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from holdfast.core.model.records.decisions import DecisionOutcome, DecisionWithParts, StoredDecision
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.index_store import IndexPosition, IndexStore

#: At most this many requests and placements of one decision are returned, with their total numbers.
PARTS_MAX = 20
PLACEMENTS_MAX = 20


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
