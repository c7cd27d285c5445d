"""The six answers are of this run: they count from when a fault struck, and say what was sent and what did not hold."""

from __future__ import annotations

import pytest

from holdfast.replay.recording import PlannedAction, PlannedFault, RunPlan
from holdfast.sim.runs.run import SimulationRun, run_with_logs
from holdfast.sim.scenario import InvalidScenario, parse
from tests.sim.runs.test_planted_controller_bugs import (
    FULL,
    ROOMY,
    SECOND,
    nothing_placed_for_want_of_capacity,
    published_unasked,
)

CRASH = PlannedFault(14 * SECOND, "crash", "eu-n1", 6 * SECOND)
AGAIN = PlannedFault(15 * SECOND, "crash", "eu-n1", 2 * SECOND)
POWER = PlannedFault(14 * SECOND, "lose-node", "eu-n1", 20 * SECOND)
SCALE = PlannedAction(10 * SECOND, "scale", 2)


def a_run(
    text: str, *faults: PlannedFault, seconds: int = 30, acts: tuple[PlannedAction, ...] = ()
) -> tuple[dict[str, str], SimulationRun]:
    report, one = run_with_logs(parse(text, "in a test"), 1, RunPlan(seconds * SECOND, faults, acts))
    return {name: answer.answer for name, answer in report.answers.items()}, one


def test_a_fault_that_has_to_wait_for_another_one_struck_when_that_was_over() -> None:
    _, one = a_run(ROOMY, CRASH, AGAIN)
    assert one.troubles.struck[CRASH] == CRASH.at
    assert one.troubles.struck[AGAIN] >= CRASH.at + CRASH.lasts


def test_answers_count_from_the_strike() -> None:
    answers, one = a_run(FULL, POWER, seconds=60)
    struck, entries = one.struck, one.scene.chronicle.entries
    assert struck is not None
    assert (struck.when, struck.what) == (POWER.at, "lose-node eu-n1")
    first = entries[struck.entries]
    assert first.when >= struck.when
    after = f"{first.when - struck.when} ms after lose-node eu-n1 struck"
    assert answers["first"] == f"{first.actor} with {first.command} in {first.ledger}, {after}"
    assert "durable when lose-node eu-n1 struck" in answers["progress"]
    assert f"{struck.slots['serving']} × serving" in answers["progress"]
    assert all(entry.when <= struck.when for entry in entries[: struck.entries])


def test_repairs_are_the_commands_that_were_sent_and_no_ordinary_start_is_one() -> None:
    answers, _ = a_run(FULL, POWER, seconds=60)
    assert "end-session by ledger" in answers["repair"]
    clogged = PlannedFault(8 * SECOND, "clog", "eu-n1 eu-n2", SECOND)
    idle, one = a_run(ROOMY, clogged, acts=(SCALE,))
    assert any(entry.command == "move" and entry.when > 10 * SECOND for entry in one.scene.chronicle.entries)
    assert idle["repair"] == "no repair was sent"


def test_counters_are_told_by_how_much_they_moved_since() -> None:
    answers, one = a_run(FULL, POWER, seconds=60)
    struck = one.struck
    assert struck is not None
    now = sum(metrics.counted("commands") for metrics in one.scene.servers.metrics)
    assert f"commands +{now - struck.counts['meter.commands']}" in answers["telemetry"]


def test_invariants_are_told_by_how_often_they_were_checked_since_and_which_did_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, one = a_run(FULL, POWER, seconds=60)
    struck, head = one.struck, one.scene.audits["eu"].state.info.seq
    assert struck is not None
    assert f"{head - struck.heads['eu']} × eu" in answers["invariant"]
    assert "did not hold" not in answers["invariant"]
    with pytest.MonkeyPatch.context() as patch:
        nothing_placed_for_want_of_capacity(patch)
        waiting, _ = a_run(ROOMY, CRASH)
    assert waiting["invariant"].endswith("did not hold: placed"), "though all that broke is that nothing was done"
    published_unasked(monkeypatch)
    broken, _ = a_run(FULL, POWER, seconds=60)
    assert broken["invariant"].endswith("did not hold: answered")


def test_a_scenario_cannot_ask_for_an_invariant_that_there_is_not() -> None:
    """It would be told as one that held, for nothing can break it."""
    with pytest.raises(InvalidScenario, match=r"region\.unique-bindings"):
        parse(f"{FULL}answers: {{invariants: [region.unique-bindings]}}\n", "in a test")
