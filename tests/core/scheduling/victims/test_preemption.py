"""Urgent work takes the place of work with a strictly lower priority, and of no more of it than it needs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Apart
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.victims import stage
from holdfast.core.scheduling.victims.stage import RETRY_MS
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region


def run(bench: RegionBench, follower: Follower, kind: str, count: int, cpu: int = 1_000, **fields: Any) -> int:
    """Place one more workload of a class, and return its uid."""
    uid = 300 + len([*bench.state.assignments.keys()])
    template = fields.pop("template", a_template(cpu=cpu, memory=10))
    bench.a_workload(template, uid=uid, workload=uid, count=count, priority_class=kind, **fields)
    follower.work()
    assert all(bench.slot(ordinal, uid).node for ordinal in range(count))
    return uid


def full(*kinds: str, nodes: int = 1, plugins: Plugins = BUILT_IN, **fields: Any) -> tuple[RegionBench, Follower]:
    """Nodes of 4 cpu, filled with slots of 1 cpu of these classes, in equal parts."""
    bench, follower = a_region(nodes=nodes, plugins=plugins, cpu=4_000)
    for kind in kinds:
        run(bench, follower, kind, nodes * 4 // len(kinds), **fields)
    bench.pass_time()
    return bench, follower


def urgent(bench: RegionBench, cpu: int = 1_000, count: int = 1, **fields: Any) -> None:
    bench.a_workload(a_template(cpu=cpu, memory=10), **{"count": count, "priority_class": "critical", **fields})


def stopped(bench: RegionBench) -> list[int]:
    """The workloads of the slots that stop."""
    return [slot.workload for _, slot in bench.state.slots.items() if slot.phase is Phase.TERMINATING]


def test_urgent_work_takes_the_place_of_best_effort_work() -> None:
    bench, follower = full("best-effort")
    urgent(bench)
    follower.work()
    assert bench.slot().phase is Phase.BOUND
    assert bench.slot().waits_for
    assert stopped(bench) == [300]
    assert follower.refused == []


def test_work_that_may_not_preempt_waits_and_so_does_urgent_work_among_its_equals() -> None:
    for there, kind in (("best-effort", "normal"), ("critical", "critical")):
        bench, follower = full(there)
        urgent(bench, priority_class=kind)
        follower.work()
        assert bench.slot().phase is Phase.PENDING
        assert (stopped(bench), follower.codes()) == ([], ["capacity"])


def test_reclaimable_work_is_taken_before_work_that_stays_and_of_each_the_lower_priority_first() -> None:
    bench, follower = a_region(nodes=1, cpu=4_000)
    bench.ship(
        c.ShippedPriorityClass(a_class("low", 5)),
        c.ShippedPriorityClass(a_class("lowest", 1, reclaimable=True)),
    )
    for kind in ("normal", "low", "best-effort", "lowest"):
        run(bench, follower, kind, 1)
    bench.pass_time()
    order = []
    for number in range(4):
        urgent(bench, uid=100 + number, workload=100 + number)
        follower.work()
        order += [key for key in stopped(bench) if key not in order]
    uids = [bench.state.assignments[uid].priority_class for uid in order]
    assert uids == ["lowest", "best-effort", "low", "normal"]


@pytest.mark.parametrize(("cpu", "sizes"), [(1_000, [1_000]), (2_000, [2_000]), (2_500, [1_000, 2_000])])
def test_the_fewest_slots_that_free_enough_are_taken(cpu: int, sizes: list[int]) -> None:
    bench, follower = a_region(nodes=1, cpu=4_000)
    for size in (1_000, 1_000, 2_000):
        run(bench, follower, "best-effort", 1, cpu=size)
    urgent(bench, cpu=cpu)
    follower.work()
    needs = [bench.state.templates[bench.slot(0, uid).template].need.cpu for uid in stopped(bench)]
    assert sorted(needs) == sizes


def test_of_equal_slots_the_one_that_started_last_is_taken() -> None:
    bench, follower = a_region(nodes=1, cpu=2_000)
    for _ in range(2):
        run(bench, follower, "best-effort", 1)
        bench.pass_time()
    urgent(bench)
    follower.work()
    assert stopped(bench) == [301]


def test_the_node_with_the_cheapest_victims_is_taken() -> None:
    bench, follower = a_region(nodes=1, cpu=2_000)
    run(bench, follower, "normal", 2)
    bench.a_node("n2", cpu=2_000)
    cheap = run(bench, follower, "best-effort", 2)
    bench.pass_time()
    urgent(bench, cpu=2_000)
    follower.work()
    assert stopped(bench) == [cheap, cheap]


def test_slots_that_stop_anyway_come_first_and_nothing_else_is_stopped() -> None:
    bench, follower = full("best-effort", "normal")
    bench.accept(REPLICA, c.Stop(((301, 0), (301, 1)), "scaled-down"))
    urgent(bench, cpu=2_000)
    follower.work()
    assert {*bench.slot().waits_for} == {(301, 0), (301, 1)}
    assert stopped(bench) == [301, 301]


def test_what_victims_do_not_cure_excludes_a_node() -> None:
    bench, follower = full("best-effort", nodes=2)
    first, second = (bench.state.node_names[f"n{number}"] for number in (1, 2))
    bench.accept(ROOT, c.AdministerNode(first or 0, taints=(Taint("gpu", ""),)))
    urgent(bench, count=2)
    follower.work()
    assert [bench.slot(ordinal).node for ordinal in (0, 1)] == [second, second]
    bench, follower = full("best-effort", nodes=1)
    urgent(bench, cpu=4_001)
    follower.work()
    assert follower.codes() == ["never-fits"]


def test_devices_and_ports_of_victims_are_taken() -> None:
    for template in (a_template(cpu=100, gpus=1), a_template(cpu=100, ports=2)):
        bench, follower = a_region(nodes=1, gpus=("t4",), ports=(30_000, 30_001))
        uid = run(bench, follower, "best-effort", 1, template=template)
        run(bench, follower, "best-effort", 3)
        bench.a_workload(template, priority_class="critical", count=1)
        follower.work()
        assert bench.slot().waits_for == ((uid, 0),)
        assert (bench.slot().devices, bench.slot().ports) == (bench.slot(0, uid).devices, bench.slot(0, uid).ports)
        assert follower.refused == []


def test_rules_over_domains_hold_for_those_who_preempt() -> None:
    bench, follower = full("best-effort", nodes=2)
    apart = a_template(cpu=1_000, apart=(Apart("db", "node", 1),))
    bench.a_workload(apart, priority_class="critical", count=3)
    follower.work()
    assert [bench.slot(ordinal).phase for ordinal in range(3)] == [Phase.BOUND, Phase.BOUND, Phase.PENDING]
    assert len(stopped(bench)) == 2
    assert follower.refused == []


def test_a_slot_that_stays_is_spared_until_it_has_run_for_the_minimum_time_and_reclaimable_work_is_not() -> None:
    bench, follower = a_region(nodes=1, cpu=4_000)
    run(bench, follower, "normal", 4)
    urgent(bench)
    follower.work()
    assert stopped(bench) == []
    bench.pass_time(bench.state.info.settings.preempt_after - 1)
    follower.work()
    assert stopped(bench) == []
    bench.pass_time(RETRY_MS)
    follower.work()
    assert stopped(bench) == [300]
    bench, follower = a_region(nodes=1, cpu=4_000)
    run(bench, follower, "best-effort", 4)
    urgent(bench)
    follower.work()
    assert stopped(bench) == [300]


def test_no_more_are_preempted_in_a_minute_than_the_settings_allow() -> None:
    bench, follower = full("best-effort")
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, preempt_max=2)))
    urgent(bench, count=4)
    follower.work()
    assert len(stopped(bench)) == 2
    bench.pass_time(59_000)
    follower.work()
    assert len(stopped(bench)) == 2
    bench.pass_time(RETRY_MS)
    follower.work()
    assert len(stopped(bench)) == 4
    assert follower.refused == []


def test_serving_victims_stay_within_their_disruption_budget_and_others_cost_none() -> None:
    bench, follower = full("normal", disruption=1)
    for ordinal in range(3):
        bench.walk(Phase.SERVING, ordinal, 300)
    urgent(bench, count=4)
    follower.work()
    serving = [slot for _, slot in bench.state.slots.items() if slot.phase is Phase.SERVING]
    assert (len(stopped(bench)), len(serving)) == (1, 3), "the one that did not serve uses up the budget of one"
    assert follower.refused == []


def test_protected_capacity_is_not_taken_though_victims_are_reclaimable() -> None:
    bench, follower = a_region(nodes=1, cpu=4_000)
    bench.a_grant("quota/beta", protected=Resources(4_000))
    run(bench, follower, "best-effort", 4)
    urgent(bench)
    follower.work()
    assert stopped(bench) == []
    assert follower.codes() == ["protected"]


def test_work_that_stays_gives_its_place_although_the_rest_is_protected() -> None:
    bench, follower = full("normal")
    bench.a_node("n2", cpu=4_000)
    bench.a_grant("quota/beta", protected=Resources(4_000))
    urgent(bench)
    follower.work()
    assert stopped(bench) == [300]
    assert follower.refused == []


def test_recovery_reclaims_at_once_without_a_budget_whatever_the_class() -> None:
    bench, follower = a_region(nodes=1, cpu=4_000)
    run(bench, follower, "best-effort", 4)
    for ordinal in range(4):
        bench.walk(Phase.SERVING, ordinal, 300)
    bench.a_grant("recovery/r")
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, preempt_max=1)))
    urgent(bench, count=3, priority_class="normal", purpose=AssignmentPurpose.RECOVERY, accounts=("recovery/r",))
    follower.work()
    assert [slot.cause for _, slot in bench.state.slots.items() if slot.workload == 300].count("reclaimed") == 3
    assert follower.refused == []


def test_a_thousand_urgent_slots_take_one_victim_each_in_a_few_proposals() -> None:
    bench, follower = full("best-effort", nodes=30)
    urgent(bench, count=100)
    assert follower.work() <= 2
    assert len(stopped(bench)) == 100
    assert follower.refused == []


def test_small_slots_share_the_place_of_one_large_victim_and_wait_for_it() -> None:
    bench, follower = a_region(nodes=4, cpu=4_000)
    for _ in range(4):
        run(bench, follower, "best-effort", 1, cpu=4_000)
    for number in range(2):
        urgent(bench, uid=100 + number, workload=1 + number, count=2 + number)
    follower.work()
    bench.pass_time(RETRY_MS)
    follower.work()
    assert len(stopped(bench)) == 2, "five slots of one cpu need the places of two"
    (first, second) = stopped(bench)
    for uid in (first, second):
        node = bench.state.nodes[bench.slot(0, uid).node].name
        bench.move(f"agent/{node}", Phase.RELEASED, "stopped", 0, uid)
    follower.work()
    urgent_slots = [slot for _, slot in bench.state.slots.items() if slot.workload < 100]
    assert [slot.phase for slot in urgent_slots] == [Phase.BOUND] * 5
    assert stopped(bench) == []


def test_what_one_cycle_does_not_preempt_the_next_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "PREEMPTED_MAX", 2)
    bench, follower = full("best-effort")
    urgent(bench, count=4)
    follower.catch_up()
    first = follower.look()
    assert first is not None
    assert follower.scheduler.has_more
    assert sum(len(group.placements) for group in first.command.groups) == 2
    assert follower.asleep(100) is None
    assert follower.send(first) == []
    follower.work()
    assert len(stopped(bench)) == 4


def test_a_victim_waits_again_and_never_takes_the_place_back() -> None:
    bench, follower = full("normal")
    urgent(bench, count=4)
    follower.work()
    for ordinal in range(4):
        bench.move("agent/n1", Phase.RELEASED, "stopped", ordinal, 300)
    bench.pass_time(10 * 60_000)
    follower.work()
    assert {bench.slot(ordinal, 300).phase for ordinal in range(4)} == {Phase.PENDING}
    assert {bench.slot(ordinal).phase for ordinal in range(4)} == {Phase.BOUND}
    receipt = bench.slot(0, 300).preempted
    assert receipt is not None
    assert (receipt.tenant, receipt.workload_name, receipt.rule, receipt.priority, receipt.own) == (
        "acme", "w1", "priority", 100, 50,
    )  # fmt: skip


class _Spares:
    name, version = "test/spares", "1"

    def __init__(self, workload: int) -> None:
        self.workload = workload

    def spares(self, ask: SlotAsk, victim: Slot) -> bool:
        return victim.workload == self.workload


def test_a_plugin_spares_slots_and_one_that_raises_is_named() -> None:
    plugins = replace(BUILT_IN, victims=(_Spares(300),))
    bench, follower = full("best-effort", "normal", plugins=plugins)
    urgent(bench, count=3)
    follower.work()
    assert stopped(bench) == [301, 301]
    bench, follower = full("best-effort", plugins=replace(BUILT_IN, victims=(_Spares(None),)))  # type: ignore[arg-type]
    follower.scheduler._plugins.victims[0].spares = None  # type: ignore[method-assign, assignment]
    urgent(bench)
    follower.work()
    assert follower.codes() == ["plugin-failed"]


def test_two_schedulers_that_choose_one_victim_do_not_both_get_it() -> None:
    bench, follower = full("best-effort")
    other = Follower(bench, "scheduler/other")
    urgent(bench)
    follower.catch_up()
    urgent(bench, uid=200, workload=2, tenant="acme")
    other.catch_up()
    first, second = follower.look(), other.look()
    assert first is not None
    assert second is not None
    assert follower.send(first) == []
    lost = other.send(second)
    assert {one.code for one in lost} <= {"stale"}
    follower.work()
    other.work()
    assert [bench.slot().phase, bench.slot(0, 2).phase] == [Phase.BOUND, Phase.BOUND]
    assert len(stopped(bench)) == 2
