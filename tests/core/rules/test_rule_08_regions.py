"""RULES 8: three words for a region. Suspect, lost and retired are not degrees of one thing."""

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER, GRANT
from tests.support.ledgers.platform import (
    ACME,
    DIGEST,
    HOUR,
    ROOT,
    PlatformBench,
    a_region,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)


def with_holdings() -> tuple[PlatformBench, int]:
    """eu serves, holds an identity and a grant; a deleted workload waits for it."""
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    bench.settle("eu", bench.offer("eu", cpu(10_000)), cpu(10_000))
    old = bench.put(a_workload("old"))
    bench.assign(old, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "old"))
    return bench, db


def everything(bench: PlatformBench) -> tuple[int, ...]:
    state = bench.state
    return len(state.assignments), len(state.rights), len(state.grants), len(state.workloads)


def test_suspicion_stops_what_is_new_and_nothing_else() -> None:
    bench, db = with_holdings()
    before = everything(bench)
    bench.judge("eu", RegionHealth.SUSPECT)
    assert everything(bench) == before
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(bench.put(a_workload("new")), "eu", 1))
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, c.GrantRight(db, 1, "eu"))


def test_loss_lets_failover_begin_and_gives_nothing_back() -> None:
    bench, db = with_holdings()
    web = bench.put(a_workload("critical", budget="reserve"))
    standby = bench.assign(web, "us", 1, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    before = everything(bench)
    bench.lose("eu")
    bench.accept(FAILOVER, c.Activate(standby))
    assert everything(bench) == before
    bench.refuse(Code.RIGHT_HELD, FAILOVER, c.GrantRight(db, 0, "us"))
    bench.refuse(Code.OVER_QUOTA, GRANT, c.OfferGrant("quota/acme", "us", cpu(1), bench.at + HOUR))


def test_retirement_releases_grants_finalizers_identities_and_assignments_in_one_commit() -> None:
    bench, db = with_holdings()
    bench.lose("eu")
    batches = len(bench.log)
    bench.retire("eu")
    assert len(bench.log) == batches + 1
    assert everything(bench) == (0, 0, 0, 1)
    bench.hold(db, "us", 0)
    bench.offer("us", cpu(10_000))


def test_a_retired_region_that_speaks_again_is_tombstoned() -> None:
    bench, db = with_holdings()
    bench.retire("eu")
    for command in (
        c.AcknowledgeGrant("quota/acme", 1, cpu(10_000)),
        c.ReleaseRights(db, (0,), 0),
        c.Acknowledge("eu", "log-eu", 9, 0, DIGEST),
        c.JoinRegion("eu", "log-eu"),
    ):
        bench.refuse(Code.TOMBSTONED, "region/eu", command)


def test_a_tombstone_is_told_in_every_later_session() -> None:
    bench, _ = with_holdings()
    bench.retire("eu")
    bench.open_session("eu")
    refused = bench.refuse(Code.TOMBSTONED, "region/eu", c.JoinRegion("eu", "log-eu"))
    assert refused.facts["log_id"] == "log-eu"


def test_a_retired_region_rejoins_as_a_new_log_with_nothing() -> None:
    bench, _ = with_holdings()
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 9, 5, DIGEST))
    bench.retire("eu")
    bench.join("eu", "log-eu-2")
    status = bench.state.regions["eu"].status
    assert (status.health, status.log_id, status.position, status.cursor) == (RegionHealth.HEALTHY, "log-eu-2", 0, 0)
    assert status.tombstones == ("log-eu",)
    assert everything(bench) == (0, 0, 0, 1)
    assert bench.offer("eu", cpu(1_000)) == 1


def test_the_old_machines_cannot_speak_for_the_new_log() -> None:
    """They may still hold credentials and take the region's session; their log has been told to stop."""
    bench, _ = with_holdings()
    bench.retire("eu")
    bench.join("eu", "log-eu-2")
    bench.offer("eu", cpu(4_000))
    bench.open_session("eu")  # the old machines
    bench.refuse(Code.TOMBSTONED, "region/eu", c.JoinRegion("eu", "log-eu"))
    bench.refuse(Code.NO_SESSION, "region/eu", c.AcknowledgeGrant("quota/acme", 1, cpu(4_000)))
    bench.refuse(Code.TOMBSTONED, "region/eu", c.Acknowledge("eu", "log-eu", 99, 0, DIGEST))
    assert bench.grant("eu").acknowledged == 0


def test_a_tombstone_outlives_the_regions_object() -> None:
    bench = a_world()
    bench.retire("us2")
    bench.accept(ROOT, c.Delete("Region", "us2"))
    bench.put(a_region("us2", "US"))
    bench.open_session("us2")
    bench.refuse(Code.TOMBSTONED, "region/us2", c.JoinRegion("us2", "log-us2"))
    bench.accept("region/us2", c.JoinRegion("us2", "log-us2-b"))


def test_a_region_retired_twice_has_two_tombstones() -> None:
    bench = a_world()
    bench.retire("us2")
    bench.join("us2", "log-b")
    bench.retire("us2")
    bench.open_session("us2")
    for log_id in ("log-us2", "log-b"):
        bench.refuse(Code.TOMBSTONED, "region/us2", c.JoinRegion("us2", log_id))


@pytest.mark.parametrize("health", [RegionHealth.SUSPECT, RegionHealth.LOST])
def test_what_a_silent_region_says_of_its_own_log_counts_when_it_speaks(health: RegionHealth) -> None:
    bench, db = with_holdings()
    bench.judge("eu", RegionHealth.SUSPECT)
    if health is RegionHealth.LOST:
        bench.judge("eu", RegionHealth.LOST)
    bench.release(db, "eu", 0)
    bench.hold(db, "us", 0)


def test_a_region_without_a_session_says_nothing() -> None:
    bench, db = with_holdings()
    answer = bench.send("region/eu", c.ReleaseRights(db, (0,), 0), session=0, sequence=0)
    assert isinstance(answer, Refused)
    assert answer.code is Code.NO_SESSION
    bench.accept("region/eu", OpenSession())
    bench.refuse(Code.NO_SESSION, "region/eu", c.ReleaseRights(db, (0,), 0))  # in the session that has ended


def test_a_forgotten_region_is_told_to_stop_also_when_its_object_is_gone() -> None:
    bench = a_world()
    bench.retire("us2")
    bench.accept(ROOT, c.Delete("Region", "us2"))
    bench.open_session("us2")
    bench.refuse(Code.TOMBSTONED, "region/us2", c.JoinRegion("us2", "log-us2"))
    bench.refuse(Code.TOMBSTONED, "region/us2", c.Acknowledge("us2", "log-us2", 9, 0, DIGEST))
    bench.refuse(Code.NOT_FOUND, "region/us2", c.JoinRegion("us2", "log-new"))


def recreated_while_cut() -> tuple[PlatformBench, int, int]:
    """eu runs web and is cut off; meanwhile web is deleted and made again, and runs in us. The old uid, the new one."""
    bench = a_world()
    old = bench.put(a_workload())
    bench.assign(old, "eu", 3)
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.accept(ACME, c.DeleteWorkload("acme", "web", old))
    new = bench.put(a_workload())
    bench.assign(new, "us", 3)
    return bench, old, new


def test_delete_and_recreate_while_a_region_is_cut_off_gives_two_objects_of_one_name() -> None:
    bench, old, new = recreated_while_cut()
    assert old != new
    assert bench.workload("web").meta.uid == new
    assert [one.owner for one in bench.state.workloads[old].meta.finalizers] == ["region/eu"]
    assert bench.state.workloads[new].meta.finalizers == ()
    assert [(one.workload, one.region, one.stage) for one in bench.state.assignments.values()] == [
        (old, "eu", AssignmentStage.ENDED),
        (new, "us", AssignmentStage.ACTIVE),
    ]


def test_delete_and_recreate_while_a_region_is_cut_off_ends_the_old_one_when_the_region_is_back() -> None:
    bench, old, new = recreated_while_cut()
    bench.judge("eu", RegionHealth.HEALTHY)
    (ended,) = [one for one in bench.state.assignments.values() if one.workload == old]
    bench.accept("region/eu", c.RemoveAssignment(ended.uid))
    assert old not in bench.state.workloads
    assert bench.workload("web").meta.uid == new
    assert [one.workload for one in bench.state.assignments.values()] == [new]


def test_delete_and_recreate_while_a_region_is_cut_off_ends_the_old_one_when_the_region_is_forgotten() -> None:
    bench, old, new = recreated_while_cut()
    bench.judge("eu", RegionHealth.LOST)
    assert old in bench.state.workloads
    bench.retire("eu")
    assert old not in bench.state.workloads
    assert bench.workload("web").meta.uid == new
    assert [one.workload for one in bench.state.assignments.values()] == [new]


def test_a_region_that_is_forgotten_completes_the_deletions_that_wait_for_it() -> None:
    bench = a_world()
    here, both = bench.put(a_workload("here")), bench.put(an_exclusive("both", replicas=2))
    bench.assign(here, "eu", 1)
    bench.hold(both, "eu", 0)
    bench.hold(both, "us", 1)
    for name in ("here", "both"):
        bench.accept(ACME, c.DeleteWorkload("acme", name))
    bench.lose("eu")
    batches = len(bench.log)
    bench.retire("eu")
    assert len(bench.log) == batches + 1
    assert here not in bench.state.workloads
    assert [one.owner for one in bench.state.workloads[both].meta.finalizers] == ["region/us"]
    assert [(held.ordinal, held.region) for held in bench.state.rights.values()] == [(1, "us")]
    (left,) = bench.state.assignments.values()
    bench.accept("region/us", c.RemoveAssignment(left.uid))
    assert (len(bench.state.workloads), len(bench.state.rights)) == (0, 0)
