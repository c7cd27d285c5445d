"""The audit store: an index database next to the log, or one in memory.

    place      one row: how far the log was read
    entries    (seq, part, revision, at, actor, command, outcome, tenant, raw)   by batch, then by index in it

Entries are found newest first by number, with indexes by actor, command, outcome, tenant and time. All code here runs
on one thread and raises SQLite's errors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.core.ledger.builtin.audit import AuditEntry
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.index_store import AuditIndexQuery, AuditPage, EntryReader, IndexPosition
from holdfast.host.ports.store import StoredBatch
from holdfast.stores.indexes.index_database import IndexDatabase, IndexSchema, LogRows

APPLICATION_ID = 0x484C4441  # "HLDA"
FORMAT = 1
#: Above the size limit, at least one part in this many is dropped at once.
SHED_PARTS = 20
#: Estimated bytes of an entry beyond its content, mostly in indexes, to compare actors.
ENTRY_BYTES = 200

TABLES = """
    CREATE TABLE entries (
        seq INTEGER NOT NULL, part INTEGER NOT NULL, revision INTEGER NOT NULL, at INTEGER NOT NULL,
        actor TEXT NOT NULL, command TEXT NOT NULL, outcome TEXT NOT NULL, tenant TEXT NOT NULL, raw BLOB NOT NULL,
        PRIMARY KEY (seq, part)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX entries_actor ON entries (actor, seq, part);
    CREATE INDEX entries_command ON entries (command, seq, part);
    CREATE INDEX entries_outcome ON entries (outcome, seq, part);
    CREATE INDEX entries_tenant ON entries (tenant, actor, seq, part);
    CREATE INDEX entries_at ON entries (at);
"""
_COLUMNS = "seq, part, revision, at, actor, command, outcome, tenant, raw"


class AuditRows(LogRows):
    tables = ("entries",)

    def add(self, batches: Sequence[StoredBatch], reader: EntryReader, position: IndexPosition) -> int:
        """Store the entries of these batches, and the position. Earlier batches change nothing."""
        known = self.position()
        if known.log_id == position.log_id and position.seq < known.seq:
            return 0
        found = [entry for one in batches if one.seq > known.seq for entry in reader(one)]
        rows = [(e.seq, e.part, e.revision, e.at, e.actor, e.command, e.outcome, e.tenant, e.raw) for e in found]
        with self._connection:
            self._connection.executemany(f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._move(position)
        return len(rows)

    # Search

    def find(self, query: AuditIndexQuery) -> AuditPage:
        """Return the newest matching entries, and whether there are more."""
        found = self._of_tenant(query) if query.tenant is not None else self._newest(query, "", ())
        items = tuple(AuditEntry(*row) for row in found)
        more = len(items) > query.limit
        last = items[query.limit - 1] if more else None
        return AuditPage(items[: query.limit], None if last is None else (last.seq, last.part))

    def _of_tenant(self, query: AuditIndexQuery) -> list[tuple[Any, ...]]:
        """Return entries about a tenant, and those about none by its own principals. Each has an index."""
        about = self._newest(query, " AND tenant = ?", (query.tenant,))
        own = " AND tenant = '' AND actor IN (SELECT value FROM json_each(?))"
        by = self._newest(query, own, (json.dumps(query.actors),))
        return sorted((*about, *by), reverse=True)[: query.limit + 1]

    def _newest(self, asked: AuditIndexQuery, more: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        said = (("actor", asked.actor), ("command", asked.command), ("outcome", asked.outcome))
        terms = "".join(f" AND {name} = ?" for name, value in said if value)
        bound: list[Any] = [value for _, value in said if value]
        if asked.since:
            terms, bound = f"{terms} AND at >= ?", [*bound, asked.since]
        if asked.before is not None:
            terms, bound = f"{terms} AND (seq, part) < (?, ?)", [*bound, *asked.before]
        query = f"SELECT {_COLUMNS} FROM entries WHERE 1{terms}{more} ORDER BY seq DESC, part DESC LIMIT ?"
        return self._execute(query, (*bound, *values, asked.limit + 1)).fetchall()

    # Retention

    def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop older entries; above the size limit, the oldest of the actors with most data. So no actor, such as a
        stranger with many denials, displaces the entries of others. Return the new size."""
        with self._connection:
            self._execute("DELETE FROM entries WHERE at < ?", (before,))
            if self._connection.changes():
                self._execute("UPDATE place SET since = max(since, ?)", (before,))
        return self._shrink(size_bytes, self._shed)

    def _shed(self) -> bool:
        """Drop the oldest entries of the actors with most data, down to a common level. False if there are none.

        The content of entries is not read: SQLite stores its length.
        """
        by_actor = f"SELECT actor, count(*), sum(length(raw) + {ENTRY_BYTES}) AS size FROM entries GROUP BY actor"
        shares: list[tuple[Any, ...]] = self._execute(f"{by_actor} ORDER BY size DESC, actor").fetchall()
        level = _level([size for _, _, size in shares])
        for actor, count, size in shares:
            if size > level:
                self._drop_oldest(actor, -(-count * (size - level) // size))
        return bool(shares)

    def _drop_oldest(self, actor: str, count: int) -> None:
        oldest = "SELECT seq, part, at FROM entries WHERE actor = ? ORDER BY seq, part LIMIT 1 OFFSET ?"
        for seq, part, at in self._execute(oldest, (actor, count - 1)).fetchall():
            with self._connection:
                self._execute("DELETE FROM entries WHERE actor = ? AND (seq, part) <= (?, ?)", (actor, seq, part))
                self._execute("UPDATE place SET since = max(since, ?)", (at,))


def _level(sizes: Sequence[int]) -> int:
    """Return the size that each actor may keep, so that 1 in `SHED_PARTS` is dropped. Sizes are in descending order."""
    left = sum(sizes) * (SHED_PARTS - 1) // SHED_PARTS
    for place in range(len(sizes), 0, -1):  # the smallest keep all, up to an even share
        if sizes[place - 1] > left // place:
            return left // place
        left -= sizes[place - 1]
    return 0


SCHEMA = IndexSchema("audit", APPLICATION_ID, FORMAT, TABLES, AuditRows)


class AuditDatabase(IndexDatabase):
    """The audit of a store in a folder, or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(SCHEMA, path)

    async def add(self, batches: Sequence[StoredBatch], reader: EntryReader, position: IndexPosition) -> int:
        return await self._do(lambda one: AuditRows(one).add(batches, reader, position), "writing")

    async def find(self, query: AuditIndexQuery) -> AuditPage:
        return await self._do(lambda one: AuditRows(one).find(query), "searching")
