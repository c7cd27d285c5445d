"""RULES 12: a repeat gets the first answer back; what cannot be told apart is never executed."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.region.commands import SlotPlacement
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench


def a_region() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_node()
    bench.a_grant()
    bench.a_workload(count=9)
    return bench


def placing(bench: RegionBench, ordinal: int) -> object:
    node = bench.state.node_names.get("n1") or 0
    return bench.proposal(bench.state.assignments[100], SlotPlacement(ordinal, node))


def test_a_write_that_timed_out_after_commit_is_answered_the_same_and_done_once() -> None:
    bench = a_region()
    envelope = bench.envelope(SCHEDULER, placing(bench, 0))
    first = bench.give(envelope)
    assert isinstance(first, Committed)
    before = len(bench.log)
    again = bench.give(envelope)
    assert again == Repeated(first.revision, first.answer)
    assert len(bench.log) == before


def test_a_repeat_within_the_same_batch_is_answered_too() -> None:
    from holdfast.core.ledger.commit.draft import BatchDraft
    from holdfast.core.region.definition import REGION

    bench = a_region()
    envelope = bench.envelope(SCHEDULER, placing(bench, 0))
    draft = BatchDraft(REGION, bench.state)
    first = draft.add(envelope, bench.at)
    assert isinstance(first, Committed)
    assert draft.add(envelope, bench.at) == Repeated(first.revision, first.answer)
    assert len(draft) == 1


def test_the_answer_of_a_partly_placed_proposal_is_repeated_with_its_refusals() -> None:
    bench = a_region()
    node = bench.state.node_names.get("n1") or 0
    work = bench.state.assignments[100]
    envelope = bench.envelope(SCHEDULER, bench.proposal(work, SlotPlacement(0, node), SlotPlacement(77, node)))
    first = bench.give(envelope)
    assert isinstance(first, Committed)
    assert first.answer
    assert bench.give(envelope) == Repeated(first.revision, first.answer)


def test_a_replayed_log_remembers_the_answers() -> None:
    bench = a_region()
    envelope = bench.envelope(SCHEDULER, placing(bench, 0))
    first = bench.give(envelope)
    assert isinstance(first, Committed)
    bench.state = bench.replay()
    assert bench.give(envelope) == Repeated(first.revision, first.answer)


def test_numbers_may_arrive_out_of_order_within_the_window() -> None:
    bench = a_region()
    session = bench.sessions[SCHEDULER]
    for sequence, ordinal in ((3, 0), (1, 1), (2, 2)):
        answer = bench.send(SCHEDULER, placing(bench, ordinal), session=session, sequence=sequence)
        assert isinstance(answer, Committed)


def test_what_fell_out_of_the_window_is_never_executed() -> None:
    bench = a_region()
    session = bench.sessions[SCHEDULER]
    bench.checked = False
    bench.accept(SCHEDULER, placing(bench, 0), session=session, sequence=WINDOW)
    bench.accept(SCHEDULER, placing(bench, 1), session=session, sequence=WINDOW + 1)
    refused = bench.refuse(SCHEDULER, placing(bench, 2), session=session, sequence=1)
    assert refused.code is Code.TOO_OLD_TO_RETRY


def test_too_many_in_flight_are_refused() -> None:
    bench = a_region()
    refused = bench.refuse(SCHEDULER, placing(bench, 0), sequence=WINDOW + 1)
    assert refused.code is Code.TOO_MANY_IN_FLIGHT


def test_a_retry_after_the_window_is_too_old() -> None:
    bench = a_region()
    refused = bench.refuse(SCHEDULER, placing(bench, 0), sent=bench.at - 86_400_001)
    assert refused.code is Code.TOO_OLD_TO_RETRY


def test_a_refused_proposal_that_is_repeated_is_decided_anew() -> None:
    bench = a_region()
    node = bench.a_node("small", cpu=500)
    work = bench.state.assignments[100]
    envelope = bench.envelope(SCHEDULER, bench.proposal(work, SlotPlacement(0, node)))
    assert isinstance(bench.give(envelope), Refused)
    bench.a_node("small", cpu=4000)
    assert isinstance(bench.give(envelope), Committed)


def test_a_proposal_that_arrives_late_is_not_executed() -> None:
    bench = a_region()
    envelope = bench.envelope(SCHEDULER, placing(bench, 0))
    bench.at += 1000
    refused = bench.give(envelope)
    assert isinstance(refused, Refused)
    assert refused.code is Code.EXPIRED


def test_an_ended_session_has_no_say() -> None:
    bench = a_region()
    old = bench.sessions[SCHEDULER]
    bench.open_session(SCHEDULER)
    refused = bench.refuse(SCHEDULER, placing(bench, 0), session=old, sequence=1)
    assert refused.code is Code.NO_SESSION
    assert refused.facts["current"] == bench.sessions[SCHEDULER]
    assert not [key for key, _ in bench.state.session_answers.items() if key[0] == old]


def an_override(reason: str, ends: int) -> OpenOverride:
    return OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", reason, ends)


def test_a_persons_key_is_bound_to_its_body_and_its_actor() -> None:
    bench = a_region()
    command = an_override("incident", bench.at + 60_000)
    first = bench.accept(ROOT, command, key="k")
    assert bench.send(ROOT, command, key="k") == Repeated(first.revision, first.answer)
    other = an_override("another", bench.at + 60_000)
    assert bench.refuse(ROOT, other, key="k").code is Code.KEY_REUSED


def test_a_key_is_forgotten_after_its_window_and_not_before() -> None:
    bench = a_region()
    command = an_override("incident", bench.at + 600_000)
    bench.accept(ROOT, command, key="k")
    bench.at += 86_400_000
    assert isinstance(bench.send(ROOT, command, key="k"), Repeated)
    bench.at += 1
    later = an_override("incident", bench.at + 600_000)
    assert isinstance(bench.send(ROOT, later, key="k"), Committed)


def test_a_command_from_the_future_is_refused_since_its_repeat_would_outlive_its_key() -> None:
    bench = a_region()
    command = an_override("incident", bench.at + 600_000)
    assert bench.refuse(ROOT, command, sent=bench.at + 300_001).code is Code.MALFORMED
    sent = bench.at + 300_000
    bench.accept(ROOT, command, sent=sent, key="k")
    bench.at = sent + 86_400_000
    assert isinstance(bench.send(ROOT, command, sent=sent, key="k"), Repeated)
    bench.at += 1
    assert bench.refuse(ROOT, command, sent=sent, key="k").code is Code.TOO_OLD_TO_RETRY


def test_keys_are_bounded() -> None:
    bench = a_region()
    facts = bench.state.info
    bench.state.info = replace(facts, settings=replace(facts.settings, keys_per_actor=2))
    for number in range(2):
        bench.accept(ROOT, an_override(f"reason {number}", bench.at + 60_000))
    assert bench.refuse(ROOT, an_override("one more", bench.at + 60_000)).code is Code.TOO_MANY_KEYS


def test_people_without_a_key_and_machines_without_a_session_are_refused() -> None:
    bench = a_region()
    assert bench.refuse(ROOT, an_override("x", bench.at + 1), key="").code is Code.MALFORMED
    assert bench.refuse(SCHEDULER, placing(bench, 0), session=0).code is Code.NO_SESSION
    assert isinstance(bench.send(SCHEDULER, OpenSession()), Committed)
