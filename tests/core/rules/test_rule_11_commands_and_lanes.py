"""RULES 11: a command never spans batches; what is too large is refused before anything happens; lanes."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import EVIDENCE_BYTES_MAX, read_evidence
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.decisions import AuditEvent
from holdfast.core.region.commands import AdministerNode, OpenSlots, SlotPlacement, Stop
from holdfast.core.region.definition import REGION, RULES
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench


def test_events_audit_and_request_key_of_a_command_lie_in_one_batch() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=3)
    before = len(bench.log)
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node))
    assert len(bench.log) == before + 1
    raw, digest = bench.log[-1]
    batch = REGION.batches.read(raw, bench.log[-2][1], digest)
    (record,) = batch.records
    assert (record.actor, record.session, record.sequence) == (SCHEDULER, bench.sessions[SCHEDULER], 1)
    assert len(record.events) == 1


def test_too_many_placements_are_refused_and_nothing_changes() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=3)
    placements = [SlotPlacement(ordinal, node) for ordinal in range(PARTS_MAX + 1)]
    assert bench.refuse_place(work, *placements).code is Code.TOO_LARGE
    assert (
        bench.refuse(REPLICA, OpenSlots(work.uid, work.shares[0].template, tuple(range(5000)))).code is Code.TOO_LARGE
    )
    assert bench.refuse(REPLICA, Stop((), "scaled-down")).code is Code.TOO_LARGE


def test_evidence_is_cut_to_fit_and_never_the_record() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=8)
    draft = BatchDraft(REGION, bench.state)
    for ordinal in range(4):
        proposal = bench.proposal(work, SlotPlacement(ordinal, node))
        envelope = bench.envelope(SCHEDULER, proposal, evidence=b"e" * (EVIDENCE_BYTES_MAX // 3))
        assert isinstance(draft.add(envelope, bench.at), Committed)
    raw, digest = draft.seal()
    assert len(REGION.batches.evidence(raw)) == 3
    assert len(REGION.batches.read(raw, bench.state.info.digest, digest).records) == 4


def test_proofs_and_reports_go_before_proposals() -> None:
    lanes = {rule.command.__name__: rule.lane for rule in RULES.values()}
    assert lanes["StartTerm"] == lanes["EndSession"] == CommandLane.PROOFS
    assert lanes["Move"] == lanes["RegisterNode"] == CommandLane.REPORTS
    assert lanes["AdministerNode"] == lanes["OpenOverride"] == CommandLane.OPERATORS
    assert lanes["Ship"] == lanes["Stop"] == CommandLane.RECONCILERS
    assert lanes["Propose"] == CommandLane.PROPOSALS


def test_what_a_person_did_is_kept_whatever_else_fills_the_batch_or_is_sent_along() -> None:
    bench = RegionBench()
    node = bench.a_node()
    draft = BatchDraft(REGION, bench.state)
    for number in range(3):
        command = AdministerNode(node, cordoned=True, note=f"fan {number}")
        envelope = bench.envelope(ROOT, command, evidence=b"e" * (EVIDENCE_BYTES_MAX // 2))
        assert isinstance(draft.add(envelope, bench.at), Committed)
    raw, _ = draft.seal()
    payloads = [one.payload for one in REGION.batches.evidence(raw)]
    audits = [read_evidence(payload) for payload in payloads if not payload.startswith(b"eee")]
    assert [audit.command for audit in audits if isinstance(audit, AuditEvent)] == ["administer-node"] * 3
    assert len(payloads) == 5
