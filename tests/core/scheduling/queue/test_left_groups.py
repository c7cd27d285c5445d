"""Groups that a scheduler leaves to others: nothing lower before them, help however many they are, bounded cycles."""

from __future__ import annotations

import pytest

from holdfast.core.model.values.bitsets import Bitset, each, masks
from holdfast.core.region.commands import SlotPlacement, Unreserve
from holdfast.core.scheduling.cycle import RESTED_MAX
from holdfast.core.scheduling.queue.blocked_groups import BlockedIndex
from holdfast.core.scheduling.queue.peers import HELP_MS, RUN, PeerShare, SchedulerPeers, peers_of
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import DUE_MAX, BlockedGroup, BlockReason
from holdfast.core.scheduling.view import SchedulerView
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, several

NAMES = ("scheduler/s1", "scheduler/s2")
#: How long a lower priority waits for one of two schedulers.
HOLD_MS = 3 * HELP_MS


def uids_of(owner: int, count: int = 1, start: int = 100) -> list[int]:
    """Assignments that one of two schedulers takes first."""
    peers = peers_of(NAMES[0], NAMES)
    return [uid for uid in range(start, start + 20 * count + 100) if peers.owner(uid) == owner][:count]


def first_part(owner: int) -> Bitset:
    """The slots of assignment 100 that one of two schedulers takes first."""
    return SchedulerPeers("", owner, 2).part(100, masks(range(2 * RUN)))


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


def test_a_lower_priority_is_placed_in_the_end_however_many_higher_ones_a_hanging_scheduler_gets() -> None:
    """At every cycle there is a new request of a higher priority, whose owner places none of them."""
    bench, _ = a_region(4)
    (low,) = uids_of(0, start=200)
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low)
    first, _ = several(bench, 2)
    others, began = iter(uids_of(1, 100, start=1_000)), bench.at
    while not any(slot.assignment == low and slot.node for _, slot in bench.state.slots.items()):
        assert bench.at <= began + HOLD_MS
        uid = next(others)
        bench.a_workload(a_template(cpu=1), count=1, uid=uid, workload=uid, priority_class="critical")
        first.step()
        bench.at += HELP_MS // 4
    assert bench.at > began + HOLD_MS


def test_a_wait_for_others_is_counted_anew_after_a_break() -> None:
    share, peers = PeerShare(), SchedulerPeers("a", 0, 2)

    def at(time: int) -> None:
        share.begin(peers, 1_000 + time)

    at(0)
    assert share.holds(5)
    at(HELP_MS)
    share.passes(4)  # something more urgent, which waits for nobody
    assert share.holds(7)
    at(2 * HELP_MS)
    assert share.holds(5)
    at(HOLD_MS)
    assert not share.holds(5)
    assert not share.holds(7)  # in the same cycle
    at(HOLD_MS + 1)
    assert share.holds(5)
    at(HOLD_MS + 2)
    share.passes(5)
    at(2 * HOLD_MS)
    assert share.holds(5)
    at(2 * HOLD_MS + HELP_MS + 1)  # nobody waited meanwhile
    assert share.holds(5)
    at(3 * HOLD_MS)
    assert share.holds(5)
    at(0)
    assert share.holds(5)


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


# Help


def test_what_nobody_takes_is_taken_however_much_it_is() -> None:
    share, peers = PeerShare(), SchedulerPeers("a", 0, 2)
    share.begin(peers, 1_000)
    others = [(uid, "t") for uid in range(90_000) if peers.owner(uid)]
    assert len(others) > 40_000
    for key in others:
        assert share.leaves(key, "row")
    share.begin(peers, 1_000 + HELP_MS)
    assert not any(share.leaves(key, "row") for key in others)


def test_slots_that_were_placed_and_are_open_again_are_left_to_their_owner_anew() -> None:
    """After the loss of a zone, the same ordinals are open as long before."""
    share, peers, key = PeerShare(), SchedulerPeers("a", 0, 2), (100, "t")
    everything = masks(range(2 * RUN))
    mine, others = peers.part(100, everything), peers.part(100, everything, after=1)
    for emptied in ("asked meanwhile", "not asked meanwhile"):
        share.begin(peers, 1_000)
        assert share.mine(key, others, whole=False) == {}
        if emptied == "asked meanwhile":
            assert share.mine(key, {}, whole=False) == {}
        else:
            share.forget(key)
        share.begin(peers, 1_000 + 100 * HELP_MS)
        assert share.mine(key, everything, whole=False) == mine
        assert share.mine(key, others, whole=False) == {}
        share.begin(peers, 1_000 + 101 * HELP_MS)
        assert share.mine(key, others, whole=False) == others
        share.forget(key)
        share.begin(peers, 0)


def test_slots_that_moved_while_own_ones_were_open_are_left_to_their_owner_anew() -> None:
    share, peers, key = PeerShare(), SchedulerPeers("a", 0, 2), (100, "t")
    everything = masks(range(2 * RUN))
    mine, others = peers.part(100, everything), peers.part(100, everything, after=1)
    share.begin(peers, 1_000)
    assert share.mine(key, others, whole=False) == {}
    assert share.mine(key, mine, whole=False) == mine
    share.begin(peers, 1_000 + 10 * HELP_MS)
    assert share.mine(key, others, whole=False) == {}


def test_own_slots_that_open_again_and_again_do_not_put_off_help() -> None:
    share, peers, key = PeerShare(), SchedulerPeers("a", 0, 2), (100, "t")
    everything = masks(range(2 * RUN))
    mine, others = peers.part(100, everything), peers.part(100, everything, after=1)
    found: Bitset = {}
    for at in range(1_000, 1_001 + HELP_MS, HELP_MS // 4):
        share.begin(peers, at)
        assert share.mine(key, everything, whole=False) == mine
        found = share.mine(key, others, whole=False)
    assert found == others


def test_a_request_that_left_the_queue_is_not_remembered() -> None:
    bench, _ = a_region(2)
    (other,) = uids_of(1)
    bench.a_workload(a_template(), count=1, uid=other, workload=other)
    first, second = several(bench, 2)
    first.catch_up()
    assert slots_of(first) == set()
    assert len(first.scheduler.queue.share._rows) == 1
    assert second.step() is not None
    first.catch_up()
    assert first.scheduler.queue.share._rows == {}


def test_charged_slots_of_others_that_do_not_move_are_taken_although_nobody_pays_for_own_ones() -> None:
    bench, _ = a_region(20, cpu=16_000, memory=32_768)
    work = bench.a_workload(a_template(), count=2 * RUN)
    first, _ = several(bench, 2)
    (ordinal, *_), node = each(first_part(1)), next(iter(bench.state.nodes.keys()))
    bench.place(work, SlotPlacement(ordinal, node), bind=False)
    bench.accept(SCHEDULER, Unreserve(((1, ordinal),)))
    bench.a_grant(cpu=1_000, version=2)
    first.catch_up()
    assert slots_of(first) == set()
    assert first.codes() == ["over-grant"]
    bench.at += HELP_MS
    assert slots_of(first) == {(100, ordinal)}
    assert first.scheduler.take_resync_hits() == 0


def test_own_slots_that_were_refused_are_proposed_again_when_the_view_shows_why() -> None:
    bench, _ = a_region(8, cpu=RUN * 1_000, memory=1 << 20)
    bench.a_workload(a_template(), count=2 * RUN)
    first, second = several(bench, 2)
    first.catch_up()
    attempt = first.look()
    node, *_ = nodes_of(attempt)
    assert attempt is not None
    taken = bench.a_workload(a_template(cpu=10_000), count=1, uid=777, workload=777)
    bench.accept(second.name, bench.proposal(taken, SlotPlacement(0, node)))
    assert first.look() is None  # the rest is left to the other one
    assert len(first.send(attempt)) == 10
    first.catch_up()
    assert len(slots_of(first)) == 10


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
    return (urgency, 0, "acme", (name, "acme", True, 0, False, 0, 0), ("quota/acme",), "normal")


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
