"""Room that is held passes the gates of a binding, and ends with its node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint, TaintEffect, Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region.node_health import FORGOTTEN_MS, NodeHealthReconciler
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.limits import HOLDS_MAX
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench, a_template

REPAIR, HEALTH = RepairReconciler(), NodeHealthReconciler()
TAINT = Taint("gpu", "", TaintEffect.EVICT)


class Held:
    """A region with one node, an account, and a standby assignment."""

    def __init__(self, template: Template | None = None, **node: Any) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.node = self.bench.a_node(**node)
        self.bench.a_grant()
        self.standby = self.bench.a_workload(template, 1, stage=AssignmentStage.STANDBY)

    def placeholder(self, **fields: Any) -> c.Hold:
        share = self.standby.shares[0].template
        ends = self.bench.at + 3_600_000
        defaults = {"assignment": self.standby.uid, "template": share}
        return c.Hold(ReservationPurpose.PLACEHOLDER, self.node, "quota/acme", ends, **{**defaults, **fields})

    def dated(self, cpu: int = 1000, **fields: Any) -> c.Hold:
        ends = self.bench.at + 3_600_000
        need = fields.pop("need", Resources(cpu))
        return c.Hold(ReservationPurpose.DATED, self.node, "quota/acme", ends, need, tenant="acme", **fields)

    def hold(self, command: c.Hold) -> int:
        return self.bench.accept(SCHEDULER, command).revision

    def administer(self, **fields: Any) -> None:
        self.bench.accept(ROOT, c.AdministerNode(self.node, **fields))

    def repair(self) -> list[Any]:
        sent = [w.command for w in REPAIR.reconcile(self.bench.state, self.node, self.bench.at).commands]
        for command in sent:
            self.bench.accept("controller/repair", command)
        return sent

    def silence(self) -> None:
        session = self.bench.state.nodes[self.node].session
        self.bench.accept("controller/sessions", EndSession(session, "silent"))
        self.bench.at += DEFAULTS.fence_time


GATES: list[tuple[Code, dict[str, Any], dict[str, Any]]] = [
    (Code.NODE_UNAVAILABLE, {}, {"cordoned": True, "note": "why"}),
    (Code.TAINT, {}, {"taints": (Taint("gpu"),)}),
    (Code.TENANCY, {}, {"tenancy": ("other",)}),
    (Code.LABELS, {"require": (("disk", "fast"),)}, {}),
    (Code.CAPACITY, {"cpu": 9000}, {}),
    (Code.DEVICE, {"gpus": 1, "gpu_models": ("h100",)}, {}),
    (Code.PORT, {"ports": 11}, {}),
]


@pytest.mark.parametrize(("code", "template", "administered"), GATES, ids=[gate[0].value for gate in GATES])
def test_a_placeholder_is_refused_where_a_binding_would_be(
    code: Code, template: dict[str, Any], administered: dict[str, Any]
) -> None:
    region = Held(a_template(**template), gpus=("a10",))
    if administered:
        region.administer(**administered)
    devices = (0,) if template.get("gpus") else ()
    assert region.bench.refuse(SCHEDULER, region.placeholder(devices=devices)).code is code


def test_a_placeholder_stands_where_its_template_may() -> None:
    template = a_template(tolerate=(Toleration("gpu"),), require=(("disk", "fast"),), ports=10)
    region = Held(template, labels=(("disk", "fast"),))
    region.administer(taints=(TAINT,), tenancy=("acme",))
    region.hold(region.placeholder())


@pytest.mark.parametrize("gate", [{"taints": (Taint("gpu"),)}, {"tenancy": ("other",)}])
def test_a_dated_hold_is_refused_by_taints_and_tenancy(gate: dict[str, Any]) -> None:
    region = Held()
    region.administer(**gate)
    assert region.bench.refuse(SCHEDULER, region.dated()).code in (Code.TAINT, Code.TENANCY)


def test_a_placeholder_is_refused_where_the_law_forbids_its_workload() -> None:
    region = Held()
    region.bench.ship(c.ShippedAssignment(replace(region.standby, jurisdictions=("us",))))
    assert region.bench.refuse(SCHEDULER, region.placeholder()).code is Code.RESIDENCY


@pytest.mark.parametrize(
    ("action", "target", "code"),
    [(OverrideAction.AVOID_ZONE, "a", Code.NODE_UNAVAILABLE), (OverrideAction.PAUSE_SCHEDULING, "acme", Code.PAUSED)],
)
def test_overrides_hold_for_what_is_held(action: OverrideAction, target: str, code: Code) -> None:
    region = Held()
    region.bench.accept(ROOT, OpenOverride(action, "eu", target, "an incident", region.bench.at + 60_000))
    assert region.bench.refuse(SCHEDULER, region.dated()).code is code


def test_what_is_held_on_a_lost_node_is_given_back() -> None:
    region = Held()
    uid = region.hold(region.dated())
    region.silence()
    assert region.repair() == []
    region.bench.accept("controller/node-health", c.JudgeNode(region.node, NodeHealth.LOST))
    assert region.repair() == [c.DropHold(uid)]
    assert region.bench.state.holds.is_empty()
    assert region.repair() == []


def test_what_is_held_on_a_node_that_is_removed_ends_with_it() -> None:
    region = Held()
    region.hold(region.dated())
    region.silence()
    region.bench.accept(ROOT, c.RemoveNode(region.node))
    assert region.bench.state.holds.is_empty()
    charged = region.bench.state.account_usage.get("quota/acme")
    assert charged is None or charged.charged == Resources()


def test_a_node_keeps_no_more_holds_than_can_end_with_it() -> None:
    region = Held()
    region.bench.checked = False
    nothing = region.dated(0)
    for _ in range(HOLDS_MAX):
        region.hold(nothing)
    assert region.bench.refuse(SCHEDULER, nothing).code is Code.CAPACITY
    region.silence()
    region.bench.accept(ROOT, c.RemoveNode(region.node))
    assert region.bench.state.holds.is_empty()
    assert check(region.bench.state, REGION.invariants) == []


def test_a_hold_does_not_keep_a_node_that_is_long_gone() -> None:
    region = Held()
    ends = region.bench.at + DEFAULTS.grant_life
    region.hold(replace(region.dated(), ends=ends))
    region.silence()
    region.bench.at += FORGOTTEN_MS
    sent = [w.command for w in HEALTH.reconcile(region.bench.state, region.node, region.bench.at).commands]
    assert c.RemoveNode(region.node) in sent


@pytest.mark.parametrize("gate", [{"taints": (TAINT,)}, {"tenancy": ("other",)}])
def test_what_is_held_where_nothing_of_it_may_stand_is_given_back(gate: dict[str, Any]) -> None:
    region = Held()
    uid = region.hold(region.placeholder())
    region.administer(**gate)
    assert region.repair() == [c.DropHold(uid)]


def test_what_is_held_for_an_ended_assignment_is_given_back_so_that_it_can_leave() -> None:
    region = Held()
    uid = region.hold(region.placeholder())
    region.bench.ship(c.ShippedAssignment(replace(region.standby, stage=AssignmentStage.ENDED, shares=())))
    assert region.bench.refuse("controller/link", c.ForgetAssignment(region.standby.uid)).code is Code.IN_USE
    assert region.node in REPAIR.wake(region.bench.state, ("assignment", region.standby.uid))
    assert region.repair() == [c.DropHold(uid)]
    region.bench.accept("controller/link", c.ForgetAssignment(region.standby.uid))


def test_what_is_held_on_a_node_that_stays_too_small_is_given_back_at_the_deadline() -> None:
    region = Held()
    uid = region.hold(region.dated(5000))
    region.bench.a_node(cpu=4000)
    assert REPAIR.reconcile(region.bench.state, region.node, region.bench.at).requeue_at is not None
    assert region.repair() == []
    region.bench.at += DEFAULTS.breach_deadline
    assert region.repair() == [c.DropHold(uid)]


def test_repair_gives_back_nothing_that_may_stay() -> None:
    region = Held()
    uid = region.hold(region.dated())
    assert region.bench.refuse("controller/repair", c.DropHold(uid)).code is Code.NOT_OWNER


def test_a_device_that_is_held_is_nobody_elses_until_the_hold_ends() -> None:
    region = Held(gpus=("h100", "h100"))
    bench, template = region.bench, a_template(gpus=1)
    work = bench.a_workload(template, 2, uid=200, workload=2)
    uid = region.hold(region.dated(devices=(1,), need=Resources(0, 0, 0, 1000)))
    assert [room.held for room in bench.state.node_usage[region.node].devices] == [0, 1000]
    assert bench.refuse_place(work, c.SlotPlacement(0, region.node, devices=(1,))).code is Code.DEVICE
    plain = region.hold(region.dated())
    assert [room.held for room in bench.state.node_usage[region.node].devices] == [0, 1000], "this one holds none"
    for one in (plain, uid):
        bench.accept(SCHEDULER, c.DropHold(one))
    assert bench.state.node_usage[region.node].devices == ()
    bench.place(work, c.SlotPlacement(0, region.node, devices=(1,)))
