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
    TableSpec("answered", tuple[int, int], SessionAnswer, MANY, attribute="session_answers"),
    TableSpec("keys", int, IdempotencyRecord, SOME, attribute="idempotency_keys"),
    TableSpec("keys_of", str, bytes, derived=True, attribute="idempotency_keys_by_actor"),
    TableSpec("overrides", int, Override),
    TableSpec("servers", str, ServerToken, since=2),
)


def attributes_of(specs: Sequence[TableSpec]) -> Mapping[str, str]:
    """By the stored name of each table: the state's attribute."""
    return {spec.name: spec.attribute or spec.name for spec in specs}


def overlays_of(specs: Sequence[TableSpec]) -> Mapping[str, tuple[str, bool]]:
    """By the state's attribute: the table's stored name, and whether its overlays keep the rows that were read."""
    return {spec.attribute or spec.name: (spec.name, spec.kept) for spec in specs}


class LedgerState:
    """Tables of frozen rows and a few scalars. Only `evolve` writes to it."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = COMMON_TABLES
    #: Attributes that are not tables; the derived ones are not stored.
    SCALARS: ClassVar[tuple[str, ...]] = ("info",)
    DERIVED_SCALARS: ClassVar[tuple[str, ...]] = ()
    #: Attributes that say in which order rows of tables come: derived, and nothing that an event does.
    ORDERS: ClassVar[tuple[str, ...]] = ()

    #: By attribute that is no table: what logs, snapshots and digests call it, where they call it something else.
    STORED_NAMES: ClassVar[Mapping[str, str]] = {"info": "facts"}

    #: By the name of a table: its attribute.
    _ATTRIBUTES: ClassVar[Mapping[str, str]] = attributes_of(COMMON_TABLES)
    #: By attribute: the name of the table, and whether its overlays keep the rows that were read.
    _OVERLAYS: ClassVar[Mapping[str, tuple[str, bool]]] = overlays_of(COMMON_TABLES)
    #: In an overlay, and nowhere else: the state that it lies on.
    _below: LedgerState

    info: LedgerInfo
    principals: Table[str, Principal]
    sessions: Table[int, Session]
    session_of: Table[str, int]
    #: By session and number modulo the window: the ring of what a repeat is answered.
    session_answers: Table[tuple[int, int], SessionAnswer]
    idempotency_keys: Table[int, IdempotencyRecord]
    #: By principal: its keys, packed, in the order in which they end.
    idempotency_keys_by_actor: Table[str, bytes]
    overrides: Table[int, Override]
    #: By name: the tokens of this ledger's own servers.
    servers: Table[str, ServerToken]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._ATTRIBUTES, cls._OVERLAYS = attributes_of(cls.TABLES), overlays_of(cls.TABLES)

    def __init__(self) -> None:
        self.info = LedgerInfo()
        for spec in self.TABLES:
            self.set_table(spec.name, Table(spec.shards))

    def table(self, name: str) -> Table[Any, Any]:
        """A table by its stored name."""
        found: Table[Any, Any] = getattr(self, self._ATTRIBUTES[name])
        return found

    def set_table(self, name: str, table: Any) -> None:
        """Put another table in the place of the one of this stored name."""
        setattr(self, self._ATTRIBUTES[name], table)

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
            other.set_table(spec.name, self.table(spec.name).fork())
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
            found = self._OVERLAYS.get(name) if "_below" in self.__dict__ else None
            if found is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            overlay = self.__dict__[name] = getattr(self._below, name).layer(kept=found[1])
            return overlay

    def _overlay_tables(self) -> Iterator[tuple[str, OverlayTable[Any, Any]]]:
        """The tables of this overlay that were used, by their stored names, in their order."""
        written = self.__dict__
        assert "_below" in written, "only an overlay knows what was written to it"
        return ((name, written[attribute]) for attribute, (name, _) in self._OVERLAYS.items() if attribute in written)

    def changed_keys(self) -> Touched:
        """The rows of this overlay that are not what they are below it. It must not be merged yet."""
        found = {name: layer.changed_keys() for name, layer in self._overlay_tables()}
        return {name: keys for name, keys in found.items() if keys}

    def merge(self: S, overlay: S) -> None:
        """Take over what was decided on the overlay."""
        for name, layer in overlay._overlay_tables():
            layer.merge_into(self.table(name))
        for name in (*self.SCALARS, *self.DERIVED_SCALARS, *self.ORDERS):
            setattr(self, name, getattr(overlay, name))

    def rebuild(self) -> None:
        """Build every derived table and scalar anew from the stored ones."""
        self.session_of = Table()
        for uid, session in self.sessions.unordered():
            self.session_of.put(session.principal, uid)
        self.idempotency_keys_by_actor = Table()
        for key, kept in sorted(self.idempotency_keys.unordered(), key=lambda row: (row[1].at, row[1].revision)):
            self.idempotency_keys_by_actor.put(
                kept.actor, (self.idempotency_keys_by_actor.get(kept.actor) or b"") + KEY.pack(key)
            )
