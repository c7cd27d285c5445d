"""The digest of a whole state, and snapshots in chunks.

The digest is a sum over rows: each row's own digest, added modulo 2^256. It does not depend on any order or on how
tables are sharded, so a follower, a replay and a restored snapshot agree exactly when their rows do. Derived tables
are left out: they are rebuilt, and the invariants compare them with what they come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.core.ledger.codec import Corrupt, encode
from holdfast.core.ledger.state import LedgerState
from holdfast.core.ledger.table import Table

_MODULUS = 1 << 256
CHUNK_ROWS = 5_000


def _row_digest(table: str, key: Any, value: Any) -> int:
    raw = encode((table, key, value))
    return int.from_bytes(hashlib.blake2b(raw, digest_size=32).digest(), "big")


def digest_steps(state: LedgerState) -> Iterator[int]:
    """Partial sums, one per shard, so that a host can give way between them."""
    for name in state.SCALARS:
        yield _row_digest(name, "", getattr(state, name))
    for spec in state.TABLES:
        if not spec.derived:
            for shard in state.table(spec.name).shard_rows():
                yield sum(_row_digest(spec.name, key, value) for key, value in shard.items())


def state_digest(state: LedgerState) -> bytes:
    """The digest of everything in the state that is not derived."""
    return (sum(digest_steps(state)) % _MODULUS).to_bytes(32, "big")


def snapshot(state: LedgerState) -> Iterator[bytes]:
    """The state in chunks, from durable tables only; take it from a fork and give way between chunks."""
    yield encode(("", [(name, getattr(state, name)) for name in state.SCALARS]))
    for spec in state.TABLES:
        if spec.derived:
            continue
        rows: list[tuple[Any, Any]] = []
        for shard in state.table(spec.name).shard_rows():
            rows.extend(sorted(shard.items(), key=lambda row: row[0]))
            while len(rows) >= CHUNK_ROWS:
                yield encode((spec.name, rows[:CHUNK_ROWS]))
                del rows[:CHUNK_ROWS]
        if rows:
            yield encode((spec.name, rows))


def _rows_decoder(key: Any, value: Any) -> Any:
    return msgspec.msgpack.Decoder(tuple[tuple[key, value], ...])


def restore(state: LedgerState, chunks: Iterable[bytes], digest: bytes) -> None:
    """Fill an empty state from a snapshot. `Corrupt` when the rows are not those that were digested."""
    scalars = {name: msgspec.msgpack.Decoder(type(getattr(state, name))) for name in state.SCALARS}
    tables = {
        spec.name: (state.table(spec.name), _rows_decoder(spec.key, spec.value))
        for spec in state.TABLES
        if not spec.derived
    }
    for raw in chunks:
        try:
            _restore_chunk(state, scalars, tables, raw)
        except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as error:
            raise Corrupt(f"a snapshot chunk of {len(raw)} bytes cannot be read: {error}") from error
    found = state_digest(state)
    if found != digest:
        raise Corrupt(f"the snapshot's rows have digest {found.hex()}, its manifest says {digest.hex()}")
    state.rebuild()


class _Named(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    table: str
    rows: msgspec.Raw


_named = msgspec.msgpack.Decoder(_Named)
_pairs = msgspec.msgpack.Decoder(tuple[tuple[str, msgspec.Raw], ...])


def _restore_chunk(state: LedgerState, scalars: dict[str, Any], tables: dict[str, Any], raw: bytes) -> None:
    chunk = _named.decode(raw)
    if not chunk.table:
        for name, value in _pairs.decode(chunk.rows):
            setattr(state, name, scalars[name].decode(value))
        return
    table: Table[Any, Any]
    table, decoder = tables[chunk.table]
    put = table.put
    for key, value in decoder.decode(chunk.rows):
        put(key, value)
