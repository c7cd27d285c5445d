"""What the states of both ledgers have in common: tables, scalars, fork, overlay, merge."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.core.ledger.levels import FIRST
from holdfast.core.ledger.state.table import MANY, SOME, OverlayTable, Table, TableSpec
from holdfast.core.model.objects.policies import Override
from holdfast.core.model.objects.principals import Principal
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.values.settings import DEFAULTS, Settings
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row


class LedgerInfo(Row, frozen=True):
    """Where a log is: its identity, its head, who leads it since when, and its time.

    What was first sent before `forgotten` is never executed: its key may be gone, whatever the window is now.
    `configured` is the revision of the settings; 0: nobody has changed them since the log was of level 2.
    """

    log_id: str = ""
    ledger: str = ""
    seq: int = 0
    digest: bytes = b""
    term: int = 0
    level: int = FIRST
    at: Instant = 0
    settings: Settings = DEFAULTS
    forgotten: Instant = 0
    term_at: Instant = 0
    configured: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"configured": 2}


class SessionAnswer(Row, frozen=True):
    """An accepted command of a session: its number, its revision and the answer it got."""

    sequence: int
    revision: Revision
    answer: bytes


class Session(Row, frozen=True):
    """One life of a machine principal. Its uid is its epoch; `high` is the highest number of an accepted command.

    `fence` is the longest fence time by which an agent was told its numbers in this session; 0: not known.
    """

    uid: Revision
    principal: str
    opened: Instant
    high: int = 0
    fence: Duration = 0

    ADDED: ClassVar[Mapping[str, int]] = {"fence": 2}


class IdempotencyRecord(Row, frozen=True):
    """An accepted command of a person: whose, the digest of its body, since when, its revision and its answer."""

    actor: str
    body: bytes
    at: Instant
    revision: Revision
    answer: bytes


KEY = struct.Struct(">Q")

#: A fork lets go of about so many rows in one step.
FREED_ROWS = 10_000

#: By table: the keys of rows that were written, sorted.
Touched = Mapping[str, Sequence[Any]]

S = TypeVar("S", bound="LedgerState")

COMMON_TABLES = (
    TableSpec("principals", str, Principal),
    TableSpec("sessions", int, Session, SOME),
    TableSpec("session_of", str, int, derived=True),
    TableSpec("answered", tuple[int, int], SessionAnswer, MANY),
    TableSpec("keys", int, IdempotencyRecord, SOME),
    TableSpec("keys_of", str, bytes, derived=True),
    TableSpec("overrides", int, Override),
    TableSpec("servers", str, ServerToken, since=2),
)


class LedgerState:
    """Tables of frozen rows and a few scalars. Only `evolve` writes to it."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = COMMON_TABLES
    #: Attributes that are not tables; the derived ones are not stored.
    SCALARS: ClassVar[tuple[str, ...]] = ("facts",)
    DERIVED_SCALARS: ClassVar[tuple[str, ...]] = ()
    #: Attributes that say in which order rows of tables come: derived, and nothing that an event does.
    ORDERS: ClassVar[tuple[str, ...]] = ()

    #: By table: whether its layers keep the rows that were read.
    _KEPT: ClassVar[Mapping[str, bool]] = {spec.name: spec.kept for spec in COMMON_TABLES}
    #: In an overlay, and nowhere else: the state that it lies on.
    _below: LedgerState

    facts: LedgerInfo
    principals: Table[str, Principal]
    sessions: Table[int, Session]
    session_of: Table[str, int]
    #: By session and number modulo the window: the ring of what a repeat is answered.
    answered: Table[tuple[int, int], SessionAnswer]
    keys: Table[int, IdempotencyRecord]
    #: By principal: its keys, packed, in the order in which they end.
    keys_of: Table[str, bytes]
    overrides: Table[int, Override]
    #: By name: the tokens of this ledger's own servers.
    servers: Table[str, ServerToken]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._KEPT = {spec.name: spec.kept for spec in cls.TABLES}

    def __init__(self) -> None:
        self.facts = LedgerInfo()
        for spec in self.TABLES:
            setattr(self, spec.name, Table(spec.shards))

    def table(self, name: str) -> Table[Any, Any]:
        """A table by its name."""
        found: Table[Any, Any] = getattr(self, name)
        return found

    def has_no_overrides(self) -> bool:
        """Whether no person has taken authority over anything here."""
        return self.overrides.is_empty()

    def every_override(self) -> Iterator[Override]:
        """What people have taken authority over here, ended or not, by uid."""
        return iter(self.overrides.values())

    def row_count(self) -> int:
        """How many rows are stored."""
        return sum(len(self.table(spec.name)) for spec in self.TABLES if not spec.derived)

    def _sibling(self: S) -> S:
        other = type(self).__new__(type(self))
        for name in (*self.SCALARS, *self.DERIVED_SCALARS, *self.ORDERS):
            setattr(other, name, getattr(self, name))
        return other

    def fork(self: S) -> S:
        """The same state, by reference; from now on neither sees the other's changes."""
        other = self._sibling()
        for spec in self.TABLES:
            setattr(other, spec.name, self.table(spec.name).fork())
        return other

    def release(self) -> Iterator[None]:
        """Empty this fork bit by bit, so that a host can give way in between; it is of no use afterwards."""
        freed = 0
        for spec in self.TABLES:
            for rows in self.table(spec.name).release():
                freed += rows
                if freed >= FREED_ROWS:
                    freed = 0
                    yield

    def overlay(self: S) -> S:
        """A state on which a batch is decided; this one must not change until it is merged or dropped."""
        other = self._sibling()
        other._below = self
        return other

    if not TYPE_CHECKING:  # every attribute is declared: nothing but a table can be missing, and in an overlay alone

        def __getattr__(self, name: str) -> Any:
            """The layer over a table, from when it is first asked for: most batches touch a few of many tables."""
            kept = self._KEPT.get(name) if "_below" in self.__dict__ else None
            if kept is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            layer = self.__dict__[name] = getattr(self._below, name).layer(kept=kept)
            return layer

    def _layers(self) -> Iterator[tuple[str, OverlayTable[Any, Any]]]:
        """The tables of this overlay that were asked for, in their order."""
        assert "_below" in self.__dict__, "only an overlay knows what was written to it"
        return ((name, self.__dict__[name]) for name in self._KEPT if name in self.__dict__)

    def changed_keys(self) -> Touched:
        """The rows of this overlay that are not what they are below it. It must not be merged yet."""
        found = {name: layer.changed_keys() for name, layer in self._layers()}
        return {name: keys for name, keys in found.items() if keys}

    def merge(self: S, overlay: S) -> None:
        """Take over what was decided on the overlay."""
        for name, layer in overlay._layers():
            layer.merge_into(self.table(name))
        for name in (*self.SCALARS, *self.DERIVED_SCALARS, *self.ORDERS):
            setattr(self, name, getattr(overlay, name))

    def rebuild(self) -> None:
        """Build every derived table and scalar anew from the stored ones."""
        self.session_of = Table()
        for uid, session in self.sessions.unordered():
            self.session_of.put(session.principal, uid)
        self.keys_of = Table()
        for key, kept in sorted(self.keys.unordered(), key=lambda row: (row[1].at, row[1].revision)):
            self.keys_of.put(kept.actor, (self.keys_of.get(kept.actor) or b"") + KEY.pack(key))
