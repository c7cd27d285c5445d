"""Search for stored decisions: first their numbers, newest first, then the content of each.

workload   by its uids, newest first; a slot only in ranges that enclose its ordinal
node       in packed nodes, in steps; a page ends after a limit and continues later
otherwise  by number, over slim rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.records.decisions import NUMBER_BYTES, StoredDecision, unpack
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports import index_store

#: Parts searched for a node in one step; and limits of a page, in bytes and parts.
STEP = 500
SEARCHED_BYTES, SEARCHED_MAX = 32 << 20, 200_000
#: Workloads or nodes of one name that are searched, newest first.
NAMESAKES_MAX = 32
#: Higher than every number.
LAST = (1 << 63) - 1

_decided = msgspec.msgpack.Decoder(StoredDecision)

#: The number of a decision, and whether it matches. If not, the search stopped there.
Number = tuple[Revision, bool]


class DecisionSearch:
    """One query to a database of decisions."""

    def __init__(
        self, connection: apsw.Connection, query: index_store.DecisionQuery, position: index_store.IndexPosition
    ) -> None:
        self._execute = connection.execute
        self._asked = query
        self._place = position
        self._nodes = self._uids(query.node, "SELECT uid FROM nodes WHERE name = ?1 ORDER BY uid DESC LIMIT ?2", ())
        by_name = "SELECT DISTINCT workload FROM assignments WHERE name = ?1"
        mine = " AND tenant = ?3" if query.tenant else ""
        order = " ORDER BY workload DESC LIMIT ?2"
        own = (query.tenant,) if query.tenant else ()
        self._workloads = self._uids(query.workload, f"{by_name}{mine}{order}", own)

    def _uids(self, named: str, query: str, more: tuple[Any, ...]) -> list[Revision]:
        """Return the uids with this name; if none, the uid that it is."""
        found = [int(uid) for (uid,) in self._execute(query, (named, NAMESAKES_MAX, *more))] if named else []
        uid = parse_revision(named)
        return found if found or uid is None else [uid]

    def page(self) -> index_store.DecisionPage:
        """Return the newest matching decisions."""
        chosen: list[Revision] = []
        going_on = 0
        for number, is_wanted in self._numbers():
            if not is_wanted:
                going_on = number
            elif len(chosen) == self._asked.limit:
                going_on = chosen[-1]
                break
            else:
                chosen.append(number)
        items = tuple(self._told(number) for number in chosen)
        return index_store.DecisionPage(items, self._place, going_on, self._assignments(items), self._node_names(items))

    def _numbers(self) -> Iterator[Number]:
        asked = self._asked
        low, high = self._range()
        if (asked.workload and not self._workloads) or (asked.node and not self._nodes) or low > high:
            return iter(())
        if asked.workload:
            return self._of_workloads(low, high)
        return self._on_nodes(low, high) if asked.node else self._all(low, high)

    def _range(self) -> tuple[Revision, Revision]:
        """Return the range of numbers. Earlier decisions have lower numbers."""
        asked = self._asked
        low, high = 0, asked.before - 1 if asked.before else LAST
        if asked.since:
            low = self._first("at >= ? ORDER BY at, number", asked.since, LAST)
        if asked.until:
            high = min(high, self._first("at <= ? ORDER BY at DESC, number DESC", asked.until, -1))
        return low, high

    def _first(self, where: str, at: Instant, otherwise: Revision) -> Revision:
        found = self._execute(f"SELECT number FROM decisions WHERE {where} LIMIT 1", (at,)).get
        return otherwise if found is None else int(found)

    def _filters(self) -> tuple[str, list[Any]]:
        """Return the conditions on the slim row of a decision."""
        asked = self._asked
        said = (("tenant", asked.tenant), ("outcome", asked.outcome.value if asked.outcome else ""))
        named = [(name, value) for name, value in said if value]
        return "".join(f" AND d.{name} = ?" for name, _ in named), [value for _, value in named]

    def _all(self, low: Revision, high: Revision) -> Iterator[Number]:
        filters, values = self._filters()
        query = f"SELECT d.number FROM decisions d WHERE d.number BETWEEN ? AND ?{filters} ORDER BY d.number DESC"
        for (number,) in self._execute(query, (low, high, *values)):
            yield number, True

    def _of_workloads(self, low: Revision, high: Revision) -> Iterator[Number]:
        filters, values = self._filters()
        ordinal = self._asked.ordinal
        between = " AND p.low <= ? AND p.high >= ?" if ordinal is not None else ""
        limits = () if ordinal is None else (ordinal, ordinal)
        query = (
            "SELECT p.number, p.ordinals, p.nodes FROM parts p JOIN decisions d ON d.number = p.number"
            f" WHERE p.workload = ? AND p.number BETWEEN ? AND ?{between}{filters} ORDER BY p.number DESC"
        )
        each = [self._execute(query, (uid, low, high, *limits, *values)) for uid in self._workloads]
        last = -1
        for number, ordinals, nodes in merge(*each, key=lambda row: row[0], reverse=True):
            if number != last and self._has(ordinals, nodes):
                last = number
                yield number, True

    def _has(self, ordinals: bytes, nodes: bytes) -> bool:
        """Whether a part contains the requested slot and node."""
        ordinal, wanted = self._asked.ordinal, self._nodes
        if ordinal is None and not wanted:
            return True
        pairs = zip(unpack(ordinals), unpack(nodes), strict=True)
        return any((ordinal is None or ordinal == one) and (not wanted or node in wanted) for one, node in pairs)

    def _on_nodes(self, low: Revision, high: Revision) -> Iterator[Number]:
        filters, values = self._filters()
        near = " OR ".join("instr(p.nodes, ?)" for _ in self._nodes)
        keys = [uid.to_bytes(NUMBER_BYTES, "little") for uid in self._nodes]
        query = (
            "SELECT p.number, p.ordinals, p.nodes FROM parts p JOIN decisions d ON d.number = p.number"
            f" WHERE p.id BETWEEN ? AND ? AND ({near}){filters} ORDER BY p.id DESC"
        )
        newest = self._part("number <= ? ORDER BY number DESC, id DESC", high)
        oldest = self._part("number >= ? ORDER BY number, id", low)
        if newest is None or oldest is None:
            return
        last, left = -1, SEARCHED_BYTES
        end = max(oldest, newest - SEARCHED_MAX)
        while left > 0 and newest >= end:
            begin = max(oldest, newest - STEP + 1)
            for number, ordinals, nodes in self._execute(query, (begin, newest, *keys, *values)):
                if number != last and self._has(ordinals, nodes):
                    last = number
                    yield number, True
            size = self._execute("SELECT sum(length(nodes)) FROM parts WHERE id BETWEEN ? AND ?", (begin, newest)).get
            newest, left = begin - 1, left - int(size or 0)
        if newest >= oldest:
            here = int(self._execute("SELECT number FROM parts WHERE id > ? ORDER BY id LIMIT 1", (newest,)).get)
            # Other parts of this decision may be further back: search it again, unless it was returned.
            yield (here if here == last else here + 1), False

    def _part(self, where: str, number: Revision) -> int | None:
        found = self._execute(f"SELECT id FROM parts WHERE {where} LIMIT 1", (number,)).get
        return None if found is None else int(found)

    # Content

    def _told(self, number: Revision) -> index_store.DecisionRecord:
        query = (
            "SELECT f.raw, d.tenant, d.requests, d.placed FROM found f JOIN decisions d USING (number) WHERE number = ?"
        )
        rows: list[tuple[Any, ...]] = self._execute(query, (number,)).fetchall()
        raw, tenant, requests, placed = rows[0]
        parts: list[index_store.DecidedRequest] = []
        placements: list[tuple[Revision, int, Revision]] = []
        for assignment, workload, generation, ordinals, nodes in self._parts(number):
            if len(parts) < index_store.PARTS_MAX:
                parts.append(
                    index_store.DecidedRequest(assignment, workload, generation, len(ordinals) // NUMBER_BYTES)
                )
            for ordinal, node in zip(unpack(ordinals), unpack(nodes), strict=True):
                if len(placements) == index_store.PLACEMENTS_MAX:
                    break
                if self._asked.ordinal in (None, ordinal) and (not self._nodes or node in self._nodes):
                    placements.append((assignment, ordinal, node))
        decided = replace(_decided.decode(raw), tenant=tenant)
        return index_store.DecisionRecord(decided, tuple(parts), tuple(placements), requests, placed)

    def _parts(self, number: Revision) -> Iterator[tuple[Any, ...]]:
        """Return the matching parts; for a node, those that contain it."""
        mine = self._workloads
        one_of = f" AND workload IN ({', '.join('?' * len(mine))})" if mine else ""
        query = (
            f"SELECT assignment, workload, generation, ordinals, nodes FROM parts WHERE number = ?{one_of} ORDER BY id"
        )
        narrow = self._nodes or self._asked.ordinal is not None
        told = 0
        for row in self._execute(query, (number, *mine)):
            if not narrow or self._has(row[3], row[4]):
                told += 1
                yield row
            if told == index_store.PARTS_MAX:
                return

    def _assignments(self, items: Sequence[index_store.DecisionRecord]) -> dict[Revision, index_store.AssignmentRef]:
        uids = {part.assignment for one in items for part in one.parts}
        query = "SELECT uid, workload, tenant, name, purpose FROM assignments WHERE uid = ?"
        rows = [self._execute(query, (uid,)).fetchone() for uid in sorted(uids)]
        return {row[0]: index_store.AssignmentRef(*row) for row in rows if row is not None}

    def _node_names(self, items: Sequence[index_store.DecisionRecord]) -> dict[Revision, str]:
        uids = {node for one in items for _, _, node in one.placements}
        for one in items:
            uids.update(candidate.node for candidate in (one.decided.found.candidates if one.decided.found else ()))
        rows = [self._execute("SELECT uid, name FROM nodes WHERE uid = ?", (uid,)).fetchone() for uid in sorted(uids)]
        return {row[0]: row[1] for row in rows if row is not None}
