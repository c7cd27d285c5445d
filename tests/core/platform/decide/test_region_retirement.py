"""RetireRegion: everything a region held is released in one commit."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, HeldRight
from holdfast.core.model.values.limits import REASON_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.decide import region_retirement
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.platform.limits import OBJECTS_MAX
from holdfast.core.platform.state.tables import PlatformState
from tests.support.ledgers.platform import (
    ACME,
    ROOT,
    PlatformBench,
    a_quota,
    a_tenant,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)
from tests.support.ledgers.region import an_assignment
from tests.support.step_counter import StepCounter


def test_what_the_region_held_is_free_and_what_others_hold_is_untouched() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(budget="reserve"))
    bench.hold(db, "eu", 0)
    bench.hold(db, "us", 1)
    bench.accept(ASSIGNMENT, c.GrantRight(db, 2, "eu"))
    bench.assign(db, "eu", 1, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    for region in ("eu", "us"):
        bench.offer(region, cpu(2_000))
        bench.offer(region, cpu(1_000), "recovery/reserve")
    bench.retire("eu")
    assert bench.state.regions["eu"].status.health is RegionHealth.RETIRED
    assert [a.region for a in bench.assignments(db)] == ["us"]
    assert [(held.ordinal, held.region) for held in bench.state.rights.values()] == [(1, "us")]
    assert [grant.region for grant in bench.state.grants.values()] == ["us", "us"]
    assert bench.charged() == cpu(2_000)


def test_its_identities_can_be_given_to_another_region_at_once() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    bench.retire("eu")
    bench.hold(db, "us", 0)


def deleted_in(bench: PlatformBench, name: str, *regions: str) -> int:
    workload = bench.put(a_workload(name))
    for region in regions:
        bench.assign(workload, region, 1)
    bench.accept(ACME, c.DeleteWorkload("acme", name))
    return workload


def test_deletions_that_waited_for_it_alone_are_complete() -> None:
    bench = a_world()
    alone = deleted_in(bench, "alone", "eu")
    both = deleted_in(bench, "both", "eu", "us")
    bench.retire("eu")
    assert alone not in bench.state.workloads
    assert [f.owner for f in bench.state.workloads[both].meta.finalizers] == ["region/us"]
    for assignment in bench.assignments(both):
        bench.accept("region/us", c.RemoveAssignment(assignment.uid))
    assert (len(bench.state.workloads), len(bench.state.templates)) == (0, 0)


def test_identities_of_a_workload_that_goes_with_the_region_are_released_once() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0, 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.retire("eu")
    assert (len(bench.state.rights), len(bench.state.workloads)) == (0, 0)


def test_a_quota_that_was_overdrawn_by_the_region_is_whole_again() -> None:
    bench = a_world()
    bench.offer("eu", cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    assert len(bench.state.breaches) == 1
    bench.retire("eu")
    assert len(bench.state.breaches) == 0


def test_a_disruption_budget_that_was_overdrawn_by_the_region_is_whole_again() -> None:
    bench = a_world()
    web = bench.put(a_workload(disruption_max=3))
    bench.assign(web, "eu", 3, disruption=2)
    bench.assign(web, "us", 3, disruption=1)
    bench.put(a_workload(disruption_max=1))
    bench.retire("eu")
    assert len(bench.state.breaches) == 0


def test_a_region_without_anything_is_retired_as_well() -> None:
    bench = a_world()
    bench.retire("us2")
    assert bench.state.tombstones["log-us2"] == "us2"


def test_a_region_with_many_exclusive_workloads_is_retired_for_the_longest_reason() -> None:
    bench = a_world()
    bench.checked = False
    bench.put(a_tenant("acme", "normal", most=OBJECTS_MAX, submits_per_minute=100_000))
    for number in range(OBJECTS_MAX):
        bench.hold(bench.put(an_exclusive(f"db{number}", replicas=1)), "eu", 0)
    bench.accept(ROOT, c.RetireRegion("eu", "\u6f22" * REASON_MAX))
    assert bench.state.rights.is_empty()
    bench.verify()


def test_a_part_is_found_in_no_more_steps_where_a_region_and_others_have_very_much() -> None:
    steps = {}
    for count in (2_000, 10_000):
        state = PlatformState()
        for number in range(1, count + 1):
            one = an_assignment(uid=number, workload=number, region=("eu", "us")[number % 2])
            state.assignments.put(number, one)
            state.rights.put((number, 0), HeldRight(number, 0, one.region, number))
        state.info = replace(state.info, level=LEVEL)
        state.rebuild()
        with StepCounter() as counted:
            part = region_retirement._next_part(state, "eu")
        assert part.workloads == [*range(2, 1_001, 2)], "the oldest first"
        assert (part.rows, part.left) == (1_000, count - 1_000)
        steps[count] = counted.calls
    assert steps[10_000] < 1.5 * steps[2_000]
