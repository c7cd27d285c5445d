"""Recordings: the logs of a run, or of a real ledger, in one file that can be folded again (`.hfr`).

    magic, version | the recording: msgpack, compressed | BLAKE2b of all bytes before it
    `- of every version -'                                `----- of every version ------'

A recording names its origin: a seed, a scenario and a plan, or none for a real ledger. For each ledger it has the start
of the log (empty, or a snapshot if the log was trimmed) and every batch as it was written. For each event it has a
short digest of its effect under the code that recorded it. `refold` finds the first event with another effect;
`compare` finds where two runs first differ.

Equal recordings are equal files, under one release of zlib: they contain no time, path or machine name.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import encode
from holdfast.core.model.values.structs import Row


class PlannedFault(Struct, frozen=True, array_like=True):
    """A fault with its start, kind, target and length."""

    at: int
    what: str
    where: str
    lasts: int
    #: Seed of what is drawn when it happens, such as amount and direction.
    draw: int = 0


class PlannedAction(Struct, frozen=True, array_like=True):
    """An action of a user at a time; `draw` is the seed of its details."""

    at: int
    kind: str
    draw: int


class PlannedVariant(Struct, frozen=True, array_like=True):
    """A variant of a node, a workload or a tenant from the start; `draw` is the seed of its details (see `variety`)."""

    subject: str
    kind: str
    draw: int


class RunPlan(Struct, frozen=True, array_like=True):
    """Faults and actions in order of time, and the variants of the world."""

    length: int
    faults: tuple[PlannedFault, ...]
    acts: tuple[PlannedAction, ...]
    fittings: tuple[PlannedVariant, ...] = ()

    def odd(self, subject: str) -> list[tuple[str, Random]]:
        """Return the variants of a subject: each kind with a random stream for its details."""
        return [(one.kind, Random(one.draw)) for one in self.fittings if one.subject == subject]


PLATFORM_NAME = "platform"

#: The first byte is not text, and translated line ends are noticed.
MAGIC = b"\x89hfr\r\n\x1a\n"
VERSION = 1
SUFFIX = ".hfr"

_VERSION_BYTES = 2
_CHECKSUM_BYTES = 32
#: Most of a file is digests, which cannot be compressed; higher levels gain little for the rest.
_LEVEL = 6

#: The ledger definition that folds a log.
LedgerKind = Literal["region", "platform"]


class RecordingError(Exception):
    """A file that cannot be read as a recording; the message names it and the next step."""


class NotARecording(RecordingError):
    """The file is of another type."""


class RecordingDamaged(RecordingError):
    """The file's bytes are not those that were written."""


class RecordingTooNew(RecordingError):
    """The file is intact, but another version wrote it."""


class RecordedRun(Row, frozen=True):
    """The recorded simulation: with the same code the same seed gives the same recording."""

    seed: int
    scenario: str
    #: The text of the scenario at that time: files change, recordings do not.
    text: str
    #: Faults, actions and variants; None: those that the seed draws.
    plan: RunPlan | None = None
    #: Digest of the run, including its counters. Code with other counters has another digest.
    digest: str = ""


class SnapshotStart(Row, frozen=True):
    """The snapshot from which a trimmed log is folded: its manifest and its chunks, as stored."""

    manifest: bytes
    chunks: tuple[bytes, ...]


class RecordedBatch(Row, frozen=True):
    """A batch as it is in the log, and the concatenated digests of its events' effects.

    A batch that could not be folded completely has fewer digests than events.
    """

    raw: bytes
    digest: bytes
    effects: bytes


class LedgerRecording(Row, frozen=True):
    """One ledger's log. `state` is the digest of the final state, or empty if the log could not be folded."""

    name: str
    definition: LedgerKind
    start: SnapshotStart | None
    entries: tuple[RecordedBatch, ...]
    state: bytes


class Recording(Row, frozen=True):
    """The content of a file. `run` is None if real ledgers were recorded."""

    run: RecordedRun | None
    ledgers: tuple[LedgerRecording, ...]


_recordings = msgspec.msgpack.Decoder(Recording)


def to_bytes(recording: Recording) -> bytes:
    """Encode a recording as a file's bytes."""
    head = MAGIC + VERSION.to_bytes(_VERSION_BYTES, "big")
    return _sealed(head + zlib.compress(encode(recording), _LEVEL))


def from_bytes(raw: bytes, name: str = "recording") -> Recording:
    """Decode a file's bytes. Raise `NotARecording`, `RecordingDamaged` or `RecordingTooNew`."""
    if not raw.startswith(MAGIC):
        raise NotARecording(
            f"{name}: not a recording: it has {len(raw):,} bytes and does not begin like one. "
            f"hint: the names of recordings end in {SUFFIX}"
        )
    body = raw[:-_CHECKSUM_BYTES]
    first = len(MAGIC) + _VERSION_BYTES
    if len(body) < first or _sealed(body) != raw:
        raise RecordingDamaged(
            f"{name}: damaged: its {len(raw):,} bytes do not have the checksum they end with, "
            "so some are missing or changed. hint: copy the file again from where it was made"
        )
    version = int.from_bytes(body[len(MAGIC) : first], "big")
    if version > VERSION:
        raise RecordingTooNew(
            f"{name}: a recording of version {version}, but this program reads up to version {VERSION}. "
            "hint: use a newer version of Holdfast, or record again with this one"
        )
    try:
        return _recordings.decode(zlib.decompress(body[first:]))
    except (msgspec.MsgspecError, ValueError, zlib.error) as error:
        raise RecordingTooNew(
            f"{name}: intact, but this version cannot read it: {error}. hint: use the version that wrote it"
        ) from error


def write(recording: Recording, path: Path) -> None:
    """Write the complete file or none: it gets its name after every byte is on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(to_bytes(recording))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: Path) -> Recording:
    """Read a file. Raise `OSError`, `NotARecording`, `RecordingDamaged` or `RecordingTooNew`."""
    return from_bytes(path.read_bytes(), str(path))


def _sealed(body: bytes) -> bytes:
    return body + hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).digest()
