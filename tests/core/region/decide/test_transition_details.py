"""What a move says besides its cause, and how a slot failed last: kept where people look, for as long as it is so."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.workloads import RestartPolicy
from holdfast.core.model.records.assignments import Assignment, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Failure
from holdfast.core.region import commands as c
from tests.support.ledgers.region import REPLICA, RegionBench, a_template

AGENT = "agent/n1"


def a_bench(**fields: Any) -> tuple[RegionBench, Assignment, int]:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node("n1")
    work = bench.a_workload(a_template(**fields), count=1)
    bench.place(work, c.SlotPlacement(0, node))
    return bench, work, node


def fail(bench: RegionBench, cause: str = "exit", detail: str = "exit code 3") -> None:
    answer = bench.move(AGENT, Phase.FAILED, cause, detail=detail)
    assert isinstance(answer, Committed), answer


def test_a_move_says_more_and_the_next_one_clears_it() -> None:
    bench, _, _ = a_bench()
    bench.walk(Phase.RUNNING)
    fail(bench)
    assert (bench.slot().cause, bench.slot().detail) == ("exit", "exit code 3")
    bench.move(AGENT, Phase.STARTING, "restarted")
    assert bench.slot().detail == ""


def test_how_it_failed_last_is_known_while_it_is_started_again_and_placed_anew() -> None:
    bench, work, node = a_bench()
    bench.walk(Phase.STARTING)
    bench.at += 1000
    fail(bench, "cannot-start", "no such file: /opt/x")
    failure = Failure("cannot-start", "no such file: /opt/x", bench.at)
    bench.at += 1000
    bench.move(AGENT, Phase.STARTING, "restarted")
    assert bench.slot().failure == failure
    fail(bench)
    failure = Failure("exit", "exit code 3", bench.at)
    bench.move(AGENT, Phase.RELEASED, "given-up", detail="restarted once")
    assert (bench.slot().phase, bench.slot().detail, bench.slot().failure) == (
        Phase.PENDING, "restarted once", failure,
    )  # fmt: skip
    bench.place(work, c.SlotPlacement(0, node))
    assert (bench.slot().phase, bench.slot().detail, bench.slot().failure) == (Phase.BOUND, "", failure)


def test_with_another_template_it_has_not_failed_yet() -> None:
    bench, work, _ = a_bench()
    bench.walk(Phase.RUNNING)
    fail(bench)
    better = a_template(cpu=900)
    digest = template_digest(better)
    bench.ship(c.ShippedTemplate(digest, better), c.ShippedAssignment(replace(work, shares=(Share(digest, 1),))))
    bench.accept(REPLICA, c.OpenSlots(work.uid, digest, (0,)))
    bench.move(AGENT, Phase.RELEASED, "given-up")
    assert (bench.slot().template, bench.slot().failure) == (digest, None)


def test_a_binding_that_its_agent_declines_has_failed_too() -> None:
    bench, _, _ = a_bench()
    bench.move(AGENT, Phase.RELEASED, "declined", detail="no such driver")
    assert bench.slot().failure == Failure("declined", "no such driver", bench.at)


def test_what_others_say_of_a_slot_is_no_failure_of_it() -> None:
    bench, _, _ = a_bench()
    bench.walk(Phase.READY)
    bench.accept("controller/endpoints", _published(bench, "answered in 3 ms"))
    assert (bench.slot().detail, bench.slot().failure) == ("answered in 3 ms", None)


def _published(bench: RegionBench, detail: str) -> c.Move:
    return c.Move((c.MoveSlot((1, 0), bench.slot().epoch, Phase.SERVING, "published", detail),))


@pytest.mark.parametrize("detail", ["x" * 201, "two\nlines", "\x1b[31mred"], ids=["long", "lines", "escapes"])
def test_a_detail_is_one_short_line(detail: str) -> None:
    bench, _, _ = a_bench()
    bench.walk(Phase.RUNNING)
    answer = bench.move(AGENT, Phase.FAILED, "exit", detail=detail)
    assert isinstance(answer, Refused)
    assert answer.code is Code.MALFORMED


def test_what_is_never_to_be_restarted_is_given_up() -> None:
    bench, _, _ = a_bench(restart=RestartPolicy.NEVER)
    bench.walk(Phase.RUNNING)
    fail(bench)
    answer = bench.move(AGENT, Phase.STARTING, "restarted")
    assert isinstance(answer, Refused)
    assert answer.code is Code.CONTRADICTORY
    assert isinstance(bench.move(AGENT, Phase.RELEASED, "given-up"), Committed)


def test_a_probe_that_is_lost_ends_serving_at_once() -> None:
    bench, _, _ = a_bench()
    bench.walk(Phase.SERVING)
    assert isinstance(bench.move(AGENT, Phase.RUNNING, "probe-lost", detail="503"), Committed)
