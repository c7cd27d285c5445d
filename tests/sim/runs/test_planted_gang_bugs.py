"""A test of the tester: bugs with gangs, each found by the judges that look for such bugs and by no other.

Each exists in this file only, and is found in a small world from seed 1, which is clean without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.model.objects.workloads import WorkloadSpec
from holdfast.core.model.values.bitsets import count
from holdfast.core.reconcilers.region import replica
from holdfast.core.region.decide import proposals, stops
from holdfast.core.region.state import gangs
from holdfast.core.scheduling import gang_trial
from holdfast.replay.recording import PlannedVariant
from holdfast.sim.runs.run import RunVerdicts
from tests.sim.runs.test_planted_controller_bugs import CROWDED, ROOMY, TWO_REGIONS
from tests.sim.runs.test_planted_server_bugs import named
from tests.sim.runs.test_planted_user_visible_bugs import Planted, planted, played

#: Gangs of four that need all members, and gangs of three.
FOURS, THREES = (PlannedVariant("web", "gang", 12),), (PlannedVariant("web", "gang", 13),)


def placed_in_part(patch: pytest.MonkeyPatch) -> None:
    """The scheduler places whatever members fit, the ledger takes them, and no controller ends them."""

    def each_alone(*args: Any) -> list[gang_trial.WaitingGang]:
        return [one._replace(least=1) for one in waiting(*args)]

    waiting = gang_trial.waiting_gangs
    patch.setattr(gang_trial, "waiting_gangs", each_alone)
    patch.setattr(proposals, "_too_few", lambda *_: "")
    patch.setattr(replica, "broken_gangs", lambda *_: iter(()))


def ended_while_whole(patch: pytest.MonkeyPatch) -> None:
    """The replica controller takes any gang for a broken one, once, and the ledger lets it."""
    ended: set[int] = set()

    def broken(state: Any, assignment: Any, now: int) -> Iterator[gangs.BrokenGang]:
        standing = gangs.standing_members(state, assignment.uid)
        if standing and assignment.uid not in ended and count(standing) == 8:
            ended.add(assignment.uid)
            yield gangs.BrokenGang(0, standing, now)

    patch.setattr(replica, "broken_gangs", broken)
    patch.setattr(stops, "_refuse_whole_gang", lambda *_: None)


def split_over_regions(patch: pytest.MonkeyPatch) -> None:
    """The platform counts replicas one by one."""
    patch.setattr(WorkloadSpec, "unit", 1)


PLANTED = {
    "placed in part": planted(placed_in_part, CROWDED, "gang-whole", "gang", fittings=FOURS),
    "ended while whole": planted(ended_while_whole, ROOMY, "cause-true", fittings=FOURS, seconds=24),
    "split over regions": planted(split_over_regions, TWO_REGIONS, "gang-split", "replicas", fittings=THREES),
}


@pytest.fixture(params=PLANTED)
def bug(request: pytest.FixtureRequest) -> Planted:
    return PLANTED[request.param]


def test_a_bug_with_gangs_is_found_by_its_judges_alone(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    report = played(bug)
    assert named(report) == bug.found, (report.findings[:3], report.unsettled[:5])


def test_such_a_world_of_gangs_is_clean_without_it(bug: Planted) -> None:
    report = played(bug)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
