"""What on the platform waits to be ended or put right: whose turn it is, and what to do next."""

from __future__ import annotations

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.breaches import Repair
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.platform.queries.repairs import ON_ITS_WAY_MS, repairs
from tests.support.ledgers.platform import ACME, ROOT, PlatformBench, a_quota, a_workload, a_world, an_exclusive, cpu

ATTEST = "once they do not run there any more: `holdfast region attest eu"
FORGET = "once nothing can run there any more: `holdfast region forget eu --destroyed --reason TEXT`"


def found(bench: PlatformBench, what: str) -> list[Repair]:
    return [one for one in repairs(bench.state, bench.at) if one.what == what]


def deleting() -> PlatformBench:
    bench = a_world()
    bench.assign(bench.put(a_workload()), "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    return bench


def test_where_nothing_waits_nothing_is_listed() -> None:
    bench = a_world()
    bench.assign(bench.put(a_workload()), "eu", 1)
    bench.settle("eu", bench.offer("eu", cpu(100)), cpu(100))
    assert repairs(bench.state, bench.at) == []


# Deletions


def test_a_deletion_waits_for_each_region_that_has_not_released_it() -> None:
    bench = deleting()
    (one,) = found(bench, "deletion")
    assert one == Repair(
        what="deletion",
        key="workload/acme/web",
        owner="region/eu",
        since=bench.at,
        deadline=bench.at + bench.state.info.settings.finalizer_deadline,
        waits_for="region eu to end and release its replicas",
        todo="`holdfast get replicas --region eu --tenant acme`",
        tenant="acme",
    )
    bench.later(bench.state.info.settings.finalizer_deadline)
    assert found(bench, "deletion")[0].overdue


def test_a_deletion_that_waits_for_a_lost_region_goes_on_without_it_by_itself() -> None:
    bench = deleting()
    bench.lose("eu")
    (one,) = found(bench, "deletion")
    assert (one.owner, one.todo) == ("controller/repair", "nothing: it continues without region eu after its deadline")


def test_a_deletion_of_identities_that_waits_for_a_lost_region_says_how_it_is_forgotten() -> None:
    bench = a_world()
    bench.hold(bench.put(an_exclusive(replicas=1)), "eu", 0)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.judge("eu", RegionHealth.SUSPECT)
    assert found(bench, "deletion")[0].waits_for == "region eu, which is suspect, to end and release its replicas"
    bench.judge("eu", RegionHealth.LOST)
    (one,) = found(bench, "deletion")
    assert (one.waits_for, one.todo) == ("region eu, which is lost, to end and release its replicas", FORGET)
    bench.retire("eu")
    assert repairs(bench.state, bench.at) == []


def test_the_assignments_and_rights_of_what_is_being_deleted_are_told_once() -> None:
    bench = a_world()
    bench.hold(bench.put(an_exclusive()), "eu", 0)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.lose("eu")
    assert [one.what for one in repairs(bench.state, bench.at)] == ["deletion"]


# Promises


def test_a_broken_promise_has_its_owner_and_its_deadline() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(8_000)), cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    (one,) = found(bench, "breach")
    assert (one.key, one.owner, one.tenant) == ("platform.escrow/quota/acme/cpu", "controller/grant", "acme")
    assert one.deadline == bench.at + bench.state.info.settings.breach_deadline


def test_a_breach_of_a_workload_is_told_by_its_name() -> None:
    bench = a_world()
    bench.assign(bench.put(a_workload()), "eu", 1, disruption=1)
    bench.put(a_workload(disruption_max=0))
    (one,) = found(bench, "breach")
    assert (one.key, one.tenant) == ("platform.disruption/workload/acme/web", "acme")


# Assignments


def test_an_ended_assignment_waits_for_its_region() -> None:
    bench = a_world()
    ended = bench.assign(bench.put(a_workload()), "eu", 1)
    bench.accept(ASSIGNMENT, c.EndAssignment(ended))
    (one,) = found(bench, "assignment")
    assert (one.key, one.owner, one.since) == ("assignment/acme/web/eu/serving", "region/eu", 0)
    bench.accept("region/eu", c.RemoveAssignment(ended))
    assert repairs(bench.state, bench.at) == []


# Rights


def test_rights_that_are_to_be_given_back_wait_for_their_region() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(replicas=6))
    bench.hold(db, "eu", *range(6))
    bench.assign(db, "eu", ordinals=(0,))
    (one,) = found(bench, "right")
    assert (one.key, one.owner) == ("workload/acme/db/1,2,3,4 and 1 more", "region/eu")
    assert one.waits_for == "region eu to end them and give the rights back"


def test_rights_of_a_lost_region_need_a_persons_word() -> None:
    bench = a_world()
    bench.hold(bench.put(an_exclusive()), "eu", 0, 1)
    assert found(bench, "right") == []
    bench.lose("eu")
    (one,) = found(bench, "right")
    assert (one.key, one.since, one.deadline) == ("workload/acme/db/0,1", bench.at, 0)
    assert one.todo == f"{ATTEST} acme/db 0 1 --stopped --reason TEXT`"
    for ordinal in (0, 1):
        bench.accept(ROOT, c.AttestRight(bench.workload("db").meta.uid, ordinal, "eu", "no power"))
    assert found(bench, "right") == []


def test_leased_rights_of_a_lost_region_move_by_themselves_at_a_time() -> None:
    bench = a_world()
    bench.hold(bench.put(an_exclusive(leased=True)), "eu", 0)
    bench.lose("eu")
    (one,) = found(bench, "right")
    assert one.waits_for == "the leases of region eu to run out"
    assert one.deadline > bench.at
    bench.at = one.deadline
    assert found(bench, "right")[0].overdue
    bench.accept("controller/failover", c.GrantRight(bench.workload("db").meta.uid, 0, "us"))
    assert found(bench, "right") == []


def test_leased_rights_of_work_that_recovers_wait_for_failover() -> None:
    bench = a_world()
    bench.hold(bench.put(an_exclusive(leased=True, budget="reserve")), "eu", 0)
    bench.lose("eu")
    (one,) = found(bench, "right")
    assert one.waits_for == "failover, once the leases of region eu have run out"
    assert one.todo == f"{ATTEST} acme/db 0 --stopped --reason TEXT`"


# Grants


def offered(bench: PlatformBench, region: str, account: str = "quota/acme", **fields: int) -> int:
    """An offer as the grant controller makes it: for as long as a grant lasts."""
    fields.setdefault("ends", bench.at + bench.state.info.settings.grant_life)
    return bench.offer(region, cpu(100), account, **fields)


def test_an_offer_is_listed_once_it_was_on_its_way_for_too_long() -> None:
    bench = a_world()
    first = bench.at
    version = offered(bench, "eu")
    assert repairs(bench.state, first + ON_ITS_WAY_MS - 1) == []
    bench.at += ON_ITS_WAY_MS
    (one,) = found(bench, "grant")
    assert (one.key, one.tenant, one.waits_for) == ("grant/eu/quota/acme", "acme", "region eu to log version 1")
    assert one.since == first
    bench.settle("eu", version, cpu(100))
    assert repairs(bench.state, bench.at) == []
    offered(bench, "eu", "recovery/reserve")
    bench.at += ON_ITS_WAY_MS
    assert found(bench, "grant")[0].tenant == ""


def test_an_offer_to_a_region_that_is_not_well_is_listed_at_once() -> None:
    bench = a_world()
    offered(bench, "eu")
    bench.judge("eu", RegionHealth.SUSPECT)
    (one,) = found(bench, "grant")
    assert (one.since, one.waits_for) == (bench.at, "region eu, which is suspect, to log version 1")


def test_an_offer_that_ends_with_its_emergency_is_no_older_than_that() -> None:
    bench = a_world()
    uid = bench.emergency(100, life=120_000)
    offered(bench, "eu", f"emergency/{uid}", ends=bench.at + 120_000)
    assert repairs(bench.state, bench.at + ON_ITS_WAY_MS - 1) == []
    assert [one.what for one in repairs(bench.state, bench.at + ON_ITS_WAY_MS)] == ["grant"]


# Order


def test_what_is_overdue_comes_first_then_what_waits_longest() -> None:
    bench = deleting()
    bench.later(1)
    offered(bench, "us")
    bench.put(a_quota("acme", cpu(50)))
    bench.assign(bench.put(a_workload("mail")), "us", 1)
    bench.later(1)
    bench.accept(ACME, c.DeleteWorkload("acme", "mail"))
    assert [one.what for one in repairs(bench.state, bench.at)] == ["deletion", "breach", "deletion"]
    bench.accept(ROOT, c.DeclareLost("us", "a fire"))
    bench.at = next(one for one in repairs(bench.state, bench.at) if one.what == "breach").deadline
    assert [one.overdue for one in repairs(bench.state, bench.at)] == [True, True, False, False]
