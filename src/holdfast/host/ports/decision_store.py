"""The port to where decisions are indexed, and how they are queried.

Rows are written with the position in the log up to which it was read, in one step. An index is complete up to that
position, but for what retention, the size limit, or an earlier trim of the log has removed.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from holdfast.core.model.records.decisions import DecisionOutcome, DecisionWithParts, StoredDecision
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.index_store import IndexPosition, IndexStore

#: Of one decision so many requests and placements are told; how many there are is told, too.
PARTS_MAX = 20
PLACEMENTS_MAX = 20


class AssignmentRef(Struct, frozen=True):
    """An assignment by name: of which workload, whose, and what for."""

    uid: Revision
    workload: Revision
    tenant: str
    name: str
    purpose: str


class DecisionBatch(Struct):
    """What was read and is to be written: decisions, and the names of the assignments and nodes in them."""

    found: list[DecisionWithParts] = field(default_factory=list)
    assignments: dict[Revision, AssignmentRef] = field(default_factory=dict)
    nodes: dict[Revision, str] = field(default_factory=dict)


class DecisionQuery(Struct, frozen=True):
    """Which decisions, newest first: what is unset does not matter.

    `tenant` is whose; `workload` a name or a uid, `ordinal` one slot of it; `node` a name or a uid. `until` is a time,
    `before` the number of a decision: only older ones. At most `limit`.
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
    """One request of a decision, and how many of its slots it placed."""

    assignment: Revision
    workload: Revision
    generation: int
    placed: int


class DecisionRecord(Struct, frozen=True):
    """A decision, with as many of the requests and placements that were asked for as are told at once.

    A placement is an assignment, an ordinal of its workload and a node. `requests` and `placed` count all there are.
    """

    decided: StoredDecision
    parts: tuple[DecidedRequest, ...]
    placements: tuple[tuple[Revision, int, Revision], ...]
    requests: int
    placed: int


class DecisionPage(Struct, frozen=True):
    """What was found, with names. `going_on`: there may be more, older than this number; 0: that was all."""

    items: tuple[DecisionRecord, ...]
    position: IndexPosition
    going_on: Revision = 0
    assignments: dict[Revision, AssignmentRef] = {}
    nodes: dict[Revision, str] = {}


class DecisionStore(IndexStore, Protocol):
    """Keeps decisions."""

    async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
        """Keep what was read up to this place, in one step. What is there already is not kept twice."""

    async def find(self, query: DecisionQuery) -> DecisionPage:
        """Decisions as asked for. Where much has to be looked through, a page may be short, or empty, and go on."""
