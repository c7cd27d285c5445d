"""Deadlines in a region: who can still be in time comes first, and what was to fail by then is placed no more."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.region import commands as c
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.queue.request_groups import HURRY_MS, NEVER, urgency
from holdfast.core.scheduling.queue.scheduling_queue import STALE_TURNS_MAX, SchedulingQueue
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.core.scheduling.view import SchedulerView
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template, an_assignment

MINUTE = 60_000
TEN_YEARS = 10 * 365 * 86_400_000
#: Before whoever sleeps is looked at whatever happens.
SOON = RESYNC_MS // 2


class Story:
    """A region with jobs, and a scheduler that looks at them. Nothing it proposes is sent."""

    def __init__(self, cpu: int = 8_000) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.node = self.bench.a_node("n1", cpu=cpu)
        self.bench.a_grant()
        self.jobs: dict[int, Assignment] = {}
        self.scheduler = Scheduler(BUILT_IN)

    def job(self, number: int, due_in: int = 0, **fields: Any) -> None:
        """A job of one piece; how long from now it is due; 0: never."""
        deadline = self.bench.at + due_in if due_in else 0
        name = a_template(environment=(("JOB", str(number)),))
        found = self.bench.a_workload(
            name, 1, uid=100 * number, workload=number, batch=True, deadline=deadline, **fields
        )
        self.jobs[number] = found

    def look(self) -> Proposal | None:
        """Take everything anew, and look."""
        self.scheduler.load(self.bench.state)
        return self.look_on()

    def look_on(self) -> Proposal | None:
        """Look without having heard of anything."""
        self.attempt, self.waits = self.scheduler.run_cycle(SchedulerView(self.bench.state, self.bench.at))
        return self.attempt

    def order(self) -> list[int]:
        """Whose pieces are proposed, in which order."""
        attempt = self.look()
        return list(attempt.workloads) if attempt is not None else []


def test_who_is_due_first_comes_first_and_who_is_never_due_comes_last() -> None:
    story = Story()
    story.job(1)
    story.job(2, due_in=2 * MINUTE)
    story.job(3, due_in=MINUTE)
    assert story.order() == [3, 2, 1]


def test_who_is_late_comes_after_all_who_can_still_be_in_time_and_beside_those_who_are_never_due() -> None:
    story = Story()
    story.job(1, due_in=1)
    story.bench.at += 1
    story.job(2)
    story.job(3, due_in=MINUTE)
    assert story.order() == [3, 1, 2]
    late, never = (urgency(story.bench.state, story.jobs[number].uid, story.bench.at) for number in (1, 2))
    assert late == never == (late[0], NEVER)


def test_a_higher_class_comes_before_a_nearer_deadline() -> None:
    story = Story()
    story.job(1, due_in=MINUTE)
    story.job(2, priority_class="critical")
    assert story.order() == [2, 1]


def test_a_deadline_passes_while_a_request_sleeps_and_nobody_says_so() -> None:
    story = Story(cpu=500)
    story.job(1, due_in=SOON, fails_late=True)
    assert story.look() is None
    assert [one.reasons[0].code for one in story.waits] == ["never-fits"]
    assert story.scheduler.queue.next_unblock_at() == story.bench.at + SOON
    story.bench.at += SOON - 1
    story.look_on()
    assert story.waits == []
    story.bench.at += 1
    assert story.look_on() is None
    assert [(one.entry.key[0], one.reasons[0].code) for one in story.waits] == [(100, "deadline-missed")]
    story.look_on()
    assert story.waits == []


def test_a_deadline_in_ten_years_hurries_nobody_past_who_came_before_and_has_as_little() -> None:
    story = Story()
    story.bench.a_grant("quota/beta", version=2)
    story.job(1, tenant="beta")
    story.bench.at += MINUTE
    story.job(2, due_in=TEN_YEARS)
    assert story.order() == [1, 2]
    far, never = (urgency(story.bench.state, story.jobs[number].uid, story.bench.at) for number in (2, 1))
    assert far == never


def test_a_deadline_begins_to_hurry_an_hour_before_though_nobody_says_so() -> None:
    story = Story()
    story.job(1)
    story.job(2, due_in=HURRY_MS + 2 * MINUTE)
    story.job(3, due_in=HURRY_MS + MINUTE)
    story.scheduler.load(story.bench.state)
    assert story.scheduler.queue.next_unblock_at() == story.bench.at + MINUTE
    story.bench.at += MINUTE
    attempt = story.look_on()
    assert attempt is not None
    assert list(attempt.workloads) == [3, 1, 2]


def test_whoever_begins_to_be_in_a_hurry_is_looked_at() -> None:
    story = Story(cpu=500)
    story.job(1, due_in=HURRY_MS + SOON)
    assert story.look() is None
    assert len(story.waits) == 1
    story.bench.at += SOON - 1
    story.look_on()
    assert story.waits == []
    story.bench.at += 1
    story.look_on()
    assert [one.entry.key[0] for one in story.waits] == [100]
    assert story.scheduler.queue.next_unblock_at() == story.bench.at + RESYNC_MS


def test_a_leap_of_time_over_the_whole_hurry_misses_no_deadline() -> None:
    story = Story(cpu=500)
    story.job(1, due_in=2 * HURRY_MS, fails_late=True)
    assert story.look() is None
    story.bench.at += 3 * HURRY_MS
    asleep = story.scheduler.queue.blocked
    for key, one in list(asleep.items()):
        asleep[key] = replace(one, until=story.bench.at + MINUTE)
    assert story.look_on() is None
    assert [one.reasons[0].code for one in story.waits] == ["deadline-missed"]


def test_a_request_that_waits_no_more_wakes_nobody_at_its_deadline() -> None:
    story = Story()
    story.job(1, due_in=MINUTE)
    story.scheduler.load(story.bench.state)
    assert story.scheduler.queue.next_unblock_at() == story.bench.at + MINUTE
    story.bench.place(story.jobs[1], c.SlotPlacement(0, story.node))
    story.scheduler.load(story.bench.state)
    assert story.scheduler.queue.next_unblock_at() is None


def test_turns_of_deadlines_do_not_pile_up_however_often_a_request_comes_and_goes() -> None:
    story = Story()
    story.job(1, due_in=MINUTE)
    queue, waiting = SchedulingQueue(), story.bench.state
    gone = story.bench.branch()
    gone.place(story.jobs[1], c.SlotPlacement(0, story.node))
    for _ in range(500):
        queue.update(waiting, 100)
        queue.update(gone.state, 100)
    assert len(queue._turning) <= STALE_TURNS_MAX + 2


def test_what_goes_on_as_best_effort_is_still_placed_when_it_is_late() -> None:
    story = Story()
    story.job(1, due_in=MINUTE)
    story.bench.at += MINUTE
    assert story.order() == [1]


def test_what_fails_late_keeps_nobody_else_from_being_placed() -> None:
    story = Story()
    story.job(1, due_in=1, fails_late=True)
    story.job(2, due_in=MINUTE)
    story.bench.at += 1
    assert story.order() == [2]


def test_a_deadline_that_is_raised_hurries_again() -> None:
    story = Story()
    story.job(1, due_in=1, fails_late=True)
    story.job(2, due_in=2 * MINUTE)
    story.bench.at += 1
    assert story.order() == [2]
    template = story.bench.state.templates[story.jobs[1].shares[0].template]
    later = an_assignment(100, 1, template, 1, batch=True, deadline=story.bench.at + MINUTE, fails_late=True)
    story.bench.ship(c.ShippedAssignment(later))
    seq = pack_revision(story.bench.state.info.seq, INDEX_MAX)
    story.scheduler.observe(story.bench.state, [("assignment", 100)], seq, story.bench.at)
    attempt = story.look_on()
    assert attempt is not None
    assert list(attempt.workloads) == [1]


def test_the_ledger_itself_begins_nothing_that_was_to_fail_by_now() -> None:
    story = Story()
    story.job(1, due_in=MINUTE, fails_late=True)
    story.job(2, due_in=MINUTE)
    story.bench.at += MINUTE
    placement = c.SlotPlacement(0, story.node)
    assert story.bench.refuse_place(story.jobs[1], placement).code is Code.DEADLINE_MISSED
    story.bench.place(story.jobs[2], placement)


def test_what_is_reserved_when_the_deadline_passes_is_not_bound() -> None:
    story = Story()
    story.job(1, due_in=1_000, fails_late=True)
    story.bench.place(story.jobs[1], c.SlotPlacement(0, story.node), bind=False)
    story.bench.at += 1_000
    refused = story.bench.refuse(SCHEDULER, c.Bind(((1, 0),)))
    assert refused.code is Code.DEADLINE_MISSED
