"""Ledger time that is lower than it was told before: what was reckoned from the later one is reckoned anew.

A scheduler apart outlives leaders. Who leads next begins at the last stamp in the log, which may be long before what
the one before it told last: an idle leader writes nothing, and its time goes on.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.region import commands as c
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.nodes.quarantine import QUARANTINE_MS, REFUSALS
from holdfast.core.scheduling.queue.rechecks import RECHECK_MS
from holdfast.core.scheduling.queue.request_groups import HURRY_MS
from holdfast.core.scheduling.scheduler import BACKOFF_MOST_MS, BACKOFF_MS, Proposal
from holdfast.core.scheduling.view import SchedulerView, UnplacedRequest
from tests.core.scheduling.queue.test_deadlines import MINUTE, Story
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region

HOUR = 3_600_000


class Told:
    """A region whose leader's time is some way ahead of its log; then another leads, whose time is not."""

    def __init__(self, bench: RegionBench, follower: Follower, ahead: int = HOUR) -> None:
        self.follower = follower
        self.ahead = ahead
        self.waits: list[UnplacedRequest] = []
        self._bench = bench

    def look(self) -> Proposal | None:
        """A look at the time that is told now. Nothing that it proposes is sent."""
        now = self._bench.at + self.ahead
        attempt, self.waits = self.follower.scheduler.run_cycle(SchedulerView(self.follower.state, now))
        return attempt

    def go_back(self) -> None:
        """From now on the time is that of the log."""
        self.ahead = 0


def proposed_once() -> tuple[RegionBench, Told, Proposal]:
    """One slot waits, and is proposed while time is ahead."""
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    follower.catch_up()
    told = Told(bench, follower)
    attempt = told.look()
    assert attempt is not None
    return bench, told, attempt


def refused_once() -> tuple[RegionBench, Told]:
    """One slot waits, and what was proposed of it was refused while time was ahead."""
    bench, told, attempt = proposed_once()
    follower = told.follower
    follower.scheduler.on_refused(attempt, Code.EXPIRED, [], 0)
    assert told.look() is None
    return bench, told


def test_a_pause_after_a_refusal_is_as_long_as_it_was_to_be() -> None:
    bench, told = refused_once()
    told.go_back()
    assert told.look() is None, "it is not over at once either"
    bench.at += BACKOFF_MS - 1
    assert told.look() is None
    bench.at += 1
    assert told.look() is not None


def test_a_pause_of_who_has_left_and_comes_back_is_as_long_as_it_was_to_be() -> None:
    bench, told, attempt = proposed_once()
    follower = told.follower
    bench.accept(follower.name, c.Propose(attempt.command.groups, bench.at + 1_000, bind=False))
    follower.scheduler.on_accepted(attempt, bench.state.slots[1, 0].revision, [])
    follower.catch_up()
    told.look()
    follower.scheduler.on_declined(attempt, [(1, 0)])
    told.go_back()
    told.look()
    bench.accept(follower.name, c.Unreserve(((1, 0),)))
    follower.catch_up()
    assert told.look() is None
    bench.at += BACKOFF_MS
    assert told.look() is not None


def test_who_waits_for_a_newer_view_waits_for_it_and_no_longer_than_it_was_to() -> None:
    bench, told, attempt = proposed_once()
    follower = told.follower
    follower.scheduler.on_refused(attempt, Code.STALE, [], follower.scheduler.table.revision + (1 << 20))
    told.go_back()
    assert told.look() is None
    bench.at += BACKOFF_MOST_MS - 1
    assert told.look() is None
    bench.at += 1
    assert told.look() is not None


def test_who_sleeps_is_looked_at_by_the_time_that_is_told_now() -> None:
    """Why it waits was found by another time: nobody knows whether that still holds."""
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    follower.catch_up()
    told = Told(bench, follower)
    told.look()
    assert [one.reasons[0].code for one in told.waits] == ["never-fits"]
    told.go_back()
    told.look()
    assert [one.reasons[0].code for one in told.waits] == ["never-fits"]
    assert follower.scheduler.queue.next_unblock_at() == bench.at + RESYNC_MS
    assert follower.scheduler.take_resync_hits() == 0


def test_a_grant_that_had_ended_by_a_later_time_pays_again() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    follower.catch_up()
    told = Told(bench, follower, ahead=10 * 86_400_000)
    assert told.look() is None
    assert [one.reasons[0].code for one in told.waits] == [Code.GRANT_ENDED]
    told.go_back()
    assert told.look() is not None


def test_a_pause_by_an_override_ends_when_the_override_does() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    ends = bench.at + 30_000
    override = Override(9, OverrideAction.PAUSE_SCHEDULING, "eu", "", "incident", ROOT, bench.at, ends)
    bench.ship(c.ShippedOverride(override))
    follower.catch_up()
    told = Told(bench, follower, ahead=20_000)
    assert told.look() is None
    told.go_back()
    assert told.look() is None
    assert follower.scheduler.queue.next_unblock_at() == ends
    bench.at = ends
    assert told.look() is not None


def test_a_node_that_is_left_alone_is_so_for_as_long_as_it_was_to_be() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    follower.catch_up()
    told = Told(bench, follower)
    for _ in range(REFUSALS):
        bench.at += BACKOFF_MOST_MS
        attempt = told.look()
        assert attempt is not None
        follower.scheduler.on_refused(attempt, Code.CAPACITY, [RefusedPart(0, 0, "capacity", "cpu", 0)], 0)
    told.go_back()
    bench.at += QUARANTINE_MS - 1
    assert told.look() is None
    bench.at += BACKOFF_MOST_MS
    assert told.look() is not None


def test_doubts_of_a_later_time_hold_up_none_of_now() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    follower.catch_up()
    told = Told(bench, follower)
    told.look()
    key = next(iter(follower.scheduler.queue.blocked))
    doubts = follower.scheduler.waking._doubts
    doubts.note(key, bench.at + HOUR)
    told.go_back()
    told.look()
    doubts.note(key, bench.at)
    bench.at += RECHECK_MS
    told.look()
    assert [one.entry.key[0] for one in told.waits] == [100], "it was looked at again, a second later"


def test_a_deadline_that_had_passed_by_a_later_time_has_not() -> None:
    story = Story()
    story.job(1)
    story.job(2, due_in=HURRY_MS // 2, fails_late=True)
    story.scheduler.load(story.bench.state)
    story.scheduler.queue.pass_time(story.bench.state, story.bench.at)
    late, _ = story.scheduler.run_cycle(SchedulerView(story.bench.state, story.bench.at + HURRY_MS))
    assert late is not None
    assert list(late.workloads) == [1]
    story.scheduler.on_refused(late, Code.EXPIRED, [], 0)
    story.bench.at += MINUTE
    attempt = story.look_on()
    assert attempt is not None
    assert list(attempt.workloads) == [2], "it can still be in time, and the other one pauses"
