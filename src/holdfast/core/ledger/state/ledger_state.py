"""The common part of both ledgers' states: tables, scalars, fork, overlay, merge."""

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
    """The state of the log itself: its identity, head, term, level, time and settings.

    A command first sent before `forgotten` is never executed: its key may be dropped already, whatever the window is
    now. The field `configured` is the revision of the settings; 0: unchanged since the log reached level 2.
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
    """The answer to an accepted command of a session, with its sequence number and revision."""

    sequence: int
    revision: Revision
    answer: bytes


class Session(Row, frozen=True):
    """One session of a machine. Its uid is its session epoch; `high` is the highest number of an accepted command.

    The field `fence` is the longest fence time that the agent received in this session; 0: not known.
    """

    uid: Revision
    principal: str
    opened: Instant
    high: int = 0
    fence: Duration = 0

    ADDED: ClassVar[Mapping[str, int]] = {"fence": 2}


class IdempotencyRecord(Row, frozen=True):
    """An accepted command of an operator or tenant: actor, digest of its body, start, revision and answer."""

    actor: str
    body: bytes
    at: Instant
    revision: Revision
    answer: bytes


KEY = struct.Struct(">Q")

#: About this many rows of a fork are freed per step.
FREED_ROWS = 10_000

#: The keys of rows that were written, sorted, by table.
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
    """Map the stored name of each table to the state's attribute."""
    return {spec.name: spec.attribute or spec.name for spec in specs}


def overlays_of(specs: Sequence[TableSpec]) -> Mapping[str, tuple[str, bool]]:
    """Map each attribute to its table's stored name, and to whether overlays cache the rows they read."""
    return {spec.attribute or spec.name: (spec.name, spec.kept) for spec in specs}


class LedgerState:
    """Tables of frozen rows and a few scalars. Only `evolve` writes to a state."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = COMMON_TABLES
    #: Attributes that are not tables; derived ones are not stored.
    SCALARS: ClassVar[tuple[str, ...]] = ("info",)
    DERIVED_SCALARS: ClassVar[tuple[str, ...]] = ()
    #: Attributes with the sort order of tables' rows: derived, and unchanged by events.
    ORDERS: ClassVar[tuple[str, ...]] = ()

    #: Stored names of attributes that are not tables, where logs, snapshots and digests use another.
    STORED_NAMES: ClassVar[Mapping[str, str]] = {"info": "facts"}

    #: The attribute of each table, by stored name.
    _ATTRIBUTES: ClassVar[Mapping[str, str]] = attributes_of(COMMON_TABLES)
    #: The stored name of each attribute's table, and whether overlays cache the rows they read.
    _OVERLAYS: ClassVar[Mapping[str, tuple[str, bool]]] = overlays_of(COMMON_TABLES)
    #: Only in an overlay: the state below it.
    _below: LedgerState

    info: LedgerInfo
    principals: Table[str, Principal]
    sessions: Table[int, Session]
    session_of: Table[str, int]
    #: The ring of answers for retries, by session and number modulo the window.
    session_answers: Table[tuple[int, int], SessionAnswer]
    idempotency_keys: Table[int, IdempotencyRecord]
    #: The keys of each actor, packed, in the order in which they expire.
    idempotency_keys_by_actor: Table[str, bytes]
    overrides: Table[int, Override]
    #: The tokens of this ledger's own servers, by name.
    servers: Table[str, ServerToken]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._ATTRIBUTES, cls._OVERLAYS = attributes_of(cls.TABLES), overlays_of(cls.TABLES)

    def __init__(self) -> None:
        self.info = LedgerInfo()
        for spec in self.TABLES:
            self.set_table(spec.name, Table(spec.shards))

    def table(self, name: str) -> Table[Any, Any]:
        """Return the table with this stored name."""
        found: Table[Any, Any] = getattr(self, self._ATTRIBUTES[name])
        return found

    def set_table(self, name: str, table: Any) -> None:
        """Replace the table with this stored name."""
        setattr(self, self._ATTRIBUTES[name], table)

    def has_no_overrides(self) -> bool:
        """Whether no override is listed."""
        return self.overrides.is_empty()

    def every_override(self) -> Iterator[Override]:
        """Yield all listed overrides, expired or not, by uid."""
        return iter(self.overrides.values())

    def row_count(self) -> int:
        """Return the number of stored rows."""
        return sum(len(self.table(spec.name)) for spec in self.TABLES if not spec.derived)

    def _sibling(self: S) -> S:
        other = type(self).__new__(type(self))
        for name in (*self.SCALARS, *self.DERIVED_SCALARS, *self.ORDERS):
            setattr(other, name, getattr(self, name))
        return other

    def fork(self: S) -> S:
        """Return a state that shares the rows by reference; later changes of either are invisible to the other."""
        other = self._sibling()
        for spec in self.TABLES:
            other.set_table(spec.name, self.table(spec.name).fork())
        return other

    def release(self) -> Iterator[None]:
        """Empty this fork in steps, so that the host can yield between them. The fork is unusable afterwards."""
        freed = 0
        for spec in self.TABLES:
            for rows in self.table(spec.name).release():
                freed += rows
                if freed >= FREED_ROWS:
                    freed = 0
                    yield

    def overlay(self: S) -> S:
        """Return a state to decide a batch on. This state must not change until the overlay is merged or dropped."""
        other = self._sibling()
        other._below = self
        return other

    if not TYPE_CHECKING:  # every attribute is declared, so only a table of an overlay can be missing

        def __getattr__(self, name: str) -> Any:
            """Create a table's overlay on first use: most batches use a few of many tables."""
            found = self._OVERLAYS.get(name) if "_below" in self.__dict__ else None
            if found is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            overlay = self.__dict__[name] = getattr(self._below, name).layer(kept=found[1])
            return overlay

    def _overlay_tables(self) -> Iterator[tuple[str, OverlayTable[Any, Any]]]:
        """Yield the tables that this overlay has used, by stored name, in their order."""
        written = self.__dict__
        assert "_below" in written, "only an overlay knows what was written to it"
        return ((name, written[attribute]) for attribute, (name, _) in self._OVERLAYS.items() if attribute in written)

    def changed_keys(self) -> Touched:
        """Return the keys of rows that differ from the state below. Call it before the merge."""
        found = {name: layer.changed_keys() for name, layer in self._overlay_tables()}
        return {name: keys for name, keys in found.items() if keys}

    def merge(self: S, overlay: S) -> None:
        """Apply the changes of an overlay to this state."""
        for name, layer in overlay._overlay_tables():
            layer.merge_into(self.table(name))
        for name in (*self.SCALARS, *self.DERIVED_SCALARS, *self.ORDERS):
            setattr(self, name, getattr(overlay, name))

    def rebuild(self) -> None:
        """Rebuild every derived table and scalar from the stored ones."""
        self.session_of = Table()
        for uid, session in self.sessions.unordered():
            self.session_of.put(session.principal, uid)
        self.idempotency_keys_by_actor = Table()
        for key, kept in sorted(self.idempotency_keys.unordered(), key=lambda row: (row[1].at, row[1].revision)):
            self.idempotency_keys_by_actor.put(
                kept.actor, (self.idempotency_keys_by_actor.get(kept.actor) or b"") + KEY.pack(key)
            )
