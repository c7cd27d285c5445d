"""Scheduling decisions in a batch of the log: one per pass of a scheduler and tenant, with its outcome.

    record (propose, report-pending) + its evidence ──▶ DecisionWithParts: tenant, time, actor, findings, placements

They are read from the log alone; only assignments come from the caller. A placement without evidence is a decision too:
the record has its time, actor and nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, Evidence, LogRecord, read_evidence
from holdfast.core.ledger.partial import decode_refused_parts
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.decisions import (
    DecisionEvidence,
    DecisionOutcome,
    DecisionPart,
    DecisionWithParts,
    Refusals,
    SchedulingPass,
    StoredDecision,
    pack,
)
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.commands import Propose, ReportPending
from holdfast.core.region.events import PendingReported, RegionEvent, SlotsPlaced

PROPOSE, REPORT = str(Propose.__struct_config__.tag), str(ReportPending.__struct_config__.tag)
#: Commands that contain decisions.
COMMANDS = (PROPOSE, REPORT)
#: Return the assignment of a uid; None: it is no longer known.
Whose = Callable[[Revision], Assignment | None]
#: A request: its assignment and its template.
_Key = tuple[Revision, str]


def has_decisions(batch: Batch[RegionEvent]) -> bool:
    return any(record.command in COMMANDS for record in batch.records)


def decisions_in(batch: Batch[RegionEvent], evidence: Iterable[Evidence], whose: Whose) -> list[DecisionWithParts]:
    """Return all decisions of a batch, in its order."""
    said = {one.record: one.payload for one in evidence}
    found: list[DecisionWithParts] = []
    position, number = pack_revision(batch.header.seq), pack_revision(batch.header.seq)
    for place, record in enumerate(batch.records):
        if record.command in COMMANDS:
            decision = _read(said.get(place, b""))
            for one in _Reading(record, decision, whose).decisions():
                found.append(DecisionWithParts(replace(one.decided, number=number, revision=position), one.parts))
                number += 1
        position += len(record.events)
    return found


def _read(payload: bytes) -> DecisionEvidence:
    """Return the scheduler's evidence; empty if it cannot be read as such."""
    try:
        found = read_evidence(payload) if payload else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = None
    return found if isinstance(found, DecisionEvidence) else DecisionEvidence(0, 0, ())


class _Reading:
    """One record with its scheduler's evidence."""

    def __init__(self, record: LogRecord[RegionEvent], decision: DecisionEvidence, whose: Whose) -> None:
        self._record = record
        self._decision = decision
        self._whose = whose
        self._placed = _placed(record)
        self._waiting = {(e.assignment, e.template): e for e in record.events if isinstance(e, PendingReported)}
        self._refused = _refused(record, decision)
        #: View in the events; the only one known if the evidence is missing.
        self._view = next((event.evidence for event in record.events if isinstance(event, SlotsPlaced)), 0)

    def decisions(self) -> Iterator[DecisionWithParts]:
        """Yield the decisions of its passes; then placements and reports that no pass covers."""
        told: set[_Key] = set()
        for number, one in enumerate(self._decision.passes):
            keys = {(uid, one.template): generation for uid, generation in one.requests}
            if self._waiting:  # a report is about one request, whatever others its evidence names
                keys = {key: generation for key, generation in keys.items() if key in self._waiting}
            keys = {key: generation for key, generation in keys.items() if key not in told}
            told.update(keys)
            yield from self._by_tenant(one, keys, self._refused.get(number, ()))
        silent = dict.fromkeys([key for key in (*self._placed, *self._waiting) if key not in told], 0)
        yield from self._by_tenant(None, silent, ())

    def _by_tenant(
        self, found: SchedulingPass | None, keys: dict[_Key, int], refused: Refusals
    ) -> Iterator[DecisionWithParts]:
        """Yield one decision per tenant of these requests: a tenant sees only its own."""
        tenants: dict[str, list[DecisionPart]] = {}
        reasons: dict[str, tuple[PendingReason, ...]] = {}
        for key, generation in keys.items():
            assignment = self._whose(key[0])
            tenant = assignment.tenant if assignment is not None else ""
            tenants.setdefault(tenant, []).append(self._part(key, generation, assignment))
            if key in self._waiting:
                reasons[tenant] = self._waiting[key].reasons
        for tenant, parts in tenants.items():
            yield self._decided(found, tenant, tuple(parts), reasons.get(tenant, ()), refused)

    def _part(self, key: _Key, generation: int, assignment: Assignment | None) -> DecisionPart:
        part = self._placed.get(key)
        if part is not None:
            return replace(part, generation=generation)
        if key in self._waiting:
            return DecisionPart(key[0], self._waiting[key].workload, generation)
        return DecisionPart(key[0], assignment.workload if assignment is not None else 0, generation)

    def _decided(
        self,
        found: SchedulingPass | None,
        tenant: str,
        parts: tuple[DecisionPart, ...],
        reasons: tuple[PendingReason, ...],
        refused: Refusals,
    ) -> DecisionWithParts:
        record, decision = self._record, self._decision
        decided = StoredDecision(
            number=0,
            revision=0,
            at=record.at,
            actor=record.actor,
            tenant=tenant,
            outcome=_outcome(record, parts, found, reasons, refused),
            view=decision.view or self._view,
            policy=decision.policy,
            in_flight=len(decision.in_flight),
            plugins=decision.plugins,
            found=replace(found, requests=()) if found is not None else None,
            refused=refused,
            reasons=reasons,
        )
        return DecisionWithParts(decided, parts)


def _outcome(
    record: LogRecord[RegionEvent],
    parts: tuple[DecisionPart, ...],
    found: SchedulingPass | None,
    reasons: tuple[PendingReason, ...],
    refused: Refusals,
) -> DecisionOutcome:
    if record.command == REPORT:
        never = bool(reasons) and reasons[0].code == ConditionReason.NEVER_FITS.value
        return DecisionOutcome.NEVER_FITS if never else DecisionOutcome.WAITING
    if not any(part.ordinals for part in parts):
        return DecisionOutcome.REFUSED
    is_whole = not refused and (found is None or found.outcome == DecisionOutcome.PLACED.value)
    return DecisionOutcome.PLACED if is_whole else DecisionOutcome.IN_PART


def _placed(record: LogRecord[RegionEvent]) -> dict[_Key, DecisionPart]:
    """Return placements by request. An event is for one account, so a request may have several."""
    whole: dict[_Key, tuple[Revision, list[int], list[int]]] = {}
    for event in record.events:
        if isinstance(event, SlotsPlaced):
            key = (event.assignment, event.template)
            known = whole.setdefault(key, (event.workload, [], []))
            known[1].extend([placement.ordinal for placement in event.placements])
            known[2].extend([placement.node for placement in event.placements])
    return {
        key: DecisionPart(key[0], workload, 0, pack(ordinals), pack(nodes))
        for key, (workload, ordinals, nodes) in whole.items()
    }


def _refused(record: LogRecord[RegionEvent], decision: DecisionEvidence) -> dict[int, Refusals]:
    """Return the ledger's refusals by pass. The groups of a proposal are the requests of its passes, in their order."""
    if record.command != PROPOSE or not record.answer:
        return {}
    try:
        unmet = decode_refused_parts(record.answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    owners = [number for number, one in enumerate(decision.passes) for _ in one.requests]
    found: dict[int, dict[str, tuple[str, int]]] = {}
    for one in unmet:
        if one.group < len(owners):
            codes = found.setdefault(owners[one.group], {})
            first, count = codes.get(one.code, (one.detail, 0))
            codes[one.code] = (first, count + 1)
    return {
        number: tuple((code, detail, count) for code, (detail, count) in sorted(codes.items()))
        for number, codes in found.items()
    }
