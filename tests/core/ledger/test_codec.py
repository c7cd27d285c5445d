"""Canonical bytes, the hash chain, and a decoder that refuses what it does not know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger import codec
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import LevelRaised
from holdfast.core.ledger.codec import (
    Corrupt,
    Header,
    LogRecord,
    UpgradeNeeded,
    chain,
    encode,
    encode_batch,
    read_evidence,
)
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.records.decisions import AuditEvent, Candidate, DecisionEvidence, SchedulingPass
from holdfast.core.region.commands import AdministerNode, Propose, SlotPlacement
from holdfast.core.region.definition import REGION
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench, a_template

HEADER = Header("log", 1, 1, 1, b"")


def a_record(*events: Any) -> LogRecord[Any]:
    return LogRecord(1, 1, "ledger", "raise-level", 0, 0, 0, 0, b"", b"", events)


def sealed(raw: bytes) -> tuple[bytes, bytes, bytes]:
    return raw, b"", chain(b"", raw)


def test_a_batch_reads_back_as_it_was_written() -> None:
    raw = encode_batch(HEADER, [encode(a_record(LevelRaised(1)))], [codec.Evidence(0, b"why")])
    batch = REGION.batches.read(*sealed(raw))
    assert batch.header == HEADER
    assert batch.records == (a_record(LevelRaised(1)),)
    assert REGION.batches.evidence(raw) == (codec.Evidence(0, b"why"),)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_flipped_byte_is_found_and_named(place: int, flip: int) -> None:
    raw = encode_batch(HEADER, [encode(a_record(LevelRaised(1)))], [])
    digest = chain(b"", raw)
    broken = bytearray(raw)
    broken[place % len(raw)] ^= flip
    with pytest.raises(Corrupt, match=digest.hex()):
        REGION.batches.read(bytes(broken), b"", digest)


def test_a_truncated_batch_is_found() -> None:
    raw = encode_batch(HEADER, [encode(a_record(LevelRaised(1)))], [])
    with pytest.raises(Corrupt):
        REGION.batches.read(raw[:-1], b"", chain(b"", raw))


def test_a_batch_put_after_another_past_is_found() -> None:
    raw = encode_batch(HEADER, [], [])
    other = b"\1" * 32
    with pytest.raises(Corrupt):
        REGION.batches.read(raw, other, chain(b"", raw))
    with pytest.raises(Corrupt, match="follows"):
        REGION.batches.read(raw, other, chain(other, raw))


def test_an_unknown_event_asks_for_an_upgrade() -> None:
    raw = encode_batch(HEADER, [encode(a_record(["from-the-future", 1]))], [])
    with pytest.raises(UpgradeNeeded, match="from-the-future"):
        REGION.batches.read(*sealed(raw))


def test_an_unknown_field_of_a_known_event_asks_for_an_upgrade() -> None:
    raw = encode_batch(HEADER, [encode(a_record(["level-raised", 2, "a field of the future"]))], [])
    with pytest.raises(UpgradeNeeded):
        REGION.batches.read(*sealed(raw))


def test_a_higher_level_asks_for_an_upgrade_before_anything_is_decoded() -> None:
    header = msgspec.structs.replace(HEADER, level=99)
    raw = encode_batch(header, [encode(a_record(["from-the-future"]))], [])
    with pytest.raises(UpgradeNeeded, match="level 99"):
        REGION.batches.read(*sealed(raw))


def test_a_frame_of_another_shape_asks_for_an_upgrade() -> None:
    raw = encode([HEADER, [], [], "a fourth section"])
    with pytest.raises(UpgradeNeeded):
        REGION.batches.read(*sealed(raw))


def test_envelopes_read_back_and_malformed_ones_are_refused_with_the_place() -> None:
    envelope = Envelope("scheduler/a", Propose((), 5), 1, 7, 1)
    raw = encode(envelope)
    assert REGION.envelopes.read(raw) == envelope
    refused = REGION.envelopes.read(raw[:-3])
    assert isinstance(refused, Refused)
    assert refused.code is Code.MALFORMED
    unknown = REGION.envelopes.read(encode(["scheduler/a", ["no-such-command"], 1]))
    assert isinstance(unknown, Refused)
    assert "no-such-command" in unknown.message


@given(st.binary(max_size=200))
def test_no_bytes_break_the_envelope_reader(raw: bytes) -> None:
    answer = REGION.envelopes.read(raw)
    assert isinstance(answer, Envelope | Refused)


def test_an_oversized_envelope_is_refused_by_its_size() -> None:
    refused = REGION.envelopes.read(b"\0" * (codec.RECORD_BYTES_MAX + 1))
    assert isinstance(refused, Refused)
    assert refused.code is Code.TOO_LARGE


def test_events_hold_no_dicts_so_that_equal_events_have_equal_bytes() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    bench.place(bench.a_workload(a_template(require=())), SlotPlacement(0, node))
    for raw, _ in bench.log:
        _, records, _ = msgspec.msgpack.decode(raw)
        assert encode(msgspec.msgpack.decode(encode(records))) == encode(records)


def test_a_decision_and_what_a_person_did_are_kept_beside_the_log_and_not_folded() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload()
    rejected = (("taint", "taints", 3), ("capacity", "cpu", 1))
    chosen = (Candidate(node, 700, (("packing", 700),)),)
    template = work.shares[0].template
    found = SchedulingPass(
        ((work.uid, 1),), template, bench.at, "placed", "agent", examined=5, rejected=rejected, candidates=chosen
    )
    decision = DecisionEvidence(5, 0, (found,))
    bench.accept(SCHEDULER, bench.proposal(work, SlotPlacement(0, node)), evidence=encode(decision))
    command = AdministerNode(node, cordoned=True, note="a fan is loud")
    bench.accept(ROOT, command)
    kept = [read_evidence(one.payload) for raw, _ in bench.log[-2:] for one in REGION.batches.evidence(raw)]
    assert kept == [decision, AuditEvent(ROOT, bench.at, "administer-node", encode(command))]
    assert bench.replay().nodes.items() == bench.state.nodes.items()
