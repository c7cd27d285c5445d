"""Several schedulers of one region: each takes its own part first, and the others' only when nothing moves there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import Spread
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.bitsets import bitset_of, each, masks, shared, union
from holdfast.core.region.commands import SlotPlacement, Unreserve
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.queue.peers import ALONE, HELP_MS, RUN, PeerShare, SchedulerPeers, peers_of
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, placed_on, several


def a_full_region(nodes: int = 20) -> RegionBench:
    bench, _ = a_region(nodes, cpu=16_000, memory=32_768)
    return bench


def slots_of(follower: Follower) -> set[tuple[int, int]]:
    """The slots of its next proposal, which is not sent."""
    attempt = follower.look()
    found = attempt.command.groups if attempt is not None else ()
    return {(group.assignment, placement.ordinal) for group in found for placement in group.placements}


# Who takes what


@pytest.mark.parametrize("count", [2, 3, 4])
def test_schedulers_with_equal_views_do_not_propose_the_same_slots_on_the_same_nodes(count: int) -> None:
    bench = a_full_region(80)
    bench.a_workload(a_template(), count=300)
    schedulers = several(bench, count)
    for one in schedulers:
        one.catch_up()
    attempts = [one.look() for one in schedulers]
    for one, attempt in zip(schedulers, attempts, strict=True):
        assert attempt is not None
        assert one.send(attempt) == []
    assert len(placed_on(bench)) == 300
    used = [set(nodes_of(attempt)) for attempt in attempts]
    assert sum(map(len, used)) == len(set.union(*used))


def test_schedulers_that_do_not_know_of_each_other_propose_the_same() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=100)
    schedulers = several(bench, 2)
    for one in schedulers:
        one.peers = ALONE
        one.catch_up()
    first, second = (one.look() for one in schedulers)
    assert first is not None
    assert second is not None
    assert schedulers[0].send(first) == []
    assert len(schedulers[1].send(second)) == 100


def test_a_scheduler_that_is_alone_decides_as_if_there_were_no_others() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=100)
    plain, named = several(bench, 2)
    plain.peers, named.peers = ALONE, peers_of("scheduler/s1", ["scheduler/s1"])
    for one in (plain, named):
        one.catch_up()
    first, second = plain.look(), named.look()
    assert first is not None
    assert second is not None
    assert first.command == second.command
    assert first.decision == second.decision
    assert all(name != "own-part" for name, _ in first.decision.plugins)


def test_requests_of_one_slot_are_divided_too() -> None:
    bench = a_full_region()
    for uid in range(100, 140):
        bench.a_workload(a_template(), count=1, uid=uid, workload=uid)
    schedulers = several(bench, 4)
    for one in schedulers:
        one.catch_up()
    parts = [slots_of(one) for one in schedulers]
    assert Counter(slot for part in parts for slot in part) == Counter((uid, 0) for uid in range(100, 140))
    assert min(map(len, parts)) >= 3


def test_a_request_with_rules_over_domains_has_one_owner() -> None:
    """Two schedulers would both count the emptiest zone, and fill it twice."""
    bench, _ = a_region(0)
    for number in range(12):
        bench.a_node(f"n{number}", zone=f"z{number % 3}")
    bench.a_workload(a_template(spread=(Spread("zone", 1),)), count=24)
    schedulers = several(bench, 3)
    for one in schedulers:
        one.catch_up()
    parts = [slots_of(one) for one in schedulers]
    assert sorted(map(len, parts)) == [0, 0, 24]


# What is left to others


def test_what_nobody_takes_is_taken_by_the_next_one_after_a_while() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=1)
    schedulers = several(bench, 3)
    owner = next(one for one in schedulers if one.peers.owner(100) == one.peers.index)
    after = {(one.peers.index - owner.peers.index) % 3: one for one in schedulers}
    for one in schedulers[:]:
        one.catch_up()
    for distance in (1, 2):
        assert after[distance].look() is None
        blocked = after[distance].asleep()
        assert blocked is not None
        assert blocked.why is BlockReason.PEERS
        assert after[distance].waits == []  # there is nothing to report: its owner does
    bench.at += HELP_MS
    assert after[2].look() is None
    assert len(nodes_of(after[1].look())) == 1
    bench.at += HELP_MS
    assert len(nodes_of(after[2].look())) == 1


def test_a_part_that_moves_is_left_to_its_owner() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=2 * RUN)
    owner, other = several(bench, 2)
    for one in (owner, other):
        one.catch_up()
    attempt = other.look()
    assert attempt is not None
    assert other.send(attempt) == []
    own = owner.look()
    assert own is not None
    mine, node = [placement.ordinal for placement in own.command.groups[0].placements], nodes_of(own)[0]
    for ordinal in mine[:3]:
        bench.at += HELP_MS - 1
        other.catch_up()
        assert other.look() is None
        bench.accept(owner.name, bench.proposal(bench.state.assignments[100], SlotPlacement(ordinal, node)))
    other.catch_up()
    assert other.look() is None
    bench.at += HELP_MS
    assert slots_of(other) == set()  # from now on nothing moves
    bench.at += HELP_MS
    found = slots_of(other)
    assert {ordinal for _, ordinal in found} == set(mine[3:])


def test_the_rest_is_taken_at_once_when_its_owner_is_gone() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=100)
    here, _ = several(bench, 2)
    here.catch_up()
    attempt = here.look()
    assert attempt is not None
    assert 0 < len(nodes_of(attempt)) < 100
    assert here.send(attempt) == []
    here.catch_up()
    assert here.look() is None
    here.peers = peers_of(here.name, [])
    assert here.work() > 0
    assert len(placed_on(bench)) == 100


def test_several_schedulers_place_everything_a_region_has_capacity_for() -> None:
    bench, _ = a_region(9, cpu=4_000)
    bench.a_workload(a_template(), count=40)
    schedulers = several(bench, 4)
    for _ in range(40):
        for one in schedulers:
            one.step()
        bench.at += 1_000
    assert len(placed_on(bench)) == 36
    assert {slot.phase for _, slot in bench.state.slots.items()} == {Phase.BOUND, Phase.PENDING}
    assert {code for one in schedulers for code in one.codes()} == {Code.CAPACITY.value}


def test_nothing_of_a_lower_priority_is_placed_while_another_ones_slot_can_be() -> None:
    bench = a_full_region()
    high = next(uid for uid in range(100, 200) if peers_of("s1", ["s1", "s2"]).owner(uid) == 1)
    low = next(uid for uid in range(200, 300) if peers_of("s1", ["s1", "s2"]).owner(uid) == 0)
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low)
    bench.a_workload(a_template(), count=1, uid=high, workload=high, priority_class="critical")
    first, second = several(bench, 2)
    for one in (first, second):
        one.catch_up()
    assert slots_of(first) == set()
    attempt = second.look()
    assert attempt is not None
    assert second.send(attempt) == []
    first.catch_up()
    assert slots_of(first) == {(low, 0)}


def test_a_charged_slot_of_another_one_needs_no_payer_and_comes_before_a_lower_priority() -> None:
    bench = a_full_region()
    high = next(uid for uid in range(100, 200) if peers_of("s1", ["s1", "s2"]).owner(uid) == 1)
    low = next(uid for uid in range(200, 300) if peers_of("s1", ["s1", "s2"]).owner(uid) == 0)
    bench.a_grant("quota/other")
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low, tenant="other", accounts=("quota/other",))
    work = bench.a_workload(a_template(), count=1, uid=high, workload=high, priority_class="critical")
    bench.place(work, SlotPlacement(0, next(iter(bench.state.nodes.keys()))), bind=False)
    bench.accept(SCHEDULER, Unreserve(((high, 0),)))
    bench.a_grant(cpu=0, version=2)
    first, second = several(bench, 2)
    for one in (first, second):
        one.catch_up()
    assert slots_of(first) == set()
    blocked = first.asleep(high)
    assert blocked is not None
    assert blocked.why is BlockReason.PEERS
    assert slots_of(second) == {(high, 0)}


def test_a_slot_of_a_higher_priority_that_nobody_can_place_holds_nothing_up() -> None:
    bench = a_full_region()
    high = next(uid for uid in range(100, 200) if peers_of("s1", ["s1", "s2"]).owner(uid) == 1)
    low = next(uid for uid in range(200, 300) if peers_of("s1", ["s1", "s2"]).owner(uid) == 0)
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low)
    bench.a_workload(a_template(cpu=10**6), count=1, uid=high, workload=high, priority_class="critical")
    first, _ = several(bench, 2)
    first.catch_up()
    assert slots_of(first) == {(low, 0)}
    blocked = first.asleep(high)
    assert blocked is not None
    assert blocked.why is BlockReason.NODES


def test_a_score_that_fails_for_what_is_left_to_others_is_told_of_that_and_holds_nothing_up() -> None:
    class Failing:
        name, version = "failing", "1"

        def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
            if window.ask.template.need.cpu > 1_000:
                raise KeyError("planted")
            yield from ()

        code = Code.LABELS

    bench = a_full_region()
    names = ["scheduler/s1", "scheduler/s2"]
    high = next(uid for uid in range(100, 200) if peers_of(names[0], names).owner(uid) == 1)
    low = next(uid for uid in range(200, 300) if peers_of(names[0], names).owner(uid) == 0)
    bench.a_workload(a_template(cpu=100), count=1, uid=low, workload=low)
    bench.a_workload(a_template(cpu=2_000), count=1, uid=high, workload=high, priority_class="critical")
    first = Follower(bench, names[0], replace(BUILT_IN, filters=(*BUILT_IN.filters, Failing())))
    first.peers = peers_of(names[0], names)
    first.catch_up()
    assert slots_of(first) == {(low, 0)}
    blocked = first.asleep(high)
    assert blocked is not None
    assert blocked.why is BlockReason.PLUGIN


def test_a_decision_names_the_part_that_it_was_made_for() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=300)
    _, second, _ = several(bench, 3)
    second.catch_up()
    attempt = second.look()
    assert attempt is not None
    assert ("own-part", "1, 2 of 3") in attempt.decision.plugins


# Refusals feed back


def test_what_another_scheduler_bound_is_dropped_when_the_view_shows_it() -> None:
    bench = a_full_region()
    bench.a_workload(a_template(), count=100)
    first, second = several(bench, 2)
    for one in (first, second):
        one.peers = ALONE
        one.catch_up()
    attempts = first.look(), second.look()
    assert attempts[0] is not None
    assert attempts[1] is not None
    first.send(attempts[0])
    refused = second.send(attempts[1])
    assert {one.code for one in refused} == {Code.STALE.value}
    entry = second.scheduler.queue.entry((100, attempts[1].command.groups[0].template))
    assert entry is not None
    assert entry.open == 0  # nothing is proposed again, and the nodes stay deducted, until the view shows more
    table = second.scheduler.table
    row = table.rows[nodes_of(attempts[1])[0]]
    assert table.free_any[table.resources["cpu"], row] < 16_000
    assert second.look() is None
    second.catch_up()
    assert second.scheduler.flight.parts == {}
    assert len(second.scheduler.queue) == 0
    assert second.look() is None


# The arithmetic


@given(count=st.integers(1, 16), uid=st.integers(1, 1 << 62), ordinals=st.sets(st.integers(0, 5_000)))
def test_every_slot_has_one_owner(count: int, uid: int, ordinals: set[int]) -> None:
    peers = [SchedulerPeers(f"s{index}", index, count) for index in range(count)]
    parts = [one.part(uid, masks(ordinals)) for one in peers]
    assert union(parts) == masks(ordinals)
    assert sum(len(list(each(part))) for part in parts) == len(ordinals)
    for after in range(count):
        assert peers[0].part(uid, masks(ordinals), after) == parts[-after % count]


@pytest.mark.parametrize("count", [2, 4, 7, 16])
def test_slots_and_nodes_are_divided_evenly(count: int) -> None:
    peers = [SchedulerPeers(f"s{index}", index, count) for index in range(count)]
    for uid in (1, 77 << 20, 78 << 20):
        sizes = [len(list(each(one.part(uid, bitset_of(((0, 65_536),)))))) for one in peers]
        assert max(sizes) - min(sizes) <= RUN
    uids = np.array([(7_000 + number // 50 << 20) + number % 50 for number in range(4_000)], np.int64)
    owned = [int(one.own_nodes(uids).sum()) for one in peers]
    assert sum(owned) == 4_000
    assert min(owned) > 4_000 // count * 0.8
    assert [int(peers[0].owner(uid) == 0) for uid in uids.tolist()] == peers[0].own_nodes(uids).astype(int).tolist()


def test_the_place_of_a_scheduler_does_not_depend_on_the_order_of_names() -> None:
    assert peers_of("b", ["c", "a", "b"]) == SchedulerPeers("b", 1, 3) == peers_of("b", ["a", "c"])
    assert peers_of("b", ["b"]) is ALONE


def test_a_share_forgets_what_it_left_when_time_goes_back() -> None:
    share, peers = PeerShare(), SchedulerPeers("a", 0, 2)
    share.begin(peers, 1_000)
    other = next((uid, "t") for uid in range(100) if peers.owner(uid))
    striped = shared({0: (1 << 1_024) - 1}, peers.part(other[0], {0: (1 << 1_024) - 1}, 1))
    assert share.leaves(other, "row")
    assert share.mine(other, striped, whole=False) == {}
    assert not share.begin(peers, 1_000 + HELP_MS)
    assert not share.leaves(other, "row")
    assert share.mine(other, striped, whole=False) == striped
    assert share.leaves(other, "another row")
    assert not share.begin(peers, 500)
    assert share.leaves(other, "another row")
    assert share.mine(other, striped, whole=False) == {}


def test_a_group_with_more_open_slots_is_looked_at_again() -> None:
    share = PeerShare()
    share.grew("a")
    assert share.take_grown() == []  # who is alone leaves nothing
    share.begin(SchedulerPeers("a", 0, 2), 0)
    share.grew("a")
    share.grew("a")
    assert share.take_grown() == ["a"]
    assert share.take_grown() == []
