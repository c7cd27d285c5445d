"""Exclusive work at the limit: what admission takes comes in, is moved about, and leaves, in records that each fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.draft import ROW_BYTES, BatchDraft
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.values.limits import IDENTITIES_MAX, RIGHTS_MAX
from holdfast.core.model.values.ranges import count_numbers, expanded, first_of, split_ranges, with_numbers
from holdfast.core.platform import commands as c
from holdfast.core.platform.decide import region_retirement, workload_deletion
from holdfast.core.platform.definition import ASSIGNMENT, PLATFORM, RETIREMENT
from holdfast.core.platform.events import RegionRetired, RetirementContinued, RightsFreed
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.platform.region_health import RetirementReconciler
from tests.support.ledgers.platform import ACME, ROOT, PlatformBench, a_workload, a_world, an_exclusive, cpu

ALL = ((0, IDENTITIES_MAX),)
LARGEST: dict[str, Any] = {"replicas": IDENTITIES_MAX, "regions": ("eu",)}


def a_large_world(level: int = LEVEL) -> PlatformBench:
    """A world that is looked at as a whole when a test says so: a look at everything takes a while here."""
    bench = a_world(level)
    bench.checked = False
    tenant = bench.state.tenants["acme"]
    bench.put(replace(tenant, spec=replace(tenant.spec, pending_max=10 * IDENTITIES_MAX)))
    return bench


def settle(bench: PlatformBench, workload: int) -> None:
    """Do what the assignment controller wants, until it wants nothing."""
    while wanted := AssignmentReconciler().reconcile(bench.state, workload, bench.at).commands:
        for one in wanted:
            bench.accept(ASSIGNMENT, one.command)


def in_region(bench: PlatformBench, workload: int, region: str = "eu") -> Assignment:
    (found,) = [a for a in bench.assignments(workload) if a.region == region]
    return found


def give_back(bench: PlatformBench, workload: int, region: str = "eu") -> list[int]:
    """Give back what an ended assignment lists, part by part, then the rest; how much was left after each."""
    left = []
    while (
        count_numbers(held := with_numbers((a := in_region(bench, workload, region)).ordinals, a.returning))
        > RIGHTS_MAX
    ):
        assert bench.refuse(Code.IN_USE, f"region/{region}", c.RemoveAssignment(a.uid)).facts[
            "rights"
        ] == count_numbers(held)
        bench.accept(f"region/{region}", c.ReleaseRights(workload, first_of(held, RIGHTS_MAX), a.revision))
        left.append(count_numbers(held) - RIGHTS_MAX)
    bench.accept(f"region/{region}", c.RemoveAssignment(in_region(bench, workload, region).uid))
    return left


@pytest.mark.parametrize("level", [1, 2])
def test_the_largest_exclusive_workload_comes_and_leaves_in_records_that_each_fit(level: int) -> None:
    bench = a_large_world(level)
    db = bench.put(an_exclusive(**LARGEST))
    settle(bench, db)
    assert (in_region(bench, db).ordinals, bench.state.rights_of[db]) == (ALL, (("eu", ALL),))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    parts = give_back(bench, db)
    assert parts == list(range(IDENTITIES_MAX - RIGHTS_MAX, 0, -RIGHTS_MAX)), "what is left is on the assignment"
    assert (db in bench.state.workloads, len(bench.state.rights), len(bench.state.assignments)) == (False, 0, 0)
    bench.verify()


def test_a_part_is_given_back_by_any_list_of_an_ended_assignment() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(replicas=4))
    uid = bench.hold(db, "eu", 0, 1, 2, 3)
    seen = bench.state.assignments[uid].revision
    bench.refuse(Code.STALE, "region/eu", c.ReleaseRights(db, (0,), seen))
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    for ordinal in (2, 0):
        bench.accept("region/eu", c.ReleaseRights(db, (ordinal,), seen))
    assert bench.state.assignments[uid].ordinals == ((1, 2), (3, 4))


def test_rights_that_no_assignment_lists_are_asked_back_where_they_are_too_many_for_one_record() -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(**{**LARGEST, "regions": ("eu", "us")}))
    for number, part in enumerate(split_ranges(ALL, RIGHTS_MAX)):
        bench.accept(ASSIGNMENT, c.GrantRight(db, part, "eu" if number % 2 else "us"))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    for region in ("eu", "us"):
        asked = in_region(bench, db, region)
        assert (asked.stage, count_numbers(asked.returning), asked.ordinals) == (
            AssignmentStage.ENDED,
            IDENTITIES_MAX // 2,
            (),
        )
        give_back(bench, db, region)
    assert (len(bench.state.workloads), len(bench.state.rights)) == (0, 0)
    bench.verify()


def test_rights_that_are_asked_back_join_the_assignment_that_their_own_region_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload_deletion, "RIGHTS_MAX", 2)
    bench = a_world()
    db = bench.put(an_exclusive(replicas=9, regions=("eu", "us")))
    uid = bench.hold(db, "eu", 0)
    bench.accept(ASSIGNMENT, c.GrantRight(db, ((1, 4),), "us"))
    bench.accept(ASSIGNMENT, c.GrantRight(db, ((4, 6),), "eu"))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    assert sorted(one.region for one in bench.assignments(db)) == ["eu", "us"]
    eu, us = (in_region(bench, db, region) for region in ("eu", "us"))
    assert (eu.uid, us.stage) == (uid, AssignmentStage.ENDED)
    assert (expanded(with_numbers(eu.ordinals, eu.returning)), expanded(us.returning)) == ((0, 4, 5), (1, 2, 3))


def test_few_rights_that_no_assignment_lists_go_with_their_workload_at_once() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.accept(ASSIGNMENT, c.GrantRight(db, ((0, 3),), "eu"))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    assert (len(bench.state.workloads), len(bench.state.rights)) == (0, 0)


def test_the_largest_exclusive_workload_is_scaled_down_and_up_again() -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(**LARGEST))
    settle(bench, db)
    bench.put(an_exclusive(**{**LARGEST, "replicas": 2}))
    settle(bench, db)
    assert in_region(bench, db).returning == ((2, IDENTITIES_MAX),)
    while asked := in_region(bench, db).returning:
        part = first_of(asked, RIGHTS_MAX)
        bench.accept("region/eu", c.ReleaseRights(db, part, in_region(bench, db).revision))
    assert bench.state.rights_of[db] == (("eu", ((0, 2),)),)
    bench.put(an_exclusive(**LARGEST))
    settle(bench, db)
    assert in_region(bench, db).ordinals == ALL
    bench.verify()


def test_a_region_with_the_largest_exclusive_workload_is_retired_in_parts_and_the_tombstone_comes_first() -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(**{**LARGEST, "regions": ("eu", "us")}))
    settle(bench, db)
    web = bench.put(a_workload("web"))
    bench.assign(web, "eu", 1)
    bench.settle("eu", bench.offer("eu", cpu(10_000)), cpu(10_000))
    bench.retire("eu")
    status = bench.state.regions["eu"].status
    assert (status.health, status.log_id, "log-eu" in bench.state.tombstones) == (RegionHealth.RETIRED, "", True)
    bench.open_session("eu")
    bench.refuse(Code.TOMBSTONED, "region/eu", c.JoinRegion("eu", "log-eu"))
    left = [status.unreleased]
    assert bench.refuse(Code.IN_USE, ROOT, c.Delete("Region", "eu")).facts == {"unreleased": status.unreleased}
    while wanted := RetirementReconciler().reconcile(bench.state, "eu", bench.at).commands:
        bench.refuse(Code.IN_USE, "region/eu", c.JoinRegion("eu", "log-eu-2"))
        for one in wanted:
            bench.accept(RETIREMENT, one.command)
        left.append(bench.state.regions["eu"].status.unreleased)
    parts = [before - after for before, after in pairwise((IDENTITIES_MAX // 2, *left))]
    assert max(parts) <= RIGHTS_MAX + 1, "no record frees more, and the last of them goes with its assignment"
    assert left == sorted({*left}, reverse=True)
    assert left[-1] == 0
    assert [region for region, _ in bench.state.rights_of[db]] == ["us"]
    assert all(a.region == "us" for a in bench.state.assignments.values())
    assert not any(grant.region == "eu" for grant in bench.state.grants.values())
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu-2"))
    settle(bench, db)
    bench.verify()


def retired_in_parts(bench: PlatformBench) -> list[tuple[int, int]]:
    """Retire a region to its end; how many assignments and grants of it are left after each part."""
    bench.retire("eu")

    def left() -> tuple[int, int]:
        rows = bench.state.assignments.values(), bench.state.grants.values()
        assignments, grants = (sum(one.region == "eu" for one in table) for table in rows)
        return assignments, grants

    found = [left()]
    while wanted := RetirementReconciler().reconcile(bench.state, "eu", bench.at).commands:
        for one in wanted:
            bench.accept(RETIREMENT, one.command)
        found.append(left())
    assert bench.state.regions["eu"].status.unreleased == 0
    return found


def test_many_workloads_and_grants_of_a_retired_region_are_released_so_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(region_retirement, "OBJECTS_MAX", 2)
    bench = a_world()
    for name in ("a", "b", "c", "d", "e"):
        bench.assign(bench.put(a_workload(name)), "eu", 1)
    for tenant in ("acme", "beta"):
        bench.settle("eu", bench.offer("eu", cpu(1_000), f"quota/{tenant}"), cpu(1_000), f"quota/{tenant}")
    assert retired_in_parts(bench) == [(3, 2), (1, 2), (0, 1), (0, 0)]


def test_small_workloads_of_a_retired_region_are_released_together_until_a_record_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(region_retirement, "RIGHTS_MAX", 6)
    bench = a_world()
    for name in ("a", "b", "c"):
        bench.hold(bench.put(an_exclusive(name, replicas=2)), "eu", 0, 1)
    assert retired_in_parts(bench) == [(1, 0), (0, 0)]


def test_what_fits_one_record_is_retired_at_once() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    bench.retire("eu")
    assert (bench.state.regions["eu"].status.unreleased, len(bench.state.rights)) == (0, 0)
    bench.refuse(Code.ALREADY, RETIREMENT, c.ReleaseRetired("eu"))
    bench.refuse(Code.WRONG_PHASE, RETIREMENT, c.ReleaseRetired("us"))
    bench.refuse(Code.NOT_FOUND, RETIREMENT, c.ReleaseRetired("ap"))
    bench.refuse(Code.NO_RIGHT, ROOT, c.ReleaseRetired("eu"))


@pytest.mark.parametrize("level", [1, 2])
def test_rights_are_granted_all_or_none(level: int) -> None:
    bench = a_world(level)
    db = bench.put(an_exclusive(replicas=6))
    bench.accept(ASSIGNMENT, c.GrantRight(db, (1, (3, 5)), "eu"))
    assert bench.state.rights_of[db] == (("eu", ((1, 2), (3, 5))),)
    bench.refuse(Code.ALREADY, ASSIGNMENT, c.GrantRight(db, (3, 1), "eu"))
    bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, c.GrantRight(db, ((0, 2),), "us"))
    assert (db, 0) not in bench.state.rights
    bench.accept(ASSIGNMENT, c.GrantRight(db, ((0, 6),), "eu"))
    assert bench.state.rights_of[db] == (("eu", ((0, 6),)),)


@pytest.mark.parametrize(
    ("ordinals", "code"),
    [
        ((), Code.TOO_LARGE),
        (((0, RIGHTS_MAX + 1),), Code.TOO_LARGE),
        ((1, 1), Code.MALFORMED),
        ((1, (0, 3)), Code.MALFORMED),
        (((3, 3), 1), Code.MALFORMED),
        (((5, 2), 1), Code.MALFORMED),
        ((-1,), Code.MALFORMED),
        (((0, 10**12),), Code.MALFORMED),
    ],
)
def test_rights_are_named_once_each_and_not_too_many(ordinals: Any, code: Code) -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(**LARGEST))
    bench.refuse(code, ASSIGNMENT, c.GrantRight(db, ordinals, "eu"))


def test_the_end_of_a_lease_is_told_once_for_all_rights_of_a_region() -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(leased=True, **LARGEST))
    settle(bench, db)
    told = bench.state.leases[db]
    bench.later(bench.state.info.settings.right_lease // 2 + 1)
    (renewal,) = AssignmentReconciler().reconcile(bench.state, db, bench.at).commands
    draft = BatchDraft(PLATFORM, bench.state)
    draft.add(bench.envelope(ASSIGNMENT, renewal.command), bench.at)
    written = draft.state.changed_keys()
    assert {"assignments", "leases"} <= set(written)
    assert "rights" not in written
    assert draft.state.leases[db] > told


@pytest.mark.parametrize("level", [LEVEL - 1, LEVEL])
def test_what_a_range_stands_for_weighs_in_its_batch(level: int) -> None:
    """The record is small and its rows are not: a batch of a few such would hold the loop for long."""
    bench = a_large_world(level)
    db = bench.put(an_exclusive(**LARGEST))
    draft = BatchDraft(bench.book, bench.state)
    draft.add(bench.envelope(ASSIGNMENT, c.GrantRight(db, ((0, RIGHTS_MAX),), "eu")), bench.at)
    assert draft.size_bytes >= RIGHTS_MAX * ROW_BYTES


def test_neighbours_are_granted_to_one_region_and_the_lacking_are_levelled() -> None:
    bench = a_large_world()
    db = bench.put(an_exclusive(**{**LARGEST, "regions": ("eu", "us")}))
    settle(bench, db)
    assert [(count_numbers(runs), len(runs)) for _, runs in bench.state.rights_of[db]] == [(IDENTITIES_MAX // 2, 1)] * 2


@pytest.mark.parametrize("event", [RegionRetired("eu", "log-eu", "gone", 5), RetirementContinued("eu", 3)])
def test_each_part_of_a_retirement_wakes_who_does_the_next(event: Any) -> None:
    state, controller = a_world().state, RetirementReconciler()
    touched = [key for key in PLATFORM.keys[type(event)](event, 1) if key[0] in controller.watches]
    assert [name for key in touched for name in controller.wake(state, key)] == ["eu"]


def test_at_the_first_level_a_region_is_retired_whole_and_keeps_no_right() -> None:
    """Parts of a retirement are events of level 2: below it everything goes with the tombstone."""
    bench = a_large_world(1)
    db = bench.put(an_exclusive(replicas=RIGHTS_MAX + 2, regions=("eu", "us")))
    settle(bench, db)
    bench.retire("eu")
    assert bench.state.regions["eu"].status.unreleased == 0
    assert [region for region, _ in bench.state.rights_of[db]] == ["us"]
    assert not RetirementReconciler().reconcile(bench.state, "eu", bench.at).commands
    one = bench.put(an_exclusive("one", replicas=RIGHTS_MAX + 2, regions=("us",)))
    settle(bench, one)
    bench.retire("us")
    assert one not in bench.state.rights_of
    bench.verify()


def test_the_removal_of_a_workload_frees_each_right_once() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(replicas=4, regions=("eu",)))
    settle(bench, db)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.accept("region/eu", c.RemoveAssignment(in_region(bench, db).uid))
    raw, digest = bench.log[-1]
    records = PLATFORM.batches.read(raw, PLATFORM.batches.header(raw).previous, digest).records
    freed = [event.ordinals for record in records for event in record.events if isinstance(event, RightsFreed)]
    assert sum(map(count_numbers, freed)) == 4
