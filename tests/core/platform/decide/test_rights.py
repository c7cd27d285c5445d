"""GrantRight, ReleaseRights, AttestRight. The executions of RULES 6 are in tests/core/rules."""

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, HeldRight, Share
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER
from tests.support.ledgers.platform import (
    ACME,
    ROOT,
    PlatformBench,
    a_principal,
    a_template,
    a_workload,
    a_world,
    an_exclusive,
)


def with_db(**fields: object) -> tuple[PlatformBench, int]:
    bench = a_world()
    return bench, bench.put(an_exclusive(**fields))  # type: ignore[arg-type]


def test_a_free_right_is_granted_and_kept_with_the_revision_since_when() -> None:
    bench, db = with_db()
    revision = bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "eu"))
    assert bench.state.rights[(db, 0)] == HeldRight(db, 0, "eu", revision)


def test_a_right_is_granted_once() -> None:
    bench, db = with_db()
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "eu"))
    bench.refuse(Code.ALREADY, FAILOVER, c.GrantRight(db, 0, "eu"))


def test_a_right_is_to_an_identity_of_an_exclusive_workload() -> None:
    bench, db = with_db(replicas=2)
    web = bench.put(a_workload())
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, c.GrantRight(web, 0, "eu"))
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, c.GrantRight(99, 0, "eu"))
    for ordinal in (-1, 2):
        bench.refuse(Code.MALFORMED, ASSIGNMENT, c.GrantRight(db, ordinal, "eu"))


def test_a_right_goes_to_a_healthy_region_where_the_workload_may_be() -> None:
    bench, db = with_db(jurisdictions=("EU",))
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, c.GrantRight(db, 0, "ap"))
    bench.refuse(Code.RESIDENCY, ASSIGNMENT, c.GrantRight(db, 0, "us"))
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, c.GrantRight(db, 0, "eu"))


def test_a_workload_that_is_being_deleted_gets_no_more_rights() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.refuse(Code.WRONG_PHASE, ASSIGNMENT, c.GrantRight(db, 1, "eu"))


def test_only_two_controllers_grant_rights() -> None:
    bench, db = with_db()
    for sender in (ROOT, "region/eu", "controller/rollout"):
        bench.refuse(Code.NO_RIGHT, sender, c.GrantRight(db, 0, "eu"))


def test_the_holder_releases_and_its_assignment_loses_the_ordinal_in_the_same_commit() -> None:
    bench, db = with_db()
    uid = bench.hold(db, "eu", 0, 1)
    seen = bench.ask_back(db, "eu", 0)
    assert (bench.state.assignments[uid].ordinals, bench.state.assignments[uid].returning) == (((1, 2),), ((0, 1),))
    bench.accept("region/eu", c.ReleaseRights(db, (0,), seen))
    found = bench.state.assignments[uid]
    assert (found.ordinals, found.returning, [share.count for share in found.shares]) == (((1, 2),), (), [1])
    assert bench.state.rights_of[db] == (("eu", ((1, 2),)),)


def test_a_right_that_nobody_asks_for_is_not_given_back() -> None:
    bench, db = with_db()
    uid = bench.hold(db, "eu", 0, 1)
    bench.refuse(Code.STALE, "region/eu", c.ReleaseRights(db, (0,), bench.state.assignments[uid].revision))


def test_who_gives_back_what_nobody_asks_for_is_told_the_newest_list_of_its_region() -> None:
    bench, db = with_db(budget="reserve")
    uids = [
        bench.hold(db, "eu", 0),
        bench.assign(db, "eu", purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY),
    ]
    older, newer = (bench.state.assignments[uid].revision for uid in uids)
    assert older < newer
    refused = bench.refuse(Code.STALE, "region/eu", c.ReleaseRights(db, (0,), older))
    assert (refused.facts["seen"], refused.facts["catch_up_to"]) == (older, newer)


def test_all_that_one_list_asks_for_is_given_back_in_one_commit() -> None:
    bench, db = with_db()
    uid = bench.hold(db, "eu", 0, 1)
    seen = bench.ask_back(db, "eu", 0, 1)
    bench.accept("region/eu", c.ReleaseRights(db, (1, 0), seen))
    found = bench.state.assignments[uid]
    assert (found.ordinals, found.returning, found.shares, len(bench.state.rights)) == ((), (), (), 0)


def test_of_several_none_is_given_back_unless_each_is_asked_for_and_the_first_that_is_not_is_named() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0, 1)
    seen = bench.ask_back(db, "eu", 0)
    refused = bench.refuse(Code.STALE, "region/eu", c.ReleaseRights(db, (0, 1), seen))
    assert refused.facts["key"] == f"right/{db}/1"
    bench.accept(ROOT, c.AttestRight(db, 1, "eu", "its rack has no power"))
    bench.accept(ASSIGNMENT, c.GrantRight(db, 1, "us"))
    seen = next(a.revision for a in bench.assignments(db) if a.region == "eu")
    refused = bench.refuse(Code.NOT_OWNER, "region/eu", c.ReleaseRights(db, (0, 1), seen))
    assert (refused.facts["owner"], refused.facts["ordinal"]) == ("region/us", 1)
    bench.accept("region/eu", c.ReleaseRights(db, (0,), seen))


def test_a_release_names_each_right_once_and_not_too_many() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    seen = bench.ask_back(db, "eu", 0)
    bench.refuse(Code.MALFORMED, "region/eu", c.ReleaseRights(db, (0, 0), seen))
    for ordinals in ((), ((0, RIGHTS_MAX + 1),)):
        bench.refuse(Code.TOO_LARGE, "region/eu", c.ReleaseRights(db, ordinals, seen))


def test_a_right_without_any_assignment_is_asked_for_by_an_empty_one() -> None:
    bench, db = with_db()
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "eu"))
    bench.release(db, "eu", 0)
    assert len(bench.state.rights) == 0


def test_counts_follow_identities_the_last_template_first() -> None:
    bench, db = with_db()
    bench.put(an_exclusive(template=a_template(command="v2")))
    bench.hold(db, "eu", 0, 1)
    first, last = sorted(bench.state.templates_of[db])
    uid = bench.assign(db, ordinals=(0, 1), shares=(Share(first, 1), Share(last, 1)))
    for ordinal, left in ((1, (Share(first, 1),)), (0, ())):
        bench.accept(ROOT, c.AttestRight(db, ordinal, "eu", "its rack has no power"))
        assert bench.state.assignments[uid].shares == left


def test_nobody_releases_what_another_holds_or_nobody() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    refused = bench.refuse(Code.NOT_OWNER, "region/us", c.ReleaseRights(db, (0,), 0))
    assert refused.facts["owner"] == "region/eu"
    bench.refuse(Code.NOT_FOUND, "region/us", c.ReleaseRights(db, (1,), 0))


def test_a_session_that_has_not_joined_releases_nothing() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    bench.open_session("eu")
    bench.refuse(Code.NO_SESSION, "region/eu", c.ReleaseRights(db, (0,), 0))


def test_a_person_attests_and_the_reason_is_in_the_log() -> None:
    bench, db = with_db()
    uid = bench.hold(db, "eu", 0)
    bench.accept(ROOT, c.AttestRight(db, 0, "eu", "the rack burnt down"))
    assert (db, 0) not in bench.state.rights
    assert bench.state.assignments[uid].ordinals == ()
    assert b"the rack burnt down" in bench.log[-1][0]


def test_an_attestation_names_the_holder_and_says_why() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    bench.refuse(Code.MALFORMED, ROOT, c.AttestRight(db, 0, "eu", "  "))
    bench.refuse(Code.RIGHT_HELD, ROOT, c.AttestRight(db, 0, "us", "why"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.AttestRight(db, 1, "eu", "why"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.AttestRight(99, 0, "eu", "why"))


def test_an_attestation_needs_the_right_to_break_the_glass_there() -> None:
    bench, db = with_db()
    bench.hold(db, "eu", 0)
    bench.put(a_principal("person/operator", Permission.OPERATE, Permission.OVERRIDE))
    bench.put(a_principal("person/abroad", Permission.BREAK_GLASS, region="us"))
    bench.put(a_principal("person/other", Permission.BREAK_GLASS, tenant="beta"))
    bench.refuse(Code.NO_RIGHT, "person/operator", c.AttestRight(db, 0, "eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/abroad", c.AttestRight(db, 0, "eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/other", c.AttestRight(db, 0, "eu", "why"))
