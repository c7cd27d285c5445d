"""PublishPolicy, ActivatePolicy, RollBackPolicy."""

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.model.control import BUILT_IN_POLICY, PolicyDocument, PolicyStage
from holdfast.core.model.tenancy import Right
from holdfast.core.platform import commands as c
from holdfast.core.platform.policies import valid_policy
from tests.support.platform import ROOT, PlatformBench, a_principal, a_world

PACKED = PolicyDocument(packing=5)


def published() -> tuple[PlatformBench, int]:
    bench = a_world()
    return bench, bench.accept(ROOT, c.PublishPolicy(PACKED))


def test_a_published_policy_is_a_draft_and_valid_nowhere() -> None:
    bench, revision = published()
    policy = bench.state.policies[revision]
    assert (policy.revision, policy.stage, policy.author, policy.at) == (revision, PolicyStage.DRAFT, ROOT, bench.at)
    assert valid_policy(bench.state, "eu", "acme") == BUILT_IN_POLICY


ILL_WEIGHTED: list[dict[str, Any]] = [
    {"packing": 1_001},
    {"packing": -1_001},
    {"scores": (("spread", -1),)},
    {"scores": (("spread", 1_001),)},
    {"scores": (("spread", 1), ("locality", 1))},
    {"scores": (("spread", 1), ("spread", 2))},
    {"scores": (("", 1),)},
    {"freshness": (("normal", 0),)},
]


@pytest.mark.parametrize("fields", ILL_WEIGHTED, ids=str)
def test_weights_that_no_scheduler_could_weigh_by_are_malformed(fields: dict[str, Any]) -> None:
    a_world().refuse(Code.MALFORMED, ROOT, c.PublishPolicy(PolicyDocument(**fields)))


def test_an_activated_policy_is_the_valid_one_there_and_nowhere_else() -> None:
    bench, revision = published()
    bench.accept(ROOT, c.ActivatePolicy(revision, "eu"))
    assert valid_policy(bench.state, "eu", "acme").revision == revision
    assert valid_policy(bench.state, "us", "acme") == BUILT_IN_POLICY


def test_a_policy_of_its_own_goes_before_the_one_for_everybody() -> None:
    bench, everybodys = published()
    own = bench.accept(ROOT, c.PublishPolicy(PolicyDocument(packing=-5)))
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
    bench.accept(ROOT, c.RollBackPolicy(revision, 0))
    bench.refuse(Code.WRONG_PHASE, ROOT, c.ActivatePolicy(revision, "eu"))
    bench.refuse(Code.ALREADY, ROOT, c.RollBackPolicy(revision, 0))


def test_a_rollback_names_another_policy_that_exists_and_stands() -> None:
    bench, revision = published()
    fallen = bench.accept(ROOT, c.PublishPolicy(PACKED))
    bench.accept(ROOT, c.RollBackPolicy(fallen, 0))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.RollBackPolicy(0, revision))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.RollBackPolicy(revision, revision))
    bench.refuse(Code.NOT_FOUND, ROOT, c.RollBackPolicy(revision, 99))
    bench.refuse(Code.NOT_FOUND, ROOT, c.RollBackPolicy(99, 0))
    bench.refuse(Code.WRONG_PHASE, ROOT, c.RollBackPolicy(revision, fallen))


def test_policies_need_the_right_to_promote_them() -> None:
    bench, revision = published()
    bench.put(a_principal("person/operator", Right.OPERATE))
    for command in (c.PublishPolicy(PACKED), c.ActivatePolicy(revision, "eu"), c.RollBackPolicy(revision, 0)):
        bench.refuse(Code.NO_RIGHT, "person/operator", command)


def test_a_scope_bounds_where_a_policy_may_be_promoted() -> None:
    bench, revision = published()
    bench.put(a_principal("person/local", Right.PROMOTE_POLICY, region="eu"))
    bench.put(a_principal("person/guest", Right.PROMOTE_POLICY, tenant="acme"))
    bench.accept("person/local", c.ActivatePolicy(revision, "eu"))
    bench.accept("person/guest", c.ActivatePolicy(revision, "us", "acme"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.ActivatePolicy(revision, "us"))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.ActivatePolicy(revision, "us"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.RollBackPolicy(revision, 0))
