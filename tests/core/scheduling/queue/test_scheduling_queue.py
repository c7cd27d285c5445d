"""Who is looked at first, who waits with whom, and that all of it follows from the state."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.workloads import Apart, Spread
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import RegionTotals
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.bitsets import masks
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.state.slot_kinds import count_kinds
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling import scheduler as scheduler_module
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.queue import request_groups
from holdfast.core.scheduling.queue import scheduling_queue as queue_module
from holdfast.core.scheduling.queue.blocked_groups import STALE_MAX as SLEEPERS_STALE_MAX
from holdfast.core.scheduling.queue.blocked_groups import BlockedIndex
from holdfast.core.scheduling.queue.request_groups import NEVER, QueuedRequest, RequestGroup
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.queue.tenant_shares import dominant_share
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView
from tests.properties.scheduler.world import World
from tests.support.ledgers.region import REPLICA, ROOT, T0, RegionBench, a_class, a_template, an_assignment
from tests.support.ledgers.scheduler_world import Follower
from tests.support.step_counter import StepCounter

NOTHING_SPENT: dict[str, Resources] = {}


def a_queue(bench: RegionBench) -> SchedulingQueue:
    queue = SchedulingQueue()
    queue.load(bench.state)
    return queue


def in_order(
    queue: SchedulingQueue, state: RegionState, spent: Mapping[str, Resources] = NOTHING_SPENT
) -> list[tuple[int, ...]]:
    """The groups as they are looked at, each with its assignments."""
    queue.begin(state, spent)
    found: list[tuple[int, ...]] = []
    while (group := queue.take(state)) is not None:
        found.append(tuple(uid for uid, _ in group.entries))
    return found


def a_group(queue: SchedulingQueue, assignment: int) -> RequestGroup:
    (group,) = queue.groups_of(assignment)
    return group


def some_keys(count: int) -> list[Any]:
    """Of so many groups that differ."""
    return [(50, 0, "acme", ("kind", number), (f"quota/{number % 100}",), "normal") for number in range(count)]


def work(bench: RegionBench, uid: int, cpu: int = 1000, **fields: Any) -> None:
    """A workload of its own kind, so that it waits alone, of the same number."""
    bench.a_workload(a_template(cpu=cpu), uid=uid, workload=uid, count=fields.pop("count", 1), **fields)


def test_requests_that_come_in_any_order_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[QueuedRequest] = []

    def age(entry: QueuedRequest) -> object:
        looked.append(entry)
        return entry.age

    monkeypatch.setattr(request_groups, "_age", age)
    for count in (50, 100):
        bench = RegionBench()
        for uid in range(1, count + 1):
            bench.a_workload(uid=uid, workload=uid, count=1)
        for uid in range(1, count + 1):  # the last is the oldest
            (request,) = bench.state.requests[uid]
            bench.state.requests.put(uid, (replace(request, since=bench.at - uid),))
        looked.clear()
        assert in_order(a_queue(bench), bench.state) == [tuple(range(count, 0, -1))]
        assert len(looked) == count


# Order


def test_the_higher_class_comes_first_whatever_else() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=101, priority_class="best-effort", deadline=bench.at + 1)
    work(bench, 2, cpu=102, priority_class="normal")
    bench.at += 1_000
    work(bench, 3, cpu=103, priority_class="critical")
    assert in_order(a_queue(bench), bench.state) == [(3,), (2,), (1,)]


def test_in_one_class_the_earliest_deadline_comes_first_and_no_deadline_last() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=101)
    work(bench, 2, cpu=102, deadline=bench.at + 9_000)
    work(bench, 3, cpu=103, deadline=bench.at + 5_000)
    assert in_order(a_queue(bench), bench.state) == [(3,), (2,), (1,)]


def test_then_the_tenant_with_the_smallest_share_and_then_the_oldest() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    bench.a_grant("quota/beta")
    node = bench.a_node(cpu=10_000, memory=1_000_000)
    bench.place(bench.a_workload(a_template(cpu=1000), count=1, workload=9), c.SlotPlacement(0, node))
    work(bench, 1, cpu=101)
    bench.at += 1_000
    work(bench, 2, cpu=102)
    work(bench, 3, cpu=103, tenant="beta")
    assert in_order(a_queue(bench), bench.state) == [(3,), (1,), (2,)]


def test_what_is_on_its_way_counts_for_the_share() -> None:
    bench = RegionBench()
    bench.a_node(cpu=10_000)
    work(bench, 1, cpu=101)
    bench.at += 1_000
    work(bench, 2, cpu=102, tenant="beta")
    queue = a_queue(bench)
    assert in_order(queue, bench.state) == [(1,), (2,)]
    assert in_order(queue, bench.state, {"acme": Resources(101)}) == [(2,), (1,)]


def test_a_tenant_that_got_something_meanwhile_goes_behind_the_others() -> None:
    bench = RegionBench()
    bench.a_node(cpu=10_000)
    work(bench, 1, cpu=101)
    work(bench, 2, cpu=102)
    bench.at += 1_000
    work(bench, 3, cpu=103, tenant="beta")
    queue = a_queue(bench)
    spent: dict[str, Resources] = {}
    queue.begin(bench.state, spent)
    found = []
    while (group := queue.take(bench.state)) is not None:
        (uid, _), *_ = group.entries
        found.append(uid)
        spent[group.tenant] = Resources(100)
    assert found == [1, 3, 2]


def test_a_share_is_of_the_resource_of_which_it_is_most() -> None:
    sums = RegionTotals(capacity=Resources(10_000, 1_000, 0, 0, (("fpga", 4),)))
    assert dominant_share(sums, Resources(1_000, 500)) == 500_000
    assert dominant_share(sums, Resources(1_000, 50, 0, 0, (("fpga", 3),))) == 750_000
    assert dominant_share(sums, Resources(6_000, 500)) == 600_000
    assert dominant_share(sums, Resources(disk=5)) == 0, "what the region has none of is nobody's share"


# Groups


def test_equal_requests_wait_together_oldest_first() -> None:
    bench = RegionBench()
    for uid in (3, 1, 2):
        work(bench, uid, cpu=100)
        bench.at += 1_000
    assert in_order(a_queue(bench), bench.state) == [(3, 1, 2)]


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": 200},
        {"tenant": "beta"},
        {"priority_class": "critical"},
        {"priority_class": "likewise"},
        {"deadline": T0 + 60_000},
        {"accounts": ("quota/acme", "recovery/r")},
    ],
)
def test_requests_that_differ_in_something_wait_apart(other: dict[str, Any]) -> None:
    bench = RegionBench()
    bench.ship(c.ShippedPriorityClass(a_class("likewise", 50)))
    work(bench, 1, cpu=100)
    work(bench, 2, **{"cpu": 100, **other})
    assert len(a_queue(bench).groups) == 2


def test_workloads_wait_apart_where_replicas_are_counted_over_zones_for_each() -> None:
    bench = RegionBench()
    for uid in (1, 2):
        bench.a_workload(a_template(spread=(Spread(),)), uid=uid, workload=uid, count=1)
        bench.a_workload(a_template(apart=(Apart("db"),)), uid=10 + uid, workload=10 + uid, count=1)
    assert sorted(len(group.entries) for group in a_queue(bench).groups.values()) == [1, 1, 2]


def test_an_older_request_that_comes_later_takes_its_place_among_many() -> None:
    bench = RegionBench()
    for uid in (5, 3, 4):
        work(bench, uid, cpu=100)
        bench.at += 1_000
    queue = SchedulingQueue()
    for uid in (4, 5, 3):
        queue.update(bench.state, uid)
    assert in_order(queue, bench.state) == [(5, 3, 4)]


def test_a_request_that_went_and_came_again_is_as_old_as_it_is_now() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100)
    bench.at += 1_000
    work(bench, 2, cpu=100)
    queue = a_queue(bench)
    bench.at += 1_000
    bench.accept(REPLICA, c.WithdrawSlots(1, (0,)))
    bench.accept(REPLICA, c.OpenSlots(1, bench.state.assignments[1].shares[0].template, (0,)))
    queue.update(bench.state, 1)
    assert in_order(queue, bench.state) == [(2, 1)]


def test_a_request_whose_assignment_changes_moves_with_what_is_proposed_of_it() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100, count=3)
    work(bench, 2, cpu=100)
    queue = a_queue(bench)
    key = (1, bench.state.assignments[1].shares[0].template)
    entry = queue.entry(key)
    assert entry is not None
    entry.propose({0})
    changed = replace(bench.state.assignments[1], revision=50, generation=2, priority_class="critical")
    bench.ship(c.ShippedAssignment(changed))
    queue.update(bench.state, 1)
    assert in_order(queue, bench.state) == [(1,), (2,)]
    moved = queue.entry(key)
    assert moved is not None
    assert moved.proposed == {0}
    assert moved.open == 2


def test_a_request_whose_class_changes_moves() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100, priority_class="best-effort")
    work(bench, 2, cpu=100)
    queue = a_queue(bench)
    bench.ship(c.ShippedPriorityClass(a_class("best-effort", 90)))
    queue.load(bench.state)
    assert in_order(queue, bench.state) == [(1,), (2,)]
    assert a_group(queue, 1).ask.firm


def test_a_request_without_slots_is_gone_and_so_is_its_group() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100)
    queue = a_queue(bench)
    queue.block(a_group(queue, 1), BlockedGroup(BlockReason.NODES, 1, NEVER))
    bench.accept(REPLICA, c.WithdrawSlots(1, (0,)))
    queue.update(bench.state, 1)
    assert (len(queue), queue.groups, queue.blocked) == (0, {}, {})


def test_other_ordinals_of_the_same_number_are_seen() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100, count=2)
    queue = a_queue(bench)
    entry = queue.entry((1, bench.state.assignments[1].shares[0].template))
    assert entry is not None
    assert entry.look_up(bench.state) == [0, 1]
    bench.accept(REPLICA, c.WithdrawSlots(1, (0,)))
    bench.accept(REPLICA, c.OpenSlots(1, entry.key[1], (5,)))
    queue.update(bench.state, 1)
    assert entry.look_up(bench.state) == [1, 5]


def test_ordinals_are_looked_through_again_only_when_one_of_the_request_has_opened_or_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node(cpu=100_000, memory=1_000_000)
    assignment = bench.a_workload(a_template(cpu=100), count=20, uid=1, workload=1)
    bench.place(assignment, *(c.SlotPlacement(number, node) for number in range(17)))
    queue = a_queue(bench)
    entry = queue.entry((1, assignment.shares[0].template))
    assert entry is not None
    assert entry.look_up(bench.state) == [17, 18, 19]
    found: list[Any] = []
    find = QueuedRequest._find

    def counted(entry: QueuedRequest, state: RegionState, assignment: Any) -> Any:
        found.append(assignment)
        return find(entry, state, assignment)

    monkeypatch.setattr(QueuedRequest, "_find", counted)
    for number in range(17):
        bench.walk(Phase.RUNNING, number)
        queue.update(bench.state, 1)
        assert entry.look_up(bench.state) == [17, 18, 19]
    entry.propose({17})
    assert entry.look_up(bench.state) == [18, 19]
    assert found == []
    bench.place(assignment, c.SlotPlacement(17, node))
    queue.update(bench.state, 1)
    assert entry.look_up(bench.state) == [18, 19]
    assert len(found) == 1


def test_ordinals_to_which_the_region_has_no_right_do_not_wait_here() -> None:
    bench = RegionBench()
    bench.a_workload(count=2, ordinals=0, exclusive=True)
    held = replace(bench.state.assignments[100], revision=200, generation=2, ordinals=(3, 4))
    bench.ship(c.ShippedAssignment(held))
    bench.accept(REPLICA, c.OpenSlots(100, held.shares[0].template, (3, 4)))
    bench.ship(c.ShippedAssignment(replace(held, revision=201, generation=3, ordinals=(4,))))
    entry = a_queue(bench).entry((100, held.shares[0].template))
    assert entry is not None
    assert entry.look_up(bench.state) == [4]


def test_charged_slots_are_told_apart() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node()
    assignment = bench.a_workload(count=2)
    bench.place(assignment, c.SlotPlacement(1, node))
    bench.move("agent/n1", Phase.RELEASED, "declined", 1)
    entry = a_queue(bench).entry((100, assignment.shares[0].template))
    assert entry is not None
    entry.look_up(bench.state)
    assert (entry.waiting, entry.charged) == ([0, 1], {1})


def test_what_waits_is_looked_up_in_few_steps_where_thousands_stand_and_wait_side_by_side() -> None:
    state = RegionState()
    state.assignments.put(100, an_assignment(100, 1, "t", 20_000))
    count_kinds(state, 100, None, ("serving", "t", "t", "quota/acme"), masks(range(0, 20_000, 2)))
    count_kinds(state, 100, None, ("pending", "t", "t", ""), masks(range(3, 20_000, 2)))
    count_kinds(state, 100, None, ("pending", "t", "t", "quota/acme"), masks((1, 19_999)))
    request = SchedulingRequest(1, 100, "t", 9_999, 0)
    state.requests.put(100, (request,))
    entry = QueuedRequest(request)
    with StepCounter() as steps:
        found = entry.look_up(state)
    assert found == [*range(1, 2_001, 2), 19_999], "as many as one proposal may name, and all that are charged"
    assert entry.charged == {1, 19_999}
    assert steps.calls < 6_000
    entry.propose(set(found))
    assert entry.look_up(state)[:2] == [2_001, 2_003]


# Awake and asleep


def test_what_is_heard_touches_nobody_who_sleeps_and_a_grant_those_for_whom_it_pays() -> None:
    asleep = BlockedIndex()
    keys = some_keys(5_000)
    for number, key in enumerate(keys):
        asleep[key] = BlockedGroup(BlockReason.REFUSED if number % 2 else BlockReason.NODES, 1, NEVER)
    with StepCounter() as steps:
        asleep.begin_round()
        refused = asleep.refused_by("quota/7")
    assert refused == keys[7::100]
    assert steps.calls < 20
    asked = []
    while (key := asleep.next_asked()) is not None:
        asked.append(key)
        if len(asked) == 1:
            asleep.pop(keys[2])
            asleep[keys[4]] = BlockedGroup(BlockReason.PAUSED, 1, NEVER)
    assert asked == [keys[0], *keys[6::2]], "who was woken, or waits for time alone, is not asked"
    assert not asleep.has_unasked()
    assert asleep.refused_by("quota/6") == []


def test_those_who_count_a_slot_are_asked_before_others_unless_others_wait_to_be_asked() -> None:
    asleep, keys = BlockedIndex(), some_keys(6)
    for number, key in enumerate(keys):
        scopes = ("acme/db",) if number in (2, 4) else ()
        asleep[key] = BlockedGroup(BlockReason.NODES, 1, 1, scopes=scopes)
    asleep.ask_counting(("acme/web",))
    assert not asleep.has_unasked()
    asleep.ask_counting(("acme/db", "acme/web"))
    assert {asleep.next_asked(), asleep.next_asked()} == {keys[2], keys[4]}
    assert asleep.next_asked() is None
    asleep.begin_round()
    assert asleep.next_asked() == keys[0]
    asleep.ask_counting(("acme/db",))
    found = [asleep.next_asked() for _ in range(6)]
    assert found[0] == keys[1], "nobody is asked again before those who were not asked at all"
    assert set(found) == set(keys)
    del asleep[keys[2]]
    asleep.pop(keys[4])
    asleep.ask_counting(("acme/db",))
    assert not asleep.has_unasked()


def test_who_sleeps_is_not_looked_at_until_its_time() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=101)
    work(bench, 2, cpu=102)
    queue = a_queue(bench)
    queue.block(a_group(queue, 1), BlockedGroup(BlockReason.NODES, 1, 500))
    assert in_order(queue, bench.state) == [(2,)]
    assert queue.next_unblock_at() == 500
    assert queue.unblock_due(499) == 0
    assert queue.unblock_due(500) == 1
    assert queue.next_unblock_at() is None
    assert in_order(queue, bench.state) == [(1,), (2,)]


def test_nobody_who_sleeps_on_is_looked_at_to_tell_whose_time_has_come() -> None:
    asleep = BlockedIndex()
    keys = some_keys(5_000)
    for number, key in enumerate(keys):
        asleep[key] = BlockedGroup(BlockReason.NODES, 1, 1_000 + number % 1_000)
    with StepCounter() as steps:
        assert asleep.next_due() == 1_000
        assert asleep.take_due(999) is None
        due = [asleep.take_due(1_000) for _ in range(6)]
        assert asleep.next_due() == 1_001
    assert steps.calls < 200
    assert [one[0] for one in due[:5] if one is not None] == keys[::1_000], "the longest asleep first"
    assert due[5] is None


def test_who_was_woken_or_sleeps_anew_is_not_due_at_the_time_before() -> None:
    asleep = BlockedIndex()
    woken, again, left = some_keys(3)
    for key in (woken, again, left):
        asleep[key] = BlockedGroup(BlockReason.NODES, 1, 500)
    asleep.pop(woken)
    del asleep[left]
    asleep[again] = BlockedGroup(BlockReason.NODES, 2, 800)
    assert asleep.next_due() == 800
    assert asleep.take_due(799) is None
    assert asleep.take_due(800) == (again, BlockedGroup(BlockReason.NODES, 2, 800))
    assert (asleep, asleep.next_due()) == ({}, None)


def test_times_of_who_sleeps_do_not_pile_up_however_often_they_are_woken() -> None:
    asleep = BlockedIndex()
    keys = some_keys(100)
    for number in range(50):
        for key in keys:
            asleep[key] = BlockedGroup(BlockReason.NODES, 1, NEVER - number)
        assert len(asleep._times) <= 2 * len(keys) + SLEEPERS_STALE_MAX + 1
    for key in keys:
        asleep.pop(key)
    assert asleep.next_due() is None
    assert asleep._times == []


@pytest.mark.parametrize("all_of_them", [False, True])
def test_of_many_whose_time_has_come_in_one_moment_few_are_woken_at_once_and_all_in_the_end(
    monkeypatch: pytest.MonkeyPatch, all_of_them: bool
) -> None:
    monkeypatch.setattr(queue_module, "DUE_MAX", 3)
    monkeypatch.setattr(scheduler_module, "DUE_MAX", 3)
    bench = RegionBench()
    bench.a_grant()
    follower = Follower(bench)
    for uid in range(1, 9):
        work(bench, uid, cpu=100 + uid)
    follower.catch_up()
    assert follower.look() is None
    scheduler = follower.scheduler
    assert len(scheduler.queue.blocked) == 8
    if all_of_them:
        bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "b", "fire", bench.at + RESYNC_MS))
        follower.catch_up()
    else:
        bench.at += RESYNC_MS
    awake: list[int] = []
    while scheduler.has_more or not awake:
        awake.append(len(scheduler.run_cycle(SchedulerView(bench.state, bench.at))[1]))
    assert awake == [3, 3, 2]


def test_who_is_woken_by_what_may_cure_anything_is_not_one_that_only_the_resync_noticed() -> None:
    bench, queue = RegionBench(), SchedulingQueue()
    work(bench, 1)
    queue.load(bench.state)
    group = a_group(queue, 1)
    for at, is_resync in ((499, False), (500, True)):
        queue.block(group, BlockedGroup(BlockReason.NODES, 1, 500, resync=True))
        queue.unblock_all()
        assert queue.unblock_due(at) == 1
        assert group.resynced is is_resync


def test_who_falls_asleep_in_a_look_is_not_taken_in_it() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=101)
    work(bench, 2, cpu=102)
    queue = a_queue(bench)
    queue.begin(bench.state, NOTHING_SPENT)
    queue.block(a_group(queue, 1), BlockedGroup(BlockReason.NODES, 1, NEVER))
    taken = queue.take(bench.state)
    assert taken is a_group(queue, 2)
    assert queue.take(bench.state) is None


def test_a_request_that_joins_wakes_its_group_and_one_that_leaves_does_not() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100)
    work(bench, 2, cpu=100)
    queue = a_queue(bench)
    asleep = BlockedGroup(BlockReason.NODES, 1, NEVER)
    queue.block(a_group(queue, 1), asleep)
    bench.accept(REPLICA, c.WithdrawSlots(2, (0,)))
    queue.update(bench.state, 2)
    assert queue.blocked == {a_group(queue, 1).key: asleep}
    work(bench, 3, cpu=100)
    queue.update(bench.state, 3)
    assert queue.blocked == {}


def test_a_group_of_which_everything_is_proposed_is_not_looked_at() -> None:
    bench = RegionBench()
    work(bench, 1, cpu=100)
    queue = a_queue(bench)
    for entry in a_group(queue, 1).entries.values():
        entry.propose({0})
    assert in_order(queue, bench.state) == []


@pytest.mark.parametrize("seed", range(30))
def test_a_queue_loaded_from_state_is_one_that_heard_every_change(seed: int) -> None:
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(25):
        world.happen()
        if world.chance.random() < 0.5:
            follower.catch_up()
        if world.chance.random() < 0.3:
            follower.work()
    follower.catch_up_at_once()
    heard = follower.scheduler.queue
    follower.scheduler.waking.all()
    heard.unblock_due(world.bench.at)
    assert in_order(heard, follower.state) == in_order(a_queue(world.bench), world.bench.state)
    for group in heard.groups.values():
        for entry in group.entries.values():
            loaded = a_queue(world.bench).entry(entry.key)
            assert loaded is not None
            assert loaded.look_up(world.bench.state) == entry.look_up(follower.state)
            assert loaded.charged == entry.charged


@pytest.mark.parametrize("seed", range(15))
def test_what_is_taken_anew_in_pieces_is_what_is_taken_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "LOADED_AT_ONCE", 3)
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(12):
        world.happen()
        follower.work()
    for _ in range(12):  # of which nobody tells
        world.happen()
    follower.see_ahead()
    state, scheduler = follower.state, follower.scheduler
    pieces = list(scheduler.pieces(state))
    assert len(pieces) > 1
    for piece in pieces:
        assert len(piece) <= 3
        scheduler.load_piece(state, piece)
    scheduler.loaded(state, pack_revision(state.info.seq, INDEX_MAX))
    at_once = Scheduler(BUILT_IN)
    at_once.load(state)
    assert scheduler.table.uids.tolist() == at_once.table.uids.tolist()
    assert scheduler.table.free_any.tolist() == at_once.table.free_any.tolist()
    assert (scheduler.table.usages, scheduler.table.nodes) == (at_once.table.usages, at_once.table.nodes)
    assert scheduler.table.revision == at_once.table.revision
    scheduler.queue.unblock_due(world.bench.at)
    assert in_order(scheduler.queue, state) == in_order(at_once.queue, state)
    assert [one for piece in scheduler.resync.pieces(state) for one in scheduler.resync.differing(state, piece)] == []
