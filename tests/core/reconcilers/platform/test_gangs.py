"""The assignment controller never splits a gang over regions."""

from __future__ import annotations

from typing import Any

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Placement
from holdfast.core.model.records.region_reports import TemplateCounts, WorkloadReport
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.platform.queries.feasibility import fits
from tests.core.reconcilers.platform.test_assignment import Story, nodes
from tests.support.ledgers.platform import cpu


def of_gangs(size: int, replicas: int, **fields: Any) -> Story:
    return Story(replicas=replicas, **{"gang": Gang(size), "disruption_max": size, **fields})


def test_gangs_are_split_over_regions_as_a_whole() -> None:
    assert of_gangs(4, 16).run().counts() in (
        {"eu": 8, "us": 4, "us2": 4},
        {"eu": 4, "us": 8, "us2": 4},
        {"eu": 4, "us": 4, "us2": 8},
    )
    assert sorted(of_gangs(8, 8).run().counts().values()) == [8]


def test_weights_and_a_primary_hold_for_gangs() -> None:
    weights = Placement(weights=(("eu", 3), ("us", 1)))
    assert of_gangs(3, 12, placement=weights).run().counts() == {"eu": 9, "us": 3}
    assert of_gangs(3, 12, placement=Placement(primary="us")).run().counts() == {"us": 12}


def test_scaling_moves_counts_by_whole_gangs_and_only_once_others_are_ready() -> None:
    story = of_gangs(2, 12, placement=Placement(regions=("eu", "us"))).run()
    assert story.counts() == {"eu": 6, "us": 6}
    story.all_ready().change(replicas=8)
    assert story.run().counts() == {"eu": 4, "us": 4}


def test_a_move_waits_for_whole_gangs_to_be_ready_elsewhere() -> None:
    story = of_gangs(4, 8, placement=Placement(regions=("eu",))).run().all_ready()
    story.change(placement=Placement(regions=("us",)))
    assert story.run().counts() == {"eu": 8, "us": 8}
    assert story.says("us", 7).run().counts() == {"eu": 4, "us": 8}
    assert story.says("us", 8).run().counts() == {"us": 8}


def test_a_lost_region_is_replaced_by_whole_gangs() -> None:
    story = of_gangs(4, 12, placement=Placement(regions=("eu", "us"))).run().all_ready()
    lost = max(story.counts(), key=lambda name: story.counts()[name])
    story.bench.judge(lost, RegionHealth.SUSPECT, RegionHealth.LOST)
    counts = story.run().counts()
    assert {name: count for name, count in counts.items() if name != lost} in ({"eu": 12}, {"us": 12})


def test_what_a_region_offers_back_moves_as_whole_gangs() -> None:
    story = of_gangs(4, 8, placement=Placement(regions=("eu", "us"))).run()
    assert story.counts() == {"eu": 4, "us": 4}
    story.summarises("us", nodes(10, cpu(4000), 10))
    story.bench.accept("region/eu", c.OfferBack(story.in_region("eu").uid, 4))
    assert story.run().counts() == {"us": 8}


def test_the_disruption_budget_is_shared_by_whole_gangs() -> None:
    story = of_gangs(4, 16, placement=Placement(regions=("eu", "us")), disruption_max=10).run()
    assert sorted(story.disruption().values()) == [4, 4]


def test_finished_gangs_of_batch_work_stay_where_they_were_done() -> None:
    story = of_gangs(2, 8, batch=True, placement=Placement(regions=("eu", "us"))).run()
    digest = story.in_region("eu").shares[0].template
    seen = WorkloadReport(story.uid, 1, (TemplateCounts(digest, 2, 2, 0, 2),))
    story.position += 1
    story.bench.accept("region/eu", c.Report("eu", story.position, (seen,)))
    assert story.run().counts() == {"eu": 4, "us": 4}


def test_a_changed_rule_reaches_the_regions() -> None:
    story = of_gangs(4, 4, placement=Placement(regions=("eu",))).run()
    story.change(gang=Gang(4, min=2, replace_within=0)).run()
    assert story.in_region("eu").gang == Gang(4, min=2, replace_within=0)


def test_a_gang_that_no_region_could_ever_hold_is_reported_as_never_fitting() -> None:
    story = of_gangs(4, 4, placement=Placement(regions=("eu",)))
    story.summarises("eu", nodes(1, cpu(1500), 1))
    found = fits(story.bench.state, story.bench.state.workloads[story.uid])
    assert (found.status, found.reason) == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    assert found.message == "the nodes of eu hold at most 3 of a gang's 4 members"
    story.summarises("eu", nodes(2, cpu(1500), 2))
    assert fits(story.bench.state, story.bench.state.workloads[story.uid]).status is ConditionStatus.TRUE


def test_a_gang_that_is_ready_in_part_is_not_given_up_as_idle() -> None:
    story = of_gangs(4, 4, placement=Placement(regions=("eu",))).run()
    story.says("eu", 3).change(placement=Placement(regions=("us",)))
    assert story.run().counts() == {"eu": 4, "us": 4}
    assert story.says("us", 4).run().counts() == {"us": 4}
