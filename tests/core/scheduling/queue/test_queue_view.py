"""The queue as people see it: in the scheduler's own order, with reasons that say the nearest fit first."""

from __future__ import annotations

from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.queries.workload_report import run_to_end, workload_report
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.queue.queue_view import Queued, queue_view
from holdfast.core.scheduling.queue.request_groups import HURRY_MS
from holdfast.core.scheduling.queue.scheduling_queue import SchedulingQueue
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template, an_assignment


def a_bench(cpu: int = 1_000) -> RegionBench:
    """A region with two small nodes and accounts of two tenants."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_node("n1", cpu=cpu)
    bench.a_node("n2", cpu=cpu)
    for tenant in ("acme", "bank"):
        bench.a_grant(f"quota/{tenant}")
    return bench


def wants(bench: RegionBench, number: int, cpu: int = 100, count: int = 2, **fields: object) -> Assignment:
    """A workload that waits, since another moment than those before it."""
    bench.at += 1_000
    template = a_template(cpu=cpu, memory=10, environment=(("N", str(number)),))
    return bench.a_workload(template, count, uid=100 + number, workload=number, **fields)  # type: ignore[arg-type]


def queued(bench: RegionBench) -> list[Queued]:
    return run_to_end(queue_view(bench.state))


def taken(bench: RegionBench) -> list[str]:
    """The workloads in the order in which a scheduler takes them."""
    queue = SchedulingQueue()
    queue.load(bench.state)
    queue.begin(bench.state, {})
    found = []
    while (group := queue.take(bench.state)) is not None:
        found += [bench.state.assignments[uid].workload_name for uid, _ in group.entries]
        for entry in group.entries.values():
            entry.propose(set(range(entry.request.open)))
    return found


def test_it_has_the_order_in_which_a_scheduler_takes_it() -> None:
    bench = a_bench()
    wants(bench, 1, priority_class="best-effort")
    wants(bench, 2)
    wants(bench, 3, tenant="bank")
    wants(bench, 4, deadline=bench.at + 60_000)
    wants(bench, 5, priority_class="critical")
    bench.place(
        bench.state.assignments[102], c.SlotPlacement(0, bench.state.node_names["n1"])
    )  # acme has something now
    found = queued(bench)
    assert [one.workload for one in found] == ["w5", "w4", "w3", "w2", "w1"]
    assert [one.workload for one in found] == taken(bench)
    assert [one.position for one in found] == [1, 2, 3, 4, 5]


def test_what_is_late_or_due_far_away_is_shown_where_a_scheduler_takes_it() -> None:
    bench = a_bench()
    wants(bench, 1)
    wants(bench, 2, deadline=bench.at + 60_000)
    wants(bench, 3, deadline=bench.at + 10 * HURRY_MS)
    bench.at += 60_000
    wants(bench, 4, deadline=bench.at + 60_000)
    assert [one.workload for one in queued(bench)] == ["w4", "w1", "w2", "w3"] == taken(bench)


def test_equal_requests_stand_together_the_oldest_first() -> None:
    bench = a_bench()
    template = a_template(cpu=100, memory=10)
    for number in (1, 2, 3):
        bench.at += 1_000
        if number == 2:
            wants(bench, 2)
        else:
            bench.a_workload(template, 2, uid=100 + number, workload=number)
    assert [one.workload for one in queued(bench)] == ["w1", "w3", "w2"] == taken(bench)


def test_what_nobody_has_looked_at_says_so_and_since_when_it_waits() -> None:
    bench = a_bench()
    wants(bench, 1)
    (one,) = queued(bench)
    assert (one.reason, one.since, one.attempts, one.never) == ("not-yet-examined", bench.at, 0, False)


def looked_at(bench: RegionBench) -> None:
    """A scheduler looks, and tells why what it could not place waits."""
    scheduler = Scheduler(BUILT_IN)
    scheduler.load(bench.state)
    _, waits = scheduler.run_cycle(SchedulerView(bench.state, bench.at))
    for one in waits:
        examined = pack_revision(bench.state.info.seq, INDEX_MAX)
        bench.accept(SCHEDULER, c.ReportPending(*one.entry.key, examined, one.reasons))


def test_the_first_reason_says_the_nearest_fit_in_the_units_people_use_and_the_platform_is_told() -> None:
    bench = a_bench()
    wants(bench, 1, cpu=1_000, count=2)
    for ordinal, node in enumerate(("n1", "n2")):
        bench.place(bench.state.assignments[101], c.SlotPlacement(ordinal, bench.state.node_names[node]))
    wants(bench, 2, cpu=700)
    looked_at(bench)
    (one,) = queued(bench)
    assert (one.reason, one.never) == ("capacity", False)
    assert one.message.startswith("nearest fit is n")
    assert one.message.endswith(": has cpu 0 of 700m")
    assert [(below.code, below.count) for below in one.reasons[0].below] == [("cpu", 2)]
    (waiting,) = workload_report(bench.state, 2).waiting
    assert (waiting.code, waiting.count, waiting.message) == ("capacity", 2, one.message)


def test_what_no_empty_node_would_take_will_never_fit_and_still_says_the_nearest() -> None:
    bench = a_bench()
    wants(bench, 1, cpu=64_000)
    looked_at(bench)
    (one,) = queued(bench)
    assert (one.reason, one.never) == ("never-fits", True)
    assert "nearest fit is n" in one.message
    assert "has cpu 1 of 64" in one.message


def test_a_payer_that_cannot_pay_is_told_as_the_reason() -> None:
    bench = a_bench()
    bench.a_grant("quota/acme", version=2, target=Resources(cpu=50, memory=50))
    wants(bench, 1)
    looked_at(bench)
    (one,) = queued(bench)
    assert one.reason == "over-grant"


def test_evidence_names_the_requests_that_are_placed_now_not_those_that_were_proposed_before() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_node("n1", cpu=300)
    bench.a_grant()
    template = a_template(cpu=100, memory=10)
    web = bench.a_workload(template, 2, uid=101, workload=1)
    bench.at += 1_000
    bench.a_workload(template, 2, uid=102, workload=2)
    scheduler = Scheduler(BUILT_IN)
    scheduler.load(bench.state)
    first, _ = scheduler.run_cycle(SchedulerView(bench.state, bench.at))
    assert first is not None
    assert first.decision.passes[0].requests == ((101, 1), (102, 1))  # three of four; no answer yet
    more = an_assignment(101, 1, template, 3)
    bench.ship(c.ShippedAssignment(more))
    bench.accept(REPLICA, c.OpenSlots(web.uid, web.shares[0].template, (2,)))
    bench.a_node("n2", cpu=100)
    scheduler.load(bench.state)
    scheduler.waking.all()
    second, _ = scheduler.run_cycle(SchedulerView(bench.state, bench.at))
    assert second is not None
    assert [(group.assignment, len(group.placements)) for group in second.command.groups] == [(101, 1)]
    assert second.decision.passes[0].requests == ((101, 1),)
