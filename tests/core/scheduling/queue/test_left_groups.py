"""Groups that a scheduler leaves to others: nothing lower before them, in bounded cycles."""

from __future__ import annotations

import pytest

from holdfast.core.scheduling.cycle import RESTED_MAX, SchedulerView
from holdfast.core.scheduling.queue.blocked_groups import BlockedIndex
from holdfast.core.scheduling.queue.peers import HELP_MS, RUN, peers_of
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import DUE_MAX, BlockedGroup, BlockReason
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, several

NAMES = ("scheduler/s1", "scheduler/s2")


def uids_of(owner: int, count: int = 1, start: int = 100) -> list[int]:
    """Assignments that one of two schedulers takes first."""
    peers = peers_of(NAMES[0], NAMES)
    return [uid for uid in range(start, start + 20 * count + 100) if peers.owner(uid) == owner][:count]


def slots_of(follower: Follower) -> set[tuple[int, int]]:
    """The slots of its next proposal, which is not sent."""
    attempt = follower.look()
    found = attempt.command.groups if attempt is not None else ()
    return {(group.assignment, placement.ordinal) for group in found for placement in group.placements}


# Priorities


def test_nothing_lower_is_placed_with_the_own_part_of_a_request_whose_rest_is_left() -> None:
    """The rest needs the capacity: its owner has not placed it yet."""
    bench, _ = a_region(2 * RUN, cpu=1_000, memory=2_048)
    bench.a_workload(a_template(), count=2 * RUN, priority_class="critical")
    (low,) = uids_of(0, start=200)
    bench.a_workload(a_template(), count=RUN // 2, uid=low, workload=low)
    first, second = several(bench, 2)
    for one in (first, second):
        one.catch_up()
    attempt = first.look()
    assert attempt is not None
    assert {(group.assignment, len(group.placements)) for group in attempt.command.groups} == {(100, RUN)}
    assert first.send(attempt) == []
    assert second.step() is not None
    assert first.step() is None
    assert {slot.assignment for _, slot in bench.state.slots.items() if slot.node} == {100}


def test_a_lower_priority_waits_for_many_that_cannot_be_placed_in_bounded_cycles() -> None:
    bench, _ = a_region(4)
    for number, uid in enumerate(uids_of(1, 3 * RESTED_MAX + 1, start=1_000)):
        template = a_template(cpu=10**6 + number)
        bench.a_workload(template, count=1, uid=uid, workload=uid, priority_class="critical")
    (low,) = uids_of(0, start=200)
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low)
    first, _ = several(bench, 2)
    first.catch_up()
    for _ in range(3):
        attempt, waits = first.scheduler.run_cycle(SchedulerView(first.state, bench.at, 0, first.peers))
        assert attempt is None
        assert len(waits) == RESTED_MAX
        assert first.scheduler.has_more
    assert slots_of(first) == {(low, 0)}


# Reasons


def test_a_request_that_is_left_beside_one_that_may_not_run_waits_for_its_owner_and_no_other_cause() -> None:
    bench, _ = a_region(2)
    ((mine,), (other,)) = uids_of(0), uids_of(1)
    bench.a_workload(a_template(), count=1, uid=mine, workload=mine, deadline=bench.at + 1_000, fails_late=True)
    bench.a_workload(a_template(), count=1, uid=other, workload=other)
    bench.at += 2_000
    first, _ = several(bench, 2)
    first.catch_up()
    assert slots_of(first) == set()
    assert first.codes(mine) == ["deadline-missed"]
    assert first.codes(other) == []
    blocked = first.asleep(other)
    assert blocked is not None
    assert blocked.why is BlockReason.PEERS
    bench.at += HELP_MS
    assert slots_of(first) == {(other, 0)}


# Changes of schedulers


def a_large_queue(bench: RegionBench, count: int) -> None:
    """Requests of the other scheduler, each in a group of its own."""
    bench.checked = False
    for number, uid in enumerate(uids_of(1, count, start=1_000)):
        bench.a_workload(a_template(cpu=100 + number), count=1, uid=uid, workload=uid)


@pytest.mark.timeout(120)
def test_a_change_of_schedulers_unblocks_what_was_left_in_bounded_steps() -> None:
    bench, _ = a_region(1, cpu=50)
    a_large_queue(bench, DUE_MAX + 10)
    first, _ = several(bench, 2)
    first.catch_up_at_once()
    assert first.look() is None
    queue = first.scheduler.queue
    assert len(queue.blocked) == DUE_MAX + 10
    first.peers = peers_of(first.name, [])
    first.scheduler.waking.share_with(first.peers, bench.at)
    assert len(queue.blocked) == DUE_MAX + 10  # they are due, and not all of them at once
    first.look()
    assert {blocked.why for _, blocked in queue.blocked.items()} == {BlockReason.NODES}


def a_key(urgency: int, name: str) -> GroupKey:
    return (urgency, 0, "acme", (name, "acme", True, 0, False), ("quota/acme",), "normal")


def test_the_most_urgent_group_that_is_left_is_known_without_a_search() -> None:
    blocked, left = BlockedIndex(), BlockedGroup(BlockReason.PEERS, 0, 1_000)
    for urgency, name in ((5, "a"), (1, "b"), (3, "c"), (1, "d")):
        blocked[a_key(urgency, name)] = left
    blocked[a_key(0, "e")] = BlockedGroup(BlockReason.NODES, 0, 1_000)
    found = []
    while (first := blocked.most_urgent_left()) is not None:
        found.append(first[3][0])
        blocked.pop(first)
    assert found == ["b", "d", "c", "a"]
    assert len(blocked) == 1


def test_groups_called_again_and_again_are_kept_once() -> None:
    blocked = BlockedIndex()
    for number in range(100):
        blocked[a_key(1, str(number))] = BlockedGroup(BlockReason.PEERS, 0, 1_000)
    for _ in range(50):
        blocked.call_left()
    assert len(blocked._called) <= 400
    taken = 0
    while blocked.take_due(0) is not None:
        taken += 1
    assert taken == 100
