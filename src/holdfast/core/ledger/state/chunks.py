"""A state as chunks of bytes, each named by its content.

    steps(fork) --> None, None, Chunk, None, Chunk, ...        ChunkReader(state).read(raw) --> rows in its tables

A chunk has the scalars, or pages of one table (see `columns`) shard by shard. Its content depends on the rows alone,
not on their history. Shards are walked in order and rows in key order; chunks are cut by size. The content also depends
on a table's number of shards and on Python's hash of integers and integer tuples, which choose the shard. Both are part
of the format (`table.SOME`, `table.MANY`). A state with other shards reads such chunks row by row.

A host yields after each step. A step writes pages up to `STEP_ROWS` rows or `STEP_BYTES` bytes, or closes a chunk: half
a millisecond. Only the sort of a table with text keys, which has one shard, grows with the table.

The digest of a state is made of the names of its chunks, in order.

Each name is the digest of a chunk's bytes. So a follower, a replay and a restored snapshot agree exactly when their
rows do. Writing a snapshot yields the state's digest at no cost, and verifying every chunk by name verifies the state.
Derived tables are left out: they are rebuilt, and the invariants compare them with their sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from holdfast.core.ledger.codec import DIGEST_BYTES, encode
from holdfast.core.ledger.levels import LEVEL, form
from holdfast.core.ledger.state.columns import PAGE_ROWS, Pool, pages_of
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import TableSpec

#: A chunk is closed at this size: a store has few chunks, and a chunk can be hashed in one step.
CHUNK_BYTES = 256 << 10
STEP_ROWS = 128
STEP_BYTES = 128 << 10


class Chunk(Struct, frozen=True, gc=False):
    """Some rows of a state. Chunks have equal names exactly if they are equal."""

    name: str
    rows: int
    raw: bytes


def chunk_name(raw: bytes) -> str:
    """Return the name of a chunk: the digest of its bytes."""
    return hashlib.blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()


def chunk_steps(state: LedgerState) -> Iterator[Chunk | None]:
    """Yield the state in chunks, from durable tables only. Pass a fork, and let the host yield after each step."""
    level = state.info.level
    scalars = [(state.STORED_NAMES.get(name, name), getattr(state, name)) for name in state.SCALARS]
    if level < LEVEL:
        scalars = [(name, form(value, level)) for name, value in scalars]
    yield _chunk("", 0, scalars, len(scalars))
    for spec in state.TABLES:
        if spec.since > level:
            assert not len(state.table(spec.name)), f"{spec.name} has rows in a log of level {level}"
        elif not spec.derived:
            yield from _table_steps(state, spec)


def _table_steps(state: LedgerState, spec: TableSpec) -> Iterator[Chunk | None]:
    held: list[Raw] = []
    rows = size = step_rows = step_bytes = 0
    for count, page in _pages(state, spec):
        held.append(Raw(page))
        rows, size = rows + count, size + len(page)
        step_rows, step_bytes = step_rows + count, step_bytes + len(page)
        if step_rows >= STEP_ROWS or step_bytes >= STEP_BYTES or size >= CHUNK_BYTES:
            yield None
            step_rows = step_bytes = 0
        if size >= CHUNK_BYTES:
            yield _chunk(spec.name, spec.shards, held, rows)
            held, rows, size = [], 0, 0
    if held:
        yield _chunk(spec.name, spec.shards, held, rows)


def _pages(state: LedgerState, spec: TableSpec) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of a table, each with its number of rows."""
    write = pages_of(spec.key, spec.value).write
    shards = list(state.table(spec.name).shard_rows())
    assert len(shards) == spec.shards, f"{spec.name} has {len(shards)} shards, not {spec.shards}"
    for shard, found in compress(enumerate(shards), shards):  # most shards of a small table are empty
        keys = sorted(found)
        for first in range(0, len(keys), PAGE_ROWS):
            some = keys[first : first + PAGE_ROWS]
            yield len(some), write(shard, some, found, state.info.level)


def _chunk(table: str, shards: int, content: Any, rows: int) -> Chunk:
    raw = encode((table, shards, content))
    return Chunk(chunk_name(raw), rows, raw)


class _Frame(Struct, array_like=True, forbid_unknown_fields=True):
    table: str
    shards: int
    content: Raw


_frames = msgspec.msgpack.Decoder(_Frame)
_scalars = msgspec.msgpack.Decoder(tuple[tuple[str, Raw], ...])


class ChunkReader:
    """Reads chunks into a state with empty tables. Equal names become one object."""

    def __init__(self, state: LedgerState) -> None:
        self._state = state
        self._pool: Pool = {}
        self._scalars = {
            state.STORED_NAMES.get(name, name): (name, msgspec.msgpack.Decoder(type(getattr(state, name))))
            for name in state.SCALARS
        }
        self._tables = {spec.name: _table_reader(state, spec) for spec in state.TABLES if not spec.derived}

    def read(self, raw: bytes) -> int:
        """Put a chunk's rows into the state and return their number. An exception states why a chunk is unreadable."""
        frame = _frames.decode(raw)
        if not frame.table:
            scalars = _scalars.decode(frame.content)
            for name, value in scalars:
                attribute, decoder = self._scalars[name]
                setattr(self._state, attribute, decoder.decode(value))
            return len(scalars)
        table, pages, decoder = self._tables[frame.table]
        count = 0
        for page in decoder.decode(frame.content):
            shard, rows = pages.read(page, self._pool)
            table.fill(shard, frame.shards, rows)
            count += len(rows)
        return count


def _table_reader(state: LedgerState, spec: TableSpec) -> tuple[Any, Any, Any]:
    pages = pages_of(spec.key, spec.value)
    return state.table(spec.name), pages, msgspec.msgpack.Decoder(list[pages.type])  # type: ignore[name-defined]


def digest_steps(state: LedgerState) -> Iterator[str | None]:
    """Yield the names of the state's chunks as they are computed; None: a step without a chunk."""
    for chunk in chunk_steps(state):
        yield chunk.name if chunk is not None else None


def digest_of_chunks(names: Iterable[str]) -> bytes:
    """Return the digest of the state whose chunks have these names."""
    return hashlib.blake2b(b"".join(map(bytes.fromhex, names)), digest_size=DIGEST_BYTES).digest()


def state_digest(state: LedgerState) -> bytes:
    """Return the digest of all stored tables and scalars of the state."""
    return digest_of_chunks(name for name in digest_steps(state) if name is not None)
