"""What an emergency quota paid for ends with it, and asks the quota anew. Other charges outlive their grant."""

from __future__ import annotations

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.reconcilers.region.expiry import EmergencyQuotaReconciler
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.region import commands as c
from tests.support.ledgers.assignment_world import DIGESTS, UID, AssignmentWorld, opened, stopped, withdrawn
from tests.support.ledgers.region import SCHEDULER

EMERGENCY, QUOTA = "emergency/7", "quota/acme"
GRANTS, REPLICAS = EmergencyQuotaReconciler(), ReplicaReconciler()
ONE = Resources(100, 100)


def paid(count: int = 3, minutes: int = 1, version: int = 2) -> AssignmentWorld:
    """Replicas that serve: the quota pays for one of them, an emergency for the others, until its end."""
    found = AssignmentWorld()
    end = found.bench.at + minutes * 60_000
    found.bench.a_grant(QUOTA, version=version, target=ONE)
    found.bench.a_grant(EMERGENCY, target=Resources(1_000, 1_000), ends=end)
    found.ask({"one": count}, accounts=(QUOTA, EMERGENCY))
    found.settle(REPLICAS)
    found.work()
    assert [slot.account for slot in found.slots()] == [QUOTA, *(EMERGENCY for _ in range(count - 1))]
    return found


def test_before_its_end_nothing_is_stopped_and_then_it_is_looked_at_again() -> None:
    web = paid()
    assert web.look(GRANTS) == ReconcileResult((), web.bench.at + 60_000)


def test_at_its_end_what_it_paid_for_is_stopped_and_the_rest_goes_on() -> None:
    web = paid()
    web.bench.at += 60_000
    assert web.look(GRANTS).requeue_at is None
    assert web.send(GRANTS) == [stopped(1, 2, cause="grant-ended")]
    assert web.look(GRANTS) == NO_CHANGES
    assert web.phases() == {0: "serving", 1: "terminating", 2: "terminating"}


def test_what_was_stopped_waits_again_and_is_not_paid_for_by_what_has_ended() -> None:
    web = paid()
    web.bench.at += 60_000
    web.send(GRANTS)
    web.work([1, 2], to=Phase.PENDING)
    assert web.settle(REPLICAS) == [opened(1, 2)]
    assert [slot.account for slot in web.slots()] == [QUOTA, "", ""]
    assert not web.step(1)


def test_what_waits_with_its_charge_gives_that_back_and_waits_on() -> None:
    web = paid()
    web.bench.accept("controller/repair", stopped(2, cause="not-allowed"))
    web.move(2, Phase.RELEASED, "stopped")
    assert (web.slot(2).phase, web.slot(2).account) == (Phase.PENDING, EMERGENCY)
    assert web.look(REPLICAS) == ReconcileResult((), web.bench.at + 60_000)
    web.bench.at += 60_000
    assert web.settle(REPLICAS) == [withdrawn(2), opened(2)]
    assert (web.slot(2).phase, web.slot(2).account) == (Phase.PENDING, "")


def test_what_a_quota_pays_for_outlives_its_grant() -> None:
    web = AssignmentWorld()
    web.bench.a_grant(QUOTA, version=2, ends=web.bench.at + 60_000)
    web.ask({"one": 2})
    web.settle(REPLICAS)
    web.work()
    web.bench.at += 120_000
    assert (web.look(GRANTS), web.look(REPLICAS)) == (NO_CHANGES, NO_CHANGES)


def test_an_emergency_that_is_called_back_early_ends_then() -> None:
    web = paid(minutes=600)
    web.bench.a_grant(EMERGENCY, version=2, target=Resources(), ends=web.bench.at + 1_000)
    assert web.look(GRANTS) == ReconcileResult((), web.bench.at + 1_000)
    web.bench.at += 1_000
    assert web.send(GRANTS) == [stopped(1, 2, cause="grant-ended")]


def test_an_emergency_that_is_prolonged_goes_on() -> None:
    web = paid()
    web.bench.a_grant(EMERGENCY, version=2, target=Resources(1_000, 1_000), ends=web.bench.at + 120_000)
    web.bench.at += 60_000
    assert web.look(GRANTS) == ReconcileResult((), web.bench.at + 60_000)


def test_a_grant_that_changes_wakes_whoever_it_may_have_paid_for() -> None:
    web = paid()
    assert [*keys_to_wake(GRANTS, web.state, [("grant", EMERGENCY)])] == [UID]
    assert [*GRANTS.wake(web.state, ("grant", QUOTA))] == []


def test_room_that_an_emergency_holds_is_given_back_at_its_end() -> None:
    web = paid()
    end = web.bench.at + 3_600_000
    place = c.Hold(
        ReservationPurpose.PLACEHOLDER, web.nodes[0], EMERGENCY, end, assignment=UID, template=DIGESTS["one"]
    )
    assert web.assignment.stage is AssignmentStage.ACTIVE
    uid = web.bench.accept(SCHEDULER, place).revision
    look = RepairReconciler().reconcile(web.state, web.nodes[0], web.bench.at)
    assert look == ReconcileResult((), web.bench.at + 60_000)
    web.bench.at += 60_000
    look = RepairReconciler().reconcile(web.state, web.nodes[0], web.bench.at)
    assert [wanted.command for wanted in look.commands] == [c.DropHold(uid)]
    web.bench.accept("controller/repair", c.DropHold(uid))


def test_of_two_emergencies_the_first_that_ends_is_looked_at_first() -> None:
    """By whoever stops what it paid for, whoever withdraws what waits with its charge, and whoever gives room back."""
    web = AssignmentWorld()
    now, other = web.bench.at, "emergency/8"
    web.bench.a_grant(QUOTA, version=2, target=ONE)
    web.bench.a_grant(EMERGENCY, target=Resources(200, 200), ends=now + 90_000)
    web.bench.a_grant(other, target=Resources(200, 200), ends=now + 60_000)
    web.ask({"one": 3}, accounts=(QUOTA, EMERGENCY, other))
    web.settle(REPLICAS)
    web.work()
    web.ask({"one": 4}, accounts=(QUOTA, EMERGENCY, other))
    web.settle(REPLICAS)
    web.work()
    assert [slot.account for slot in web.slots()] == [QUOTA, EMERGENCY, EMERGENCY, other]
    assert web.look(GRANTS) == ReconcileResult((), now + 60_000)
    web.bench.accept("controller/repair", stopped(2, 3, cause="not-allowed"))
    for ordinal in (2, 3):
        web.move(ordinal, Phase.RELEASED, "stopped")
    assert web.look(REPLICAS) == ReconcileResult((), now + 60_000)


def test_of_room_held_by_two_emergencies_the_first_that_ends_is_looked_at_first() -> None:
    web = AssignmentWorld()
    now = web.bench.at
    web.ask({"one": 2}, accounts=(EMERGENCY, "emergency/8"))
    for account, ends in ((EMERGENCY, now + 90_000), ("emergency/8", now + 60_000)):
        web.bench.a_grant(account, target=Resources(1_000, 1_000), ends=ends)
        hold = c.Hold(
            ReservationPurpose.PLACEHOLDER, web.nodes[0], account, ends, assignment=UID, template=DIGESTS["one"]
        )
        web.bench.accept(SCHEDULER, hold)
    assert RepairReconciler().reconcile(web.state, web.nodes[0], now) == ReconcileResult((), now + 60_000)
