"""Whose turn it is, from one look to the next: places are kept, and are those that a new order would give."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.queue import fair_share
from holdfast.core.scheduling.queue.request_groups import NEVER, GroupKey, RequestGroup
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.step_counter import StepCounter

TENANTS = ("acme", "beta")


def work(bench: RegionBench, uid: int, cpu: int, **fields: Any) -> None:
    bench.a_workload(a_template(cpu=cpu), uid=uid, workload=uid, count=2, **fields)


def a_queue(bench: RegionBench) -> SchedulingQueue:
    queue = SchedulingQueue()
    queue.load(bench.state)
    return queue


def awake(queue: SchedulingQueue) -> list[RequestGroup]:
    return [group for key, group in queue.groups.items() if key not in queue.blocked and group.has_open()]


def anew(queue: SchedulingQueue, bench: RegionBench) -> list[GroupKey]:
    """The order of everybody who is awake and has something to propose, as it is where nothing is kept."""
    return [place[-1] for place in sorted(queue.place(bench.state, group) for group in awake(queue))]


def looked_at(queue: SchedulingQueue, bench: RegionBench, most: int = 1_000) -> list[GroupKey]:
    """The keys of the first so many groups of a look."""
    queue.begin(bench.state, {})
    found: list[GroupKey] = []
    while len(found) < most and (group := queue.take(bench.state)) is not None:
        found.append(group.key)
    return found


def test_a_look_takes_as_many_steps_as_it_takes_groups_however_many_wait() -> None:
    steps: list[int] = []
    for count in (100, 400):
        bench = RegionBench(checked=False)
        for uid in range(1, count + 1):
            work(bench, uid, 100 + uid)
        queue = a_queue(bench)
        looked_at(queue, bench, 5)  # the first orders all of them
        with StepCounter() as one:
            looked_at(queue, bench, 5)
        steps.append(one.calls)
    assert steps[1] <= steps[0] + 40, steps


def test_a_look_puts_no_deadlines_in_order_that_were_there_before() -> None:
    compared = 0

    class Deadline(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    waits = fair_share.FairOrder(lambda _: True)
    for number in range(200):
        group: Any = SimpleNamespace(
            oldest=lambda number=number: (0, (number, "d")),
            lane=((0, Deadline(number * 77 % 200)), "acme"),
            listed=None,
        )
        waits.put(group)
    compared = 0
    waits.begin(lambda _: 0, 200)
    assert compared == 0
    found = [group.lane[0][1] for group in iter(waits.take, None)]
    assert found == list(range(200)), "the earliest first"


def test_a_group_that_was_taken_and_still_waits_is_taken_in_the_next_look_again() -> None:
    bench = RegionBench()
    for uid in (1, 2, 3):
        work(bench, uid, 100 + uid)
    queue = a_queue(bench)
    whole = anew(queue, bench)
    assert looked_at(queue, bench, 1) == whole[:1]
    assert looked_at(queue, bench) == whole
    assert looked_at(queue, bench) == whole


def test_what_was_proposed_and_is_given_back_is_looked_at_again() -> None:
    bench = RegionBench()
    work(bench, 1, 101)
    work(bench, 2, 102)
    queue = a_queue(bench)
    (group,) = queue.groups_of(1)
    (entry,) = group.entries.values()
    entry.propose({0, 1})
    assert looked_at(queue, bench) == [key for key in queue.groups if key != group.key]
    entry.give_back([1])
    assert looked_at(queue, bench) == anew(queue, bench)
    assert group.key in looked_at(queue, bench)


def test_a_group_whose_oldest_request_has_left_goes_behind_those_who_are_older_now() -> None:
    bench = RegionBench()
    work(bench, 1, 100)
    bench.at += 1_000
    work(bench, 2, 200)
    bench.at += 1_000
    work(bench, 3, 100)
    queue = a_queue(bench)
    joined, alone = queue.groups_of(1)[0].key, queue.groups_of(2)[0].key
    assert looked_at(queue, bench) == [joined, alone]
    bench.accept(REPLICA, c.WithdrawSlots(1, (0, 1)))
    queue.update(bench.state, 1)
    assert looked_at(queue, bench) == [alone, joined]


def test_places_that_hold_no_more_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "STALE_MAX", 4)
    bench = RegionBench()
    work(bench, 1, 101, priority_class="best-effort")
    work(bench, 2, 102, priority_class="critical")
    queue = a_queue(bench)
    (request,) = bench.state.requests[1]
    for age in range(100):  # never its turn, and ever another age
        bench.state.requests.put(1, (replace(request, since=request.since - age),))
        queue.update(bench.state, 1)
        looked_at(queue, bench, 1)
        assert queue.turns._count <= 2 * 2 + 4 + 1
    assert looked_at(queue, bench) == anew(queue, bench)


@pytest.mark.parametrize("seed", range(20))
def test_looks_of_any_length_take_groups_in_the_order_that_they_have_anew(seed: int) -> None:
    chance = Random(seed)
    bench = RegionBench(checked=False)
    bench.a_node(cpu=1_000_000)
    for uid in range(1, 25):
        classes = chance.choice(("normal", "critical", "best-effort"))
        work(bench, uid, 100 + chance.randrange(12), tenant=chance.choice(TENANTS), priority_class=classes)
        bench.at += chance.randrange(3)
    queue = a_queue(bench)
    for _ in range(60):
        uid = chance.randrange(1, 25)
        for group in queue.groups_of(uid):
            entry = chance.choice(list(group.entries.values()))
            match chance.randrange(5):
                case 0:
                    queue.block(group, BlockedGroup(BlockReason.NODES, 1, NEVER))
                case 1:
                    queue.unblock(group.key)
                case 2:
                    entry.propose({0, 1})
                case 3:
                    entry.give_back([chance.randrange(2)])
                case _:
                    (request,) = bench.state.requests[uid]
                    bench.state.requests.put(uid, (replace(request, since=request.since - chance.randrange(5)),))
                    queue.update(bench.state, uid)
        most = chance.randrange(12)
        expected = anew(queue, bench)
        assert looked_at(queue, bench, most) == expected[:most]


def test_a_tenant_that_has_more_since_the_last_look_goes_behind_in_the_next() -> None:
    bench = RegionBench()
    bench.a_node(cpu=10_000)
    work(bench, 1, 101)
    work(bench, 2, 102, tenant="beta")
    queue = a_queue(bench)
    mine, other = queue.groups_of(1)[0].key, queue.groups_of(2)[0].key
    assert looked_at(queue, bench) == [mine, other]
    queue.begin(bench.state, {"acme": Resources(500)})
    first = queue.take(bench.state)
    assert first is not None
    assert first.key == other


def test_a_level_whose_groups_all_had_their_turn_is_not_kept() -> None:
    bench = RegionBench(checked=False)
    for uid in range(1, 4):
        work(bench, uid, 100 + uid, deadline=bench.at + 1_000 * uid)
    queue = a_queue(bench)
    assert len(looked_at(queue, bench)) == 3
    assert queue.turns._lanes == {}
