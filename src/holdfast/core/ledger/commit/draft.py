"""A batch under decision.

    BatchDraft(definition, state) --add(envelope, at)--> answers   on an overlay: readers of `state` see nothing of it
                                  --seal()-->  bytes, digest       the store appends them
                                  --commit()-->  state             once they are durable

A command's events, its answer and its request key are always in one batch. A draft that is not committed is dropped
without effect. Additions above the log's level are omitted before events are applied and encoded (see `levels`).

Size: what a ledger is, how it is decided and how it is folded are read together.
"""

from __future__ import annotations

from typing import Any, Generic

import msgspec
from msgspec import Struct

from holdfast.core.ledger import codec
from holdfast.core.ledger.answers import Accepted, Code, Refused, Repeated, too_large
from holdfast.core.ledger.codec import RECORD_BYTES_MAX
from holdfast.core.ledger.commit.authorization import PEOPLE, authorize, check_and_handle
from holdfast.core.ledger.commit.dedup import remember_answer
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandCoalescer, CommandContext
from holdfast.core.ledger.envelope import Envelope, Stamp
from holdfast.core.ledger.levels import LEVEL, AboveLevel, at_level, form
from holdfast.core.ledger.revision import INDEX_BITS, INDEX_MAX, pack_revision
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.records.decisions import AuditEvent
from holdfast.core.model.values.structs import Instant, Revision

#: Weight of a number in a range: writing its row takes as long as writing this many bytes.
ROW_BYTES = 32


class Committed(Struct, frozen=True, gc=False):
    """An accepted command of a draft, in effect once the batch is durable."""

    revision: Revision
    answer: bytes


#: The answer to one command of a draft.
CommandAnswer = Committed | Refused | Repeated


class BatchDraft(Generic[S]):
    """A batch under decision."""

    def __init__(self, definition: LedgerDefinition[S], state: S) -> None:
        self._definition = definition
        self._base = state
        self.state = state.overlay()
        self._seq = state.info.seq + 1
        self._next = pack_revision(self._seq)
        self._last = pack_revision(self._seq, INDEX_MAX)
        self._records: list[bytes] = []
        self._accepted: list[codec.LogRecord[Any]] = []
        self._decisions: list[codec.Evidence] = []
        self._audit: list[codec.Evidence] = []
        self._at = state.info.at
        self._row: CommandCoalescer | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, envelope: Envelope[Any], at: Instant) -> CommandAnswer:
        """Decide a command on top of the draft's earlier commands; an accepted command becomes part of the draft."""
        assert at >= self._at, f"ledger time runs backwards: {self._at} then {at}"
        first = self._next
        case = authorize(self._definition.rules, self.state, envelope, at, first)
        if not isinstance(case, CommandContext):
            return case
        case.level = self._definition.level
        answer = self._at_level(self._judge(case))
        if isinstance(answer, Refused):
            return answer
        events = answer.events
        record = _record(envelope, at, answer)
        raw = codec.encode(record if self._level() == LEVEL else form(record, self._level()))
        refused = self._refuse_size(case, len(raw), len(events))
        if refused is not None:
            self._settle()
            return refused
        self._apply(record, first)
        self._at = at
        self._next = first + len(events)
        self._keep_evidence(case, record.command)
        self._records.append(raw)
        self._accepted.append(record)
        self.size_bytes += len(raw) + ROW_BYTES * answer.rows
        return Committed(first, answer.answer)

    def _refuse_size(self, ctx: CommandContext, record_bytes: int, events: int) -> Refused | None:
        """Refuse a record that is too large for the log, or has more events than the batch has indexes left."""
        most = codec.COPY_BYTES_MAX if self._definition.rules[type(ctx.command)].copies else RECORD_BYTES_MAX
        if record_bytes > most:
            return too_large("bytes in its record", record_bytes, most)
        if self._next + events > self._last:
            return too_large("events in its batch", self._next + events - pack_revision(self._seq), INDEX_MAX)
        return None

    def _keep_evidence(self, ctx: CommandContext, command: str) -> None:
        """Add the sender's evidence and, for an operator or tenant, an audit event of the command."""
        number, envelope = len(self._records), ctx.envelope
        if envelope.evidence:
            self._decisions.append(codec.Evidence(number, envelope.evidence))
        if ctx.kind in PEOPLE:
            done = AuditEvent(ctx.actor, ctx.at, command, codec.encode(envelope.command), envelope.expect, envelope.via)
            audit = codec.encode(done if self._level() == LEVEL else form(done, self._level()))
            self._audit.append(codec.Evidence(number, audit))
            self.size_bytes += len(audit)

    def _judge(self, ctx: CommandContext) -> Accepted | Refused:
        """Decide with the current coalescer where possible, otherwise with the handler alone."""
        rule = self._definition.rules[type(ctx.command)]
        if rule.coalescer is not None:
            if self._row is None or self._row.at != ctx.at:
                self._settle()
                self._row = rule.coalescer(self.state, ctx.at)
            answer = self._row.try_accept(ctx.command, ctx)
            if answer is not None:
                return answer
        self._settle()
        return check_and_handle(rule, self.state, ctx)

    def _level(self) -> int:
        """Return the level of the next record: the log's, or this server's for a new log."""
        facts = self.state.info
        return facts.level if facts.log_id else self._definition.level

    def _at_level(self, answer: Accepted | Refused) -> Accepted | Refused:
        """Return the answer without additions above the log's level. Refuse if an event itself is above it."""
        level = self._level()
        if level == LEVEL or isinstance(answer, Refused):
            return answer
        try:
            return Accepted(at_level(answer.events, level), answer.answer, answer.rows)
        except AboveLevel as above:
            self._settle()
            facts = {"level": level, "needs": above.level}
            return Refused(Code.LEVEL, f"the log is of level {level}, and {above}: raise it first", facts)

    def _apply(self, record: codec.LogRecord[Any], first: Revision) -> None:
        if self._row is None:
            apply_record(self._definition, self.state, record, first)
            return
        self._row.stage(record.events, first, record.actor)
        if record.session or record.key:
            remember_answer(self.state, record, first)

    def _settle(self) -> None:
        if self._row is not None:
            self._row.flush()
            self._row = None

    def seal(self) -> tuple[bytes, bytes]:
        """Return the batch's bytes and digest. Evidence that does not fit is left out; audit events never are."""
        self._settle()
        facts = self._base.info
        header = self._header()
        raw = codec.encode_batch(header, self._records, self._fitting_evidence())
        digest = codec.chain(facts.digest, raw)
        self.state.info = msgspec.structs.replace(self.state.info, seq=self._seq, digest=digest, at=self._at)
        return raw, digest

    def _header(self) -> codec.Header:
        facts, term = self._base.info, self.state.info
        # The first batch of a log names the log.
        return codec.Header(facts.log_id or term.log_id, self._seq, term.term, term.level, facts.digest)

    def batch(self) -> codec.Batch[Any]:
        """Return the sealed batch as a reader of the log decodes it. Call it before `commit`."""
        assert self.state.info.seq == self._seq, "a draft is a batch only after it was sealed"
        return codec.Batch(self._header(), tuple(self._accepted), self.state.info.digest)

    def _fitting_evidence(self) -> list[codec.Evidence]:
        """Return the evidence that fits. An audit event is always included, as the first of its record: so a reader can
        distinguish it from evidence that the sender added."""
        left = codec.EVIDENCE_BYTES_MAX
        kept = list(self._audit)
        for one in self._decisions:
            if len(one.payload) <= left:
                kept.append(one)
                left -= len(one.payload)
        return sorted(kept, key=lambda one: one.record)

    def commit(self) -> None:
        """Make the sealed batch, which is durable, the state."""
        assert self.state.info.seq == self._seq, "a draft is committed only after it was sealed"
        self._base.merge(self.state)


def _record(envelope: Envelope[Any], at: Instant, answer: Accepted) -> codec.LogRecord[Any]:
    key, body = 0, b""
    if envelope.key:
        key, body = codec.key_id(envelope.actor, envelope.key), codec.body_digest(envelope)
    return codec.LogRecord(
        at,
        envelope.sent,
        envelope.actor,
        type(envelope.command).__struct_config__.tag,
        envelope.cause,
        envelope.session,
        envelope.sequence,
        key,
        body,
        answer.answer,
        answer.events,
    )


def apply_record(definition: LedgerDefinition[S], state: S, record: codec.LogRecord[Any], first: Revision) -> Revision:
    """Apply a record whose first event has this revision; return the revision after its last."""
    apply, at, actor = definition.apply, record.at, record.actor
    position = first
    for event in record.events:
        apply[type(event)](state, event, Stamp(position, at, actor))
        position += 1
    if record.session or record.key:
        remember_answer(state, record, first)
    return position


def fold(definition: LedgerDefinition[S], state: S, batch: codec.Batch[Any]) -> None:
    """Apply a batch from the log, as followers, restarts, replays and views do."""
    header = batch.header
    assert header.seq == state.info.seq + 1, f"batch {header.seq} after {state.info.seq}"
    position = header.seq << INDEX_BITS
    at = state.info.at
    for record in batch.records:
        position = apply_record(definition, state, record, position)
        at = record.at
    state.info = msgspec.structs.replace(state.info, seq=header.seq, digest=batch.digest, at=at)
