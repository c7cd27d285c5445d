"""Snapshots: the chunks of a state, and the manifest that makes them valid.

    write    for chunk in chunk_steps(fork):  store it, unless it is None; yield to the host
             encode_manifest(manifest_of(fork, parts))                         last of all (RULES 20)
    read     manifest = decode_manifest(raw)
             restore(state, manifest, chunks)                                  in the manifest's order

    chunk_steps(state) -> Iterator[Chunk | None]    Chunk: name, rows, raw. None: no chunk yet, yield to the host
    manifest_entry(chunk) -> ManifestEntry          the entry of a chunk; the bytes can be freed
    manifest_of(state, parts) -> Manifest           of the fork that was written
    encode_manifest(manifest) -> bytes
    decode_manifest(raw, level) -> Manifest         Corrupt, UpgradeNeeded
    SnapshotLoader(state, manifest)                 .take(raw) for each chunk, then .finish(): for hosts that yield
    restore(state, manifest, chunks)                all of it at once; Corrupt, UpgradeNeeded
    verify(manifest, place, raw)                    one chunk read back, without a state: Corrupt

Bytes that differ from those that were written are `Corrupt`: the message names the snapshot, the chunk and both
digests. Intact bytes that cannot be read are `UpgradeNeeded`: another version wrote them. A manifest has a digest of
itself and the digest of the state, which is that of its chunks' names. So if each chunk matches its name, the rows are
those of the written state, and no row is hashed separately.

Reading creates a few objects per row and no garbage. Hosts load with the garbage collector off and call `gc.freeze()`
afterwards; otherwise one collection costs as much as reading (RULES 22).
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
    """The name and size of a chunk in a manifest."""

    name: str
    rows: int
    size_bytes: int


class Manifest(Row, frozen=True):
    """A snapshot: its log, the last batch, the state's digest, and its chunks in order."""

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
        """The number of rows in the snapshot; a scalar counts as one."""
        return sum(part.rows for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """The size of all its chunks."""
        return sum(part.size_bytes for part in self.parts)


class _Sealed(Struct, array_like=True, forbid_unknown_fields=True):
    level: int
    digest: bytes
    body: bytes


_sealed = msgspec.msgpack.Decoder(_Sealed)
_manifests = msgspec.msgpack.Decoder(Manifest)


def manifest_entry(chunk: Chunk) -> ManifestEntry:
    return ManifestEntry(chunk.name, chunk.rows, len(chunk.raw))


def manifest_of(state: LedgerState, parts: Sequence[ManifestEntry]) -> Manifest:
    facts = state.info
    digest = digest_of_chunks(part.name for part in parts)
    return Manifest(facts.log_id, facts.ledger, facts.seq, facts.digest, facts.term, facts.level, digest, tuple(parts))


def _seal(level: int, body: bytes) -> bytes:
    return hashlib.blake2b(encode((level, body)), digest_size=DIGEST_BYTES).digest()


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest's bytes, with their digest."""
    body = encode(manifest)
    return encode((manifest.level, _seal(manifest.level, body), body))


def decode_manifest(raw: bytes, level: int = LEVEL) -> Manifest:
    """Return the manifest in these bytes. Raise `Corrupt` if they were altered, `UpgradeNeeded` above the level."""
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
    """Check that these bytes are the chunk at a place of the snapshot, the first at 0. Raise `Corrupt` if not."""
    which = f"chunk {place + 1} of {len(manifest.parts)} of {_of(manifest)}"
    if place >= len(manifest.parts):
        raise Corrupt(f"{which} is one too many: {len(raw)} bytes with digest {chunk_name(raw)}")
    part, found = manifest.parts[place], chunk_name(raw)
    if found != part.name:
        sizes = f"{len(raw)} bytes instead of {part.size_bytes}"
        raise Corrupt(f"{which} has digest {found}, its manifest says {part.name}: {sizes}")


class SnapshotLoader:
    """Loads a snapshot into an empty state, chunk by chunk."""

    def __init__(self, state: LedgerState, manifest: Manifest) -> None:
        assert not state.info.seq, f"a snapshot is read into an empty state, not after batch {state.info.seq}"
        self._state = state
        self._manifest = manifest
        self._reader = ChunkReader(state)
        self._taken = 0

    def take(self, raw: bytes) -> None:
        """Verify and read the next chunk. Raise `Corrupt` or `UpgradeNeeded`; the state is unusable after either."""
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
        """Check that no chunk is missing, and rebuild derived tables."""
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
    """Fill an empty state from a snapshot's chunks, in the manifest's order. Raise `Corrupt` or `UpgradeNeeded`."""
    under_way = SnapshotLoader(state, manifest)
    for raw in chunks:
        under_way.take(raw)
    under_way.finish()
