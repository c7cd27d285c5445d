"""Audit entries of a batch: actions of operators and tenants, from its evidence, and denials, from its events.

    record + audit event in the evidence ──▶ entry: accepted     denials-recorded ──▶ an entry per denial, with its code

Entries are derived from the log alone, in its order. `tenant` is the tenant that the command itself names.

`RecordDenials`: a refusal leaves no record by itself, so that no sender can grow the log with refused commands.
Operators need to see attempts, though: the host adds denials up and records the sums at most once a second
(`host.denials`). They are not folded; readers find them in the log.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.ledger.answers import Accepted, Code, Refused, too_large
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.codec import Batch, BatchReader, EnvelopeReader, Evidence, encode, read_evidence
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.commit.rules import CommandContext, CommandLane, CommandRule
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.override_effects import EmergencyQuota, PauseScheduling, effect_of
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import Quota, Tenant
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.decisions import AuditEvent, Denial
from holdfast.core.model.values.limits import DENIALS_MAX, TEXT_MAX
from holdfast.core.model.values.structs import Instant, Revision, Row


class RecordDenials(Row, frozen=True, tag="record-denials"):
    """Record the denials since the previous record, with actor, command, code and count."""

    denials: tuple[Denial, ...]


class DenialsRecorded(Row, frozen=True, tag="denials-recorded"):
    denials: tuple[Denial, ...]


def record_denials(state: LedgerState, command: RecordDenials, ctx: CommandContext) -> Accepted | Refused:
    """Accept 1 to `DENIALS_MAX` denials, each with a code, a count and valid times."""
    count = len(command.denials)
    if not 0 < count <= DENIALS_MAX:
        return too_large("denials in a record, which needs at least one", count, DENIALS_MAX)
    for one in command.denials:
        longest = max(map(len, (one.actor, one.what, one.code, one.tenant)))
        if longest > TEXT_MAX or not one.code or one.count < 1 or not 0 <= one.first <= one.last:
            facts = {"actor": one.actor[:TEXT_MAX], "count": one.count, "characters": longest}
            return Refused(Code.MALFORMED, "a denial has a code, a count, and a first and a last time", facts)
    return Accepted((DenialsRecorded(command.denials),))


def denials_recorded(state: LedgerState, event: DenialsRecorded, stamp: Stamp) -> None:
    """No effect: operators read denials in the log."""


RULE: CommandRule[Any] = CommandRule(
    RecordDenials,
    record_denials,
    ("ledger",),
    CommandLane.OPERATORS,
    "operators see denied attempts",
    "nothing to undo: it is a recorded fact",
)

ACCEPTED = "accepted"
DENIALS = str(RecordDenials.__struct_config__.tag)
_denials = msgspec.msgpack.Decoder(Denial)


class AuditEntry(Row, frozen=True):
    """An action or a denial: batch, part, revision, time, actor, command, outcome and tenant.

    The field `raw` is the audit event or the denial, encoded.
    """

    seq: int
    part: int
    revision: Revision
    at: Instant
    actor: str
    command: str
    outcome: str
    tenant: str
    raw: bytes

    def done(self) -> AuditEvent | None:
        """Return the audit event; None for a denial, or if this version cannot read it."""
        return _audited(self.raw) if self.outcome == ACCEPTED else None

    def denied(self) -> Denial:
        return _denials.decode(self.raw)


def has_entries(batch: Batch[Any]) -> bool:
    """Whether the batch contains actions or denials of operators and tenants."""
    return any(one.actor.partition("/")[0] in PEOPLE or one.command == DENIALS for one in batch.records)


def entries_in(raw: bytes, digest: bytes, batches: BatchReader[Any], commands: EnvelopeReader) -> list[AuditEntry]:
    """Return the audit entries of a batch, in its order. Raise what reading the batch raises."""
    batch = batches.read(raw, batches.header(raw).previous, digest)
    if not has_entries(batch):
        return []
    seq, beside = batch.header.seq, _beside(batches.evidence(raw))
    found: list[AuditEntry] = []
    position = pack_revision(seq)
    for number, record in enumerate(batch.records):
        payload = beside.get(number, b"")
        done = _audited(payload) if record.actor.partition("/")[0] in PEOPLE else None
        if done is not None:
            tenant = tenant_of(commands.command(done.body))
            said = (done.at, record.actor, done.command, ACCEPTED, tenant, payload)
            found.append(AuditEntry(seq, len(found), position, *said))
        for event in record.events:
            for denial in event.denials if isinstance(event, DenialsRecorded) else ():
                said = (denial.last, denial.actor, denial.what, denial.code, denial.tenant, encode(denial))
                found.append(AuditEntry(seq, len(found), position, *said))
            position += 1
    return found


def _beside(evidence: tuple[Evidence, ...]) -> dict[int, bytes]:
    """Map each record to its first evidence. A draft puts the audit event first; later evidence comes from the sender,
    who could imitate an audit event."""
    found: dict[int, bytes] = {}
    for one in evidence:
        found.setdefault(one.record, one.payload)
    return found


def _audited(payload: bytes) -> AuditEvent | None:
    try:
        found = read_evidence(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if isinstance(found, AuditEvent) else None


def tenant_of(command: Any) -> str:
    """Return the one tenant that a command names; empty if it names none, or only a uid."""
    sent = getattr(command, "object", None)
    if isinstance(sent, Tenant | Quota):
        return sent.meta.name
    if isinstance(sent, Principal):
        return _of_principal(sent.meta.name) or sent.spec.scope.tenant
    if isinstance(sent, Token):
        return _of_principal(sent.spec.principal)
    workload = getattr(command, "workload", None)
    if isinstance(workload, Workload):
        return workload.meta.tenant
    if isinstance(command, OpenOverride):
        effect = effect_of(command.action, command.target, command.facts)
        return effect.tenant if isinstance(effect, EmergencyQuota | PauseScheduling) else ""
    kind, name = getattr(command, "kind", ""), getattr(command, "name", "")
    if kind in (Tenant.__name__, Quota.__name__):
        return str(name)
    if kind == Principal.__name__:
        return _of_principal(str(name))
    return str(getattr(command, "tenant", "") or getattr(command, "scope", ""))


def _of_principal(name: str) -> str:
    kind, _, rest = name.partition("/")
    return rest if kind == "tenant" else ""
