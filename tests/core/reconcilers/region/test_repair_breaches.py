"""Whoever owns a breach ends it: what is cured is closed, what may not stay is stopped, by its deadline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint, TaintEffect, Toleration
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY, REGION_RIGHT
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Reservation, ReservationPurpose
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region import repair_breaches
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.reconcilers.region.repair_breaches import _taken
from holdfast.core.region import commands as c
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment

REPAIR = RepairReconciler()
EVICTS = Taint("gpu", "", TaintEffect.EVICT)


class Broken:
    """One node with four replicas of one core each, and the controller that repairs what is broken there."""

    def __init__(self, phase: Phase = Phase.SERVING, **fields: Any) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.node = self.bench.a_node(cpu=8000, **fields.pop("node", {}))
        self.bench.a_grant()
        self.work = self.bench.a_workload(fields.pop("template", None), 4, **fields)
        gpus = self.bench.state.templates[self.work.shares[0].template].gpus
        devices = [(ordinal,) if gpus else () for ordinal in range(4)]
        self.bench.place(self.work, *(c.SlotPlacement(ordinal, self.node, devices[ordinal]) for ordinal in range(4)))
        for ordinal in range(4):
            self.bench.walk(phase, ordinal)

    def taint(self, *taints: Taint) -> None:
        self.bench.accept(ROOT, c.AdministerNode(self.node, taints=taints))

    def breach(self, invariant: str, key: str) -> tuple[str, str]:
        assert (invariant, key) in self.bench.state.breaches
        return invariant, key

    def look(self, key: Any) -> ReconcileResult:
        return REPAIR.reconcile(self.bench.state, key, self.bench.at)

    def repair(self) -> list[Any]:
        """Look at everything until nothing is sent any more; what was sent and accepted on the way."""
        sent: list[Any] = []
        for _ in range(9):
            found = [w.command for key in REPAIR.keys(self.bench.state) for w in self.look(key).commands]
            if not found:
                return sent
            for command in found:
                self.bench.accept("controller/repair", command)
            sent += found
        raise AssertionError(f"not quiet: {sent}")

    def end(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            self.bench.move("agent/n1", Phase.RELEASED, "stopped", ordinal)

    def phases(self) -> list[str]:
        return [self.bench.slot(ordinal).phase.value for ordinal in range(4)]


def test_where_room_is_held_for_an_assignment_that_ended_is_looked_up_and_not_sought() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    nodes = [bench.a_node(name, cpu=8000) for name in ("n1", "n2", "n3")]
    for uid, workload, held in ((100, 1, nodes[:2]), (200, 2, nodes)):
        work = bench.a_workload(a_template(cpu=10), 4, uid=uid, workload=workload)
        for node in held:
            ends, template = bench.at + 60_000, work.shares[0].template
            hold = c.Hold(ReservationPurpose.PLACEHOLDER, node, "quota/acme", ends, assignment=uid, template=template)
            bench.accept(SCHEDULER, hold)
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[100], stage=AssignmentStage.ENDED, shares=())))
    state, read = bench.state.fork(), list[int]()
    state.holds = Counting(state.holds, read)
    assert [*REPAIR.wake(state, ("assignment", 100))] == nodes[:2]
    assert len(read) == 2
    assert [*REPAIR.wake(state, ("assignment", 200))] == []
    assert len(read) == 2


class Counting(Table[int, Reservation]):
    """Rows that tell which of them were read; to read them all is not possible."""

    def __init__(self, rows: Table[int, Reservation], read: list[int]) -> None:
        super().__init__()
        self._rows, self._read = rows, read

    def get(self, key: int) -> Reservation | None:
        self._read.append(key)
        return self._rows.get(key)

    def unordered(self) -> Iterator[tuple[int, Reservation]]:
        raise AssertionError("all holds are read")

    def is_empty(self) -> bool:
        return self._rows.is_empty()


def test_a_cured_breach_is_closed() -> None:
    region = Broken()
    region.bench.a_node(cpu=3000)
    key = region.breach(REGION_CAPACITY, f"node/{region.node}/cpu")
    region.bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    assert not region.look(key).commands
    region.end(0)
    assert region.repair() == [c.CloseBreach(*key)]
    assert region.bench.state.breaches.is_empty()
    assert region.look(key) == NO_CHANGES


@pytest.mark.parametrize("kind", ["node", "workload", "breach", "override"])
def test_whatever_may_have_cured_a_breach_wakes_its_owner(kind: str) -> None:
    region = Broken()
    region.bench.a_node(cpu=3000)
    key = region.breach(REGION_CAPACITY, f"node/{region.node}/cpu")
    region.bench.ship(c.ShippedAssignment(replace(region.work, jurisdictions=("us",))))
    lawless = region.breach(REGION_RESIDENCY, "assignment/100")
    named = f"{key[0]}/{key[1]}"
    touched: dict[str, Any] = {"node": region.node, "workload": 1, "breach": named, "override": 1}
    found = {*keys_to_wake(REPAIR, region.bench.state, [(kind, touched[kind])])}
    assert (lawless if kind == "workload" else key) in found


def test_a_node_wakes_its_own_breaches_and_no_others() -> None:
    region = Broken(
        template=a_template(gpus=1, extended=(("fpga", 1),)), node={"gpus": ("a10",) * 4, "extended": (("fpga", 4),)}
    )
    other = region.bench.a_node("n2", cpu=8000)
    region.bench.a_node(cpu=100)
    found = {*REPAIR.wake(region.bench.state, ("node", region.node))}
    assert found == {region.node, *(key for key, _ in region.bench.state.breaches.items())}
    assert {key[1].split("/")[2] for key, _ in region.bench.state.breaches.items()} == {"cpu", "gpu", "fpga", "device"}
    assert [*REPAIR.wake(region.bench.state, ("node", other))] == [other]


def test_the_breach_of_a_node_that_is_gone_is_closed() -> None:
    region = Broken()
    region.taint(EVICTS)
    region.repair()
    region.end(0, 1, 2, 3)
    region.bench.at += 1
    key = region.breach(REGION_ALLOWED, f"node/{region.node}")
    region.bench.accept("controller/sessions", _end(region))
    region.bench.accept(ROOT, c.RemoveNode(region.node))
    assert key in REPAIR.wake(region.bench.state, ("node", region.node))
    assert region.look(key).commands[0].command == c.CloseBreach(*key)


def test_what_a_taint_evicts_is_stopped_at_once_and_waits_to_be_placed_elsewhere() -> None:
    region = Broken(disruption=0)
    region.taint(EVICTS)
    assert region.repair() == [c.Stop(tuple((1, n) for n in range(4)), "not-allowed")]
    assert region.phases() == ["terminating"] * 4
    region.end(0, 1, 2, 3)
    assert region.phases() == ["pending"] * 4
    region.repair()
    assert region.bench.state.breaches.is_empty()


def test_what_tolerates_the_taint_stays() -> None:
    region = Broken(template=a_template(tolerate=(Toleration("gpu"),)))
    region.taint(EVICTS, Taint("disk", "", TaintEffect.REFUSE))
    assert region.repair() == []
    assert region.phases() == ["serving"] * 4


def test_a_paused_repair_evicts_nothing_before_the_pause_ends() -> None:
    region = Broken()
    end = region.bench.at + 60_000
    region.bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "an incident", end))
    region.taint(EVICTS)
    key = region.breach(REGION_ALLOWED, f"node/{region.node}")
    assert region.look(key) == ReconcileResult((), end)
    region.bench.at = end
    assert region.look(key).commands


def test_what_stands_on_a_node_kept_for_others_has_until_the_deadline() -> None:
    region = Broken()
    region.bench.accept(ROOT, c.AdministerNode(region.node, tenancy=("other",)))
    key = region.breach(REGION_ALLOWED, f"node/{region.node}")
    assert region.look(key) == ReconcileResult((), region.bench.at + DEFAULTS.breach_deadline)
    region.bench.at += DEFAULTS.breach_deadline
    region.repair()
    assert region.phases() == ["terminating"] * 4


def test_of_a_node_that_stays_too_small_only_as_much_is_stopped_as_is_too_much() -> None:
    region = Broken()
    region.bench.a_node(cpu=2500)
    key = region.breach(REGION_CAPACITY, f"node/{region.node}/cpu")
    assert region.look(key) == ReconcileResult((), region.bench.at + DEFAULTS.breach_deadline)
    region.bench.at += DEFAULTS.breach_deadline
    assert region.repair() == [c.Stop(((1, 3), (1, 2)), "not-allowed")]
    region.end(2, 3)
    assert region.repair() == [c.CloseBreach(*key)]
    assert region.phases() == ["serving", "serving", "pending", "pending"]


def test_borrowed_room_is_given_back_first_then_that_of_the_lowest_priority() -> None:
    region = Broken()
    for uid, workload, cls in ((200, 2, "best-effort"), (300, 3, "critical")):
        other = region.bench.a_workload(count=1, uid=uid, workload=workload, priority_class=cls)
        region.bench.place(other, c.SlotPlacement(0, region.node))
    region.bench.a_node(cpu=4000)
    region.bench.at += DEFAULTS.breach_deadline
    assert region.repair() == [c.Stop(((2, 0), (1, 3)), "not-allowed")]


def test_what_the_law_forbids_here_is_stopped_at_the_deadline() -> None:
    region = Broken()
    region.bench.ship(c.ShippedAssignment(replace(region.work, jurisdictions=("us",))))
    key = region.breach(REGION_RESIDENCY, "assignment/100")
    assert region.look(key) == ReconcileResult((), region.bench.at + DEFAULTS.breach_deadline)
    region.bench.at += DEFAULTS.breach_deadline
    region.repair()
    assert region.phases() == ["terminating"] * 4


@pytest.mark.parametrize(
    ("changed", "invariant", "stopped"),
    [({"jurisdictions": ("us",)}, REGION_RESIDENCY, (0, 1)), ({"ordinals": (1,)}, REGION_RIGHT, (0,))],
    ids=("forbidden by law", "without a right"),
)
def test_the_law_stops_every_identity_and_a_lost_right_only_its_own(
    changed: dict[str, Any], invariant: str, stopped: tuple[int, ...]
) -> None:
    region = Broken()
    template = region.work.shares[0].template
    owner = an_assignment(200, 2, template, 2, exclusive=True, ordinals=(0, 1))
    region.bench.ship(c.ShippedAssignment(owner))
    region.bench.accept(REPLICA, c.OpenSlots(200, template, (0, 1)))
    region.bench.place(owner, *(c.SlotPlacement(ordinal, region.node) for ordinal in (0, 1)))
    region.bench.ship(c.ShippedAssignment(replace(owner, generation=2, **changed)))
    key = region.breach(invariant, "assignment/200")
    region.bench.at += DEFAULTS.breach_deadline
    assert [wanted.command for wanted in region.look(key).commands] == [
        c.Stop(tuple((2, ordinal) for ordinal in stopped), "not-allowed")
    ]


def test_of_a_device_that_is_gone_what_used_it_is_stopped_and_nothing_else() -> None:
    region = Broken(template=a_template(gpus=1), node={"gpus": ("a10",) * 4})
    region.bench.a_node(cpu=8000, gpus=("a10",) * 2)
    keys = [region.breach(REGION_CAPACITY, f"node/{region.node}/device/{index}") for index in (2, 3)]
    region.bench.at += DEFAULTS.breach_deadline
    sent = [wanted.command for key in keys for wanted in region.look(key).commands]
    assert sent == [c.Stop(((1, 2),), "not-allowed"), c.Stop(((1, 3),), "not-allowed")]


def test_room_held_on_a_node_that_is_too_small_is_given_back_when_the_node_has_had_its_time_to_grow() -> None:
    region = Broken()
    bench, template = region.bench, region.work.shares[0].template
    held = c.Hold(
        ReservationPurpose.PLACEHOLDER, region.node, "quota/acme", bench.at + 10**7, assignment=100, template=template
    )
    bench.accept(SCHEDULER, held)
    uid = next(uid for uid, _ in bench.state.holds.items())
    bench.a_node(cpu=3000)
    deadline = bench.at + DEFAULTS.breach_deadline
    bench.at += 1_000
    bench.a_node(cpu=3000, memory=2048)
    assert region.look(region.node) == ReconcileResult((), deadline)
    bench.at = deadline
    assert [wanted.command for wanted in region.look(region.node).commands] == [c.DropHold(uid)]


def _end(region: Broken) -> Any:
    from holdfast.core.ledger.builtin.sessions import EndSession

    return EndSession(region.bench.state.nodes[region.node].session, "silent")


@pytest.mark.parametrize(("device", "taken"), [(0, (500, 500, 1000)), (1, (0, 0, 1000)), (2, (0, 0, 0))])
def test_of_a_device_that_nobody_uses_nothing_is_taken_and_one_that_is_gone_has_nothing(
    device: int, taken: tuple[int, int, int]
) -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node(gpus=("a100", "a100"))
    work = bench.a_workload(a_template(gpus=1, gpu_milli=500), count=1)
    bench.place(work, c.SlotPlacement(0, node, (0,)))
    assert _taken(bench.state, bench.state.nodes[node], f"device/{device}") == taken


def test_of_several_that_may_stay_for_a_while_the_first_says_when_to_look_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region = Broken()
    region.bench.a_node(cpu=3000)
    key = region.breach(REGION_CAPACITY, f"node/{region.node}/cpu")
    slots = [region.bench.slot(ordinal) for ordinal in range(4)]
    ends = [region.bench.at + later for later in (9_000, 5_000, 0, 7_000)]
    monkeypatch.setattr(repair_breaches, "_excluded", lambda *_: zip(slots, ends, strict=True))
    found = repair_breaches.reconcile_breach(region.bench.state, key, region.bench.at, 0)
    assert [wanted.command for wanted in found.commands] == [c.Stop(((1, 2),), "not-allowed")]
    assert found.requeue_at == region.bench.at + 5_000
    paused = repair_breaches.reconcile_breach(region.bench.state, key, region.bench.at, region.bench.at + 6_000)
    assert (paused.commands, paused.requeue_at) == ((), region.bench.at + 6_000)
