"""RULES 6: identities move by evidence.

Otherwise two regions run the same thing under two names, and a checker over names cannot fail.
"""

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure, StartTerm
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.settings import DEFAULTS, Settings, with_drift
from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER, REGION_HEALTH
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, PlatformBench, a_world, an_exclusive


def held_in_eu(*, leased: bool = False) -> tuple[PlatformBench, int]:
    bench = a_world()
    db = bench.put(an_exclusive(leased=leased, replicas=2, budget="reserve"))
    bench.hold(db, "eu", 0, 1)
    return bench, db


def holders(bench: PlatformBench, db: int) -> dict[int, str]:
    return {held.ordinal: held.region for held in bench.state.rights.values() if held.workload == db}


def lapses_at(bench: PlatformBench, lost: Instant) -> Instant:
    settings = bench.state.info.settings
    return lost + with_drift(settings.right_lease, settings) + after_its_end(settings)


def after_its_end(settings: Settings) -> Duration:
    """A gap without a leader, what the next one waits, the fence, the margin."""
    return with_drift(2 * settings.session_lease + settings.fence_time, settings) + settings.right_margin


def test_two_regions_never_hold_one_identity() -> None:
    bench, db = held_in_eu()
    refused = bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, c.GrantRight(db, 0, "us"))
    assert refused.facts["holder"] == "eu"
    bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, bench.assignment(db, "us", ordinals=(0,)))
    assert holders(bench, db) == {0: "eu", 1: "eu"}


def test_an_identity_moves_by_the_old_regions_acknowledged_release() -> None:
    bench, db = held_in_eu()
    seen = bench.ask_back(db, "eu", 0)
    bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, c.GrantRight(db, 0, "us"))
    bench.accept("region/eu", c.ReleaseRights(db, (0,), seen))
    bench.hold(db, "us", 0)
    assert holders(bench, db) == {0: "us", 1: "eu"}


def test_a_release_that_comes_after_the_identity_was_listed_again_is_not_taken() -> None:
    """The region starts it on the newer list: were the late release taken, another region would start it, too."""
    bench, db = held_in_eu()
    seen = bench.ask_back(db, "eu", 0)
    late = bench.envelope("region/eu", c.ReleaseRights(db, (0,), seen))
    bench.assign(db, "eu", ordinals=(0, 1))
    answer = bench.give(late)
    assert isinstance(answer, Refused)
    assert answer.code is Code.STALE
    assert holders(bench, db) == {0: "eu", 1: "eu"}


def test_a_release_judged_by_an_older_list_is_not_taken_though_the_newest_asks_for_it_again() -> None:
    """Between the two lists the region was told to run it; it has not heard of either yet."""
    bench, db = held_in_eu()
    seen = bench.ask_back(db, "eu", 0)
    bench.assign(db, "eu", ordinals=(0, 1))
    newest = bench.ask_back(db, "eu", 0)
    refused = bench.refuse(Code.STALE, "region/eu", c.ReleaseRights(db, (0,), seen))
    assert refused.facts["catch_up_to"] == newest
    bench.accept("region/eu", c.ReleaseRights(db, (0,), newest))


@pytest.mark.parametrize("silence", [0, HOUR, 1_000 * HOUR])
def test_without_a_lease_no_silence_is_evidence(silence: int) -> None:
    bench, db = held_in_eu()
    bench.lose("eu")
    bench.later(silence)
    bench.refuse(Code.RIGHT_HELD, FAILOVER, c.GrantRight(db, 0, "us"))


def test_an_attestation_moves_an_identity_out_of_a_region_that_is_gone() -> None:
    bench, db = held_in_eu()
    bench.lose("eu")
    bench.accept(ROOT, c.AttestRight(db, 0, "eu", "the building has no power"))
    bench.hold(db, "us", 0)
    assert holders(bench, db) == {0: "us", 1: "eu"}


def test_what_is_leased_moves_well_within_five_minutes_of_silence() -> None:
    bench, _ = held_in_eu(leased=True)
    assert DEFAULTS.lost_after + lapses_at(bench, 0) <= 135_000


def test_a_lease_moves_an_identity_once_nothing_can_run_by_it_and_not_before() -> None:
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    until = lapses_at(bench, bench.at)
    bench.at = until - 1
    refused = bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us"))
    assert refused.facts["until"] == until
    bench.later(1)
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
    assert holders(bench, db) == {0: "us", 1: "eu"}


def test_a_lease_of_a_region_that_is_only_suspect_runs_on() -> None:
    bench, db = held_in_eu(leased=True)
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.later(HOUR)
    bench.refuse(Code.RIGHT_HELD, FAILOVER, c.GrantRight(db, 0, "us"))


def test_a_region_that_came_back_and_was_lost_again_is_waited_for_again() -> None:
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    bench.later(80_000)
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    bench.judge("eu", RegionHealth.HEALTHY)
    bench.assign(db, "eu", ordinals=(0, 1))
    bench.lose("eu")
    bench.later(80_000)
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us"))


def test_a_change_that_reaches_a_lost_region_late_does_not_lengthen_its_lease() -> None:
    """Told a later end while it is lost, the region would run past the moment at which the right is given away."""
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    told = bench.assignments(db)[0].right_until
    bench.later(50_000)
    bench.assign(db, "eu", ordinals=(0,))
    assert bench.assignments(db)[0].right_until == told
    assert told <= lapses_at(bench, bench.at - 50_000)


def test_a_lease_that_was_told_longer_than_the_settings_say_now_is_waited_for() -> None:
    bench, db = held_in_eu(leased=True)
    told = bench.assignments(db)[0].right_until
    bench.accept(ROOT, Configure(Settings(right_lease=1_000)))
    bench.lose("eu")
    settings = bench.state.info.settings
    until = told + after_its_end(settings)
    bench.at = until - 1
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us"))
    bench.later(1)
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))


def test_when_a_right_leaves_a_region_the_assignment_there_loses_the_ordinal_in_the_same_commit() -> None:
    bench, db = held_in_eu(leased=True)
    (assignment,) = bench.assignments(db)
    bench.lose("eu")
    bench.later(HOUR)
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
    assert bench.state.assignments[assignment.uid].ordinals == ((1, 2),)


def test_a_region_that_returns_after_its_right_moved_has_no_say_in_it() -> None:
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    bench.later(HOUR)
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    bench.judge("eu", RegionHealth.HEALTHY)
    bench.refuse(Code.NOT_OWNER, "region/eu", c.ReleaseRights(db, (0,), 0))
    bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, c.GrantRight(db, 0, "eu"))


def test_an_ended_assignment_keeps_its_identities_until_the_region_has_released_them() -> None:
    bench, db = held_in_eu()
    (assignment,) = bench.assignments(db)
    bench.accept(ASSIGNMENT, c.EndAssignment(assignment.uid))
    bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, c.GrantRight(db, 0, "us"))
    bench.accept("region/eu", c.RemoveAssignment(assignment.uid))
    bench.hold(db, "us", 0, 1)


def test_failover_of_exclusive_work_starts_nothing_before_the_right_has_moved() -> None:
    bench, db = held_in_eu(leased=True)
    standby = bench.assign(db, "us", 2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    bench.lose("eu")
    bench.refuse(Code.CONTRADICTORY, FAILOVER, c.Activate(standby))
    bench.at = lapses_at(bench, bench.at)
    for ordinal in (0, 1):
        bench.accept(FAILOVER, c.GrantRight(db, ordinal, "us"))
    bench.assign(db, "us", ordinals=(0, 1), purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    bench.accept(FAILOVER, c.Activate(standby))
    assert holders(bench, db) == {0: "us", 1: "us"}


def test_a_lost_region_is_not_healthy_again_by_hope() -> None:
    """Its lease would be renewed at a region that nobody has heard since."""
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    bench.later(HOUR)
    bench.refuse(Code.TOO_EARLY, REGION_HEALTH, c.JudgeRegion("eu", RegionHealth.HEALTHY, "hope"))
    assert holders(bench, db) == {0: "eu", 1: "eu"}


def test_a_region_that_is_asked_for_all_its_identities_is_still_told_when_its_lease_ends() -> None:
    """It may be cut off before it has stopped them: without an end it would run them for ever, and another region
    once the platform has waited for the lease."""
    bench, db = held_in_eu(leased=True)
    told = bench.assignments(db)[0].right_until
    bench.later(1_000)
    bench.ask_back(db, "eu", 0, 1)
    assert bench.assignments(db)[0].right_until == told
    bench.lose("eu")
    bench.later(HOUR)
    bench.assign(db, "eu", disruption=1)
    assert bench.assignments(db)[0].right_until == told


def test_a_lease_that_is_renewed_while_one_is_asked_back_is_waited_for_by_that_one_too() -> None:
    bench, db = held_in_eu(leased=True)
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, right_lease=HOUR)))
    bench.later(60_000)
    bench.ask_back(db, "eu", 1)
    until = bench.assignments(db)[0].right_until
    assert until == bench.at + HOUR
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, right_lease=60_000)))
    bench.lose("eu")
    bench.at = until
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 1, "us"))


def test_time_that_leapt_between_two_leaders_of_the_platform_is_no_evidence() -> None:
    """The clock of the second is an hour ahead, and so is its ledger time from its first stamp on: nobody has waited
    that hour, and the region still runs by its lease."""
    bench, db = held_in_eu(leased=True)
    bench.lose("eu")
    bench.later(HOUR)
    bench.accept("ledger", StartTerm(2, "server-2"))
    until = lapses_at(bench, bench.at)
    bench.later(1_000)
    refused = bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us"))
    assert refused.facts["until"] == until
    bench.at = until
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
