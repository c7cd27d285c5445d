"""The database of stored decisions: rows that are found by number, time, tenant, workload and node.

    place        one row: how far the log was read
    decisions    (number, at, tenant, outcome, requests, placed)   slim: filters run over these
    found        (number, raw)                                     the evidence of a decision, encoded
    parts        (id, number, workload, low, high, ...)            one row per request; ordinals and nodes packed
    assignments, nodes                                             names, with the time of the last mention

A slot is found by its workload, and by `low` and `high`, which enclose its ordinal. A node is found by a search through
the packed nodes. All code here runs on one thread and raises SQLite's errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.core.ledger.codec import encode
from holdfast.core.model.records.decisions import NUMBER_BYTES, DecisionPart, unpack
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.index_store import DecisionBatch, DecisionPage, DecisionQuery, IndexPosition
from holdfast.stores.indexes.decision_search import DecisionSearch
from holdfast.stores.indexes.index_database import IndexDatabase, IndexSchema, LogRows

APPLICATION_ID = 0x484C4444  # "HLDD"
FORMAT = 1
#: A name's last mention is updated at most once in this time.
DAY_MS = 86_400_000
#: Above the size limit, at least one part in this many is dropped at once.
SHED_PARTS = 20
#: A range without ordinals.
NO_ORDINALS = (0, -1)

TABLES = """
    CREATE TABLE decisions (
        number INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenant TEXT NOT NULL, outcome TEXT NOT NULL,
        requests INTEGER NOT NULL, placed INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX decisions_at ON decisions (at);
    CREATE INDEX decisions_tenant ON decisions (tenant, number, outcome);
    CREATE TABLE found (number INTEGER PRIMARY KEY, raw BLOB NOT NULL) STRICT;
    CREATE TABLE parts (
        id INTEGER PRIMARY KEY, number INTEGER NOT NULL, workload INTEGER NOT NULL, low INTEGER NOT NULL,
        high INTEGER NOT NULL, assignment INTEGER NOT NULL, generation INTEGER NOT NULL, ordinals BLOB NOT NULL,
        nodes BLOB NOT NULL
    ) STRICT;
    CREATE INDEX parts_number ON parts (number);
    CREATE INDEX parts_workload ON parts (workload, number, low, high);
    CREATE TABLE assignments (
        uid INTEGER PRIMARY KEY, workload INTEGER NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL,
        purpose TEXT NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX assignments_name ON assignments (name, tenant, workload);
    CREATE TABLE nodes (uid INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE INDEX nodes_name ON nodes (name, uid);
"""


class DecisionRows(LogRows):
    tables = ("decisions", "found", "parts", "assignments", "nodes")

    # Writing

    def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
        """Store decisions, and the position. Earlier decisions change nothing."""
        known = self.position()
        if known.log_id == position.log_id and position.seq < known.seq:
            return
        rows: list[tuple[Any, ...]] = []
        raws: list[tuple[Revision, bytes]] = []
        parts: list[tuple[Any, ...]] = []
        many = self._connection.executemany
        with self._connection:
            if reading.found:
                self._name(reading, reading.found[-1].decided.at)
            for found in reading.found:
                one, placed = found.decided, sum(len(part.ordinals) for part in found.parts) // NUMBER_BYTES
                tenant = one.tenant or self._tenant(found.parts)
                rows.append((one.number, one.at, tenant, one.outcome.value, len(found.parts), placed))
                raws.append((one.number, encode(one)))
                parts += [(one.number, *_row(part)) for part in found.parts]
            many("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?)", rows)
            many("INSERT INTO found VALUES (?, ?)", raws)
            columns = "number, workload, low, high, assignment, generation, ordinals, nodes"
            many(f"INSERT INTO parts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", parts)
            self._move(position)

    def _name(self, reading: DecisionBatch, at: Instant) -> None:
        named = [(n.uid, n.workload, n.tenant, n.name, n.purpose, at) for n in reading.assignments.values()]
        again = f"ON CONFLICT (uid) DO UPDATE SET at = excluded.at WHERE at < excluded.at - {DAY_MS}"
        self._connection.executemany(f"INSERT INTO assignments VALUES (?, ?, ?, ?, ?, ?) {again}", named)
        nodes = [(uid, name, at) for uid, name in reading.nodes.items()]
        self._connection.executemany(f"INSERT INTO nodes VALUES (?, ?, ?) {again}", nodes)

    def _tenant(self, parts: tuple[DecisionPart, ...]) -> str:
        """Return the tenant of the requests by stored names, which may outlive the state's."""
        for part in parts:
            known = self._execute("SELECT tenant FROM assignments WHERE uid = ?", (part.assignment,)).get
            if known:
                return str(known)
        return ""

    # Retention

    def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop older decisions; above the size limit, the oldest. Return the new size."""
        older = "SELECT number FROM decisions WHERE at < ? ORDER BY at DESC, number DESC LIMIT 1"
        last = self._execute(older, (before,)).get
        if last is not None:
            self._drop(int(last), before)
        with self._connection:
            for table in ("assignments", "nodes"):
                self._execute(f"DELETE FROM {table} WHERE at < ?", (before - DAY_MS,))
        return self._shrink(size_bytes, self._shed)

    def _shed(self) -> bool:
        """Drop the oldest decisions, 1 in `SHED_PARTS`, and names no longer used. False if there are none."""
        count = int(self._execute("SELECT count(*) FROM decisions").get)
        if not count:
            return False
        oldest = "SELECT number, at FROM decisions ORDER BY number LIMIT 1 OFFSET ?"
        rows: list[tuple[Any, ...]] = self._execute(oldest, (count // SHED_PARTS,)).fetchall()
        self._drop(*rows[0])
        unused = "NOT EXISTS (SELECT 1 FROM parts WHERE parts.workload = assignments.workload)"
        self._execute(f"DELETE FROM assignments WHERE {unused}")
        return True

    def _drop(self, last: Revision, before: Instant) -> None:
        """Drop decisions up to a number, and record the time from which on none is missing."""
        with self._connection:
            for table in ("decisions", "found", "parts"):
                self._execute(f"DELETE FROM {table} WHERE number <= ?", (last,))
            self._execute("UPDATE place SET since = max(since, ?)", (before,))


def _row(part: DecisionPart) -> tuple[Any, ...]:
    ordinals = unpack(part.ordinals)
    low, high = (min(ordinals), max(ordinals)) if ordinals else NO_ORDINALS
    return part.workload, low, high, part.assignment, part.generation, part.ordinals, part.nodes


SCHEMA = IndexSchema("decisions", APPLICATION_ID, FORMAT, TABLES, DecisionRows)


class DecisionDatabase(IndexDatabase):
    """Decisions of a store in a folder, or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(SCHEMA, path)

    async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
        await self._do(lambda one: DecisionRows(one).add(reading, position), "writing")

    async def find(self, query: DecisionQuery) -> DecisionPage:
        return await self._do(lambda one: DecisionSearch(one, query, DecisionRows(one).position()).page(), "searching")
