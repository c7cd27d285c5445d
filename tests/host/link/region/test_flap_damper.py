"""What is told of workloads whose replicas fail: at once when it is new, and then once in a while."""

from __future__ import annotations

from holdfast.core.model.records.region_reports import Failing, TemplateCounts, Waiting, WorkloadReport
from holdfast.host.link.region.dirty_set import REPEAT_MS, FlapDamper


def seen(bound: int = 1, ready: int = 0, fails: str = "exit", detail: str = "", **fields: int) -> WorkloadReport:
    failing = (Failing(fails, fields.pop("failing", 1), "n1", detail),) if fails else ()
    return WorkloadReport(1, fields.get("generation", 1), (TemplateCounts("00", bound, ready, 0),), (), failing)


WELL = seen(1, 1, fails="")


class Link:
    """Tells what is due, and knows what it told."""

    def __init__(self) -> None:
        self.wavering = FlapDamper()
        self.now = 1_000
        self.known: WorkloadReport | None = None
        self.told: list[WorkloadReport] = []

    def see(self, one: WorkloadReport) -> int:
        """When it is told; 0: it was told now, or is known."""
        if one == self.known:
            return 0
        until = self.wavering.waits_until(one, self.known, self.now)
        if not until:
            self.wavering.report(one, self.now)
            self.known = one
            self.told.append(one)
        return until


def test_what_does_not_fail_is_told_at_once() -> None:
    link = Link()
    for ready in (0, 1, 0, 1):
        assert link.see(seen(1, ready, fails="")) == 0


def test_a_crash_loop_is_told_twice_and_then_once_in_a_while() -> None:
    link = Link()
    link.see(WELL)
    begun = link.now
    for number in range(20):
        link.now += 500
        link.see(seen(1, number % 2, detail=f"exit code {number}"))
    assert len(link.told) == 3, "that it was well, that it fails, and the most that was ever ready meanwhile"
    assert link.see(seen(1, 0)) == begun + 500 + REPEAT_MS
    link.now = begun + 500 + REPEAT_MS
    assert link.see(seen(1, 0)) == 0
    assert len(link.told) == 4


def test_one_that_is_well_now_and_then_is_told_of_as_seldom() -> None:
    link = Link()
    for _ in range(20):
        link.now += 500
        link.see(seen(1, 0))
        link.see(WELL)
    assert [bool(one.failing) for one in link.told] == [True, False]


def test_a_new_reason_is_told_at_once() -> None:
    link = Link()
    for fails in ("exit", "over-limit", "probe-failed"):
        assert link.see(seen(fails=fails)) == 0
    assert link.see(seen(fails="exit")) > 0


def test_a_new_generation_and_what_waits_is_told_at_once() -> None:
    link = Link()
    link.see(seen())
    assert link.see(seen(generation=2)) == 0
    waits = WorkloadReport(1, 2, (), (Waiting("capacity", 1, 0),), (Failing("exit", 1),))
    assert link.see(waits) == 0


def test_more_and_fewer_than_ever_are_told_at_once() -> None:
    link = Link()
    assert link.see(seen(3, 2)) == 0
    assert link.see(seen(3, 3)) == 0
    assert link.see(seen(3, 1)) == 0
    assert link.see(seen(3, 2)) > 0
    assert link.see(seen(3, 1, failing=2)) == 0


def test_whoever_was_told_nothing_is_told() -> None:
    link = Link()
    link.see(seen())
    link.known = None
    assert link.see(seen()) == 0


def test_nothing_is_dropped_of_a_workload_while_some_of_it_was_told_lately() -> None:
    link = Link()
    began = link.now
    link.see(seen(fails="exit"))
    link.now += REPEAT_MS // 2
    link.see(seen(fails="over-limit"))
    link.wavering.forget(began + REPEAT_MS)
    assert link.wavering._told


def test_what_was_told_long_ago_takes_no_room() -> None:
    link = Link()
    link.see(seen())
    link.wavering.forget(link.now + REPEAT_MS - 1)
    assert link.wavering._told
    link.wavering.forget(link.now + REPEAT_MS)
    assert not link.wavering._told
    link.see(seen(2))
    link.now += REPEAT_MS
    link.see(WELL)
    assert not link.wavering._told
