"""A region in short, and what it says of one workload: told from its state, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import RECORD_BYTES_MAX, encode
from holdfast.core.ledger.commit.size_limits import refuse_excess
from holdfast.core.model.objects.isolation import STRICT
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, Waiting, WorkloadReport
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.limits import ACCOUNTS_MAX
from holdfast.core.model.values.resources import Resources, first_exceeded, total
from holdfast.core.platform.commands import Report
from holdfast.core.region import commands as c
from holdfast.core.region.queries import region_summary as summary_module
from holdfast.core.region.queries import workload_report as seen_module
from holdfast.core.region.queries.region_summary import (
    KINDS_MAX,
    LARGEST_KEPT,
    LARGEST_MAX,
    MIXED,
    SummarisedNodes,
    _add_to_front,
    exposing,
    summary_steps,
)
from holdfast.core.region.queries.workload_report import run_to_end, workload_report, workload_report_steps
from tests.support.ledgers.region import (
    LINK,
    REPLICA,
    ROOT,
    SCHEDULER,
    RegionBench,
    a_template,
    an_assignment,
    summary_of,
)


def only(summary: RegionSummary) -> Nodes:
    (nodes,) = summary.nodes
    return nodes


def a_bench() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    return bench


def report(bench: RegionBench, assignment: int, template: str, *reasons: PendingReason) -> None:
    examined = bench.state.info.seq << 20
    bench.accept(SCHEDULER, c.ReportPending(assignment, template, examined, reasons))


# The region as a whole


def test_an_empty_region_has_nothing_to_say() -> None:
    assert summary_of(RegionBench().state) == RegionSummary()


def test_nodes_of_one_kind_are_counted_together_with_what_they_have_and_what_is_free() -> None:
    bench = a_bench()
    one, _ = bench.a_node("n1", 8_000, 16_384), bench.a_node("n2", 4_000, 32_768)
    web = bench.a_workload(a_template(1_000, 1_024))
    bench.place(web, c.SlotPlacement(0, one), c.SlotPlacement(1, one))
    nodes = only(summary_of(bench.state))
    assert (nodes.pool, nodes.count) == ("general", 2)
    assert nodes.capacity == Resources(12_000, 49_152, 200_000)
    assert nodes.free == Resources(10_000, 47_104, 200_000)
    assert nodes.largest == (Resources(8_000, 16_384, 100_000), Resources(4_000, 32_768, 100_000))
    assert nodes.largest_free == (Resources(6_000, 14_336, 100_000), Resources(4_000, 32_768, 100_000))


def test_nodes_are_told_apart_by_what_work_can_ask_of_them() -> None:
    bench = a_bench()
    plain = bench.a_node("n1", labels=(("disk", "hdd"), ("rack", "7")))
    bench.a_node("n2", pool="gpu", gpus=("h100", "h100"))
    taint = Taint("dedicated", "db")
    bench.accept(ROOT, c.AdministerNode(plain, labels=(("disk", "ssd"),), taints=(taint,), tenancy=("acme",)))
    kinds = {nodes.pool: nodes for nodes in summary_of(bench.state).nodes}
    assert kinds["general"].labels == (("disk", "ssd"), ("rack", "7"))  # an operator's word wins
    assert (kinds["general"].taints, kinds["general"].tenancy) == ((taint,), ("acme",))
    assert kinds["gpu"].models == ("h100",)


def test_nodes_that_take_no_work_are_not_counted() -> None:
    bench = a_bench()
    uid = bench.a_node("n1")
    bench.a_node("n2")
    bench.accept(ROOT, c.AdministerNode(uid, cordoned=True, note="looking at it"))
    assert only(summary_of(bench.state)).count == 1


def test_more_work_than_a_smaller_node_has_room_for_leaves_nothing_free_and_not_less() -> None:
    bench = a_bench()
    uid = bench.a_node("n1", 8_000)
    web = bench.a_workload(a_template(4_000))
    bench.place(web, c.SlotPlacement(0, uid), c.SlotPlacement(1, uid))
    bench.a_node("n1", 2_000)
    assert only(summary_of(bench.state)).free.cpu == 0


sizes = st.integers(1, 40)


@given(st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=40))
def test_whatever_fits_a_node_fits_one_of_the_largest_and_these_are_few(nodes: list[tuple[int, int, int]]) -> None:
    bench = RegionBench(checked=False)
    capacities = [Resources(cpu * 100, memory * 100, disk * 100) for cpu, memory, disk in nodes]
    for number, capacity in enumerate(capacities):
        bench.a_node(f"n{number}", capacity.cpu, capacity.memory, disk=capacity.disk)
    largest = only(summary_of(bench.state)).largest
    assert 1 <= len(largest) <= LARGEST_MAX
    assert all(any(not first_exceeded(capacity, one) for one in largest) for capacity in capacities)
    assert all(first_exceeded(one, other) for one in largest for other in largest if one is not other)


@pytest.mark.parametrize("more", [0, 1, 2])
def test_as_many_of_the_largest_as_are_told_stay_as_they_are_and_the_last_covers_the_rest(more: int) -> None:
    pieces = [Resources(100 + number, 900 - number) for number in range(LARGEST_MAX + more)]
    few = summary_module._merge_front(pieces)
    kept = LARGEST_MAX - (more > 0)
    assert list(few[:kept]) == pieces[::-1][:kept]
    assert list(few[kept:]) == ([Resources(100 + more, 900)] if more else [])


def test_kinds_beyond_the_most_are_told_as_one_that_admits_everything() -> None:
    bench = RegionBench(checked=False)
    for number in range(KINDS_MAX + 3):
        gpus = ("h100",) if number >= KINDS_MAX else ()
        for which in range(1 if number >= KINDS_MAX else 2):
            uid = bench.a_node(f"n{number}-{which}", pool=f"p{number:03}", gpus=gpus)
            bench.accept(ROOT, c.AdministerNode(uid, taints=(Taint("only", str(number)),)))
    found = summary_of(bench.state).nodes
    (mixed,) = [nodes for nodes in found if nodes.pool == MIXED]
    assert len(found) == KINDS_MAX + 1
    assert (mixed.count, mixed.labels, mixed.taints, mixed.tenancy, mixed.models) == (3, (), (), (), ("h100",))
    whole = total(node.capacity for _, node in bench.state.nodes.items())
    assert total(nodes.capacity for nodes in found) == whole == bench.state.totals.capacity


def test_uses_are_what_accounts_are_charged_in_their_order() -> None:
    bench = a_bench()
    bench.a_grant("quota/zeta")
    uid = bench.a_node("n1")
    bench.place(bench.a_workload(tenant="zeta", uid=200, workload=2), c.SlotPlacement(0, uid))
    bench.place(bench.a_workload(), c.SlotPlacement(0, uid))
    need = Resources(1_000, 1_024)
    assert summary_of(bench.state).uses == (("quota/acme", need), ("quota/zeta", need))


def test_silent_nodes_broken_promises_and_requests_tried_in_vain_are_troubles() -> None:
    bench = a_bench()
    uid = bench.a_node("n1", 8_000, capabilities=STRICT)
    web = bench.a_workload(a_template(4_000), count=3)
    bench.place(web, c.SlotPlacement(0, uid), c.SlotPlacement(1, uid))
    assert summary_of(bench.state).troubles == ()
    waits_since = bench.at
    bench.at += 60_000
    report(bench, web.uid, web.shares[0].template, PendingReason("capacity", 1, "no node has 4 cpu"))
    bench.a_node("n1", 2_000, capabilities=STRICT)
    bench.a_node("n2")
    bench.accept("ledger", EndSession(bench.sessions["agent/n2"], "silent"))
    bench.accept("controller/node-health", c.JudgeNode(bench.state.node_names["n2"], NodeHealth.SILENT))
    troubles = {one.kind: one for one in summary_of(bench.state).troubles}
    assert list(troubles) == ["node-silent", "breach/region.capacity", "request-waits"]
    assert (troubles["node-silent"].count, troubles["node-silent"].message) == (1, "n2")
    assert troubles["breach/region.capacity"].since == bench.at
    waits = troubles["request-waits"]
    assert (waits.count, waits.since, waits.message) == (1, waits_since, "w1: capacity no node has 4 cpu")


def test_of_requests_tried_in_vain_the_oldest_is_told_and_all_are_counted() -> None:
    bench = a_bench()
    for number, count in ((3, 1), (1, 2), (2, 4)):
        work = bench.a_workload(a_template(100 * number), count=count, uid=100 * number, workload=number)
        bench.at += 1_000
        if number != 3:
            report(bench, work.uid, work.shares[0].template, PendingReason("capacity", 1, "full"))
    (waits,) = summary_of(bench.state).troubles
    assert (waits.count, waits.since, waits.message) == (6, bench.at - 2_000, "w1: capacity full")


def test_nodes_on_which_tenants_or_a_token_are_open_to_others_are_troubles_while_they_take_work() -> None:
    bench = a_bench()
    for number in range(1, 5):
        bench.a_node(f"n{number}", shares_user=True)
    bench.a_node("n5", shares_user=False)
    bench.a_node("n6", shares_user=False, capabilities=STRICT)
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["n4"], cordoned=True, note="disk"))
    found = [(one.kind, one.count, one.message) for one in summary_of(bench.state).troubles]
    assert found == [("token-readable", 4, "n1, n2, n3 and 1 more"), ("user-shared", 3, "n1, n2, n3")]
    assert run_to_end(exposing(bench.state)) == list(summary_of(bench.state).troubles)


def test_nodes_are_told_apart_by_what_their_agents_enforce() -> None:
    bench = a_bench()
    bench.a_node("n1", capabilities=STRICT)
    bench.a_node("n2")
    assert [(one.count, one.capabilities) for one in summary_of(bench.state).nodes] == [(1, ()), (1, STRICT)]


def test_a_summary_made_from_what_was_known_is_the_one_made_anew() -> None:
    bench = a_bench()
    uids = [bench.a_node(f"n{number}") for number in range(5)]
    web = bench.a_workload()
    known: SummarisedNodes = {}
    run_to_end(summary_steps(bench.state, known))
    bench.place(web, c.SlotPlacement(0, uids[0]), c.SlotPlacement(1, uids[1]))
    bench.accept(ROOT, c.AdministerNode(uids[2], labels=(("disk", "ssd"),)))
    bench.accept(ROOT, c.AdministerNode(uids[3], draining=True, note="going"))
    bench.accept("ledger", EndSession(bench.sessions["agent/n3"], "silent"))
    bench.accept(ROOT, c.RemoveNode(uids[3]))
    assert run_to_end(summary_steps(bench.state, known)) == summary_of(bench.state)
    assert sorted(known) == sorted(uid for uid in uids if uid != uids[3])


def bits(work: Any) -> int:
    return sum(1 for _ in work)


def test_a_summary_of_many_nodes_is_made_in_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "BIT", 2)
    bench = RegionBench(checked=False)
    for number in range(9):
        bench.a_node(f"n{number}")
    assert bits(summary_steps(bench.state, {})) >= 4


# One workload


def test_of_a_workload_that_is_not_here_there_is_nothing_to_say() -> None:
    assert workload_report(a_bench().state, 77) == WorkloadReport(77, 0)


def test_replicas_are_counted_by_template_and_by_how_far_they_are() -> None:
    bench = a_bench()
    uid = bench.a_node("n1")
    web = bench.a_workload(count=5)
    digest = web.shares[0].template
    bench.place(web, *[c.SlotPlacement(ordinal, uid) for ordinal in range(4)])
    for ordinal, phase in enumerate((Phase.RUNNING, Phase.READY, Phase.SERVING)):
        bench.walk(phase, ordinal)
    found = workload_report(bench.state, 1)
    assert (found.workload, found.generation) == (1, 1)
    assert found.counts == (TemplateCounts(digest, bound=4, ready=2, serving=1),)


def test_batch_work_that_is_done_is_counted_as_nothing_else() -> None:
    bench = a_bench()
    uid = bench.a_node("n1")
    job = bench.a_workload(count=3, batch=True)
    bench.place(job, c.SlotPlacement(0, uid), c.SlotPlacement(1, uid))
    for ordinal in (0, 1):
        bench.walk(Phase.RUNNING, ordinal)
    bench.move("agent/n1", Phase.SUCCEEDED, "completed")
    assert workload_report(bench.state, 1).counts == (
        TemplateCounts(job.shares[0].template, bound=1, ready=0, serving=0, done=1),
    )
    bench.move("agent/n1", Phase.SUCCEEDED, "completed", 1)
    assert workload_report(bench.state, 1).counts == (
        TemplateCounts(job.shares[0].template, bound=0, ready=0, serving=0, done=2),
    )


def test_what_is_still_being_stopped_is_there_and_counts_for_nothing() -> None:
    bench = a_bench()
    uid = bench.a_node("n1")
    web = bench.a_workload(count=1)
    bench.place(web, c.SlotPlacement(0, uid))
    bench.walk(Phase.SERVING)
    bench.accept(REPLICA, c.WithdrawSlots(web.uid, (0,)))
    bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    assert workload_report(bench.state, 1).counts == (TemplateCounts(web.shares[0].template, 0, 0, 0),)


def test_why_replicas_wait_is_told_by_the_first_reason_of_their_request() -> None:
    bench = a_bench()
    web = bench.a_workload(count=3)
    assert workload_report(bench.state, 1).waiting == (Waiting("not-yet-examined", 3, bench.at),)
    since = bench.at
    bench.at += 5_000
    below = PendingReason("taint", 2)
    report(bench, web.uid, web.shares[0].template, PendingReason("capacity", 3, "full", (below,)))
    assert workload_report(bench.state, 1).waiting == (Waiting("capacity", 3, since, "full"),)


def test_a_workload_with_two_assignments_is_counted_over_both_and_is_of_the_newer_generation() -> None:
    bench = a_bench()
    bench.a_workload(count=2, uid=300, generation=4)
    other = an_assignment(uid=200, template=a_template(), count=1, generation=3)
    bench.ship(c.ShippedAssignment(other))
    bench.accept(REPLICA, c.OpenSlots(200, other.shares[0].template, (10,)))
    found = workload_report(bench.state, 1)
    assert (found.generation, found.waiting[0].count) == (4, 3)


def test_with_its_last_assignment_a_workload_leaves_the_index() -> None:
    bench = a_bench()
    web = bench.a_workload(count=0, ordinals=0)
    assert bench.state.assignments_of[1] == (web.uid,)
    bench.ship(gone=(c.RemovedObject("assignment", str(web.uid)),))
    assert 1 not in bench.state.assignments_of
    assert bench.replay().assignments_of.is_empty()
    bench.refuse(LINK, c.ForgetAssignment(web.uid))


def test_a_workload_with_many_replicas_is_counted_in_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "BIT", 10)
    bench = a_bench()
    bench.a_workload(count=95)
    assert bits(workload_report_steps(bench.state, 1, bench.at)) == 9


def test_of_more_accounts_than_a_report_takes_those_that_are_charged_most_are_told() -> None:
    """Otherwise a region with so many tenants would be refused its whole summary, for ever."""
    bench = a_bench()
    for number in range(ACCOUNTS_MAX + 10):
        bench.state.account_usage.put(f"quota/t{number:05}", AccountUsage(Resources(cpu=1 + number)))
    uses = summary_of(bench.state).uses
    assert [account for account, _ in uses] == [f"quota/t{number:05}" for number in range(10, ACCOUNTS_MAX + 10)]
    assert refuse_excess(Report("eu", 1, summary=RegionSummary(uses=uses))) is None
    assert len(encode(uses)) < RECORD_BYTES_MAX // 2


def test_no_agent_makes_a_summary_that_is_too_large_to_be_told() -> None:
    """Otherwise its region is refused every report of its nodes, and says all else once in five seconds."""
    bench = RegionBench(checked=False)
    for number in range(3):
        bench.a_node(f"honest{number}", extended=(("fpga", 8),))
    for number in range(70):
        labels = tuple((f"{number:0128}-{mark:0120}", "v" * 250) for mark in range(64))
        extended = tuple((f"{number:0128}-{mark:0120}", 8) for mark in range(64))
        models = [f"{number}-{index:0240}" for index in range(64)]
        bench.a_node(f"n{number}", labels=labels, extended=extended, gpus=models)
    for number in range(ACCOUNTS_MAX):
        bench.state.account_usage.put(f"quota/t{number:0127}", AccountUsage(Resources(cpu=1 + number)))
    report = Report("eu", 1, summary=summary_of(bench.state))
    assert refuse_excess(report) is None
    assert len(encode(report)) < RECORD_BYTES_MAX - 4_096
    nodes = summary_of(bench.state).nodes
    assert sum(one.count for one in nodes) == 73
    assert sum(dict(one.capacity.extended).get("fpga", 0) for one in nodes) == 24, "what most nodes have is told"


def test_a_node_has_a_most_of_extended_resources() -> None:
    bench = RegionBench()
    bench.open_session("agent/n1")
    capacity = Resources(1_000, 1_024, extended=tuple((f"r{number:03}", 1) for number in range(65)))
    assert "at most 64 extended" in bench.refuse("agent/n1", c.RegisterNode("n1", "general", "a", capacity)).message


def test_as_many_largest_pieces_as_are_kept_are_kept_as_they_are_and_one_more_makes_them_few() -> None:
    front: list[Resources] = []
    for number in range(1, LARGEST_KEPT + 1):
        _add_to_front(front, Resources(number, 1_000 - number))
    assert len(front) == LARGEST_KEPT
    _add_to_front(front, Resources(0, 1_000))
    assert len(front) <= LARGEST_MAX
