"""What is assigned beyond what is asked for, at rest: only what moves, and can neither go nor come, may be."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.assignment.surplus import is_moving
from tests.support.ledgers.platform import a_workload, a_world
from tests.support.ledgers.region import RegionBench


def a_move(
    *, budget: int, serving: int, offered: bool = True
) -> tuple[PlatformState, dict[str, RegionState], Workload]:
    """Four replicas: one is assigned in eu, where it serves, and four in us, of which some do."""
    platform = a_world()
    web = platform.put(a_workload(replicas=4, disruption_max=budget))
    platform.assign(web, "eu", 1)
    platform.assign(web, "us", 4)
    if offered:
        platform.accept("region/eu", c.OfferBack(platform.assignments(web)[0].uid, 1))
    regions = {name: RegionBench() for name in ("eu", "us")}
    for bench, count, well in ((regions["eu"], 1, 1), (regions["us"], 4, serving)):
        bench.a_workload(count=count, workload=web)
        for ordinal in range(well):
            slot = bench.state.slots[web, ordinal]
            bench.state.slots.put((web, ordinal), replace(slot, phase=Phase.SERVING))
    stored = platform.state.workloads[web]
    return platform.state, {name: bench.state for name, bench in regions.items()}, stored


def test_what_a_region_has_offered_back_may_stay_as_long_as_no_more_may_be_gone_and_the_others_wait() -> None:
    platform, regions, web = a_move(budget=1, serving=2)
    assert is_moving(platform, regions, web, 1)
    assert not is_moving(platform, regions, web, 2), "only one was offered back"


def test_what_may_be_gone_goes() -> None:
    platform, regions, web = a_move(budget=2, serving=2)
    assert not is_moving(platform, regions, web, 1)


def test_what_nobody_has_offered_back_is_too_much() -> None:
    platform, regions, web = a_move(budget=1, serving=2, offered=False)
    assert not is_moving(platform, regions, web, 1)


def test_what_serves_elsewhere_is_ended_where_it_was() -> None:
    platform, regions, web = a_move(budget=1, serving=4)
    assert not is_moving(platform, regions, web, 1)


def test_work_of_which_none_may_be_gone_may_serve_in_full_where_it_was() -> None:
    platform, regions, web = a_move(budget=0, serving=3, offered=False)
    assert is_moving(platform, regions, web, 1)


def unpaid(regions: dict[str, RegionState], workload: Workload, count: int) -> None:
    """So many of a workload wait for quota in us."""
    state = regions["us"]
    (assignment,) = state.assignments_of[workload.meta.uid]
    (request,) = state.requests[assignment]
    waits = PendingReason(Code.OVER_GRANT.value, count, "quota/acme: the grant is used up")
    state.requests.put(assignment, (replace(request, reasons=(waits,)),))


def test_what_serves_may_hold_the_quota_that_the_others_wait_for_as_long_as_no_more_may_be_gone() -> None:
    """Found by zone-loss 40067: four serve in us, three wait in eu, and the quota pays for four."""
    platform, regions, web = a_move(budget=1, serving=2, offered=False)
    unpaid(regions, web, 1)
    assert is_moving(platform, regions, web, 1)
    assert not is_moving(platform, regions, web, 2), "only one waits for quota"
    platform, regions, web = a_move(budget=2, serving=2, offered=False)
    unpaid(regions, web, 1)
    assert not is_moving(platform, regions, web, 1), "one more may be gone"
