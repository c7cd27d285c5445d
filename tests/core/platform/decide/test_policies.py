"""PublishPolicy, ActivatePolicy, RollBackPolicy."""

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.envelope import ABSENT, PRESENT
from holdfast.core.model.objects.policies import BUILT_IN_POLICY, PolicyDocument, PolicyStage
from holdfast.core.model.objects.principals import Permission
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.lookups import valid_policy
from tests.support.ledgers.platform import ROOT, PlatformBench, a_principal, a_world

PACKED = PolicyDocument(scores=(("packing", 5),))


def published() -> tuple[PlatformBench, int]:
    bench = a_world()
    return bench, bench.accept(ROOT, c.PublishPolicy("packed", PACKED))


def test_a_published_policy_is_a_draft_and_valid_nowhere() -> None:
    bench, revision = published()
    policy = bench.state.policies[revision]
    assert (policy.revision, policy.stage, policy.author, policy.at) == (revision, PolicyStage.DRAFT, ROOT, bench.at)
    assert valid_policy(bench.state, "eu", "acme") == BUILT_IN_POLICY


ILL_WEIGHTED: list[tuple[str, dict[str, Any]]] = [
    ("scores.packing", {"scores": (("packing", -1),)}),
    ("scores.packing", {"scores": (("packing", 1_001),)}),
    ("scores", {"scores": (("packing", 1), ("balance", 1))}),
    ("scores", {"scores": (("packing", 1), ("packing", 2))}),
    ("scores.", {"scores": (("", 1),)}),
    ("scores.packng", {"scores": (("balance", 1), ("packng", 1))}),
    ("scores.acme/", {"scores": (("acme/", 1),)}),
    ("scores./green", {"scores": (("/green", 1),)}),
    ("freshness.normal", {"freshness": (("normal", 0),)}),
    ("freshness", {"freshness": (("normal", 5), ("batch", 5))}),
]


@pytest.mark.parametrize(("field", "fields"), ILL_WEIGHTED, ids=str)
def test_weights_that_no_scheduler_could_weigh_by_are_malformed_and_the_field_is_named(
    field: str, fields: dict[str, Any]
) -> None:
    refused = a_world().refuse(Code.MALFORMED, ROOT, c.PublishPolicy("packed", PolicyDocument(**fields)))
    assert refused.facts["field"] == field


def test_a_score_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    refused = a_world().refuse(Code.MALFORMED, ROOT, c.PublishPolicy("packed", PolicyDocument(scores=(("packng", 3),))))
    assert refused.message.startswith(
        "scores.packng: unknown; known are balance, cost, emptiness, evenness, fragmentation, "
    )


def test_a_score_of_a_plugin_has_a_slash_in_its_name_and_is_taken_unseen() -> None:
    a_world().accept(ROOT, c.PublishPolicy("green", PolicyDocument(scores=(("acme/green", 3),))))


def test_a_freshness_for_a_class_that_is_not_there_is_refused_with_the_field() -> None:
    command = c.PublishPolicy("packed", PolicyDocument(freshness=(("", 500), ("norml", 500))))
    refused = a_world().refuse(Code.NOT_FOUND, ROOT, command)
    assert refused.facts["field"] == "freshness.norml"


@pytest.mark.parametrize("name", ["", "built-in", "41.3", "Packed", "a/b"])
def test_a_policy_has_a_name_of_its_own_that_is_no_revision(name: str) -> None:
    a_world().refuse(Code.MALFORMED, ROOT, c.PublishPolicy(name, PACKED))


def test_what_the_newest_revision_of_a_name_says_is_not_published_again() -> None:
    bench, revision = published()
    refused = bench.refuse(Code.ALREADY, ROOT, c.PublishPolicy("packed", PACKED))
    assert refused.facts["revision"] == revision
    bench.accept(ROOT, c.PublishPolicy("other", PACKED))
    bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument()))
    again = bench.accept(ROOT, c.PublishPolicy("packed", PACKED))
    assert [bench.state.policies[one].document for one in (revision, again)] == [PACKED, PACKED]


def test_what_was_rolled_back_can_be_published_again() -> None:
    bench, revision = published()
    bench.accept(ROOT, c.RollBackPolicy(revision, 0, "it was worse"))
    bench.accept(ROOT, c.PublishPolicy("packed", PACKED))


def test_a_publication_says_which_revision_it_was_made_from() -> None:
    bench, first = published()
    bench.refuse(Code.EXISTS, ROOT, c.PublishPolicy("packed", PolicyDocument(), ABSENT))
    bench.refuse(Code.STALE, ROOT, c.PublishPolicy("other", PolicyDocument(), PRESENT))
    bench.refuse(Code.STALE, ROOT, c.PublishPolicy("other", PolicyDocument(), first))
    second = bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(), first))
    stale = bench.refuse(Code.STALE, ROOT, c.PublishPolicy("packed", PACKED, first))
    assert stale.facts["catch_up_to"] == second
    bench.accept(ROOT, c.PublishPolicy("packed", PACKED, PRESENT))
    bench.accept(ROOT, c.PublishPolicy("other", PACKED, ABSENT))


def test_an_activated_policy_is_the_valid_one_there_and_nowhere_else() -> None:
    bench, revision = published()
    bench.accept(ROOT, c.ActivatePolicy(revision, "eu"))
    assert valid_policy(bench.state, "eu", "acme").revision == revision
    assert valid_policy(bench.state, "us", "acme") == BUILT_IN_POLICY


def test_a_policy_of_its_own_goes_before_the_one_for_everybody() -> None:
    bench, everybodys = published()
    own = bench.accept(ROOT, c.PublishPolicy("own", PolicyDocument()))
    bench.accept(ROOT, c.ActivatePolicy(everybodys, "eu"))
    bench.accept(ROOT, c.ActivatePolicy(own, "eu", "acme"))
    assert valid_policy(bench.state, "eu", "acme").revision == own
    assert valid_policy(bench.state, "eu", "beta").revision == everybodys
    bench.accept(ROOT, c.ActivatePolicy(0, "eu", "acme"))
    assert valid_policy(bench.state, "eu", "acme") == BUILT_IN_POLICY


def test_a_stage_only_rises() -> None:
    bench, revision = published()
    bench.accept(ROOT, c.ActivatePolicy(revision, "eu", "", PolicyStage.CANARY))
    assert bench.state.policies[revision].stage is PolicyStage.CANARY
    bench.accept(ROOT, c.ActivatePolicy(revision, "eu", "", PolicyStage.ACTIVE))
    bench.accept(ROOT, c.ActivatePolicy(revision, "us", "", PolicyStage.CANARY))
    assert bench.state.policies[revision].stage is PolicyStage.ACTIVE
    bench.refuse(Code.ALREADY, ROOT, c.ActivatePolicy(revision, "us", "", PolicyStage.CANARY))


def test_a_policy_is_activated_as_canary_or_active_in_a_region_for_a_tenant_that_exist() -> None:
    bench, revision = published()
    for stage in (PolicyStage.DRAFT, PolicyStage.ROLLED_BACK):
        bench.refuse(Code.MALFORMED, ROOT, c.ActivatePolicy(revision, "eu", "", stage))
    bench.refuse(Code.NOT_FOUND, ROOT, c.ActivatePolicy(revision, "ap"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.ActivatePolicy(revision, "eu", "nobody"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.ActivatePolicy(99, "eu"))


def test_a_rolled_back_policy_is_never_activated_again() -> None:
    bench, revision = published()
    bench.accept(ROOT, c.RollBackPolicy(revision, 0, "it was worse"))
    bench.refuse(Code.WRONG_PHASE, ROOT, c.ActivatePolicy(revision, "eu"))
    bench.refuse(Code.ALREADY, ROOT, c.RollBackPolicy(revision, 0, "it was worse"))


def test_a_rollback_names_another_policy_that_exists_and_stands() -> None:
    bench, revision = published()
    fallen = bench.accept(ROOT, c.PublishPolicy("other", PACKED))
    bench.accept(ROOT, c.RollBackPolicy(fallen, 0, "it was worse"))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.RollBackPolicy(0, revision, "it was worse"))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.RollBackPolicy(revision, revision, "it was worse"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.RollBackPolicy(revision, 99, "it was worse"))
    bench.refuse(Code.NOT_FOUND, ROOT, c.RollBackPolicy(99, 0, "it was worse"))
    bench.refuse(Code.WRONG_PHASE, ROOT, c.RollBackPolicy(revision, fallen, "it was worse"))


def test_a_rollback_says_why() -> None:
    bench, revision = published()
    bench.refuse(Code.MALFORMED, ROOT, c.RollBackPolicy(revision, 0, " "))


def test_policies_need_the_right_to_promote_them() -> None:
    bench, revision = published()
    bench.put(a_principal("person/operator", Permission.OPERATE))
    for command in (
        c.PublishPolicy("packed", PACKED),
        c.ActivatePolicy(revision, "eu"),
        c.RollBackPolicy(revision, 0, "it was worse"),
    ):
        bench.refuse(Code.NO_RIGHT, "person/operator", command)


def test_a_scope_bounds_where_a_policy_may_be_promoted() -> None:
    bench, revision = published()
    bench.put(a_principal("person/local", Permission.PROMOTE_POLICY, region="eu"))
    bench.put(a_principal("person/guest", Permission.PROMOTE_POLICY, tenant="acme"))
    bench.accept("person/local", c.ActivatePolicy(revision, "eu"))
    bench.accept("person/guest", c.ActivatePolicy(revision, "us", "acme"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.ActivatePolicy(revision, "us"))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.ActivatePolicy(revision, "us"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.RollBackPolicy(revision, 0, "it was worse"))


def test_a_policy_keeps_its_last_ten_revisions_and_those_that_are_valid_somewhere() -> None:
    bench = a_world()
    revisions = []
    for weight in range(30):
        document = PolicyDocument(scores=(("packing", weight),))
        revisions.append(bench.accept(ROOT, c.PublishPolicy("packed", document)))
        if weight == 3:
            bench.accept(ROOT, c.ActivatePolicy(revisions[3], "eu"))
    other = bench.accept(ROOT, c.PublishPolicy("other", PolicyDocument()))
    assert [key for key, _ in bench.state.policies.items()] == [revisions[3], *revisions[-10:], other]
    bench.accept(ROOT, c.RollBackPolicy(revisions[3], revisions[-1], "it packs too much"))
    bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument()))
    assert revisions[3] not in bench.state.policies
