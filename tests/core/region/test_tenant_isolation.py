"""What an agent enforces between tenants decides what stands on its node: strict work, and one tenant or several."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.breaches import REGION_ALLOWED
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.reconcilers.region.repair_breaches import useless_holds
from holdfast.core.region import commands as c
from holdfast.core.region.queries.breaches import keeper_of
from holdfast.core.region.queries.node_conditions import node_conditions
from holdfast.core.region.state.node_tenants import tenants_on
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment

ALL = tuple(sorted(Capability))
STRICT_WORK = a_template(cpu=100, isolation=Isolation.STRICT)
#: How an agent registers that is not root and was told nothing else: it can enforce nothing.
ONE = {"shares_user": False}


class Tenants:
    """A region with a node, and work of two tenants."""

    def __init__(self, **node: Any) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.node = self.bench.a_node(**node)
        for tenant in ("acme", "beta"):
            self.bench.a_grant(f"quota/{tenant}")
        self.acme = self._work("acme", 1)
        self.beta = self._work("beta", 2)

    def _work(self, tenant: str, number: int, template: Template | None = None) -> Assignment:
        template = template or a_template(cpu=100)
        fields: dict[str, Any] = {"tenant": tenant, "accounts": (f"quota/{tenant}",)}
        return self.bench.a_workload(template, 4, uid=100 * number, workload=number, **fields)

    def place(self, work: Assignment, *ordinals: int, bind: bool = True) -> Committed | Refused | Any:
        placements = tuple(c.SlotPlacement(ordinal, self.node) for ordinal in ordinals)
        return self.bench.send(SCHEDULER, self.bench.proposal(work, *placements, bind=bind))

    def code(self, work: Assignment, *ordinals: int) -> Code:
        answer = self.place(work, *ordinals)
        assert isinstance(answer, Refused), answer
        return answer.code

    def leave(self, work: Assignment, *ordinals: int) -> None:
        """Replicas end, and are not wanted any more."""
        for ordinal in ordinals:
            self.bench.send(REPLICA, c.WithdrawSlots(work.uid, (ordinal,)))
            answer = self.bench.move("agent/n1", Phase.RELEASED, "declined", ordinal, work.workload)
            assert isinstance(answer, Committed), answer

    def register(self, **said: Any) -> None:
        self.bench.open_session("agent/n1")
        self.bench.a_node(**said)

    @property
    def overshoot(self) -> int:
        breach = self.bench.state.breaches.get((REGION_ALLOWED, f"node/{self.node}"))
        return breach.overshoot if breach is not None else 0


# Strict isolation


@pytest.mark.parametrize("lacks", STRICT)
def test_strict_work_stands_only_where_all_that_it_takes_is_enforced(lacks: Capability) -> None:
    region = Tenants(capabilities=tuple(one for one in ALL if one is not lacks))
    strict = region._work("acme", 3, STRICT_WORK)
    answer = region.place(strict, 0)
    assert isinstance(answer, Refused)
    assert answer.code is Code.ISOLATION
    assert lacks.value in answer.facts["refused"][0][3]
    region.bench.a_node(capabilities=ALL)
    assert isinstance(region.place(strict, 0), Committed)


def test_what_strict_isolation_does_not_take_may_be_missing() -> None:
    region = Tenants(capabilities=STRICT)
    assert isinstance(region.place(region._work("acme", 3, STRICT_WORK), 0), Committed)


def test_room_is_not_held_for_strict_work_where_it_could_not_stand() -> None:
    region = Tenants(capabilities=())
    strict = region._work("acme", 3, STRICT_WORK)
    digest = template_digest(STRICT_WORK)
    hold = c.Hold(
        ReservationPurpose.PLACEHOLDER, region.node, "quota/acme", region.bench.at + 60_000, assignment=strict.uid,
        template=digest,
    )  # fmt: skip
    assert region.bench.refuse(SCHEDULER, hold).code is Code.ISOLATION


def test_a_reservation_is_not_bound_once_the_node_enforces_less() -> None:
    region = Tenants(capabilities=ALL)
    strict = region._work("acme", 3, STRICT_WORK)
    region.place(strict, 0, bind=False)
    region.register(capabilities=())
    assert region.bench.refuse(SCHEDULER, c.Bind(((3, 0),))).code is Code.ISOLATION


def test_a_node_that_loses_a_capability_opens_a_breach_and_takes_no_strict_work_more() -> None:
    region = Tenants(capabilities=ALL)
    strict = region._work("acme", 3, STRICT_WORK)
    region.place(strict, 0, 1)
    region.place(region.acme, 0)
    region.register(capabilities=(Capability.USERS,))
    breach = region.bench.state.breaches[REGION_ALLOWED, f"node/{region.node}"]
    assert (breach.overshoot, breach.owner) == (2, "controller/repair")
    assert breach.deadline > region.bench.at
    assert region.code(strict, 2) is Code.ISOLATION
    assert isinstance(region.place(region.acme, 1), Committed), "what is not strict may come"
    assert region.overshoot == 2


def test_strict_work_is_stopped_at_the_deadline_of_the_breach_unless_the_node_enforces_again() -> None:
    region = Tenants(capabilities=ALL)
    region.place(region._work("acme", 3, STRICT_WORK), 0)
    region.place(region.acme, 0)
    for workload in (1, 3):
        region.bench.walk(Phase.SERVING, 0, workload)
    region.register(capabilities=())
    for workload in (1, 3):
        region.bench.move("agent/n1", Phase.RUNNING, "alive", 0, workload)
    key = (REGION_ALLOWED, f"node/{region.node}")
    assert not RepairReconciler().reconcile(region.bench.state, key, region.bench.at).commands
    region.bench.at += DEFAULTS.breach_deadline
    stops = [one.command for one in RepairReconciler().reconcile(region.bench.state, key, region.bench.at).commands]
    assert stops == [c.Stop(((3, 0),), "not-allowed")]
    region.register(capabilities=ALL)
    closed = [one.command for one in RepairReconciler().reconcile(region.bench.state, key, region.bench.at).commands]
    assert closed == [c.CloseBreach(*key)]


def test_room_that_is_held_for_strict_work_is_given_back_once_the_node_enforces_less() -> None:
    region = Tenants(capabilities=ALL)
    strict = region._work("acme", 3, STRICT_WORK)
    ends = region.bench.at + 60_000
    hold = c.Hold(
        ReservationPurpose.PLACEHOLDER, region.node, "quota/acme", ends, assignment=strict.uid,
        template=template_digest(STRICT_WORK),
    )  # fmt: skip
    uid = region.bench.accept(SCHEDULER, hold).revision
    region.register(capabilities=())
    sent = [
        one.command for one in RepairReconciler().reconcile(region.bench.state, region.node, region.bench.at).commands
    ]
    assert sent == [c.DropHold(uid)]


def test_strict_work_is_not_taken_into_a_log_whose_level_would_forget_that_it_is_strict() -> None:
    bench = RegionBench(level=1)
    ship = c.Ship("log-platform", 1, 1, 2, (c.ShippedTemplate(template_digest(STRICT_WORK), STRICT_WORK),))
    assert bench.refuse("controller/link", ship).code is Code.LEVEL
    ordinary = a_template(cpu=100)
    bench.ship(c.ShippedTemplate(template_digest(ordinary), ordinary))


# One tenant at a time


def test_the_first_tenant_has_a_node_with_one_user_until_nothing_of_it_is_left() -> None:
    region = Tenants(**ONE)
    region.place(region.acme, 0, 1)
    assert region.code(region.beta, 0) is Code.ONE_TENANT
    region.leave(region.acme, 0)
    assert region.code(region.beta, 0) is Code.ONE_TENANT
    region.leave(region.acme, 1)
    assert isinstance(region.place(region.beta, 0), Committed)
    assert region.code(region.acme, 2) is Code.ONE_TENANT


def test_what_is_being_ended_still_counts() -> None:
    region = Tenants(**ONE)
    region.place(region.acme, 0)
    region.bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    assert region.bench.slot(0).phase is Phase.TERMINATING
    assert region.code(region.beta, 0) is Code.ONE_TENANT


def test_the_refusal_does_not_say_whose_the_node_is() -> None:
    region = Tenants(**ONE)
    region.place(region.acme, 0)
    assert "acme" not in str(region.place(region.beta, 0))


def test_two_tenants_of_one_proposal_do_not_come_to_one_such_node() -> None:
    region = Tenants(**ONE)
    there = (c.SlotPlacement(0, region.node),)
    groups = tuple(c.PlacementGroup(work.uid, work.shares[0].template, there) for work in (region.acme, region.beta))
    answer = region.bench.accept(SCHEDULER, c.Propose(groups, region.bench.at + 1_000))
    assert b"one-tenant" in answer.answer
    assert (region.bench.slot(0, 1).node, region.bench.slot(0, 2).node) == (region.node, 0)


def test_what_is_reserved_or_held_keeps_the_node_too() -> None:
    region = Tenants(**ONE)
    region.place(region.acme, 0, bind=False)
    assert region.code(region.beta, 0) is Code.ONE_TENANT
    held = Tenants(**ONE)
    need = a_template(cpu=100).need
    hold = c.Hold(ReservationPurpose.DATED, held.node, "quota/acme", held.bench.at + 60_000, need, tenant="acme")
    held.bench.accept(ROOT, hold)
    assert held.code(held.beta, 0) is Code.ONE_TENANT
    assert isinstance(held.place(held.acme, 0), Committed)


def test_room_is_not_held_for_another_tenant_there() -> None:
    region = Tenants(**ONE)
    region.place(region.acme, 0)
    need = a_template(cpu=100).need
    hold = c.Hold(ReservationPurpose.DATED, region.node, "quota/beta", region.bench.at + 60_000, need, tenant="beta")
    assert region.bench.refuse(ROOT, hold).code is Code.ONE_TENANT


@pytest.mark.parametrize("said", [{"shares_user": True}, {"shares_user": False, "capabilities": (Capability.USERS,)}])
def test_tenants_stand_beside_one_another_with_users_of_their_own_or_where_they_may_share_one(
    said: dict[str, Any],
) -> None:
    region = Tenants(**said)
    region.place(region.acme, 0)
    assert isinstance(region.place(region.beta, 0), Committed)


def test_a_node_that_its_agent_keeps_for_a_tenant_takes_no_other() -> None:
    region = Tenants(tenant="beta", **ONE)
    assert region.code(region.acme, 0) is Code.TENANCY
    assert isinstance(region.place(region.beta, 0), Committed)
    region.bench.accept(ROOT, c.AdministerNode(region.node, tenancy=("acme",)))
    assert region.code(region.beta, 1) is Code.TENANCY, "an operator keeps it for somebody else"
    assert region.code(region.acme, 0) is Code.TENANCY


def test_where_tenants_stood_apart_and_do_no_more_a_breach_opens_and_nothing_is_added() -> None:
    region = Tenants(capabilities=ALL, **ONE)
    region.place(region.acme, 0, 1)
    region.place(region.beta, 0)
    region.register(**ONE)
    assert region.overshoot == 1, "who has most keeps the node"
    assert region.code(region.acme, 2) is Code.ONE_TENANT
    assert region.code(region.beta, 1) is Code.ONE_TENANT
    region.leave(region.acme, 0, 1)
    assert not check(region.bench.state, region.bench.book.invariants), "it has not grown by who left"
    assert isinstance(region.place(region.beta, 1), Committed)


def test_of_tenants_that_do_not_stand_apart_any_more_one_stays_and_the_others_go_at_the_deadline() -> None:
    region = Tenants(capabilities=ALL, **ONE)
    region.place(region.acme, 0)
    region.place(region.beta, 0, 1)
    region.register(**ONE)
    key = (REGION_ALLOWED, f"node/{region.node}")
    region.bench.at += DEFAULTS.breach_deadline
    stops = [one.command for one in RepairReconciler().reconcile(region.bench.state, key, region.bench.at).commands]
    assert stops == [c.Stop(((1, 0),), "not-allowed")]


# What an agent registers, and what is told of it


@pytest.mark.parametrize(
    "said",
    [
        {"capabilities": (Capability.USERS, Capability.CPU_LIMIT)},
        {"capabilities": (Capability.USERS, Capability.USERS)},
        {"tenant": "Not A Name"},
        {"tenant": "a" * 129},
    ],
)
def test_what_is_not_told_in_order_or_names_no_tenant_is_not_registered(said: dict[str, Any]) -> None:
    bench = RegionBench()
    bench.open_session("agent/n1")
    command = c.RegisterNode("n1", "general", "a", a_template().need, **said)
    assert bench.refuse("agent/n1", command).code is Code.MALFORMED


def test_what_is_enforced_is_stored_with_the_node_and_told_once_in_a_session() -> None:
    bench = RegionBench()
    said: dict[str, Any] = {"capabilities": STRICT, "tenant": "acme", **ONE}
    bench.a_node(**said)
    node = bench.state.nodes[bench.state.node_names["n1"]]
    assert (node.capabilities, node.tenant, node.shares_user) == (STRICT, "acme", False)
    again = c.RegisterNode("n1", "general", "a", node.capacity, (), node.ports, **said)
    before = len(bench.log)
    assert bench.refuse("agent/n1", again).code is Code.ALREADY
    assert len(bench.log) == before


@pytest.mark.parametrize(
    ("said", "apart", "private"),
    [
        ({}, ConditionReason.USER_SHARED, ConditionReason.TOKEN_READABLE),
        ({"shares_user": True}, ConditionReason.USER_SHARED, ConditionReason.TOKEN_READABLE),
        ({"shares_user": True, "tenant": "acme"}, ConditionReason.AS_DESIRED, ConditionReason.TOKEN_READABLE),
        (ONE, ConditionReason.AS_DESIRED, ConditionReason.TOKEN_READABLE),
        ({"capabilities": (Capability.USERS,), **ONE}, ConditionReason.AS_DESIRED, ConditionReason.AS_DESIRED),
    ],
)
def test_a_shared_user_and_a_token_that_can_be_read_are_conditions_of_the_node(
    said: dict[str, Any], apart: ConditionReason, private: ConditionReason
) -> None:
    bench = RegionBench()
    node = bench.state.nodes[bench.a_node(**said)]
    found = {one.type: one for one in node_conditions(node, DEFAULTS)}
    assert (found["TenantsApart"].reason, found["TokenPrivate"].reason) == (apart, private)
    assert found["TenantsApart"].status is (
        ConditionStatus.TRUE if apart is ConditionReason.AS_DESIRED else ConditionStatus.FALSE
    )
    assert list(found) == sorted(found)


def test_an_assignment_of_strict_work_is_the_template_of_its_digest() -> None:
    assert template_digest(STRICT_WORK) != template_digest(a_template(cpu=100))
    assert an_assignment(template=STRICT_WORK).shares[0].template == template_digest(STRICT_WORK)


# At the limit


def test_binding_asks_once_whose_work_is_on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command binds a thousand slots, and ten thousand stand on a node: to look at these for each is a stall."""
    asked: list[int] = []

    def counted(state: Any, node: Any) -> tuple[str, ...]:
        asked.append(node.uid)
        return tenants_on(state, node)

    region = Tenants(**ONE)
    region.place(region.acme, 0, 1, 2, 3, bind=False)
    monkeypatch.setattr("holdfast.core.region.decide.reservations.tenants_on", counted)
    bound = region.bench.send(SCHEDULER, c.Bind(tuple((region.acme.workload, ordinal) for ordinal in range(4))))
    assert isinstance(bound, Committed), bound
    assert asked == [region.node]


def test_holds_of_a_node_are_judged_by_one_look_at_who_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node keeps a thousand holds beside ten thousand slots."""
    asked: list[int] = []

    def counted(state: Any, node: Any) -> str:
        asked.append(node.uid)
        return keeper_of(state, node)

    region = Tenants(**ONE)
    ends, need = region.bench.at + 60_000, a_template(cpu=100).need
    for _ in range(3):
        region.bench.accept(
            ROOT, c.Hold(ReservationPurpose.DATED, region.node, "quota/acme", ends, need, tenant="acme")
        )
    for module in ("reconcilers.region.repair_breaches", "region.queries.breaches"):
        monkeypatch.setattr(f"holdfast.core.{module}.keeper_of", counted)
    node = region.bench.state.nodes[region.node]
    useless_holds(region.bench.state, node, region.bench.at)
    assert asked == [region.node]


@pytest.mark.parametrize(("tenant", "kept"), [("acme", True), ("beta", False)])
def test_a_hold_on_a_node_of_one_tenant_is_kept_by_that_one_alone(tenant: str, kept: bool) -> None:
    region = Tenants()
    ends, need = region.bench.at + 60_000, a_template(cpu=100).need
    held = c.Hold(ReservationPurpose.DATED, region.node, f"quota/{tenant}", ends, need, tenant=tenant)
    region.bench.accept(ROOT, held)
    region.bench.place(region.acme, c.SlotPlacement(0, region.node))
    region.bench.a_node(shares_user=False)
    node = region.bench.state.nodes[region.node]
    assert (useless_holds(region.bench.state, node, region.bench.at) == []) is kept
