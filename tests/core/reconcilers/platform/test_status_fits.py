"""What is said of whether a workload fits, and when it is looked at again: summaries wake nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.records.region_reports import Waiting
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.reconcilers.platform.status import FRESH_MS, LOOK_AGAIN_MS, PATIENCE_MS
from tests.core.reconcilers.platform.test_status import Story, changing, mixed, serving
from tests.support.ledgers.platform import a_workload

#: What the largest node of each region has, of which a replica takes 500.
LARGE, SMALL = 32_000, 100


def all_tell(story: Story, milli: int) -> None:
    for region in ("eu", "us", "us2"):
        story.tells(region, milli)


def test_what_may_not_fit_is_looked_at_again_since_no_summary_wakes_it() -> None:
    story = serving()
    assert story.look().requeue_at == story.bench.at + LOOK_AGAIN_MS
    story.tells("eu", 32_000)
    story.report()
    assert story.says_of("Fits")[0] is ConditionStatus.TRUE
    assert story.look() == NO_CHANGES


def test_what_fits_and_waits_is_looked_at_again_since_it_may_fit_no_more() -> None:
    story = serving()
    story.tells("eu", 32_000)
    story.says("eu", 1, waiting=(Waiting("capacity", 2, story.bench.at),))
    story.report()
    assert story.says_of("Fits")[0] is ConditionStatus.TRUE
    assert story.look().requeue_at == story.bench.at + LOOK_AGAIN_MS


def test_what_fits_and_stands_as_wanted_fits_whatever_summaries_say_until_it_lacks_something() -> None:
    story = serving()
    all_tell(story, LARGE)
    story.report()
    all_tell(story, SMALL)  # the agents of all larger nodes are silent for a moment
    assert story.look() == NO_CHANGES, "three of it serve there"
    story.says("eu", 2, 2, 2)
    story.report()
    assert story.says_of("Fits")[:2] == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)


def test_that_it_fits_is_asked_anew_of_what_is_wanted_now() -> None:
    story = changing()
    all_tell(story, LARGE)
    story.report()
    all_tell(story, SMALL)
    story.report()
    assert story.says_of("Fits")[0] is ConditionStatus.FALSE, "no node could hold the new template"
    all_tell(story, LARGE)
    for region, count in (("eu", 2), ("us", 1)):
        mixed(story, region, 0, count)
    story.report()
    assert (story.says_of("Fits")[0], story.look()) == (ConditionStatus.TRUE, NO_CHANGES)


def test_a_deadline_can_be_met_by_what_stands_as_wanted_whatever_summaries_say() -> None:
    story = serving(batch=True, deadline=FRESH_MS)
    all_tell(story, LARGE)
    story.report()
    all_tell(story, SMALL)
    assert story.look() == ReconcileResult((), story.bench.state.workloads[story.web].meta.created + FRESH_MS)


def offered_back() -> Story:
    """All stand, and one of them where no more than two are assigned by now."""
    story = serving()
    all_tell(story, LARGE)
    (assignment,) = story.bench.assignments(story.web)
    story.bench.accept("region/eu", c.OfferBack(assignment.uid, 1))
    story.bench.assign(story.web, "eu", 2)
    return story


def held_back() -> Story:
    """All stand, and those in eu run an older template."""
    story = changing()
    all_tell(story, LARGE)
    mixed(story, "us", 0, 1)
    return story


@pytest.mark.parametrize(
    "story",
    [
        serving,
        offered_back,
        held_back,
        changing,
        lambda: serving(batch=True),
        lambda: serving(batch=True, deadline=FRESH_MS),
        lambda: Story(replicas=0),
        lambda: Story(regions=("us",)),
    ],
)
@pytest.mark.parametrize("fits", [True, False])
def test_whatever_changes_unheard_is_looked_at_again_in_its_time(story: Callable[[], Story], *, fits: bool) -> None:
    told = story()
    all_tell(told, LARGE if fits else SMALL)
    told.bench.later(PATIENCE_MS)
    if told.look().commands:
        told.report()
    again_at = told.look().requeue_at
    all_tell(told, SMALL if fits else LARGE)
    assert again_at is not None or not told.look().commands, "a summary"
    told.bench.later(told.bench.state.info.settings.offer_life)
    told.bench.put(a_workload("other"))  # of what happened last the ledger knows the time
    assert again_at is not None or not told.look().commands, "time"
