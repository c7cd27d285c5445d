"""The standing scenarios: what they must be, and that each of them says what it is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.sim.cluster.fault_injection import KINDS
from holdfast.sim.cluster.questions import QUESTIONS, unanswered_questions
from holdfast.sim.runs.run import RunVerdicts, run
from holdfast.sim.scenario import InvalidScenario, Scenario, parse, read_folder, span

ROOT = Path(__file__).parents[3]
SCENARIOS = read_folder(ROOT / "scenarios")
PLAYED = [name for name, one in SCENARIOS.items() if not one.absent]
#: The standing set: a scenario may be absent until its piece exists, but it is never forgotten.
STANDING = (
    "autoscaler-amplification", "clock-ahead", "gangs", "leader-restart", "machine-replaced", "override-expiry",
    "partition-skew", "platform-gone", "policy-rollback", "preemption-storm", "regional-loss", "repair-in-incident",
    "retry-storm", "stale-cache", "timeout-after-commit", "watch-loss", "zone-loss",
)  # fmt: skip


def test_the_standing_set_is_all_there() -> None:
    assert tuple(SCENARIOS) == STANDING


@pytest.mark.parametrize("name", STANDING)
def test_a_scenario_says_what_it_is_about_and_names_only_what_exists(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.says.endswith(".")
    assert (ROOT / "scenarios" / f"{name}.yaml").exists()
    kinds = {*scenario.faults.kinds, *(planned.what for planned in scenario.faults.planned)}
    assert kinds <= KINDS.keys()
    assert scenario.absent or scenario.covers, "a scenario that is played says what a swarm of it must have seen"


@pytest.mark.parametrize("name", PLAYED)
def test_a_run_holds_what_it_promises_and_answers_six_questions_with_revisions(name: str) -> None:
    report = run(SCENARIOS[name], 1)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
    assert list(report.answers) == list(QUESTIONS)
    for answer in report.answers.values():
        assert answer.answer
        assert answer.revisions
        assert all(len(place.split()) == 2 for place in answer.revisions), answer


def test_an_answer_without_revisions_makes_a_run_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "scenarios" / "policy-rollback.yaml").read_text(encoding="utf-8")
    asked = "desired: [publish-policy, activate-policy, roll-back-policy]"
    nobody = parse(text.replace(asked, "desired: [retire-region]"), "in a test")
    report = run(nobody, 1)
    assert unanswered_questions(report.answers) == ["desired"]
    assert report.verdicts == RunVerdicts("inconclusive", "inconclusive")
    assert report.failed


def test_a_run_with_less_traffic_than_its_scenario_asks_for_is_inconclusive() -> None:
    text = (ROOT / "scenarios" / "policy-rollback.yaml").read_text(encoding="utf-8")
    report = run(parse(text + "least: {commands: 1000000}\n", "in a test"), 1)
    assert report.verdicts == RunVerdicts("inconclusive", "inconclusive")
    assert "commands" in report.lacking[0]


def test_critical_work_recovers_elsewhere_within_its_limit_of_a_region_s_loss() -> None:
    report = run(SCENARIOS["regional-loss"], 2)
    assert report.recovered.keys() == {"risk-api", "billing-api"}
    assert max(report.recovered.values()) <= span(SCENARIOS["regional-loss"].recovers)[1]


@pytest.mark.parametrize("name", ["leader-restart", "stale-cache"])
def test_a_seed_is_one_run_in_another_process_and_under_another_hash_seed(name: str) -> None:
    code = (
        "from pathlib import Path; from holdfast.sim.scenario import read; from holdfast.sim.runs.run import run; "
        f"print(run(read(Path('scenarios/{name}.yaml')), 3).digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for number in (1, 2)
    }
    assert found == {run(SCENARIOS[name], 3).digest}
    assert run(SCENARIOS[name], 4).digest not in found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name: x", "says"),
        ("name: x\nsays: y\nlength: soon", "duration"),
        ("name: x\nsays: y\nlength: 9s..3s", "longer one last"),
        ("name: x\nsays: y\nfaulty: {}", "faulty"),
        ("name: x\nsays: y\ntopology: {regions: {eu: {schedulers: 0}}}", "with a scheduler"),
        (
            "name: x\nsays: y\ntopology: {regions: {eu: {beside: true, leaderSchedulers: 17}}}",
            "1 to 16 leaderSchedulers",
        ),
        (
            "name: x\nsays: y\nfaults: {kinds: {stale-view: 1}}\n"
            "topology: {regions: {eu: {schedulers: 0, beside: true}}}",
            "standalone schedulers",
        ),
        ("name: [", "x.yaml"),
    ],
)
def test_what_is_no_scenario_is_refused_by_name(text: str, wrong: str) -> None:
    with pytest.raises(InvalidScenario, match=wrong) as told:
        parse(text, "x.yaml")
    assert str(told.value).startswith("x.yaml")


def test_what_a_scenario_does_not_say_is_what_most_have() -> None:
    plain = parse("name: x\nsays: y", "x.yaml")
    assert plain == Scenario("x", "y")
