"""A recorded run in which a reservation was committed, its answer lost, and the reservation repeated under its number.

Nearly all of this reads the recording and nothing else: its logs, what their events do to the state, and what a ledger
of today says to the repeat. How schedulers go about their work may change. When what events do to the state has changed
on purpose, record anew: `python -m tests.support.simulator.recordings`, which looks for a seed that has the same story.

Three guards stand between the repeat and a second reservation (`tests/support/simulator/repeat_guards.py`). Here each
would do alone, and without all three the slots are reserved twice. Only the number always does: what was given
back waits again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import seq_of
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.replay.recording import Recording, RunPlan, read
from holdfast.replay.refold import refold
from holdfast.sim.checks.ledger_audit import LedgerAudit
from holdfast.sim.runs.run import RunReport, run
from holdfast.sim.scenario import Scenario, parse
from tests.support.simulator.recordings import FILE, Told, audit_of, batches_of, repeat, told_by_repeat
from tests.support.simulator.repeat_guards import GUARDS, done_twice, guarded_by

#: What is found where slots are reserved twice: the number twice in the log, the slots twice in a room, and the counts.
RESERVED_TWICE = {"once", "region.unique-binding", "region.counts"}
SEEDS_MOST = 30


@cache
def recorded() -> Recording:
    return read(FILE)


@cache
def the_reservation() -> Told:
    return next(told_by_repeat(recorded()))


def when_it_came() -> LedgerAudit[RegionState]:
    """The region as it was just before the sender, whom the repeat had told, went on."""
    audit = audit_of(the_reservation().ledger, the_reservation().given_back - 1)
    assert not audit.findings
    return audit


# What was recorded


def test_the_recorded_run_is_folded_today_as_it_was_then_and_keeps_every_promise() -> None:
    assert refold(recorded()) is None, "if this was meant: python -m tests.support.simulator.recordings"
    for ledger in recorded().ledgers:
        assert audit_of(ledger).findings == [], ledger.name


def test_a_reservation_was_committed_and_repeated_and_is_in_the_log_once() -> None:
    one = the_reservation()
    batches = batches_of(one.ledger)
    numbers = [(record.session, record.sequence) for batch in batches for record in batch.records]
    assert numbers.count(one.number) == 1
    until_told = batches[: one.given_back - 1]
    events = [event for batch in until_told for record in batch.records for event in record.events]
    placed = [
        (event.workload, placement.ordinal)
        for event in events
        if isinstance(event, SlotsPlaced)
        for placement in event.placements
    ]
    assert {slot: placed.count(slot) for slot in one.slots} == dict.fromkeys(one.slots, 1)


# What a ledger of today says to the repeat


def test_whenever_the_repeat_comes_it_gets_the_first_answer_and_changes_nothing() -> None:
    one = the_reservation()
    for seq in range(seq_of(one.revision), len(one.ledger.entries) + 1):
        audit = audit_of(one.ledger, seq)
        assert repeat(one, audit) == Repeated(one.revision, b"")
        assert audit.state.info.seq == seq


def test_with_its_number_alone_it_is_still_answered() -> None:
    with guarded_by("number"):
        assert repeat(the_reservation(), when_it_came()) == Repeated(the_reservation().revision, b"")


def test_with_the_phase_of_slots_alone_it_is_refused_as_stale() -> None:
    with guarded_by("phase"):
        answer = repeat(the_reservation(), when_it_came())
    assert isinstance(answer, Refused)
    assert [part[2] for part in answer.facts["refused"]] == [Code.STALE] * len(the_reservation().slots)


def test_with_the_ports_of_slots_alone_it_is_refused_as_stale() -> None:
    with guarded_by("port"):
        answer = repeat(the_reservation(), when_it_came())
    assert isinstance(answer, Refused)
    assert [part[2] for part in answer.facts["refused"]] == [Code.STALE] * len(the_reservation().slots)


def test_with_the_count_of_what_waits_alone_it_cannot_be_judged() -> None:
    audit = when_it_came()
    with guarded_by("count"), pytest.raises(AssertionError):
        repeat(the_reservation(), audit)


def test_without_any_guard_it_reserves_twice_and_the_audit_says_so() -> None:
    audit = when_it_came()
    with guarded_by():
        answer = repeat(the_reservation(), audit)
    assert isinstance(answer, Committed)
    assert {finding.promise for finding in audit.findings} == RESERVED_TWICE


def test_but_for_its_number_it_would_reserve_again_what_was_given_back() -> None:
    audit = audit_of(the_reservation().ledger, the_reservation().given_back)
    with guarded_by("phase", "port", "count"):
        answer = repeat(the_reservation(), audit)
    assert isinstance(answer, Committed)
    assert [finding.promise for finding in audit.findings] == ["once"]


# The run, played again


def runs() -> Iterator[tuple[Scenario, int, RunPlan | None]]:
    """The recorded run. Where today it goes another way, one that another seed draws tells the same story."""
    made = recorded().run
    assert made is not None
    scenario = parse(made.text, made.scenario)
    yield scenario, made.seed, made.plan
    yield from ((scenario, seed, None) for seed in range(1, SEEDS_MOST + 1))


def played(scenario: Scenario, seed: int, plan: RunPlan | None, *guards: str) -> RunReport:
    with guarded_by(*guards):
        return run(scenario, seed, plan)


def test_the_same_run_reserves_twice_without_guards_and_not_with_any_one_of_them() -> None:
    """Where the slots have no ports, those guard nothing, and the next run is looked at; the number always does."""
    unguarded = ((one, played(*one)) for one in runs())
    for one, report in unguarded:
        if done_twice(report):
            assert {finding.promise for finding in report.findings} >= RESERVED_TWICE
            found = {guard: played(*one, guard).findings for guard in GUARDS}
            assert found["number"] == ()
            if not any(found.values()):
                return
    pytest.fail(f"in none of {SEEDS_MOST} seeds each guard does alone")
