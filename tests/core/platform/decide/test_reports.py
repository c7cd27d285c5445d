"""Report and OfferBack: whoever knows more wins, and what does not fit goes back, a bounded number at a time."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.records.region_reports import (
    Failing,
    ObservedWorkload,
    RegionSummary,
    TemplateCounts,
    Waiting,
    WorkloadReport,
)
from holdfast.core.model.values.resources import AMOUNT_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.platform.state.tables import PlatformState
from tests.support.ledgers.platform import ACME, ROOT, T0, PlatformBench, a_workload, a_world, an_exclusive
from tests.support.ledgers.snapshots import restored


def seen(uid: int, serving: int = 1) -> WorkloadReport:
    return WorkloadReport(uid, 1, (TemplateCounts("00", 2, 2, serving),))


def serving_in_eu() -> tuple[PlatformBench, int]:
    bench = a_world()
    web = bench.put(a_workload(replicas=8))
    bench.assign(web, "eu", 4)
    return bench, web


def tell(bench: PlatformBench, position: int, *many: WorkloadReport, summary: RegionSummary | None = None) -> None:
    bench.send("region/eu", c.Report("eu", position, many, summary))


def test_what_a_region_says_of_a_workload_is_kept_with_its_position() -> None:
    bench, web = serving_in_eu()
    tell(bench, 7, seen(web))
    session = bench.sessions["region/eu"]
    assert bench.state.workload_reports[web] == (ObservedWorkload("eu", 7, seen(web), session=session),)


def test_what_regions_say_was_done_adds_up_to_a_state_that_can_be_written() -> None:
    bench = a_world()
    job = bench.put(a_workload("job", batch=True))
    for region in ("eu", "us"):
        bench.assign(job, region, 1)
        for done in (2**63, AMOUNT_MAX):
            said = WorkloadReport(job, 1, (TemplateCounts(bench.state.templates_of[job][0], 0, 0, 0, done),))
            bench.send(f"region/{region}", c.Report(region, 1, (said,)))
    for region in ("eu", "us"):
        bench.retire(region)
    assert dict(bench.state.completed_before[job]).popitem()[1] == 2 * AMOUNT_MAX
    assert restored(bench.state, PlatformState()).completed_before.items() == bench.state.completed_before.items()


def test_of_each_region_there_is_one_word() -> None:
    bench, web = serving_in_eu()
    bench.assign(web, "us", 4)
    tell(bench, 7, seen(web))
    bench.accept("region/us", c.Report("us", 3, (seen(web, 2),)))
    tell(bench, 9, seen(web, 0))
    assert [(one.region, one.position) for one in bench.state.workload_reports[web]] == [("eu", 9), ("us", 3)]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_reports_merge_in_any_order_with_repeats_and_gaps(order: tuple[int, ...]) -> None:
    bench, web = serving_in_eu()
    other = bench.put(a_workload("api"))
    bench.assign(other, "eu", 1)
    told = [
        (1, (seen(web, 1),), None),
        (2, (seen(other, 1),), RegionSummary(uses=(("quota/acme", bench.charged()),))),
        (5, (seen(web, 2), seen(other, 2)), None),
        (8, (), RegionSummary()),
    ]
    for number in (*order, order[0], order[-1]):
        position, many, summary = told[number]
        tell(bench, position, *many, summary=summary)
    assert [bench.state.workload_reports[uid][0].position for uid in (web, other)] == [5, 5]
    assert (bench.state.summaries["eu"].position, bench.state.summaries["eu"].summary) == (8, RegionSummary())


def test_an_old_report_is_no_news() -> None:
    bench, web = serving_in_eu()
    tell(bench, 7, seen(web))
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 7, (seen(web, 0),)))
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 6, (seen(web, 0),)))


def test_what_is_said_later_from_the_same_place_is_news_in_whatever_order_it_comes() -> None:
    """That a replica takes long is said though nothing happened in its region."""
    bench, web = serving_in_eu()
    slow = WorkloadReport(web, 1, (TemplateCounts("00", 2, 0, 0),), (), (Failing("probe-not-passed", 2, "n1"),))
    late, early = c.Report("eu", 7, (slow,), at=T0 + 5_000), c.Report("eu", 7, (seen(web),), at=T0)
    bench.accept("region/eu", early)
    bench.accept("region/eu", late)
    bench.refuse(Code.ALREADY, "region/eu", early)
    session = bench.sessions["region/eu"]
    assert bench.state.workload_reports[web] == (ObservedWorkload("eu", 7, slow, T0 + 5_000, session),)
    bench.accept("region/eu", c.Report("eu", 8, (seen(web),), at=T0))
    assert bench.state.workload_reports[web] == (ObservedWorkload("eu", 8, seen(web), T0, session),)


def test_what_was_said_in_a_former_session_is_not_held_against_the_region() -> None:
    """Whoever had its token may have said it, from a place that the region's log never comes to."""
    bench, web = serving_in_eu()
    bench.accept("region/eu", c.Report("eu", 2**60, (seen(web, 0),), RegionSummary(), 2**60))
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 8, (seen(web),), RegionSummary(), T0))
    bench.join("eu")
    uses = RegionSummary(uses=(("quota/acme", bench.charged()),))
    bench.accept("region/eu", c.Report("eu", 8, (seen(web),), uses, T0))
    assert [one.position for one in bench.state.workload_reports[web]] == [8]
    assert (bench.state.summaries["eu"].position, bench.state.summaries["eu"].summary) == (8, uses)
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 7, (seen(web, 0),), RegionSummary(), T0))


def test_below_level_2_the_furthest_position_of_all_sessions_stands() -> None:
    """Nothing is kept of sessions there, and what `evolve` does with such a log is as it was."""
    bench = a_world(level=1)
    web = bench.put(a_workload(replicas=8))
    bench.assign(web, "eu", 4)
    bench.accept("region/eu", c.Report("eu", 9, (seen(web),), RegionSummary()))
    assert (bench.state.workload_reports[web][0].session, bench.state.summaries["eu"].session) == (0, 0)
    bench.join("eu")
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 8, (seen(web, 0),), RegionSummary()))


def test_of_what_it_has_no_assignment_of_a_region_has_nothing_to_say() -> None:
    bench, web = serving_in_eu()
    bench.refuse(Code.ALREADY, "region/us", c.Report("us", 7, (seen(web),)))
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 7, (seen(99),)))


def test_with_its_last_assignment_goes_what_a_region_said() -> None:
    bench, web = serving_in_eu()
    tell(bench, 7, seen(web))
    (mine,) = bench.assignments(web)
    bench.accept(ASSIGNMENT, c.EndAssignment(mine.uid))
    bench.accept("region/eu", c.RemoveAssignment(mine.uid))
    assert len(bench.state.workload_reports) == 0
    bench.refuse(Code.ALREADY, "region/eu", c.Report("eu", 9, (seen(web),)))


def test_what_was_offered_back_stays_known_though_the_assignment_is_gone_and_ends_with_the_workload() -> None:
    """Were it forgotten, the region would be given the same again at once, and offer it back again, for ever."""
    bench, web = serving_in_eu()
    (mine,) = bench.assignments(web)
    bench.accept("region/eu", c.OfferBack(mine.uid, 4))
    bench.accept(ASSIGNMENT, c.EndAssignment(mine.uid))
    bench.accept("region/eu", c.RemoveAssignment(mine.uid))
    assert [(one.region, one.most) for one in bench.state.overflows[web]] == [("eu", 0)]
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert len(bench.state.overflows) == 0


def test_a_retired_region_is_not_quoted_any_more() -> None:
    bench, web = serving_in_eu()
    tell(bench, 7, seen(web), summary=RegionSummary())
    bench.retire("eu")
    assert (len(bench.state.workload_reports), len(bench.state.summaries)) == (0, 0)


def test_only_the_joined_region_speaks_for_itself() -> None:
    bench, web = serving_in_eu()
    bench.refuse(Code.NOT_OWNER, "region/us", c.Report("eu", 1, (seen(web),)))
    bench.open_session("eu")
    bench.refuse(Code.NO_SESSION, "region/eu", c.Report("eu", 1, (seen(web),)))


@pytest.mark.parametrize(
    "wrong",
    [
        (WorkloadReport(1, 1, (TemplateCounts("00", -1, 0, 0),)),),
        (WorkloadReport(1, 1, (), (Waiting("capacity", -1, 0),)),),
        (WorkloadReport(1, 1, (), (Waiting("capacity", 1, 0, "x" * 600),)),),
        (WorkloadReport(1, 1, failing=(Failing("exit", -1),)),),
        (WorkloadReport(1, 1, failing=(Failing("exit", 1, "n1", "x" * 600),)),),
        (WorkloadReport(1, 1, failing=(Failing("exit", 1),) * 17),),
        (WorkloadReport(1, 1), WorkloadReport(1, 2)),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: tuple[WorkloadReport, ...]) -> None:
    bench, _ = serving_in_eu()
    bench.refuse(Code.MALFORMED, "region/eu", c.Report("eu", 1, wrong))


# What does not fit


def test_what_a_region_cannot_place_it_offers_back_for_a_while() -> None:
    bench, web = serving_in_eu()
    (mine,) = bench.assignments(web)
    bench.accept("region/eu", c.OfferBack(mine.uid, 3, "no node has room"))
    (overflow,) = bench.state.overflows[web]
    assert (overflow.most, overflow.moved) == (1, 3)
    assert overflow.until == bench.at + bench.state.info.settings.offer_life
    bench.refuse(Code.ALREADY, "region/eu", c.OfferBack(mine.uid, 3))
    bench.later(bench.state.info.settings.offer_life)
    bench.accept("region/eu", c.OfferBack(mine.uid, 3))


def test_offers_are_bounded_in_each_window() -> None:
    bench, web = serving_in_eu()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, rebalance_max=3)))
    other = bench.put(a_workload("api"))
    first, second = bench.assignments(web)[0].uid, bench.assign(other, "eu", 3)
    bench.accept("region/eu", c.OfferBack(first, 2))
    bench.accept("region/eu", c.OfferBack(second, 3))
    (overflow,) = bench.state.overflows[other]
    assert (overflow.most, overflow.moved) == (2, 1)
    refused = bench.refuse(Code.TOO_EARLY, "region/eu", c.OfferBack(second, 3))
    bench.at = refused.facts["until"]
    bench.accept("region/eu", c.OfferBack(second, 3))


def test_the_bound_of_a_window_holds_also_for_assignments_that_are_gone() -> None:
    bench, _ = serving_in_eu()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, rebalance_max=4)))
    for number in range(3):
        uid = bench.assign(bench.put(a_workload(f"w{number}")), "eu", 2)
        offered = c.OfferBack(uid, 2)
        if number == 2:
            bench.refuse(Code.TOO_EARLY, "region/eu", offered)
            break
        bench.accept("region/eu", offered)
        bench.accept(ASSIGNMENT, c.EndAssignment(uid))
        bench.accept("region/eu", c.RemoveAssignment(uid))


@pytest.mark.parametrize("count", [0, -1])
def test_nobody_offers_back_nothing(count: int) -> None:
    bench, web = serving_in_eu()
    bench.refuse(Code.MALFORMED, "region/eu", c.OfferBack(bench.assignments(web)[0].uid, count))


def test_a_region_that_offers_back_more_than_it_is_asked_for_by_now_is_told_that_its_view_is_old() -> None:
    """It has not heard yet that fewer are asked for: that is no fault of its own, as malformed would be."""
    bench, web = serving_in_eu()
    refused = bench.refuse(Code.STALE, "region/eu", c.OfferBack(bench.assignments(web)[0].uid, 5))
    assert refused.facts["count"] == 4


def test_identities_and_what_has_ended_are_not_offered_back() -> None:
    bench, web = serving_in_eu()
    db = bench.put(an_exclusive())
    bench.refuse(Code.WRONG_PHASE, "region/eu", c.OfferBack(bench.hold(db, "eu", 0), 1))
    answer = bench.send("region/us", c.OfferBack(bench.assignments(web)[0].uid, 1))
    assert isinstance(answer, Refused)
    assert answer.code is Code.NOT_OWNER
    bench.refuse(Code.NOT_FOUND, "region/eu", c.OfferBack(99, 1))
