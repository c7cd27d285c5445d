"""Recordings: the logs of a run, or of a real ledger, in one file that can be folded again (`.hfr`).

    magic, version | what is recorded: msgpack, compressed | BLAKE2b of all bytes before it
    `- of every version -'                                  `------- of every version ------'

A recording says what made it (a seed, a scenario and a plan, or nothing for a real ledger) and holds, for each ledger,
where its log begins (empty, or a snapshot where the log was trimmed), every batch as it was written, and for each event
a short digest of what it did to the state under the code that recorded it. Code that does something else is found at
the first such event (see `refold`); a run that went another way is found where it first did (see `compare`).

Equal recordings are equal files, under one release of zlib: there is no time, path or name of a machine in them.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.core.ledger.codec import encode
from holdfast.core.model.values.structs import Row
from holdfast.replay.run_plan import RunPlan

PLATFORM_NAME = "platform"


#: The first byte is no text, and line ends that somebody translates are noticed.
MAGIC = b"\x89hfr\r\n\x1a\n"
VERSION = 1
SUFFIX = ".hfr"

_VERSION_BYTES = 2
_CHECKSUM_BYTES = 32
#: Most of a file is digests, which nothing compresses; the rest shrinks little more at higher levels.
_LEVEL = 6

#: Whose code folds a log.
LedgerKind = Literal["region", "platform"]


class RecordingError(Exception):
    """A file that cannot be read as a recording; the message says what it is and what can be done."""


class NotARecording(RecordingError):
    """The file is something else."""


class RecordingDamaged(RecordingError):
    """The file's bytes are not those that were written."""


class RecordingTooNew(RecordingError):
    """The file is intact, and another version wrote it."""


class RecordedRun(Row, frozen=True):
    """The simulation that was recorded: with the same code the same seed gives the same recording."""

    seed: int
    scenario: str
    #: The scenario as it was written down then: files change, recordings do not.
    text: str
    #: What went wrong and what people did; None: whatever the seed draws.
    plan: RunPlan | None = None
    #: Of everything that happened, and not only of the logs. Code that counts more gives another one.
    digest: str = ""


class SnapshotStart(Row, frozen=True):
    """The snapshot that a trimmed log is folded from: its manifest and its chunks, as they were stored."""

    manifest: bytes
    chunks: tuple[bytes, ...]


class RecordedBatch(Row, frozen=True):
    """A batch as it stands in the log, and the digests of what its events did, one after another.

    A batch that whoever recorded it could not fold to its end has fewer digests than events.
    """

    raw: bytes
    digest: bytes
    effects: bytes


class LedgerRecording(Row, frozen=True):
    """One ledger's log. `state` is the digest of what it folded to, and empty where it could not be folded."""

    name: str
    definition: LedgerKind
    start: SnapshotStart | None
    entries: tuple[RecordedBatch, ...]
    state: bytes


class Recording(Row, frozen=True):
    """Everything in one file. There is no run where real ledgers were recorded."""

    run: RecordedRun | None
    ledgers: tuple[LedgerRecording, ...]


_recordings = msgspec.msgpack.Decoder(Recording)


def to_bytes(recording: Recording) -> bytes:
    """The recording as a file holds it."""
    head = MAGIC + VERSION.to_bytes(_VERSION_BYTES, "big")
    return _sealed(head + zlib.compress(encode(recording), _LEVEL))


def from_bytes(raw: bytes, name: str = "recording") -> Recording:
    """The recording in a file's bytes. `NotARecording`, `RecordingDamaged`, `RecordingTooNew`."""
    if not raw.startswith(MAGIC):
        raise NotARecording(
            f"{name}: not a recording: it has {len(raw):,} bytes and does not begin as one. "
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
            f"{name}: a recording of version {version}, and this is a reader of version {VERSION}. "
            "hint: use a newer version of Holdfast, or record again with this one"
        )
    try:
        return _recordings.decode(zlib.decompress(body[first:]))
    except (msgspec.MsgspecError, ValueError, zlib.error) as error:
        raise RecordingTooNew(
            f"{name}: intact, and this version cannot read it: {error}. hint: use the version that wrote it"
        ) from error


def write(recording: Recording, path: Path) -> None:
    """Write the file whole or not at all: it has its name once every byte is on the disk."""
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
    """The recording in a file. `OSError`, `NotARecording`, `RecordingDamaged`, `RecordingTooNew`."""
    return from_bytes(path.read_bytes(), str(path))


def _sealed(body: bytes) -> bytes:
    return body + hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).digest()
