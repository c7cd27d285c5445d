"""Snapshots: the chunks of a state, and the manifest that makes them count.

    write    for chunk in steps(fork):  keep it, unless it is None; give way
             encode_manifest(manifest_of(fork, parts))                         last of all (RULES 20)
    read     manifest = decode_manifest(raw)
             restore(state, manifest, chunks)                                  in the manifest's order

    steps(state) -> Iterator[Chunk | None]          Chunk: name, rows, raw. None: nothing yet, give way
    part_of(chunk) -> Part                          what a manifest says of a chunk; the bytes can be let go
    manifest_of(state, parts) -> Manifest           of the fork that was written
    encode_manifest(manifest) -> bytes
    decode_manifest(raw, level) -> Manifest         Corrupt, UpgradeNeeded
    Restore(state, manifest)                        .take(raw) for each chunk, then .finish(): for hosts that give way
    restore(state, manifest, chunks)                all of it at once; Corrupt, UpgradeNeeded
    verify(manifest, place, raw)                    one chunk read back, without a state: Corrupt

Bytes that are not those that were written are `Corrupt`: the message names the snapshot, the chunk and both digests.
Bytes that are intact and cannot be read are `UpgradeNeeded`: another version wrote them. A manifest carries a digest of
itself and the digest of the state, which is that of its chunks' names: once each chunk has its name, the rows are those
of the state that was written, and no row is hashed by itself.

Reading makes a few objects for each row and no garbage: hosts load with the collector off, and call `gc.freeze()` after
it, or a single pass of the collector costs as much as reading (RULES 22).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import DIGEST_BYTES, Corrupt, UpgradeNeeded, encode
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state.chunks import Chunk, ChunkReader, chunk_name, digest_of_chunks
from holdfast.core.ledger.state.columns import BadPage
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.values.structs import Row


class ManifestEntry(Row, frozen=True):
    """A chunk as its manifest names it."""

    name: str
    rows: int
    size_bytes: int


class Manifest(Row, frozen=True):
    """A snapshot: of which log, after which batch, of which state, and its chunks in order."""

    log_id: str
    ledger: str
    seq: int
    digest: bytes
    term: int
    level: int
    state: bytes
    parts: tuple[ManifestEntry, ...]

    @property
    def rows(self) -> int:
        """How many rows it holds; a scalar counts as one."""
        return sum(part.rows for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """What its chunks take."""
        return sum(part.size_bytes for part in self.parts)


class _Sealed(Struct, array_like=True, forbid_unknown_fields=True):
    level: int
    digest: bytes
    body: bytes


_sealed = msgspec.msgpack.Decoder(_Sealed)
_manifests = msgspec.msgpack.Decoder(Manifest)


def manifest_entry(chunk: Chunk) -> ManifestEntry:
    """What a manifest says of a chunk."""
    return ManifestEntry(chunk.name, chunk.rows, len(chunk.raw))


def manifest_of(state: LedgerState, parts: Sequence[ManifestEntry]) -> Manifest:
    """The manifest of a state whose chunks are these."""
    facts = state.info
    digest = digest_of_chunks(part.name for part in parts)
    return Manifest(facts.log_id, facts.ledger, facts.seq, facts.digest, facts.term, facts.level, digest, tuple(parts))


def _seal(level: int, body: bytes) -> bytes:
    return hashlib.blake2b(encode((level, body)), digest_size=DIGEST_BYTES).digest()


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's bytes, with their digest."""
    body = encode(manifest)
    return encode((manifest.level, _seal(manifest.level, body), body))


def decode_manifest(raw: bytes, level: int = LEVEL) -> Manifest:
    """The manifest in these bytes. `Corrupt` when they are not what was written, `UpgradeNeeded` above the level."""
    try:
        sealed = _sealed.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(f"a manifest of {len(raw)} bytes cannot be read: {error}") from error
    found = _seal(sealed.level, sealed.body)
    if found != sealed.digest:
        raise Corrupt(f"a manifest of {len(raw)} bytes has digest {found.hex()}, it says {sealed.digest.hex()}")
    if sealed.level > level:
        raise UpgradeNeeded(f"a manifest is of level {sealed.level}; this version reads {level}")
    try:
        manifest = _manifests.decode(sealed.body)
        state = digest_of_chunks(part.name for part in manifest.parts)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UpgradeNeeded(f"a manifest is intact and cannot be read by this version: {error}") from error
    if state != manifest.state:
        raise Corrupt(
            f"{_of(manifest)} names chunks of a state with digest {state.hex()}, and says {manifest.state.hex()}"
        )
    return manifest


def _of(manifest: Manifest) -> str:
    return f"the snapshot of {manifest.ledger} after batch {manifest.seq}"


def verify(manifest: Manifest, place: int, raw: bytes) -> None:
    """See that these bytes are the chunk at a place of the snapshot, the first at 0. `Corrupt` when they are not."""
    which = f"chunk {place + 1} of {len(manifest.parts)} of {_of(manifest)}"
    if place >= len(manifest.parts):
        raise Corrupt(f"{which} is one too many: {len(raw)} bytes with digest {chunk_name(raw)}")
    part, found = manifest.parts[place], chunk_name(raw)
    if found != part.name:
        sizes = f"{len(raw)} bytes instead of {part.size_bytes}"
        raise Corrupt(f"{which} has digest {found}, its manifest says {part.name}: {sizes}")


class SnapshotLoader:
    """A snapshot being read into an empty state, chunk by chunk."""

    def __init__(self, state: LedgerState, manifest: Manifest) -> None:
        assert not state.info.seq, f"a snapshot is read into an empty state, not after batch {state.info.seq}"
        self._state = state
        self._manifest = manifest
        self._reader = ChunkReader(state)
        self._taken = 0

    def take(self, raw: bytes) -> None:
        """Verify and read the next chunk. `Corrupt`, `UpgradeNeeded`; the state is of no use after either."""
        manifest, place = self._manifest, self._taken
        verify(manifest, place, raw)
        try:
            rows = self._reader.read(raw)
            if rows != manifest.parts[place].rows:
                raise BadPage(f"it has {rows} rows, its manifest says {manifest.parts[place].rows}")
        except (msgspec.MsgspecError, ValueError, LookupError, BadPage) as error:
            which = f"chunk {place + 1} of {len(manifest.parts)} of {_of(manifest)}"
            raise UpgradeNeeded(f"{which} is intact and cannot be read by this version: {error!r}") from error
        self._taken += 1

    def finish(self) -> None:
        """See that nothing is missing, and rebuild what is derived."""
        manifest, facts = self._manifest, self._state.info
        if self._taken < len(manifest.parts):
            missing = manifest.parts[self._taken].name
            raise Corrupt(f"chunk {self._taken + 1} of {len(manifest.parts)} of {_of(manifest)} is missing: {missing}")
        told = (manifest.log_id, manifest.ledger, manifest.seq, manifest.digest)
        if (facts.log_id, facts.ledger, facts.seq, facts.digest) != told:
            raise Corrupt(
                f"{_of(manifest)} holds the state of {facts.ledger} after batch {facts.seq}: its log has digest "
                f"{facts.digest.hex()}, its manifest says {manifest.digest.hex()}"
            )
        self._state.rebuild()


def restore(state: LedgerState, manifest: Manifest, chunks: Iterable[bytes]) -> None:
    """Fill an empty state from a snapshot's chunks, in the manifest's order. `Corrupt`, `UpgradeNeeded`."""
    under_way = SnapshotLoader(state, manifest)
    for raw in chunks:
        under_way.take(raw)
    under_way.finish()
