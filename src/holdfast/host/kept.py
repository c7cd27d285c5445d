"""The port to where decisions are kept, and what may be asked of it.

Rows are written with the place in the log up to which they were read, in one step: what is there is all there was up to
that place, but for what retention, room, or a log that was trimmed before, has taken.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from holdfast.core.model.decided import Decided, Found, Outcome
from holdfast.core.model.shapes import Instant, Revision

#: Of one decision so many requests and placements are told; how many there are is told, too.
PARTS_TOLD = 20
PLACEMENTS_TOLD = 20


class Place(Struct, frozen=True):
    """How far the log was read: which log, up to which batch; and from when on nothing is missing."""

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    since: Instant = 0


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


class KeptRows(Protocol):
    """Keeps what an index has of a log. Every call may raise `StoreError`; what is damaged is begun anew with the next
    one."""

    async def place(self) -> Place:
        """How far the log was read."""

    async def begin(self, place: Place) -> None:
        """Drop everything, and begin after this place."""

    async def settle(self) -> int:
        """Make everything durable; up to which batch the log was read."""

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop what is older, and the oldest while all takes more room; how much it takes then."""

    async def close(self) -> None:
        """Let go of it."""


class Kept(KeptRows, Protocol):
    """Keeps decisions."""

    async def add(self, reading: Reading, place: Place) -> None:
        """Keep what was read up to this place, in one step. What is there already is not kept twice."""

    async def find(self, asked: Asked) -> Page:
        """Decisions as asked for. Where much has to be looked through, a page may be short, or empty, and go on."""
