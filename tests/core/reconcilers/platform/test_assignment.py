"""Workloads are split over regions, and stay so as the world changes: stories of the assignment controller."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Latency, Placement
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, Waiting, WorkloadReport
from holdfast.core.model.values.resources import ZERO as NO_ROOM
from holdfast.core.model.values.resources import Resources, times
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER, PLATFORM
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from tests.support.ledgers.platform import (
    ACME,
    DIGEST,
    ROOT,
    PlatformBench,
    a_region,
    a_template,
    a_workload,
    a_world,
    cpu,
)

SUSPECT, HEALTHY = RegionHealth.SUSPECT, RegionHealth.HEALTHY


class Story:
    """A workload called web in the regions eu, us and us2, with the controller beside it."""

    def __init__(self, bench: PlatformBench | None = None, **fields: Any) -> None:
        self.bench = bench or a_world()
        self.uid = self.bench.put(a_workload(**fields))
        self.position = 0

    # The controller

    def look(self) -> ReconcileResult:
        return AssignmentReconciler().reconcile(self.bench.state, self.uid, self.bench.at)

    def asked(self) -> list[Any]:
        return [wanted.command for wanted in self.look().commands]

    def run(self) -> Story:
        """Look and send until there is nothing to say."""
        for _ in range(8):
            commands = self.asked()
            if not commands:
                return self
            for command in commands:
                self.bench.accept(ASSIGNMENT, command)
        raise AssertionError("it never rests")

    def counts(self) -> dict[str, int]:
        return {a.region: sum(share.count for share in a.shares) for a in self.live()}

    def live(self) -> list[Assignment]:
        found = self.bench.assignments(self.uid)
        return [a for a in found if a.stage is AssignmentStage.ACTIVE and a.purpose is AssignmentPurpose.SERVING]

    def disruption(self) -> dict[str, int]:
        return {a.region: a.disruption for a in self.live()}

    def in_region(self, region: str) -> Assignment:
        return next(a for a in self.bench.assignments(self.uid) if a.region == region)

    # The world

    def change(self, **fields: Any) -> Story:
        workload = self.bench.state.workloads[self.uid]
        self.bench.put(replace(workload, spec=replace(workload.spec, **fields)))
        return self

    def says(self, region: str, ready: int, waiting: int = 0, template: str = "", code: str = "over-grant") -> Story:
        """The region reports so many ready, and so many that wait for quota."""
        digest = template or template_digest(self.bench.state.workloads[self.uid].spec.template)
        counts = (TemplateCounts(digest, ready, ready, ready),) if ready else ()
        reasons = (Waiting(code, waiting, self.bench.at),) if waiting else ()
        self.position += 1
        seen = WorkloadReport(self.uid, 1, counts, reasons)
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (seen,)))
        return self

    def all_ready(self) -> Story:
        for region, count in self.counts().items():
            self.says(region, count)
        return self

    def summarises(self, region: str, *nodes: Nodes) -> Story:
        self.position += 1
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (), RegionSummary(nodes)))
        return self

    def hears(self, region: str) -> Story:
        """The region has applied all of the platform's log."""
        self.position += 1
        cursor = pack_revision(self.bench.state.info.seq, INDEX_MAX)
        self.bench.later(1)
        command = c.Acknowledge(region, f"log-{region}", pack_revision(self.position, 0), cursor, DIGEST)
        self.bench.accept(f"region/{region}", command)
        return self

    def all_hear(self) -> Story:
        for region in self.counts():
            self.hears(region)
        return self

    def removes(self, region: str) -> Story:
        self.bench.accept(f"region/{region}", c.RemoveAssignment(self.in_region(region).uid))
        return self


def nodes(count: int, each: Resources, free: int) -> Nodes:
    """So many nodes, of which so many are empty and the others full."""
    largest_free = (each,) if free else (NO_ROOM,)
    return Nodes("small", (), (), (), (), count, times(each, count), times(each, free), (each,), largest_free)


# How it is split


def test_replicas_are_spread_evenly_because_of_the_workload() -> None:
    story = Story(replicas=6)
    revision = story.bench.state.workloads[story.uid].meta.revision
    assert {(wanted.cause, wanted.expect) for wanted in story.look().commands} == {(revision, revision)}
    assert story.run().counts() == {"eu": 2, "us": 2, "us2": 2}
    assert story.look() == NO_CHANGES


def test_weights_say_how_much_and_who_is_not_named_has_nothing() -> None:
    story = Story(replicas=9, placement=Placement(weights=(("eu", 2), ("us", 1))))
    assert story.run().counts() == {"eu": 6, "us": 3}


def test_it_goes_where_the_law_and_its_people_allow() -> None:
    assert Story(replicas=4, jurisdictions=("US",)).run().counts() == {"us": 2, "us2": 2}
    assert Story(replicas=4, regions=("eu",)).run().counts() == {"eu": 4}


def with_latencies() -> PlatformBench:
    bench = a_world()
    for name, law, london in (("eu", "EU", 10), ("us", "US", 90), ("us2", "US", 60)):
        bench.put(a_region(name, law, london=london))
    return bench


def test_a_region_over_the_limit_has_nothing() -> None:
    near = Placement(latency=(Latency("london", limit=80),))
    assert Story(with_latencies(), replicas=4, placement=near).run().counts() == {"eu": 2, "us2": 2}


def test_a_region_that_does_not_say_how_far_it_is_is_too_far() -> None:
    bench = with_latencies()
    bench.put(a_region("us2", "US"))
    near = Placement(latency=(Latency("london", limit=80),))
    assert Story(bench, replicas=4, placement=near).run().counts() == {"eu": 4}


def test_one_that_meets_the_target_gets_what_does_not_divide() -> None:
    for name in ("a", "b", "c", "d"):
        aimed = Placement(latency=(Latency("london", target=50),))
        story = Story(with_latencies(), name=name, replicas=4, placement=aimed)
        assert story.run().counts() == {"eu": 2, "us": 1, "us2": 1}


def test_a_region_that_has_not_joined_or_is_retired_has_nothing() -> None:
    bench = a_world()
    bench.put(a_region("ap"))
    bench.retire("us")
    assert Story(bench, replicas=4).run().counts() == {"eu": 2, "us2": 2}


def test_a_workload_that_is_being_deleted_and_one_that_is_gone_need_nothing() -> None:
    story = Story(replicas=3).run()
    story.bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert story.look() == NO_CHANGES
    assert AssignmentReconciler().reconcile(story.bench.state, 99, 0) == NO_CHANGES


# Scaling


def test_scaling_adds_and_takes_where_it_should() -> None:
    story = Story(replicas=3).run().all_ready()
    assert story.change(replicas=9).run().counts() == {"eu": 3, "us": 3, "us2": 3}
    assert story.all_ready().change(replicas=6).run().counts() == {"eu": 2, "us": 2, "us2": 2}


def test_scaling_down_needs_no_word_of_a_region() -> None:
    assert Story(replicas=9).run().change(replicas=3).run().counts() == {"eu": 1, "us": 1, "us2": 1}


def test_scaled_to_nothing_it_is_ended_and_comes_back_once_it_is_removed() -> None:
    story = Story(replicas=3, regions=("eu",)).run().change(replicas=0).run()
    assert story.in_region("eu").stage is AssignmentStage.ENDED
    story.change(replicas=2)
    assert story.asked() == []
    assert story.removes("eu").run().counts() == {"eu": 2}


def test_a_new_region_gets_its_share_as_its_replicas_get_ready() -> None:
    bench = a_world()
    bench.put(a_region("ap"))
    story = Story(bench, replicas=8).run().all_ready()
    assert "ap" not in story.counts()
    bench.join("ap")
    story.run()
    assert story.counts()["ap"] == 2
    assert sum(story.counts().values()) == 10
    assert story.says("ap", 1).run().counts()["ap"] == 2
    assert sum(story.counts().values()) == 9
    assert story.says("ap", 2).run().counts() == {"ap": 2, "eu": 2, "us": 2, "us2": 2}
    assert story.all_hear().look() == NO_CHANGES


# A generation and its template


def test_a_new_generation_is_told_to_every_region_even_if_its_counts_are_the_same() -> None:
    story = Story(replicas=3).run().change(template=a_template(command="v2")).run()
    digest = template_digest(a_template(command="v2"))
    assert {(a.generation, a.shares[0].template) for a in story.live()} == {(2, digest)}


def test_a_suspect_region_is_told_of_a_new_template_when_it_is_heard_again() -> None:
    story = Story(replicas=3).run()
    story.bench.judge("eu", SUSPECT)
    story.change(template=a_template(command="v2")).run()
    assert {a.region: a.generation for a in story.live()} == {"eu": 1, "us": 2, "us2": 2}
    story.bench.judge("eu", HEALTHY)
    assert {a.generation for a in story.run().live()} == {2}


def test_what_is_lowered_where_nothing_new_may_go_keeps_its_template() -> None:
    story = Story(replicas=6).run().all_ready()
    story.bench.judge("eu", SUSPECT)
    story.change(template=a_template(command="v2"), replicas=3).run()
    assert story.in_region("eu").shares[0].template == template_digest(a_template())
    assert story.counts() == {"eu": 1, "us": 1, "us2": 1}


def test_an_emergency_of_its_tenant_pays_from_when_it_is_opened() -> None:
    story = Story(replicas=3).run()
    uid = story.bench.emergency(1_000)
    assert {a.accounts for a in story.run().live()} == {("quota/acme", f"emergency/{uid}")}
    assert story.look() == NO_CHANGES


# Health


def test_a_suspect_region_keeps_what_it_has_and_gets_no_more() -> None:
    story = Story(replicas=3).run().all_ready()
    story.bench.judge("eu", SUSPECT)
    assert story.look() == NO_CHANGES
    assert story.change(replicas=9).run().counts() == {"eu": 1, "us": 4, "us2": 4}


def test_a_lost_region_is_replaced_at_once_and_goes_on_when_it_is_back() -> None:
    story = Story(replicas=6).run().all_ready()
    story.bench.lose("eu")
    assert story.run().counts() == {"eu": 2, "us": 3, "us2": 3}
    story.says("us", 3).says("us2", 3).run()
    assert story.counts() == {"eu": 2, "us": 3, "us2": 3}
    story.hears("eu").bench.judge("eu", HEALTHY)
    assert story.run().counts() == {"eu": 2, "us": 2, "us2": 2}


def test_what_nobody_wants_any_more_is_ended_in_a_lost_region_too() -> None:
    story = Story(replicas=3).run()
    story.bench.lose("eu")
    assert story.change(replicas=0).run().counts() == {}


def test_work_with_a_recovery_budget_keeps_its_share_in_a_lost_region() -> None:
    story = Story(replicas=6, budget="reserve").run().all_ready()
    story.bench.lose("eu")
    assert story.look() == NO_CHANGES


def test_what_failover_runs_is_neither_counted_nor_touched() -> None:
    story = Story(replicas=6, budget="reserve").run()
    story.bench.lose("eu")
    shares = story.in_region("eu").shares
    recovery = c.Assign(story.uid, "us", AssignmentPurpose.RECOVERY, AssignmentStage.ACTIVE, shares)
    story.bench.accept(FAILOVER, recovery)
    assert story.look() == NO_CHANGES
    story.hears("eu").bench.judge("eu", HEALTHY)
    assert story.look() == NO_CHANGES


def test_all_is_in_the_primary_while_it_is_well_or_silent() -> None:
    story = Story(replicas=4, placement=Placement(primary="us")).run()
    assert story.counts() == {"us": 4}
    story.bench.judge("us", SUSPECT)
    assert story.look() == NO_CHANGES


def test_when_the_primary_is_lost_another_stands_in_until_it_is_back() -> None:
    story = Story(replicas=4, placement=Placement(primary="us")).run().all_ready()
    story.bench.lose("us")
    assert story.run().counts() == {"eu": 4, "us": 4}
    story.says("eu", 4).hears("us").bench.judge("us", HEALTHY)
    assert story.run().counts() == {"us": 4}
    assert story.in_region("eu").stage is AssignmentStage.ENDED


def test_a_stand_in_is_kept_until_the_primary_is_ready() -> None:
    story = Story(replicas=4, placement=Placement(primary="us")).run().all_ready()
    story.bench.lose("us")
    story.run().says("eu", 4).hears("us").bench.judge("us", HEALTHY)
    story.says("us", 1)
    assert story.run().counts() == {"eu": 3, "us": 4}
    assert story.says("us", 4).run().counts() == {"us": 4}


# Room


def test_a_region_where_it_never_fits_is_avoided_while_there_is_another() -> None:
    story = Story(replicas=6)
    story.summarises("eu", nodes(10, cpu(400), 10))
    assert story.run().counts() == {"us": 3, "us2": 3}


def test_where_it_fits_nowhere_or_nobody_has_said_anything_it_is_spread_all_the_same() -> None:
    story = Story(replicas=6, regions=("eu", "us"))
    for region in ("eu", "us"):
        story.summarises(region, nodes(10, cpu(400), 10))
    assert story.run().counts() == {"eu": 3, "us": 3}
    other = Story(replicas=6)
    other.summarises("eu")
    assert other.run().counts() == {"eu": 2, "us": 2, "us2": 2}


def test_what_never_fits_and_was_bound_nowhere_is_moved_and_what_runs_stays() -> None:
    story = Story(replicas=6).run().all_ready().says("eu", 1)
    story.summarises("eu", nodes(10, cpu(400), 10))
    assert story.run().counts()["eu"] == 1
    assert sum(story.counts().values()) == 6


def test_where_every_region_has_room_for_all_nobody_looks_again() -> None:
    story = Story(replicas=3).run().all_ready()
    for region in ("eu", "us", "us2"):
        story.summarises(region, nodes(10, cpu(1_000), 9))
    assert story.change(replicas=9).run().counts() == {"eu": 3, "us": 3, "us2": 3}
    assert story.look() == ReconcileResult(())


def test_what_is_where_it_should_be_and_bound_is_not_looked_at_again_though_regions_are_full() -> None:
    story = Story(replicas=3).run().all_ready()
    for region in ("eu", "us", "us2"):
        story.summarises(region, nodes(10, cpu(1_000), 0))
    assert story.look() == NO_CHANGES


def test_where_it_fits_nowhere_none_is_avoided_when_there_are_to_be_fewer() -> None:
    story = Story(replicas=6, regions=("eu", "us")).run().says("us", 3)
    for region in ("eu", "us"):
        story.summarises(region, nodes(10, cpu(400), 10))
    assert story.change(replicas=3).run().counts()["eu"] in (1, 2), "it is not left for the other, which runs some"


def test_more_goes_where_there_is_room_and_is_looked_at_again_by_and_by() -> None:
    story = Story(replicas=3).run().all_ready()
    story.summarises("eu", nodes(10, cpu(1_000), 0))
    assert story.change(replicas=9).run().counts() == {"eu": 1, "us": 4, "us2": 4}
    story.all_ready()
    assert story.look() == ReconcileResult((), story.bench.at + story.bench.state.info.settings.rebalance_window)
    story.summarises("eu", nodes(10, cpu(1_000), 5))
    assert story.run().counts()["eu"] == 3


def test_what_waits_is_looked_at_again_by_and_by_since_no_summary_wakes_it() -> None:
    story = Story(replicas=4, regions=("eu", "us")).run().says("us", 2)
    for region in ("eu", "us"):
        story.summarises(region, nodes(10, cpu(1_000), 9))
    assert story.says("eu", 0, waiting=2).look() == ReconcileResult(
        (), story.bench.at + story.bench.state.info.settings.rebalance_window
    )
    story.summarises("eu", nodes(10, cpu(400), 10))  # none of its nodes could hold it any more
    assert story.run().counts() == {"us": 4}


def test_what_was_assigned_and_is_not_bound_yet_takes_of_the_room() -> None:
    story = Story(replicas=6, regions=("eu", "us")).run().all_ready()
    story.summarises("eu", nodes(10, cpu(500), 3))
    assert story.change(replicas=20).run().counts() == {"eu": 6, "us": 14}
    assert story.change(replicas=22).run().counts() == {"eu": 6, "us": 16}


# Overflow


def offered(**fields: Any) -> Story:
    story = Story(replicas=9, **fields).run().says("eu", 1).says("us", 3).says("us2", 3)
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 2))
    return story


def test_what_a_region_offers_back_goes_elsewhere_in_one_go() -> None:
    story = offered()
    assert story.run().counts() == {"eu": 1, "us": 4, "us2": 4}
    until = story.bench.at + story.bench.state.info.settings.offer_life
    assert story.all_ready().look() == ReconcileResult((), until)


def test_what_a_region_offers_back_goes_to_who_has_room_though_another_has_less() -> None:
    """Found by partition-skew 54310: that other one was full, and what waited was left where it was for all it took."""
    story = Story(replicas=6).run().all_ready()
    story.summarises("us2", nodes(2, cpu(500), 0))
    counts = story.change(replicas=12).run().counts()
    assert counts == {"eu": 5, "us": 5, "us2": 2}
    story.says("us", 5).says("eu", 4, waiting=1, code="capacity")
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 1))
    assert story.run().counts() == {"eu": 4, "us": 6, "us2": 2}
    story.says("eu", 4).says("us", 6)
    story.bench.later(story.bench.state.info.settings.offer_life)
    assert story.run().counts() == {"eu": 4, "us": 6, "us2": 2}, "it has its share, and is asked for no more"
    story.summarises("us2", nodes(4, cpu(500), 2))
    assert story.run().counts() == {"eu": 4, "us": 6, "us2": 4}, "made before it is broken"
    assert story.says("us2", 4).run().counts() == {"eu": 4, "us": 4, "us2": 4}


def test_of_an_offer_that_ends_and_room_that_may_come_the_first_is_looked_at() -> None:
    story, begun = offered().run(), a_world().at
    settings = story.bench.state.info.settings
    for region in ("eu", "us", "us2"):
        story.summarises(region, nodes(10, cpu(1_000), 0))
    assert story.look() == ReconcileResult((), begun + settings.rebalance_window)
    story.bench.later(settings.offer_life - 1_000)
    assert story.look() == ReconcileResult((), begun + settings.offer_life)


def test_when_an_offer_is_over_the_region_is_asked_again() -> None:
    story = offered().run().all_ready()
    story.bench.later(story.bench.state.info.settings.offer_life)
    assert story.run().counts() == {"eu": 3, "us": 4, "us2": 4}
    assert story.says("eu", 3).run().counts() == {"eu": 3, "us": 3, "us2": 3}


def test_a_region_that_offered_back_all_it_had_is_not_given_it_again_before_the_offer_ends() -> None:
    story = Story(replicas=3).run()
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 1))
    story.run()
    ended = story.in_region("eu")
    assert ended.stage is AssignmentStage.ENDED
    story.bench.accept("region/eu", c.RemoveAssignment(ended.uid))
    assert "eu" not in story.run().counts()
    story.all_ready().bench.later(story.bench.state.info.settings.offer_life)
    assert story.run().counts()["eu"] == 1


def test_what_nobody_else_may_have_stays_where_it_was_offered_back() -> None:
    story = Story(replicas=3, regions=("eu",)).run().says("eu", 1)
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 2))
    assert story.run().counts() == {"eu": 3}


def test_what_was_offered_back_and_is_ready_goes_once_another_is() -> None:
    """A new one of a template waits for room beside the old ones: all that is wanted is ready all the time."""
    story = Story(replicas=9, disruption_max=0).run().all_ready()
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 1))
    assert story.run().counts() == {"eu": 3, "us": 4, "us2": 3}
    assert story.says("us", 4).run().counts() == {"eu": 2, "us": 4, "us2": 3}


# Make before break


def forbidden() -> Story:
    """All of it is ready, and from now on it may not be in eu."""
    return Story(replicas=6).run().all_ready().change(placement=Placement(jurisdictions=("US",))).run()


def test_a_region_is_left_no_faster_than_others_stand_in() -> None:
    story = forbidden()
    assert story.counts() == {"eu": 2, "us": 3, "us2": 3}
    assert story.says("us", 3).run().counts() == {"eu": 1, "us": 3, "us2": 3}
    assert story.says("us2", 3).run().counts() == {"us": 3, "us2": 3}
    assert story.in_region("eu").stage is AssignmentStage.ENDED


def test_what_is_not_ready_where_it_may_not_be_goes_at_once() -> None:
    story = forbidden().says("eu", 1)
    assert story.run().counts() == {"eu": 1, "us": 3, "us2": 3}


def test_past_the_deadline_of_its_breach_a_region_is_left_at_once() -> None:
    story = forbidden()
    deadline = story.bench.at + story.bench.state.info.settings.breach_deadline
    assert story.look() == ReconcileResult((), deadline)
    story.bench.later(deadline - story.bench.at)
    assert story.run().counts() == {"us": 3, "us2": 3}


def test_where_replacements_wait_for_quota_as_many_are_given_up_as_may_be_disrupted() -> None:
    story = forbidden().says("us", 2, waiting=1).says("us2", 2, waiting=1)
    assert story.run().counts() == {"eu": 1, "us": 3, "us2": 3}
    assert story.look().commands == ()
    assert story.says("eu", 1).says("us", 3).run().counts() == {"us": 3, "us2": 3}


def test_what_waits_for_room_is_waited_for() -> None:
    story = forbidden().says("us", 2, waiting=1, code="capacity")
    assert story.run().counts() == {"eu": 2, "us": 3, "us2": 3}


# The disruption budget


def test_the_budget_is_shared_by_what_regions_have_and_each_has_some() -> None:
    story = Story(replicas=10, disruption_max=5, placement=Placement(weights=(("eu", 8), ("us", 1), ("us2", 1)))).run()
    assert story.disruption() == {"eu": 3, "us": 1, "us2": 1}


def test_a_budget_that_is_too_small_goes_to_who_has_most() -> None:
    story = Story(replicas=8, placement=Placement(weights=(("eu", 1), ("us", 2), ("us2", 1)))).run()
    assert story.disruption() == {"eu": 0, "us": 1, "us2": 0}


def test_it_is_handed_to_who_still_runs_the_old_template_once_it_is_acknowledged_to_be_given_up() -> None:
    story = Story(replicas=8, placement=Placement(weights=(("eu", 1), ("us", 2), ("us2", 1)))).run().all_ready()
    old = template_digest(a_template())
    story.change(template=a_template(command="v2")).run()
    story.all_hear().says("us2", 2, template=old).says("eu", 2).says("us", 4).run()
    assert story.disruption() == {"eu": 0, "us": 0, "us2": 0}
    assert story.look() == ReconcileResult((), story.bench.at + 1_000)
    assert story.hears("us").run().disruption() == {"eu": 0, "us": 0, "us2": 1}
    assert story.look() == NO_CHANGES


def test_a_budget_that_was_lowered_is_taken_back_at_once() -> None:
    story = Story(replicas=6, disruption_max=6).run().change(disruption_max=1).run()
    assert sum(story.disruption().values()) == 1


def test_a_lost_region_that_others_do_without_gives_its_share_up() -> None:
    story = Story(replicas=8, placement=Placement(weights=(("eu", 1), ("us", 2), ("us2", 1)))).run()
    story.bench.lose("us")
    story.run()
    assert story.disruption()["us"] == 0
    assert sum(story.all_hear().run().disruption().values()) == 1


# Who is woken


@pytest.mark.parametrize("kind", ["workload", "observed"])
def test_a_change_of_a_workload_wakes_that_one(kind: str) -> None:
    assert kind in AssignmentReconciler.watches
    assert list(AssignmentReconciler().wake(a_world().state, (kind, 7))) == [7]


def test_what_a_region_acknowledges_or_is_assigned_wakes_no_other_workload() -> None:
    bench = a_world()
    story = Story(bench, replicas=3)
    other = bench.put(a_workload("other", "beta"))
    found: set[Any] = set()

    def hear() -> None:
        raw, digest = bench.log[-1]
        batch = PLATFORM.batches.read(raw, bench.log[-2][1], digest)
        for record in batch.records:
            for event in record.events:
                found.update(keys_to_wake(AssignmentReconciler(), bench.state, PLATFORM.keys[type(event)](event, 0)))

    bench.accept(ASSIGNMENT, story.asked()[0])
    hear()
    story.hears("eu")
    hear()
    assert other not in found
    bench.judge("eu", SUSPECT)
    hear()
    assert {story.uid, other} <= found


def test_a_quota_and_an_emergency_wake_their_tenant_and_a_class_everybody() -> None:
    bench = a_world()
    web, other = bench.put(a_workload()), bench.put(a_workload("other", "beta"))
    assert list(AssignmentReconciler().wake(bench.state, ("quota", "beta"))) == [other]
    uid = bench.emergency(1_000)
    assert list(AssignmentReconciler().wake(bench.state, ("override", uid))) == [web]
    assert list(keys_to_wake(AssignmentReconciler(), bench.state, [("priority-class", "normal")])) == [web, other]
    assert list(AssignmentReconciler().keys(bench.state)) == [web, other]


def test_the_end_of_an_emergency_wakes_those_for_whom_it_paid_and_any_other_end_nobody() -> None:
    bench = a_world()
    paid = Story(bench, replicas=3)
    bench.put(a_workload("new"))
    bench.put(a_workload("other", "beta"))
    emergency = bench.emergency(1_000)
    paid.run()
    pause = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "a drill", bench.at + 1_000, ()))
    for uid in (emergency, pause):
        bench.accept(ROOT, EndOverride(uid, "over"))
    assert list(AssignmentReconciler().wake(bench.state, ("override", emergency))) == [paid.uid]
    assert list(AssignmentReconciler().wake(bench.state, ("override", pause))) == []
    paid.run()
    assert bench.state.paid_by.is_empty()


def test_all_are_listed_once_however_many_changes_concern_them_all() -> None:
    bench = a_world()
    web, other = bench.put(a_workload()), bench.put(a_workload("other", "beta"))
    touched = [("priority-class", f"class-{number}") for number in range(100)]
    assert list(keys_to_wake(AssignmentReconciler(), bench.state, [*touched, ("workload", web)])) == [web, other, web]


def test_a_pause_of_repair_concerns_no_assignment() -> None:
    bench = a_world()
    bench.put(a_workload())
    uid = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "a drill", bench.at + 1_000, ()))
    assert list(AssignmentReconciler().wake(bench.state, ("override", uid))) == []
