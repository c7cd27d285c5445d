"""JoinRegion, Acknowledge, JudgeRegion, DeclareLost, RetireRegion. Executions of RULES 8 are in tests/core/rules."""

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import REGION_HEALTH
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, PlatformBench, a_principal, a_region, a_world

H = RegionHealth


def test_the_first_log_to_join_is_the_regions() -> None:
    bench = a_world()
    bench.put(a_region("ap"))
    bench.join("ap", "log-1")
    status = bench.state.regions["ap"].status
    assert (status.log_id, status.session, status.heard_at) == ("log-1", bench.sessions["region/ap"], bench.at)


def test_the_same_log_joins_again_in_another_session() -> None:
    bench = a_world()
    bench.refuse(Code.ALREADY, "region/eu", c.JoinRegion("eu", "log-eu"))
    bench.join("eu")
    assert bench.state.regions["eu"].status.session == bench.sessions["region/eu"]


def test_another_log_than_the_regions_has_diverged() -> None:
    bench = a_world()
    bench.open_session("eu")
    refused = bench.refuse(Code.DIVERGED, "region/eu", c.JoinRegion("eu", "log-other"))
    assert refused.facts == {"region": "eu"}


def test_who_does_not_know_the_log_of_a_region_is_not_told_it() -> None:
    """Whoever has stolen a region's token would join with it."""
    bench = a_world()
    for said in (c.Acknowledge("eu", "log-other", 1, 0, DIGEST), c.JoinRegion("eu", "log-other")):
        refused = bench.refuse(Code.DIVERGED, "region/eu", said)
        assert "log-eu" not in f"{refused.message} {refused.facts}"


def test_a_region_joins_as_itself_with_a_log_that_has_a_name() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_OWNER, "region/eu", c.JoinRegion("us", "log-us"))
    bench.refuse(Code.MALFORMED, "region/eu", c.JoinRegion("eu", ""))
    bench.open_session("ap")
    bench.refuse(Code.NOT_FOUND, "region/ap", c.JoinRegion("ap", "log-ap"))


def test_a_region_says_where_it_is_reached_and_may_move_within_its_session() -> None:
    bench = a_world()
    assert bench.state.regions["eu"].status.address == ""
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu", "https://eu.example:7400"))
    bench.refuse(Code.ALREADY, "region/eu", c.JoinRegion("eu", "log-eu", "https://eu.example:7400"))
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu", "https://eu2.example:7400"))
    assert bench.state.regions["eu"].status.address == "https://eu2.example:7400"
    bench.join("eu", address="https://eu3.example:7400")
    assert bench.state.regions["eu"].status.address == "https://eu3.example:7400"


def test_an_address_is_short_and_printable() -> None:
    bench = a_world()
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu", "a" * 512))
    for wrong in ("a" * 513, "https://eu\n", "\x00"):
        bench.refuse(Code.MALFORMED, "region/eu", c.JoinRegion("eu", "log-eu", wrong))


def test_a_retired_region_is_reached_nowhere() -> None:
    bench = a_world()
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu", "https://eu.example:7400"))
    bench.retire("eu")
    assert bench.state.regions["eu"].status.address == ""


def test_a_region_that_was_lost_before_it_ever_joined_is_not_healthy_for_having_joined() -> None:
    bench = a_world()
    bench.put(a_region("ap"))
    bench.accept(ROOT, c.DeclareLost("ap", "the cable is cut"))
    bench.join("ap")
    assert bench.state.regions["ap"].status.health is H.LOST


def acknowledgement(bench: PlatformBench, position: int, cursor: int, digest: str = DIGEST) -> c.Acknowledge:
    return c.Acknowledge("eu", "log-eu", position, cursor, digest)


def test_positions_only_grow() -> None:
    bench = a_world()
    bench.later(500)
    bench.accept("region/eu", acknowledgement(bench, 20, pack_revision(5)))
    status = bench.state.regions["eu"].status
    assert (status.position, status.cursor, status.heard_at) == (20, pack_revision(5), bench.at)
    bench.refuse(Code.ALREADY, "region/eu", acknowledgement(bench, 19, pack_revision(4)))
    bench.refuse(Code.ALREADY, "region/eu", acknowledgement(bench, 20, pack_revision(6)))
    bench.refuse(Code.CONTRADICTORY, "region/eu", acknowledgement(bench, 21, pack_revision(4)))
    bench.accept("region/eu", acknowledgement(bench, 21, pack_revision(5)))


def test_nobody_has_applied_what_is_not_in_the_log() -> None:
    bench = a_world()
    head = bench.state.info.seq
    bench.refuse(Code.MALFORMED, "region/eu", acknowledgement(bench, 1, pack_revision(head + 1)))
    bench.accept("region/eu", acknowledgement(bench, 1, pack_revision(head, 7)))


def test_a_region_is_held_to_the_batch_that_it_acknowledged_until_another_log_joins() -> None:
    bench = a_world()
    assert bench.state.regions["eu"].status.digest == ""
    bench.accept("region/eu", acknowledgement(bench, 20, 0, "00000000000000aa"))
    bench.refuse(Code.ALREADY, "region/eu", acknowledgement(bench, 20, 0, "00000000000000bb"))
    assert bench.state.regions["eu"].status.digest == "00000000000000aa"
    bench.accept("region/eu", acknowledgement(bench, 21, 0, "00000000000000cc"))
    assert bench.state.regions["eu"].status.digest == "00000000000000cc"
    bench.retire("eu")
    bench.join("eu", "log-eu-2")
    status = bench.state.regions["eu"].status
    assert (status.position, status.digest) == (0, "")


@pytest.mark.parametrize("digest", ["", "0" * 15, "0" * 17, "0123456789ABCDEF", "0123456789abcde\n", "١" * 16])
def test_what_cannot_be_the_start_of_a_digest_is_refused(digest: str) -> None:
    bench = a_world()
    bench.refuse(Code.MALFORMED, "region/eu", acknowledgement(bench, 1, 0, digest))


def test_an_acknowledgement_is_of_the_log_that_joined() -> None:
    bench = a_world()
    bench.refuse(Code.DIVERGED, "region/eu", c.Acknowledge("eu", "log-other", 1, 0, DIGEST))
    bench.refuse(Code.NOT_OWNER, "region/us", acknowledgement(bench, 1, 0))
    bench.open_session("eu")
    bench.refuse(Code.NO_SESSION, "region/eu", acknowledgement(bench, 1, 0))


# BelieveRegion


def test_what_somebody_said_of_a_regions_log_counts_no_more_once_a_person_attests_that_it_is_whole() -> None:
    bench = a_world()
    bench.accept("region/eu", acknowledgement(bench, 20, pack_revision(5)))
    heard = bench.state.regions["eu"].status.heard_at
    bench.accept("region/eu", acknowledgement(bench, 10**9, pack_revision(5), "00000000000000aa"))
    bench.join("eu")
    bench.refuse(Code.ALREADY, "region/eu", acknowledgement(bench, 21, pack_revision(5)))
    bench.later(500)
    bench.accept(ROOT, c.BelieveRegion("eu", "its token was stolen"))
    status = bench.state.regions["eu"].status
    assert (status.position, status.digest, status.cursor) == (0, "", 0)
    assert (status.log_id, status.session) == ("log-eu", bench.sessions["region/eu"]), "its session goes on"
    assert heard <= status.heard_at < bench.at, "a person's word is no sign of life"
    bench.accept("region/eu", acknowledgement(bench, 21, pack_revision(4)))
    assert bench.state.regions["eu"].status.position == 21


def test_of_whose_log_nothing_is_known_there_is_nothing_to_take_back() -> None:
    bench = a_world()
    bench.refuse(Code.ALREADY, ROOT, c.BelieveRegion("eu", "why"))
    bench.accept("region/eu", acknowledgement(bench, 20, 0))
    bench.refuse(Code.MALFORMED, ROOT, c.BelieveRegion("eu", ""))
    bench.refuse(Code.NOT_FOUND, ROOT, c.BelieveRegion("ap", "why"))
    bench.retire("eu")
    bench.refuse(Code.WRONG_PHASE, ROOT, c.BelieveRegion("eu", "why"))


def test_believing_a_region_takes_the_right_to_break_glass_in_that_region() -> None:
    bench = a_world()
    bench.accept("region/eu", acknowledgement(bench, 20, 0))
    bench.put(a_principal("person/operator", Permission.OPERATE, Permission.OVERRIDE))
    bench.put(a_principal("person/abroad", Permission.BREAK_GLASS, region="us"))
    bench.put(a_principal("person/guest", Permission.BREAK_GLASS, tenant="acme"))
    bench.refuse(Code.NO_RIGHT, "person/operator", c.BelieveRegion("eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/abroad", c.BelieveRegion("eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.BelieveRegion("eu", "why"))
    bench.refuse(Code.NO_RIGHT, "region/eu", c.BelieveRegion("eu", "why"))


ALLOWED = {(H.HEALTHY, H.SUSPECT), (H.SUSPECT, H.HEALTHY), (H.SUSPECT, H.LOST), (H.LOST, H.HEALTHY)}
PATHS = {H.HEALTHY: (), H.SUSPECT: (H.SUSPECT,), H.LOST: (H.SUSPECT, H.LOST)}


@pytest.mark.parametrize("source", list(PATHS))
@pytest.mark.parametrize("target", list(H))
def test_region_health_moves_along_its_edges_only(source: RegionHealth, target: RegionHealth) -> None:
    bench = a_world()
    bench.judge("eu", *PATHS[source])
    bench.later(1)
    bench.accept("region/eu", acknowledgement(bench, 1, 0))
    command = c.JudgeRegion("eu", target, "in a test")
    if (source, target) in ALLOWED:
        bench.accept(REGION_HEALTH, command)
        status = bench.state.regions["eu"].status
        assert (status.health, status.since) == (target, bench.at)
    else:
        bench.refuse(Code.ALREADY if source is target else Code.WRONG_PHASE, REGION_HEALTH, command)


def test_region_health_judges_regions_that_exist_and_nobody_else_judges() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, REGION_HEALTH, c.JudgeRegion("ap", H.SUSPECT, ""))
    bench.refuse(Code.NO_RIGHT, ROOT, c.JudgeRegion("eu", H.SUSPECT, ""))


def test_a_lost_region_is_healthy_again_only_once_it_is_heard() -> None:
    bench = a_world()
    bench.lose("eu")
    bench.later(HOUR)
    bench.refuse(Code.TOO_EARLY, REGION_HEALTH, c.JudgeRegion("eu", H.HEALTHY, ""))
    bench.accept("region/eu", acknowledgement(bench, 1, 0))
    bench.judge("eu", H.HEALTHY)


def test_a_person_declares_a_region_lost_and_says_why() -> None:
    bench = a_world()
    bench.refuse(Code.MALFORMED, ROOT, c.DeclareLost("eu", ""))
    bench.accept(ROOT, c.DeclareLost("eu", "the cable is cut"))
    assert bench.state.regions["eu"].status.health is H.LOST
    bench.refuse(Code.ALREADY, ROOT, c.DeclareLost("eu", "still"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.DeclareLost("ap", "why"))


def test_declaring_lost_needs_the_right_to_override_there() -> None:
    bench = a_world()
    bench.put(a_principal("person/operator", Permission.OPERATE))
    bench.put(a_principal("person/abroad", Permission.OVERRIDE, region="us"))
    bench.put(a_principal("person/guest", Permission.OVERRIDE, tenant="acme"))
    bench.refuse(Code.NO_RIGHT, "person/operator", c.DeclareLost("eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/abroad", c.DeclareLost("eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.DeclareLost("eu", "why"))
    bench.accept("person/abroad", c.DeclareLost("us", "why"))


def test_while_a_person_holds_a_region_lost_no_controller_says_otherwise() -> None:
    bench = a_world()
    held = OpenOverride(OverrideAction.DECLARE_LOST, "eu", "eu", "do not trust it", bench.at + HOUR)
    uid = bench.accept(ROOT, held)
    bench.accept(ROOT, c.DeclareLost("eu", "do not trust it"))
    bench.later(1)
    bench.accept("region/eu", acknowledgement(bench, 1, 0))
    refused = bench.refuse(Code.PAUSED, REGION_HEALTH, c.JudgeRegion("eu", H.HEALTHY, ""))
    assert refused.facts["override"] == uid
    bench.later(HOUR)
    bench.judge("eu", H.HEALTHY)


def test_a_retired_region_is_not_lost_and_not_retired_twice() -> None:
    bench = a_world()
    bench.retire("eu")
    bench.refuse(Code.WRONG_PHASE, ROOT, c.DeclareLost("eu", "why"))
    bench.refuse(Code.ALREADY, ROOT, c.RetireRegion("eu", "why"))
    for health in (H.HEALTHY, H.SUSPECT, H.LOST):
        bench.refuse(Code.WRONG_PHASE, REGION_HEALTH, c.JudgeRegion("eu", health, ""))


def test_retirement_needs_a_reason_and_the_right_to_break_the_glass() -> None:
    bench = a_world()
    bench.put(a_principal("person/operator", Permission.OPERATE, Permission.OVERRIDE))
    bench.put(a_principal("person/abroad", Permission.BREAK_GLASS, region="us"))
    bench.refuse(Code.NO_RIGHT, "person/operator", c.RetireRegion("eu", "why"))
    bench.refuse(Code.WRONG_SCOPE, "person/abroad", c.RetireRegion("eu", "why"))
    bench.refuse(Code.MALFORMED, ROOT, c.RetireRegion("eu", ""))
    bench.refuse(Code.NOT_FOUND, ROOT, c.RetireRegion("ap", "why"))


def test_a_region_that_never_joined_is_retired_without_a_tombstone() -> None:
    bench = a_world()
    bench.put(a_region("ap"))
    bench.retire("ap")
    assert len(bench.state.tombstones) == 0
    bench.join("ap")
    assert bench.state.regions["ap"].status.health is H.HEALTHY
