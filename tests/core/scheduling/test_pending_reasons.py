"""Why a request waits, in a tree: what kept how many nodes out, what comes nearest, and whether it can ever fit."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Apart, Spread, Template
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.region import commands as c
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.pending_reasons import NEVER_FITS, nearest_fit, never_fits, pending_reasons
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region
from tests.support.node_windows import a_bench, table_of
from tests.support.step_counter import StepCounter


def an_ask(template: Template, *, firm: bool = True) -> SlotAsk:
    return SlotAsk("d", template, "acme", firm)


# The tree


def test_reasons_are_ordered_by_how_much_they_keep_out_and_details_below_them() -> None:
    rejected = {(Code.TAINT, "taints"): 3, (Code.CAPACITY, "cpu"): 9, (Code.CAPACITY, "memory"): 12}
    assert pending_reasons(rejected, 5, "nearest fit is n1") == (
        PendingReason("capacity", 21, "nearest fit is n1", (PendingReason("memory", 12), PendingReason("cpu", 9))),
        PendingReason("taint", 3, "", (PendingReason("taints", 3),)),
    )


def test_a_tree_is_small_however_many_details_there_are() -> None:
    (reason,) = pending_reasons({(Code.LABELS, f"k{number}=v"): number + 1 for number in range(50)}, 1)
    assert reason.count == sum(range(51))
    assert [below.code for below in reason.below][:2] == ["k49=v", "k48=v"]
    assert len(reason.below) == 8


def test_what_never_fits_is_said_before_why() -> None:
    (reason,) = pending_reasons({(Code.CAPACITY, "cpu"): 2}, 7, "nearest fit is n1: has cpu 1 of 2", never=True)
    assert (reason.code, reason.count) == (NEVER_FITS, 7)
    assert "nearest fit is n1" in reason.message
    assert [below.code for below in reason.below] == ["capacity"]


# Never, or not now


def test_that_no_node_has_the_ports_and_the_devices_at_once_is_told_without_a_walk_over_nodes() -> None:
    steps: list[int] = []
    for count in (20, 80):
        bench = a_bench(checked=False)
        for number in range(count):
            fields: dict[str, Any] = {"gpus": ("t4",)} if number % 2 else {"ports": (30_000, 30_010)}
            bench.a_node(f"n{number}", **fields)
        table = table_of(bench)
        assert not never_fits(table, an_ask(a_template(ports=11)))
        assert not never_fits(table, an_ask(a_template(gpus=1, ports=10)))
        with StepCounter() as one:
            assert never_fits(table, an_ask(a_template(gpus=1, ports=11)))
        steps.append(one.calls)
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    ("template", "never"),
    [
        (a_template(cpu=4000), False),
        (a_template(cpu=4001), True),
        (a_template(cpu=100, extended=(("fpga", 2),)), False),
        (a_template(cpu=100, extended=(("fpga", 3),)), True),
        (a_template(cpu=100, extended=(("tpu", 1),)), True),
        (a_template(cpu=100, gpus=2), False),
        (a_template(cpu=100, gpus=3), True),
        (a_template(cpu=100, gpus=2, gpu_models=("h100",)), True),
        (a_template(cpu=100, gpus=1, gpu_models=("h100", "v100")), False),
        (a_template(cpu=100, gpus=1, gpu_models=("a10", "v100")), True),
        (a_template(cpu=100, ports=5), False),
        (a_template(cpu=100, ports=6), True),
        (a_template(cpu=100, require=(("disk", "ssd"),)), False),
        (a_template(cpu=100, require=(("disk", "tape"),)), True),
        (a_template(cpu=3000, gpus=1), True),
    ],
)
def test_what_no_node_would_take_even_empty_never_fits(template: Template, never: bool) -> None:
    bench, follower = a_region(nodes=0)
    bench.a_node("big", cpu=4000, ports=(0, 0), labels=(("disk", "ssd"),))
    bench.a_node("gpu", cpu=2000, gpus=("t4", "h100"), ports=(30_000, 30_004), extended=(("fpga", 2),))
    bench.a_workload(a_template(cpu=2000), count=3, uid=90, workload=90)
    follower.work()
    assert never_fits(follower.scheduler.table, an_ask(template)) is never


def test_a_node_without_ports_never_takes_what_needs_one() -> None:
    bench, follower = a_region(nodes=1, ports=(0, 0))
    bench.a_workload(a_template(ports=1), count=1)
    follower.work()
    assert follower.codes() == [NEVER_FITS]


def test_a_node_that_is_cordoned_or_full_may_take_it_one_day() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["n1"], cordoned=True, note="why"))
    bench.a_workload(a_template(cpu=1000), count=1)
    follower.work()
    assert follower.codes() == [Code.NODE_UNAVAILABLE]


def test_taints_and_tenancy_that_keep_it_out_everywhere_are_for_ever() -> None:
    bench, follower = a_region(nodes=2)
    one, two = (bench.state.node_names[name] for name in ("n1", "n2"))
    bench.accept(ROOT, c.AdministerNode(one, taints=(Taint("dedicated"),)))
    bench.accept(ROOT, c.AdministerNode(two, tenancy=("beta",)))
    bench.a_workload(count=1)
    follower.work()
    assert follower.codes() == [NEVER_FITS]


@pytest.mark.parametrize("template", [a_template(), a_template(extended=(("fpga", 1),)), a_template(ports=1)])
def test_a_region_without_nodes_says_so_and_not_that_it_never_fits(template: Template) -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(template, count=3)
    follower.work()
    assert follower.reasons() == (PendingReason("node-unavailable", 3, "the region has no nodes"),)


def test_whether_it_never_fits_is_said_once_there_is_a_node_and_no_more_when_that_is_gone() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(a_template(cpu=2000), count=1)
    follower.work()
    node = bench.a_node("small", cpu=1000)
    follower.catch_up()
    bench.at += RESYNC_MS
    follower.work()
    assert follower.codes() == [NEVER_FITS]
    bench.accept("ledger", EndSession(bench.sessions["agent/small"], "silent"))
    bench.accept(ROOT, c.RemoveNode(node))
    bench.at += RESYNC_MS
    follower.work()
    assert follower.codes() == [Code.NODE_UNAVAILABLE]


# What is left over


def waiting(follower: Follower) -> list[tuple[str, int]]:
    return [(reason.code, reason.count) for reason in follower.reasons()]


def test_what_is_left_over_of_a_request_waits_for_what_its_own_slots_took() -> None:
    """All nodes passed before; they are full now, and that is what is to be said."""
    bench, follower = a_region(nodes=2, cpu=2000)
    bench.a_workload(a_template(cpu=1000), count=7)
    follower.work()
    assert waiting(follower) == [("capacity", 2)]
    (reason,) = follower.reasons()
    assert reason.below == (PendingReason("cpu", 2),)
    assert follower.waits[-1].found.examined == 2
    assert "has cpu 0" in reason.message


def test_what_is_placed_and_what_is_left_over_are_told_by_one_look() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_grant(version=2, cpu=9000)
    bench.a_workload(a_template(cpu=1000), count=7)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert [(one.outcome, one.next_owner) for one in attempt.decision.passes] == [("placed in part", "scheduler")]
    assert follower.codes() == ["capacity"]


@pytest.mark.parametrize(
    ("rules", "code"),
    [({"apart": (Apart("db", "node"),)}, Code.APART), ({"spread": (Spread("zone", 1),)}, Code.SPREAD)],
)
def test_rules_over_domains_that_keep_the_rest_out_are_said(rules: dict[str, Any], code: Code) -> None:
    bench, follower = a_region(nodes=2, cpu=4000)
    bench.a_node("b", zone="b", cpu=1000)
    bench.a_workload(a_template(cpu=1000, **rules), count=9)
    follower.work()
    assert code in follower.codes()
    assert sum(count for _, count in waiting(follower)) == 3, "each of the nodes is counted once"


def test_of_domains_that_are_shut_the_key_and_the_name_are_said_once_with_all_their_nodes() -> None:
    bench, follower = a_region(nodes=0)
    for number, zone in enumerate("aab"):
        bench.a_node(f"{zone}{number}", cpu=8000 if zone == "a" else 1000, zone=zone, pool=f"p{number}")
    rules: dict[str, Any] = {"spread": (Spread("zone", 1),), "apart": (Apart("db", "pool", 5),)}
    bench.a_workload(a_template(cpu=1000, **rules), count=9)
    follower.work()
    below = {reason.code: reason.below for reason in follower.reasons()}
    assert below == {"spread": (PendingReason("zone a", 2),), "capacity": (PendingReason("cpu", 1),)}


def test_the_pass_of_what_waits_is_kept_as_evidence() -> None:
    bench, follower = a_region(nodes=3, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=2)
    follower.work()
    (wait,) = follower.waits
    assert (wait.found.outcome, wait.found.next_owner, wait.found.examined) == ("waiting", "scheduler", 3)
    assert wait.found.rejected == (("capacity", "cpu", 3),)
    assert wait.found.requests == ((100, 1),)
    assert wait.found.quota[0].account == "quota/acme"


# The nearest


def test_the_nearest_is_the_usable_node_that_lacks_least() -> None:
    bench = RegionBench()
    bench.a_grant()
    bench.a_node("small", cpu=1000)
    bench.a_node("nearly", cpu=3500)
    cordoned = bench.a_node("enough", cpu=8000)
    bench.accept(ROOT, c.AdministerNode(cordoned, cordoned=True, note="why"))
    follower = Follower(bench)
    found = nearest_fit(follower.scheduler.table, an_ask(a_template(cpu=4000)))
    assert found.startswith("nearest fit is nearly: has cpu ")


def test_the_nearest_lacks_the_smallest_part_of_what_is_asked_for_not_the_smallest_number() -> None:
    bench = RegionBench()
    bench.a_node("a-tenth", cpu=3600, memory=200)
    bench.a_node("a-half", cpu=8000, memory=50)
    found = nearest_fit(Follower(bench).scheduler.table, an_ask(a_template(cpu=4000, memory=100)))
    assert found.startswith("nearest fit is a-tenth: has cpu ")


def test_the_nearest_says_what_the_node_is_not_for_where_none_is() -> None:
    _, follower = a_region(nodes=1)
    found = nearest_fit(follower.scheduler.table, an_ask(a_template(require=(("disk", "tape"),))))
    assert found == "nearest fit is n1: labels disk=tape"
    assert nearest_fit(Follower(RegionBench()).scheduler.table, an_ask(a_template())) == ""


def test_the_nearest_has_room_but_not_the_devices() -> None:
    _, follower = a_region(nodes=1, gpus=("t4",))
    found = nearest_fit(follower.scheduler.table, an_ask(a_template(gpus=1, gpu_models=("h100",))))
    assert "has capacity, but not the devices" in found


def test_the_nearest_is_in_no_zone_that_is_avoided_or_has_too_many_already() -> None:
    bench, follower = a_region(nodes=0)
    for zone, cpu in (("a", 8000), ("b", 1000), ("c", 8000)):
        bench.a_node(f"{zone}1", cpu=cpu, zone=zone)
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "c", "fire", bench.at + 60_000))
    bench.a_workload(a_template(cpu=1000, spread=(Spread("zone", 1),)), count=6)
    follower.work()
    reasons = {reason.code: reason for reason in follower.reasons()}
    assert reasons["spread"].below == (PendingReason("zone a", 1),)
    assert [reason.message for reason in reasons.values() if reason.message] == ["nearest fit is b1: has cpu 0 of 1"]


def test_where_all_domains_have_too_many_the_nearest_says_which_rule_keeps_it_out() -> None:
    bench, follower = a_region(nodes=1, zone="a")
    bench.a_workload(a_template(apart=(Apart("db", "zone"),)), count=2)
    follower.work()
    (reason,) = follower.reasons()
    assert (reason.code, reason.message) == ("apart", "nearest fit is n1: excluded only by its rules: apart zone a")


def test_where_every_zone_is_avoided_the_nearest_says_so() -> None:
    bench, follower = a_region(nodes=1, zone="a")
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "fire", bench.at + 60_000))
    bench.a_workload(count=1)
    follower.work()
    (reason,) = follower.reasons()
    assert reason.message == "nearest fit is n1: node-unavailable zone a is avoided by an override"
