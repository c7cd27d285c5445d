"""Canonical bytes: records, batches, the hash chain, and a decoder that rejects unknown fields and tags.

A batch is `[header, records, evidence]`. Folding reads the first two and skips the third: evidence is durable with its
batch and never part of state. The digest of a batch covers the previous digest, so it identifies the complete log up to
that batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from holdfast.core.ledger.answers import Code, Refused, too_large
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL, plainest
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.decisions import AuditEvent, DecisionEvidence
from holdfast.core.model.values.structs import Instant, Revision, Row

E = TypeVar("E")

DIGEST_BYTES = 32
RECORD_BYTES_MAX = 1 << 20
#: Limit for a copy of another ledger's object: the largest record of that ledger, plus its framing here.
COPY_BYTES_MAX = RECORD_BYTES_MAX + (64 << 10)
EVIDENCE_BYTES_MAX = 1 << 20

_encoder = msgspec.msgpack.Encoder(order="deterministic")
encode = _encoder.encode


class LogRecord(Struct, Generic[E], frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One accepted command in the log: actor, times, cause, the answer for retries, and its events."""

    at: Instant
    sent: Instant
    actor: str
    command: str
    cause: Revision
    session: Revision
    sequence: int
    key: int
    body: bytes
    answer: bytes
    events: tuple[E, ...]


class Header(Row, frozen=True):
    """The log position, term and level of a batch, and the digest of the previous batch."""

    log_id: str
    seq: int
    term: int
    level: int
    previous: bytes


class Evidence(Row, frozen=True):
    """An encoded decision or audit event that belongs to the record with this index in its batch."""

    record: int
    payload: bytes


class _Frame(Struct, array_like=True, forbid_unknown_fields=True):
    header: Header
    records: Raw
    evidence: Raw


class Batch(Struct, Generic[E], frozen=True):
    """A decoded batch."""

    header: Header
    records: tuple[LogRecord[E], ...]
    digest: bytes


class Corrupt(Exception):
    """The bytes of a batch differ from those that were written. The message names its position and both digests."""


class UpgradeNeeded(Exception):
    """A batch is intact, but this version cannot read it. The reader stops and does not guess."""


def chain(previous: bytes, raw: bytes) -> bytes:
    """Return the digest of a batch: a hash of the previous digest and the batch's bytes."""
    return hashlib.blake2b(previous + raw, digest_size=DIGEST_BYTES).digest()


def encode_batch(header: Header, records: Sequence[bytes], evidence: Sequence[Evidence]) -> bytes:
    """Return the bytes of a batch, given its encoded records."""
    return encode([header, [Raw(record) for record in records], evidence])


_frames = msgspec.msgpack.Decoder(_Frame)
_evidence = msgspec.msgpack.Decoder(tuple[Evidence, ...])


def _frame(raw: bytes) -> _Frame:
    try:
        return _frames.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UpgradeNeeded(f"a batch of {len(raw)} bytes has a frame this version cannot read: {error}") from error


class BatchReader(Generic[E]):
    """Decodes batches of one ledger's events, up to a level."""

    def __init__(self, events: Any, level: int = LEVEL) -> None:
        self._events = events
        self.level = level
        self._records: msgspec.msgpack.Decoder[tuple[LogRecord[E], ...]]
        self._records = msgspec.msgpack.Decoder(tuple[LogRecord[events], ...])

    def of_level(self, level: int) -> BatchReader[E]:
        """Return a reader of these events that rejects levels above this one."""
        return BatchReader(self._events, level)

    def read(self, raw: bytes, previous: bytes, digest: bytes) -> Batch[E]:
        """Return the batch that follows `previous` and has this `digest`. Raise `Corrupt` or `UpgradeNeeded`."""
        found = chain(previous, raw)
        if found != digest:
            raise Corrupt(f"batch of {len(raw)} bytes has digest {found.hex()}, the log says {digest.hex()}")
        frame = _frame(raw)
        header = frame.header
        if header.previous != previous:
            raise Corrupt(f"batch {header.seq} follows {header.previous.hex()}, not {previous.hex()}")
        if header.level > self.level:
            raise UpgradeNeeded(f"batch {header.seq} is of level {header.level}; this version reads {self.level}")
        try:
            return Batch(header, self._records.decode(frame.records), found)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UpgradeNeeded(f"batch {header.seq} cannot be read by this version: {error}") from error

    def header(self, raw: bytes) -> Header:
        """Return the header of a batch. The records are not read and the digest is not checked."""
        return _frame(raw).header

    def evidence(self, raw: bytes) -> tuple[Evidence, ...]:
        """Return the evidence of a batch, which folding never reads."""
        return _evidence.decode(_frames.decode(raw).evidence)


class EnvelopeReader:
    """Decodes envelopes of one ledger's commands, or returns a refusal for malformed bytes."""

    def __init__(self, commands: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[Envelope[Any]]
        self._decoder = msgspec.msgpack.Decoder(Envelope[commands])
        self._commands: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(commands)

    def read(self, raw: bytes) -> Envelope[Any] | Refused:
        """Return the envelope, or the refusal if the bytes contain none."""
        if len(raw) > RECORD_BYTES_MAX:
            return too_large("bytes in a command", len(raw), RECORD_BYTES_MAX)
        try:
            return self._decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return Refused(Code.MALFORMED, f"not a command: {error}", {"error": str(error)})

    def command(self, raw: bytes) -> Any | None:
        """Decode a command alone, as an audit event stores it. None: this version cannot read it."""
        try:
            return self._commands.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


_items: msgspec.msgpack.Decoder[DecisionEvidence | AuditEvent] = msgspec.msgpack.Decoder(DecisionEvidence | AuditEvent)


def read_evidence(payload: bytes) -> DecisionEvidence | AuditEvent:
    """Decode the payload of an evidence. Raise `msgspec.MsgspecError` if a scheduler sent anything else."""
    return _items.decode(payload)


def body_digest(envelope: Envelope[Any]) -> bytes:
    """Return the digest that an idempotency key is bound to: of the command and the revision its sender expects.

    The command is encoded at the lowest level that loses nothing. So a retry matches after an upgrade that added
    fields. Some commands had an `expect` field before envelopes had one: the expected revision is then encoded in that
    field, whether it came there or in the envelope.
    """
    command, expect = envelope.command, envelope.expect
    if expect and hasattr(command, "expect"):
        command, expect = msgspec.structs.replace(command, expect=expect), 0
    body = encode(plainest(command))
    if expect:
        body += encode(expect)
    return hashlib.blake2b(body, digest_size=16).digest()


def template_digest(template: Template) -> str:
    """Return the name of a template. Equal templates have one name, whichever author or version computes it."""
    return hashlib.blake2b(encode(plainest(template)), digest_size=16).hexdigest()


def key_id(actor: str, key: str) -> int:
    """Return the number of an idempotency key, which is scoped to its actor."""
    digest = hashlib.blake2b(f"{actor}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1
