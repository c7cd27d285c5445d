"""The schedulers of a region as its leader sees them: live for a heartbeat, counted for a minute."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.region.commands import Bind, PlacementGroup, Propose, SlotPlacement
from holdfast.host.leader.scheduler_board import (
    CHECK_MS,
    LABELS_MAX,
    OTHERS,
    SILENT_MS,
    STEP_MS,
    STEPS,
    SchedulerBoard,
)
from holdfast.host.protocol.commands import SchedulerVitals
from holdfast.host.runtime.telemetry import Metrics

VITALS = SchedulerVitals("machine", 5, 7)


class Ticks:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 100_000

    def boot(self) -> int:
        return self.at


def a_board() -> tuple[SchedulerBoard, Ticks, Metrics]:
    clock, metrics = Ticks(), Metrics()
    return SchedulerBoard(clock, metrics), clock, metrics  # type: ignore[arg-type]


def proposed(by: str, count: int = 4) -> Envelope[Any]:
    group = PlacementGroup(100, "digest", tuple(SlotPlacement(number, 1) for number in range(count)))
    return Envelope(by, Propose((group,), 1_000), 0)


def unmet(*codes: Code) -> bytes:
    return encode([RefusedPart(0, number, code.value, "") for number, code in enumerate(codes)])


def test_a_scheduler_apart_is_live_while_it_is_heard() -> None:
    board, clock, _ = a_board()
    board.heard("scheduler/b", VITALS, 10_000)
    board.heard("scheduler/a", VITALS, 10_000)
    assert board.live() == ("scheduler/a", "scheduler/b")
    clock.at += 6_000
    board.heard("scheduler/a", VITALS, 10_000)
    clock.at += 4_001
    assert board.live() == ("scheduler/a",)
    clock.at += 10_000
    assert board.live() == ()
    assert board.rows() == []


def test_a_scheduler_beside_is_live_until_it_leaves() -> None:
    board, clock, _ = a_board()
    board.enter("controller/scheduler", lambda: SchedulerVitals("server", clock.at % 1_000, 0))
    clock.at += 1_000_123
    (row,) = board.rows()
    assert (row.is_embedded, row.where, row.heard_ms, row.cycle_ms) == (True, "server", 0, 123)
    board.leave("controller/scheduler")
    assert board.live() == ()


def test_a_scheduler_that_hangs_has_a_row_and_no_part_of_the_work() -> None:
    board, clock, _ = a_board()
    cycled = {"controller/scheduler": clock.at, "controller/scheduler-2": clock.at}

    def vitals_of(name: str) -> SchedulerVitals:
        return SchedulerVitals("server", clock.at - cycled[name], 0)

    for name in cycled:
        board.enter(name, partial(vitals_of, name))
    both = board.live()
    assert both == tuple(cycled)
    for _ in range(SILENT_MS // CHECK_MS):
        clock.at += CHECK_MS
        cycled["controller/scheduler"] = clock.at
        assert board.live() is both
    clock.at += CHECK_MS + 1
    assert board.live() == ("controller/scheduler",)
    assert {row.name: row.cycle_ms for row in board.rows()}["controller/scheduler-2"] > SILENT_MS
    cycled["controller/scheduler-2"] = clock.at
    clock.at += CHECK_MS + 1
    assert board.live() == both


@pytest.mark.parametrize("vitals", [SchedulerVitals("", SILENT_MS + 1, 0), SchedulerVitals("", 0, SILENT_MS + 1)])
def test_a_scheduler_apart_without_a_cycle_or_with_an_old_view_has_no_part_until_it_is_heard_to_work(
    vitals: SchedulerVitals,
) -> None:
    board, clock, _ = a_board()
    board.heard("scheduler/a", VITALS, 60_000)
    board.heard("scheduler/b", vitals, 60_000)
    assert board.live() == ("scheduler/a",)
    clock.at += 40_000  # it works for as long as its lease: it is heard less often than every ten seconds
    assert board.live() == ("scheduler/a",)
    board.heard("scheduler/b", VITALS, 60_000)
    assert board.live() == ("scheduler/a", "scheduler/b")


def test_when_none_of_them_works_all_have_their_part() -> None:
    """They wait for the same: a leader that cannot commit. Each of them alone would take everything afterwards."""
    board, _, _ = a_board()
    for name in ("scheduler/a", "scheduler/b"):
        board.heard(name, SchedulerVitals("", SILENT_MS + 1, 0), 60_000)
    assert board.live() == ("scheduler/a", "scheduler/b")


def test_an_answer_counts_what_was_placed_and_what_was_refused_by_code() -> None:
    board, clock, metrics = a_board()
    board.heard("scheduler/a", VITALS, 600_000)
    clock.at += 1_000
    board.answered(proposed("scheduler/a"), Committed(1, b""))
    board.answered(proposed("scheduler/a"), Committed(2, unmet(Code.STALE, Code.STALE, Code.CAPACITY)))
    facts = {"refused": [[0, number, "stale", "", 9] for number in range(4)]}
    board.answered(proposed("scheduler/a"), Refused(Code.STALE, "", facts))
    board.answered(proposed("scheduler/a", 3), Refused(Code.EXPIRED, "", {}))
    board.answered(proposed("scheduler/a"), Repeated(1, b""))
    board.answered(Envelope("scheduler/a", Bind(((1, 0),)), 0), Refused(Code.STALE, "", {}))
    (row,) = board.rows()
    assert (row.placed, row.placed_total, row.span_ms) == (5, 5, 1_000)
    assert row.conflicts == {"capacity": 1, "expired": 3, "stale": 6}
    assert (row.where, row.heard_ms, row.cycle_ms, row.view_age_ms) == ("machine", 1_000, 1_005, 7)
    assert metrics.counted("scheduler_bound", scheduler="scheduler/a") == 5
    assert metrics.counted("scheduler_conflicts", scheduler="scheduler/a", code="stale") == 6


def test_rates_are_of_the_last_minute() -> None:
    board, clock, _ = a_board()
    board.heard("scheduler/a", VITALS, 10_000_000)
    for _ in range(20):
        board.answered(proposed("scheduler/a"), Committed(1, b""))
        clock.at += STEP_MS
    (row,) = board.rows()
    assert row.span_ms == STEP_MS * STEPS
    assert row.placed == 4 * (STEPS - 1)
    assert row.placed_total == 80
    clock.at += STEP_MS * STEPS
    assert board.rows()[0].placed == 0


def test_counters_have_a_bounded_number_of_names() -> None:
    board, _, metrics = a_board()
    for number in range(LABELS_MAX + 10):
        board.heard(f"scheduler/s{number}", VITALS, 10_000)
        board.answered(proposed(f"scheduler/s{number}"), Committed(1, b""))
    board.answered(proposed("scheduler/unknown"), Committed(1, b""))
    names = {dict(labels)["scheduler"] for name, labels in metrics.counts if name == "scheduler_bound"}
    assert len(names) == LABELS_MAX + 1
    assert metrics.counted("scheduler_bound", scheduler=OTHERS) == 44


def test_counters_have_a_bounded_number_of_names_of_schedulers_that_come_and_go_over_terms() -> None:
    board, clock, metrics = a_board()
    for number in range(LABELS_MAX):
        if number % 10 == 0:
            board = SchedulerBoard(clock, metrics)  # type: ignore[arg-type]
        for name in ("scheduler/first", f"scheduler/s{number}"):
            board.heard(name, VITALS, 10_000)
            board.answered(proposed(name), Committed(1, unmet(Code.STALE)))
        clock.at += 10_001
    names = {dict(labels)["scheduler"] for _, labels in metrics.counts}
    assert len(names) == LABELS_MAX + 1
    assert metrics.counted("scheduler_bound", scheduler="scheduler/first") == 3 * LABELS_MAX
    assert metrics.counted("scheduler_bound", scheduler=OTHERS) == 3


def test_nothing_is_placed_by_a_proposal_that_is_refused_though_some_of_it_would_fit() -> None:
    board, _, metrics = a_board()
    board.heard("scheduler/a", VITALS, 10_000)
    facts = {"refused": [[0, 1, "capacity", "", 0]]}
    board.answered(proposed("scheduler/a"), Refused(Code.CAPACITY, "", facts))
    (row,) = board.rows()
    assert (row.placed, row.placed_total, row.conflicts) == (0, 0, {"capacity": 1})
    assert metrics.counted("scheduler_bound", scheduler="scheduler/a") == 0
