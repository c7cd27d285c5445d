"""Exclusive work: identities are granted, listed, moved by evidence, and kept by leases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Placement
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import TemplateCounts, WorkloadReport
from holdfast.core.model.values.ranges import expanded
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.platform.assignment_identities import RegionIdentities, _take_back
from tests.support.ledgers.platform import DIGEST, ROOT, PlatformBench, a_world, an_exclusive

SUSPECT, HEALTHY = RegionHealth.SUSPECT, RegionHealth.HEALTHY
ANYWHERE, EU_ONLY, US_ONLY = Placement(), Placement(regions=("eu",)), Placement(regions=("us",))


class Story:
    """An exclusive workload, with the controller beside it."""

    def __init__(self, bench: PlatformBench | None = None, *, placement: Placement = ANYWHERE, **fields: Any) -> None:
        self.bench = bench or a_world()
        self.uid = self.bench.put(an_exclusive(placement=placement, **fields))
        self.position = 0

    def look(self) -> ReconcileResult:
        return AssignmentReconciler().reconcile(self.bench.state, self.uid, self.bench.at)

    def asked(self) -> list[Any]:
        return [wanted.command for wanted in self.look().commands]

    def send(self) -> Story:
        """What is asked for in one look."""
        for command in self.asked():
            self.bench.accept(ASSIGNMENT, command)
        return self

    def run(self) -> Story:
        for _ in range(8):
            if not self.asked():
                return self
            self.send()
        raise AssertionError("it never rests")

    def change(self, **fields: Any) -> Story:
        workload = self.bench.state.workloads[self.uid]
        self.bench.put(replace(workload, spec=replace(workload.spec, **fields)))
        return self

    def in_region(self, region: str) -> Assignment:
        return next(a for a in self.bench.assignments(self.uid) if a.region == region)

    def listed(self) -> dict[str, tuple[int, ...]]:
        return {
            a.region: expanded(a.ordinals)
            for a in self.bench.assignments(self.uid)
            if a.stage is AssignmentStage.ACTIVE
        }

    def returning(self) -> dict[str, tuple[int, ...]]:
        return {a.region: expanded(a.returning) for a in self.bench.assignments(self.uid) if a.returning}

    def holders(self) -> dict[int, str]:
        held = self.bench.state.rights_of.get(self.uid) or ()
        return dict(sorted((ordinal, region) for region, ordinals in held for ordinal in expanded(ordinals)))

    def releases(self, region: str) -> Story:
        """The region gives back what it was asked for."""
        asked = self.in_region(region)
        self.bench.accept(f"region/{region}", c.ReleaseRights(self.uid, asked.returning, asked.revision))
        return self

    def says(self, region: str, ready: int) -> Story:
        self.position += 1
        counts = (TemplateCounts("any", ready, ready, ready),) if ready else ()
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (WorkloadReport(self.uid, 1, counts),)))
        return self

    def is_heard(self, region: str) -> Story:
        self.position += 1
        self.bench.later(1)
        cursor = pack_revision(self.bench.state.info.seq, INDEX_MAX)
        command = c.Acknowledge(region, f"log-{region}", pack_revision(self.position, 0), cursor, DIGEST)
        self.bench.accept(f"region/{region}", command)
        return self


# Granting and listing


def test_identities_are_granted_first_and_listed_by_the_next_look() -> None:
    story = Story(replicas=3)
    assert {type(command) for command in story.asked()} == {c.GrantRight}
    assert sorted(command.ordinals for command in story.asked()) == [((0, 1),), ((1, 2),), ((2, 3),)]
    story.send()
    assert {type(command) for command in story.asked()} == {c.Assign}
    story.send()
    assert sorted(len(ordinals) for ordinals in story.listed().values()) == [1, 1, 1]
    assert story.look() == NO_CHANGES


def test_an_identity_stays_where_its_right_is() -> None:
    bench = a_world()
    story = Story(bench, replicas=2)
    bench.accept(ASSIGNMENT, c.GrantRight(story.uid, 0, "us2"))
    story.run()
    assert story.holders()[0] == "us2"
    assert sorted(story.listed().values()) == [(0,), (1,)]


def test_a_region_that_is_granted_one_more_is_not_assigned_before_it_holds_it() -> None:
    story = Story(replicas=1, placement=EU_ONLY).run().change(replicas=2)
    assert story.asked() == [c.GrantRight(story.uid, ((1, 2),), "eu")]
    assert story.run().listed() == {"eu": (0, 1)}
    assert story.returning() == {}


def test_scaling_down_asks_for_the_last_ones_back_and_scaling_up_waits_for_them() -> None:
    story = Story(replicas=3, placement=EU_ONLY).run().change(replicas=1).run()
    assert (story.listed(), story.returning()) == ({"eu": (0,)}, {"eu": (1, 2)})
    assert story.releases("eu").run().holders() == {0: "eu"}
    assert story.change(replicas=2).run().listed() == {"eu": (0, 1)}


def test_what_was_asked_back_and_is_wanted_after_all_is_listed_again() -> None:
    story = Story(replicas=3, placement=EU_ONLY).run().change(replicas=1).run().change(replicas=3)
    assert story.run().listed() == {"eu": (0, 1, 2)}
    assert story.returning() == {}


def test_scaled_to_nothing_it_is_ended_once_everything_is_given_back() -> None:
    story = Story(replicas=2, placement=EU_ONLY).run().change(replicas=0).run()
    assert story.in_region("eu").stage is AssignmentStage.ACTIVE
    story.releases("eu").run()
    assert story.in_region("eu").stage is AssignmentStage.ENDED


def test_a_region_that_holds_a_right_it_was_never_told_of_is_asked_for_it() -> None:
    story = Story(replicas=1, placement=US_ONLY)
    story.run()
    story.bench.accept(ROOT, c.AttestRight(story.uid, 0, "us", "a test"))
    story.change(placement=ANYWHERE)
    story.bench.accept(ASSIGNMENT, c.GrantRight(story.uid, 0, "eu"))
    story.change(placement=US_ONLY).run()
    assert story.returning() == {"eu": (0,)}
    story.releases("eu").run()
    assert story.holders() == {0: "us"}
    assert story.in_region("eu").stage is AssignmentStage.ENDED


# Moving


def moving(**fields: Any) -> Story:
    """Three identities in eu, which from now on may be in us only."""
    return Story(replicas=3, placement=EU_ONLY, **fields).run().change(placement=US_ONLY).run()


def test_identities_move_one_at_a_time_by_the_release_of_their_region() -> None:
    story = moving()
    assert (story.listed(), story.returning()) == ({"eu": (0, 1)}, {"eu": (2,)})
    story.releases("eu").run()
    assert story.holders() == {0: "eu", 1: "eu", 2: "us"}
    assert (story.listed(), story.returning()) == ({"eu": (0,), "us": (2,)}, {"eu": (1,)})
    story.releases("eu").run().releases("eu").run()
    assert story.listed() == {"us": (0, 1, 2)}
    assert story.in_region("eu").stage is AssignmentStage.ENDED


def test_as_many_move_at_a_time_as_may_be_disrupted() -> None:
    assert moving(disruption_max=2).returning() == {"eu": (1, 2)}
    assert moving(disruption_max=0).returning() == {"eu": (2,)}


def test_the_next_one_moves_once_the_one_before_is_ready() -> None:
    story = Story(replicas=3, placement=EU_ONLY).run().says("eu", 3)
    story.change(placement=US_ONLY).run().releases("eu").says("eu", 2).run()
    assert (story.listed(), story.returning()) == ({"eu": (0, 1), "us": (2,)}, {})
    assert story.says("us", 1).run().returning() == {"eu": (1,)}


def test_past_the_deadline_all_are_asked_back_at_once() -> None:
    story = Story(replicas=3).run()
    placement = Placement(regions=("us",))
    story.change(placement=placement).run()
    story.bench.later(story.bench.state.info.settings.breach_deadline)
    story.run()
    assert story.listed().get("eu", ()) == story.listed().get("us2", ()) == ()


def test_a_region_that_has_none_gets_one_by_a_move() -> None:
    bench = a_world()
    story = Story(bench, replicas=4, placement=Placement(regions=("eu", "us")))
    for ordinal in range(4):
        bench.accept(ASSIGNMENT, c.GrantRight(story.uid, ordinal, "eu"))
    story.run()
    assert story.returning() == {"eu": (3,)}
    assert story.releases("eu").run().holders()[3] == "us"
    assert story.returning() == {}


@pytest.mark.parametrize(("most", "asked"), [(0, 1), (1, 1), (2, 2)])
def test_of_several_regions_that_have_too_many_as_few_are_asked_back_as_may_be_disrupted(most: int, asked: int) -> None:
    story = Story(replicas=6, placement=Placement(regions=("eu", "us")), disruption_max=most).run()
    assert {region: len(ordinals) for region, ordinals in story.listed().items()} == {"eu": 3, "us": 3}
    story.change(placement=ANYWHERE).run()
    assert sum(len(ordinals) for ordinals in story.returning().values()) == asked


def test_a_silent_region_is_not_asked_for_anything_back() -> None:
    story = Story(replicas=3, placement=EU_ONLY).run()
    story.bench.judge("eu", SUSPECT)
    story.change(placement=US_ONLY).run()
    assert story.returning() == {}


# Losing a region


def test_acknowledged_identities_wait_for_their_region() -> None:
    story = Story(replicas=2, placement=Placement(primary="eu")).run()
    story.bench.lose("eu")
    story.bench.later(10_000_000)
    assert story.look() == NO_CHANGES


def test_leased_identities_move_when_their_lease_has_lapsed_for_certain() -> None:
    story = Story(replicas=2, leased=True, placement=Placement(primary="eu")).run()
    story.bench.lose("eu")
    at = story.look().requeue_at
    assert story.asked() == []
    assert at is not None
    story.bench.later(at - story.bench.at - 1)
    assert story.asked() == []
    story.bench.later(1)
    assert {type(command) for command in story.asked()} == {c.GrantRight}
    assert story.run().listed() == {"eu": (), "us": (0, 1)}


def test_a_lost_region_that_was_never_told_of_its_identity_is_not_told_when_that_has_lapsed() -> None:
    story = Story(replicas=1, leased=True)
    story.bench.accept(ASSIGNMENT, c.GrantRight(story.uid, 0, "eu"))
    story.bench.lose("eu")
    story.bench.later(10_000_000)
    assert {type(command) for command in story.asked()} == {c.GrantRight}
    assert "eu" not in story.run().listed()
    assert story.holders()[0] != "eu"


def test_at_the_very_time_a_lease_is_renewed_and_not_looked_at_again() -> None:
    story = Story(replicas=1, leased=True, placement=EU_ONLY).run()
    at = story.look().requeue_at
    assert at is not None
    story.bench.later(at - story.bench.at)
    found = story.look()
    assert len(found.commands) == 1
    assert found.requeue_at is None


def test_when_the_lost_primary_is_back_its_identities_move_back_one_by_one() -> None:
    story = Story(replicas=2, leased=True, placement=Placement(primary="eu")).run()
    story.bench.lose("eu")
    story.bench.later(10_000_000)
    story.run().is_heard("eu").bench.judge("eu", HEALTHY)
    story.run()
    assert (story.listed()["us"], story.returning()) == ((0,), {"us": (1,)})
    story.releases("us").run().releases("us").run()
    assert story.listed()["eu"] == (0, 1)


def test_with_a_recovery_budget_failover_moves_them() -> None:
    story = Story(replicas=2, leased=True, placement=EU_ONLY, budget="reserve").run()
    story.bench.lose("eu")
    story.bench.later(10_000_000)
    assert story.asked() == []


def test_what_failover_runs_is_neither_granted_nor_listed_nor_asked_back() -> None:
    story = Story(replicas=2, leased=True, placement=Placement(primary="eu"), budget="reserve").run()
    story.bench.lose("eu")
    story.bench.later(10_000_000)
    story.bench.accept(FAILOVER, story.bench.assignment(story.uid, "us", purpose=AssignmentPurpose.RECOVERY))
    for ordinal in (0, 1):
        story.bench.accept(FAILOVER, c.GrantRight(story.uid, ordinal, "us"))
        story.run()
    running = story.bench.assignment(story.uid, "us", ordinals=(0, 1), purpose=AssignmentPurpose.RECOVERY)
    story.bench.accept(FAILOVER, running)
    assert story.look() == NO_CHANGES
    assert story.listed() == {"eu": (), "us": (0, 1)}
    assert story.in_region("us").purpose is AssignmentPurpose.RECOVERY


# Leases


def test_a_lease_is_renewed_when_half_of_it_is_over() -> None:
    story = Story(replicas=1, leased=True, placement=EU_ONLY).run()
    lease = story.bench.state.info.settings.right_lease
    assert story.look() == ReconcileResult((), story.bench.at + lease // 2)
    story.bench.later(lease // 2)
    assert story.run().in_region("eu").right_until == story.bench.at + lease
    assert story.look() == ReconcileResult((), story.bench.at + lease // 2)


def test_a_lease_is_not_renewed_while_its_region_is_not_heard() -> None:
    story = Story(replicas=1, leased=True, placement=EU_ONLY).run()
    story.bench.judge("eu", SUSPECT)
    story.bench.later(50_000)
    assert story.look() == NO_CHANGES


@pytest.mark.parametrize(
    ("target", "takes", "kept", "returning"),
    [
        (4, True, ((0, 2), (5, 7)), ((7, 9),)),  # of those it is to give back, as many as it lacks
        (2, True, ((0, 2),), ((5, 9),)),
        (9, True, ((0, 2), (5, 9)), ()),
        (4, False, ((0, 2),), ((5, 9),)),
    ],
)
def test_a_region_keeps_of_what_it_was_to_give_back_as_many_as_it_lacks(
    target: int, takes: bool, kept: Any, returning: Any
) -> None:
    held = {"eu": RegionIdentities(((0, 2),), ((5, 9),))}
    site: Any = SimpleNamespace(name="eu", place=SimpleNamespace(takes=takes))
    _take_back([site], held, {"eu": target})
    assert (held["eu"].kept, held["eu"].returning) == (kept, returning)
