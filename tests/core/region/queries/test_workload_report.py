"""What a region says of replicas that fail: typed, with the node and its agent's words, and steady in a crash loop."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.objects.probes import ExecProbe, Probe
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import Failing
from holdfast.core.region import commands as c
from holdfast.core.region.queries.workload_report import (
    SLOW_MS,
    STEADY_MS,
    TimedReport,
    run_to_end,
    workload_report_steps,
)
from tests.support.ledgers.region import RegionBench, a_template

AGENT, HEALTH = "agent/n1", "controller/node-health"


def a_bench(count: int = 1, **fields: Any) -> tuple[RegionBench, Assignment]:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node("n1")
    work = bench.a_workload(fields.pop("template", None), count=count, **fields)
    bench.place(work, *(c.SlotPlacement(ordinal, node) for ordinal in range(count)))
    return bench, work


def looked(bench: RegionBench) -> TimedReport:
    return run_to_end(workload_report_steps(bench.state, 1, bench.at))


def failing(bench: RegionBench) -> tuple[Failing, ...]:
    return looked(bench).seen.failing


@pytest.mark.parametrize(
    ("phase", "cause"),
    [
        (Phase.RUNNING, "exit"),
        (Phase.STARTING, "cannot-start"),
        (Phase.STARTING, "probe-failed"),
        (Phase.SERVING, "over-limit"),
    ],
)
def test_a_replica_that_failed_is_told_with_its_node_and_its_agents_words(phase: Phase, cause: str) -> None:
    bench, _ = a_bench()
    bench.walk(phase)
    assert failing(bench) == ()
    bench.move(AGENT, Phase.FAILED, cause, detail="what happened")
    assert failing(bench) == (Failing(cause, 1, "n1", "what happened"),)
    bench.at += 10 * STEADY_MS
    assert failing(bench) == (Failing(cause, 1, "n1", "what happened"),)


def test_one_that_waits_to_be_started_again_has_an_agent_and_is_counted_so() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.RUNNING)
    bench.move(AGENT, Phase.FAILED, "exit")
    (count,) = looked(bench).seen.counts
    assert (count.bound, count.ready, count.serving) == (1, 0, 0)


def test_replicas_are_added_up_by_what_is_wrong_and_the_first_speaks_for_all() -> None:
    bench, _ = a_bench(4)
    for ordinal, (cause, detail) in enumerate((("exit", "code 1"), ("over-limit", "140 MiB"), ("exit", "code 2"))):
        bench.walk(Phase.RUNNING, ordinal)
        bench.move(AGENT, Phase.FAILED, cause, ordinal, detail=detail)
    assert failing(bench) == (Failing("exit", 2, "n1", "code 1"), Failing("over-limit", 1, "n1", "140 MiB"))


def test_a_crash_loop_looks_the_same_at_every_moment_of_it() -> None:
    bench, work = a_bench()
    bench.walk(Phase.RUNNING)
    bench.move(AGENT, Phase.FAILED, "exit", detail="exit code 3")
    crashed = failing(bench)
    for target, cause in (
        (Phase.STARTING, "restarted"),
        (Phase.RUNNING, "running"),
        (Phase.READY, "probe-passed"),
        (Phase.FAILED, "exit"),
        (Phase.RELEASED, "given-up"),
    ):
        bench.at += SLOW_MS - 1
        bench.move(AGENT, target, cause, detail="exit code 3" if target is Phase.FAILED else "")
        assert [(one.code, one.detail) for one in failing(bench)] == [("exit", "exit code 3")]
    bench.place(work, c.SlotPlacement(0, bench.state.node_names["n1"]))
    assert failing(bench) == crashed


def test_one_that_has_not_failed_for_a_while_is_well_and_that_is_known_beforehand() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.RUNNING)
    bench.move(AGENT, Phase.FAILED, "exit")
    over = bench.at + STEADY_MS
    bench.move(AGENT, Phase.STARTING, "restarted")
    bench.move(AGENT, Phase.RUNNING, "running")
    bench.move(AGENT, Phase.READY, "probe-passed")
    assert looked(bench).until == over
    bench.at = over - 1
    assert failing(bench)
    bench.at = over
    assert looked(bench) == TimedReport(looked(bench).seen)
    assert failing(bench) == ()


@pytest.mark.parametrize(("phase", "code"), [(Phase.STARTING, "starting-slowly"), (Phase.RUNNING, "probe-not-passed")])
def test_what_takes_too_long_is_told_when_it_does(phase: Phase, code: str) -> None:
    bench, _ = a_bench()
    bench.walk(phase)
    assert (failing(bench), looked(bench).until) == ((), bench.at + SLOW_MS)
    bench.at += SLOW_MS
    assert failing(bench) == (Failing(code, 1, "n1", ""),)
    assert looked(bench).until == 0


def test_before_its_probe_is_asked_nothing_takes_too_long() -> None:
    asked_late = Probe(exec=ExecProbe(command=("true",)), delay=20_000)
    bench, _ = a_bench(template=a_template(startup=asked_late))
    bench.walk(Phase.STARTING)
    bench.at += 20_000 + SLOW_MS - 1
    assert (failing(bench), looked(bench).until) == ((), bench.at + 1)
    bench.at += 1
    assert failing(bench) == (Failing("starting-slowly", 1, "n1", ""),)


def test_one_that_is_not_ready_any_more_says_what_its_probe_was_told() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.SERVING)
    bench.move(AGENT, Phase.RUNNING, "probe-lost", detail="GET /health: 503")
    bench.at += SLOW_MS
    assert failing(bench) == (Failing("probe-not-passed", 1, "n1", "GET /health: 503"),)


def test_batch_work_runs_as_long_as_it_takes() -> None:
    bench, _ = a_bench(batch=True)
    bench.walk(Phase.RUNNING)
    bench.at += 100 * SLOW_MS
    assert looked(bench) == TimedReport(looked(bench).seen)
    assert failing(bench) == ()


def test_one_whose_agent_is_silent_is_told_so() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.SERVING)
    bench.accept(HEALTH, EndSession(bench.sessions[AGENT], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    assert failing(bench) == (Failing("session-ended", 1, "n1", ""),)


def test_what_is_fenced_and_waits_anew_does_not_fail() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.SERVING)
    bench.accept(HEALTH, EndSession(bench.sessions[AGENT], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    bench.at += bench.state.info.settings.fence_time
    bench.move("controller/repair", Phase.FAILED, "fenced")
    bench.move("controller/repair", Phase.RELEASED, "fenced")
    assert (bench.slot().phase, failing(bench)) == (Phase.PENDING, ())


def test_what_ends_does_not_fail() -> None:
    bench, _ = a_bench()
    bench.walk(Phase.RUNNING)
    bench.move(AGENT, Phase.FAILED, "exit")
    bench.accept("controller/drain", c.Stop(((1, 0),), "drain"))
    assert failing(bench) == ()
