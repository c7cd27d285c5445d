"""Small decisions of the scheduler, each by itself: what is free, which lane is next, who is asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.watch import NODE
from holdfast.core.scheduling.fill import NOTHING_CHANGES, Worth, _best, _Lane
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.proposal_builder import ProposalBuilder, _paid
from holdfast.core.scheduling.queue.domain_cures import shared_rows
from holdfast.core.scheduling.queue.rechecks import RECHECK_MS, Rechecks
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import a_region

HAS = Resources(100_000, 200_000, 300_000, 4_000, (("fpga", 50),))
ALL = Resources(1_000, 2_000, 3_000, 400, (("fpga", 5),))
FIRM = Resources(100, 200, 300, 40, (("fpga", 3),))
HELD = Resources(10, 20, 30, 4, (("fpga", 1),))


@pytest.mark.parametrize("resource", ["cpu", "memory", "disk", "gpu", "fpga"])
def test_of_each_resource_what_is_taken_is_not_free_and_what_is_held_only_not_for_firm_work(resource: str) -> None:
    def of(amounts: Resources) -> int:
        return dict(amounts.extended)[resource] if resource == "fpga" else getattr(amounts, resource)

    table = NodeTable()
    table.resources.setdefault("fpga", len(table.resources))
    room = NodeUsage(FIRM, ALL, HELD, *(getattr(EMPTY_USAGE, name) for name in EMPTY_USAGE.__struct_fields__[3:]))
    node: Any = SimpleNamespace(capacity=HAS)
    vectors = table._vectors(node, room)
    at = table.resources[resource]
    assert [vector[at] for vector in vectors] == [of(HAS), of(HAS) - of(ALL), of(HAS) - of(FIRM) - of(HELD)]


def a_lane(key: int) -> _Lane:
    lane = _Lane()
    lane.next = [[key, 0, 1]]
    return lane


@pytest.mark.parametrize(
    ("keys", "shut", "best"),
    [({"a": 1, "b": 2}, "", "b"), ({"a": 2, "b": 2}, "", "a"), ({"a": 1, "b": 2}, "b", "a"), ({"a": 1}, "a", None)],
)
def test_the_next_lane_is_the_best_that_is_open_and_of_equals_the_first(
    keys: dict[str, int], shut: str, best: str | None
) -> None:
    lanes: dict[tuple[str, ...], _Lane] = {(name,): a_lane(key) for name, key in keys.items()}
    domains: Any = SimpleNamespace(closed_by=lambda where: ("spread", "zone") if where == (shut,) else None)
    assert _best(lanes, domains, NOTHING_CHANGES) == (None if best is None else (best,))


def test_who_was_doubted_is_looked_at_again_one_pause_after_another() -> None:
    looked: list[str] = []
    asleep = dict.fromkeys("ab", BlockedGroup(BlockReason.NODES, 0, 0))
    queue: Any = SimpleNamespace(blocked=asleep, look_again=looked.append)
    doubts = Rechecks(queue)
    for key, now in (("a", 0), ("b", 100)):
        doubts.note(key, now)  # type: ignore[arg-type]
    found = []
    for now in (RECHECK_MS - 1, RECHECK_MS, RECHECK_MS + 100, 2 * RECHECK_MS - 1, 2 * RECHECK_MS):
        doubts.look_again(now)
        found.append("".join(looked))
    assert found == ["", "a", "a", "a", "ab"]


def test_requests_differ_where_something_is_known_of_them_on_one_side_only() -> None:
    bench = RegionBench()
    work = bench.a_workload(count=1)
    digest, template = work.shares[0].template, a_template()
    known, unknown = SchedulingQueue(), SchedulingQueue()
    known.update(bench.state, work.uid)
    bench.state.templates.drop(digest)
    unknown.update(bench.state, work.uid)
    assert (known.differs(bench.state, work.uid), unknown.differs(bench.state, work.uid)) == (True, False)
    bench.state.templates.put(digest, template)
    assert (known.differs(bench.state, work.uid), unknown.differs(bench.state, work.uid)) == (False, True)


def test_a_node_is_shared_with_a_member_of_any_group_that_must_be_near() -> None:
    near = (
        SimpleNamespace(required=True, key="node", group="db"),
        SimpleNamespace(required=True, key="node", group="cache"),
        SimpleNamespace(required=False, key="node", group="other"),
        SimpleNamespace(required=True, key="zone", group="far"),
    )
    ask: Any = SimpleNamespace(tenant="acme", template=SimpleNamespace(near=near))
    members = {("acme/db", "node", "n0"): 1, ("acme/other", "node", "n1"): 1, ("acme/far", "node", "n2"): 1}
    state: Any = SimpleNamespace(domain_members=members)
    table: Any = SimpleNamespace(nodes=[SimpleNamespace(name=f"n{number}") for number in range(4)])
    mine = {("acme/cache", "node", "n3"): 1, ("acme/other", "node", "n2"): 1}
    assert shared_rows(state, table, ask, np.arange(4), mine).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("worth", "near", "even_now", "even_then", "best"),
    [
        (Worth(even=10), {}, {"a": 0, "b": 3}, {"a": 0, "b": 0}, "b"),  # it has become more even there
        (Worth(even=10), {}, {"a": 0, "b": 3}, {"a": 0, "b": 3}, "a"),  # as even as when its rows were scored
        (Worth(even=10), {}, {"a": 3, "b": 3}, {"a": 3, "b": 2}, "b"),
        (Worth(near=10), {"b": 1}, {}, {}, "b"),
        (Worth(near=10), {"a": 1, "b": 1}, {}, {}, "a"),
    ],
)
def test_the_next_lane_is_chosen_by_what_has_changed_since_its_rows_were_scored(
    worth: Worth, near: dict[str, int], even_now: dict[str, int], even_then: dict[str, int], best: str
) -> None:
    lanes: dict[tuple[str, ...], _Lane] = {("a",): a_lane(105), ("b",): a_lane(100)}
    for (name,), lane in lanes.items():
        lane.evenness = even_then.get(name, 0)
    domains: Any = SimpleNamespace(
        closed_by=lambda _: None, nearer=lambda at: near.get(at[0], 0), evenness_of=lambda at: even_now.get(at[0], 0)
    )
    assert _best(lanes, domains, worth) == (best,)


def test_a_node_that_only_the_state_or_only_the_table_has_differs_and_one_that_neither_has_does_not() -> None:
    bench, follower = a_region(nodes=2)
    follower.work()
    resync = follower.scheduler.resync
    uids = sorted(follower.scheduler.table.rows)
    unknown = uids[-1] + 1
    only_there = bench.a_node("n9")
    named = [(NODE, uid) for uid in (*uids, unknown, only_there)]
    assert [key for key, _ in resync.differing(bench.state, named)] == [(NODE, only_there)]
    bench.state.nodes.drop(uids[0])
    assert [key for key, _ in resync.differing(bench.state, named)] == [(NODE, uids[0]), (NODE, only_there)]


@pytest.mark.parametrize(
    ("count", "paid"), [(0, ()), (2, (("a", 2),)), (3, (("a", 2), ("c", 1))), (9, (("a", 2), ("c", 4)))]
)
def test_the_first_account_pays_as_far_as_it_can_and_the_next_only_for_the_rest(
    count: int, paid: tuple[tuple[str, int], ...]
) -> None:
    assert _paid(("a", "b", "c"), (2, 0, 4), count) == paid


@pytest.mark.parametrize(
    "template", [a_template(gpus=1), a_template(ports=1), a_template(gpus=1, ports=1)], ids=["device", "port", "both"]
)
def test_of_two_slots_on_a_row_with_one_device_and_one_port_one_is_placed(template: Template) -> None:
    bench, follower = a_region(nodes=1, gpus=("t4",), ports=(30_000, 30_000))
    bench.a_workload(template, count=2)
    follower.catch_up()
    scheduler = follower.scheduler
    draft = ProposalBuilder(follower.state, bench.at, scheduler.table, scheduler.flight)
    (group,) = scheduler.queue.groups.values()
    slots = draft.slots([*group.entries.values()], 2, 2)
    assert (len(slots), draft.add(group, slots, [0, 0], (2,))) == (2, 1)
