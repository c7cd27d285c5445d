"""The port to where decisions are indexed, and how they are queried.

Rows are written with the position in the log up to which it was read, in one step. An index is complete up to that
position, but for what retention, the size limit, or an earlier trim of the log has removed.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from holdfast.core.model.records.decisions import Decided, Found, Outcome
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.index_store import KeptRows, Place

#: Of one decision so many requests and placements are told; how many there are is told, too.
PARTS_TOLD = 20
PLACEMENTS_TOLD = 20


class Named(Struct, frozen=True):
    """An assignment by name: of which workload, whose, and what for."""

    uid: Revision
    workload: Revision
    tenant: str
    name: str
    purpose: str


class Reading(Struct):
    """What was read and is to be written: decisions, and the names of the assignments and nodes in them."""

    found: list[Found] = field(default_factory=list)
    assignments: dict[Revision, Named] = field(default_factory=dict)
    nodes: dict[Revision, str] = field(default_factory=dict)


class Asked(Struct, frozen=True):
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
    outcome: Outcome | None = None
    before: Revision = 0
    limit: int = 50


class Request(Struct, frozen=True):
    """One request of a decision, and how many of its slots it placed."""

    assignment: Revision
    workload: Revision
    generation: int
    placed: int


class Told(Struct, frozen=True):
    """A decision, with as many of the requests and placements that were asked for as are told at once.

    A placement is an assignment, an ordinal of its workload and a node. `requests` and `placed` count all there are.
    """

    decided: Decided
    parts: tuple[Request, ...]
    placements: tuple[tuple[Revision, int, Revision], ...]
    requests: int
    placed: int


class Page(Struct, frozen=True):
    """What was found, with names. `going_on`: there may be more, older than this number; 0: that was all."""

    items: tuple[Told, ...]
    place: Place
    going_on: Revision = 0
    assignments: dict[Revision, Named] = {}
    nodes: dict[Revision, str] = {}


class Kept(KeptRows, Protocol):
    """Keeps decisions."""

    async def add(self, reading: Reading, place: Place) -> None:
        """Keep what was read up to this place, in one step. What is there already is not kept twice."""

    async def find(self, asked: Asked) -> Page:
        """Decisions as asked for. Where much has to be looked through, a page may be short, or empty, and go on."""
