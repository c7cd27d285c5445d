"""Comparison of a scheduler's table and queue with the state, in small pieces, to find missed changes.

    pieces ──▶ differing: the state has another row ──▶ shortly later still the same row, still different: resync hit

The state may be newer than the changes observed so far, so one difference proves nothing: its change may be about to
arrive. Identical row objects are not compared by value.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.values.structs import Revision
from holdfast.core.region import watch
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.scheduling_queue import SchedulingQueue

#: Keys compared at once, in 1 to 2 ms.
PIECE = 250
#: A difference, with the rows of the state that differ.
Found = tuple[WatchKey, tuple[Any, ...]]


class Resync:
    """Compares a scheduler's table and queue with a state."""

    def __init__(self, table: NodeTable, queue: SchedulingQueue) -> None:
        self._table = table
        self._queue = queue

    def pieces(self, state: RegionState, size: int = 0) -> Iterator[list[WatchKey]]:
        """Yield all keys of scheduler and state, in pieces. The state may change between them."""
        size = size or PIECE
        yield from _pieces(watch.NODE, iter(list(self._table.rows)), size)
        yield from _pieces(watch.NODE, _unknown(state.nodes.shard_rows(), self._table.rows), size)
        yield from _pieces(watch.ASSIGNMENT, iter(self._queue.assignments()), size)
        yield from _pieces(watch.ASSIGNMENT, _unknown(state.requests.shard_rows(), self._queue.known), size)

    def differing(self, state: RegionState, named: Iterable[WatchKey]) -> list[Found]:
        """Return the keys whose rows in the state differ from the scheduler's."""
        found: list[Found] = []
        for key in named:
            rows = self._node(state, key[1]) if key[0] == watch.NODE else self._requests(state, key[1])  # type: ignore[arg-type]
            if rows is not None:
                found.append((key, rows))
        return found

    def still(self, state: RegionState, found: Iterable[Found]) -> list[WatchKey]:
        """Return the keys that still differ, with the same rows in the state as in `found`."""
        before = dict(found)
        return [key for key, rows in self.differing(state, before) if all(map(_is, rows, before[key]))]

    def _node(self, state: RegionState, uid: Revision) -> tuple[Any, ...] | None:
        node, row = state.nodes.get(uid), self._table.rows.get(uid)
        room, report = state.node_usage.get(uid), state.node_reports.get(uid)
        if node is None or row is None:
            return None if node is None and row is None else (node, room)
        self._table.hints.take(row, report)
        same = _same(self._table.nodes[row], node) and _same(self._table.usages[row], room or EMPTY_USAGE)
        return None if same else (node, room)

    def _requests(self, state: RegionState, uid: Revision) -> tuple[Any, ...] | None:
        return (state.requests.get(uid), state.assignments.get(uid)) if self._queue.differs(state, uid) else None


def _unknown(shards: Iterable[Mapping[Revision, Any]], known: Container[Revision]) -> Iterator[Revision | None]:
    """Yield uids of the state that are not in `known`, and None after each `PIECE` rows."""
    walked = 0
    for shard in list(shards):
        yield from [uid for uid in sorted(shard) if uid not in known]
        walked += len(shard)
        if walked >= PIECE:
            walked = 0
            yield None


def _pieces(kind: str, named: Iterator[Revision | None], size: int) -> Iterator[list[WatchKey]]:
    piece: list[WatchKey] = []
    for uid in named:
        if uid is not None:
            piece.append((kind, uid))
        if len(piece) >= size or (uid is None and size <= PIECE):
            yield piece
            piece = []
    if piece:
        yield piece


def _same(mine: object, theirs: object) -> bool:
    return mine is theirs or mine == theirs


def _is(mine: object, theirs: object) -> bool:
    return mine is theirs
