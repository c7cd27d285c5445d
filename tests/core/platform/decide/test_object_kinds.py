"""What each kind must satisfy before it is stored."""

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects import principals
from holdfast.core.model.objects.principals import Permission, PrincipalSpec
from holdfast.core.model.values.resources import AMOUNT_MAX, Resources
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import (
    HOUR,
    ROOT,
    T0,
    a_budget,
    a_class,
    a_pool,
    a_principal,
    a_quota,
    a_region,
    a_tenant,
    a_token,
    a_workload,
    a_world,
    cpu,
)


def test_a_tenant_names_priority_classes_that_exist_and_a_bound_that_is_one() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_tenant("new", "urgent")))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_tenant("new", most=-1)))


def test_a_quota_is_of_a_tenant_that_exists_and_protects_no_more_than_it_has() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_quota("nobody", cpu(1))))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_quota("acme", cpu(1), protected=cpu(2))))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_quota("acme", cpu(-1))))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_quota("acme", Resources(memory=AMOUNT_MAX + 1))))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_quota("acme", Resources(extended=(("b", 1), ("a", 1))))))


def test_a_priority_is_bounded() -> None:
    bench = a_world()
    bench.put(a_class("low", -1_000_000))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_class("lower", -1_000_001)))


def test_a_principal_is_named_by_its_kind() -> None:
    bench = a_world()
    for name in ("person/x", "agent/*", "scheduler/main", "agent/eu/n1", "person/x.y@z"):
        bench.put(a_principal(name, region="eu"))
    for name in ("x", "controller/replica", "ledger/x", "person/", "person/*x", "*/x"):
        bench.refuse(Code.MALFORMED, ROOT, c.Put(a_principal(name)))


def test_nobody_gives_or_takes_a_right_that_they_do_not_have() -> None:
    bench = a_world()
    bench.put(a_principal("person/clerk", Permission.OPERATE))
    grab = a_principal("person/clerk", Permission.OPERATE, Permission.BREAK_GLASS)
    refused = bench.refuse(Code.NO_RIGHT, "person/clerk", c.Put(grab))
    assert refused.facts["missing"] == ["break-glass"]
    disabled = replace(a_principal(ROOT), spec=PrincipalSpec(disabled=True))
    bench.refuse(Code.NO_RIGHT, "person/clerk", c.Put(disabled))
    bench.refuse(Code.NO_RIGHT, "person/clerk", c.Put(a_token("t", ROOT)))
    bench.refuse(Code.NO_RIGHT, "person/clerk", c.Delete("Principal", ROOT))


def test_a_disabled_principal_may_send_nothing() -> None:
    bench = a_world()
    bench.put(a_principal("person/x", Permission.OPERATE))
    bench.put(replace(a_principal("person/x", Permission.OPERATE), spec=PrincipalSpec(disabled=True)))
    bench.refuse(Code.NO_RIGHT, "person/x", c.Put(a_tenant("new")))


def test_a_token_speaks_for_a_principal_that_exists_until_an_end_in_the_future() -> None:
    bench = a_world()
    bench.put(a_token("t1", ROOT))
    bench.put(a_token("t2", "region/eu"))  # by the wildcard of its kind
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_token("t3", "person/nobody")))
    bench.refuse(Code.EXPIRED, ROOT, c.Put(a_token("t3", ROOT, expires=T0)))


def test_a_token_is_stored_as_a_hash_under_a_name_that_can_be_told_from_its_secret() -> None:
    bench = a_world()
    token = a_token("ci.deploy-2")
    for wrong in ("", "00ff", "0F" * 32, "0g" * 32, "0f" * 33):
        bench.refuse(Code.MALFORMED, ROOT, c.Put(replace(token, spec=replace(token.spec, hash=wrong))))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_token("two_words")))
    bench.put(token)
    assert principals.parse_token(principals.format_token("ci.deploy-2", "s" * 43)) == ("ci.deploy-2", "s" * 43)


def test_a_tenants_limits_cannot_be_negative() -> None:
    bench = a_world()
    for name in ("most", "pending_max", "submits_per_minute"):
        refused = bench.refuse(Code.MALFORMED, ROOT, c.Put(a_tenant("acme", **{name: -1})))
        assert list(refused.facts.values()) == [-1]


def test_a_revoked_token_stays_revoked() -> None:
    bench = a_world()
    bench.put(a_token("t1"))
    bench.put(a_token("t1", revoked=True))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_token("t1")))


def test_a_regions_jurisdiction_may_not_change_under_work_that_depends_on_it() -> None:
    bench = a_world()
    workload = bench.put(a_workload(jurisdictions=("EU",)))
    uid = bench.assign(workload, "eu", 1)
    refused = bench.refuse(Code.IN_USE, ROOT, c.Put(a_region("eu", "CH")))
    assert refused.facts["assignments"] == [uid]
    bench.put(a_region("eu", "EU", us=80))
    bench.put(a_region("us", "CA"))


def test_a_regions_jurisdiction_may_change_to_another_that_the_work_allows() -> None:
    bench = a_world()
    workload = bench.put(a_workload(jurisdictions=("EU", "CH")))
    bench.assign(workload, "eu", 1)
    bench.put(a_region("eu", "CH"))


def test_latencies_cannot_be_negative() -> None:
    a_world().refuse(Code.MALFORMED, ROOT, c.Put(a_region("ap", us=-1)))


def test_a_pool_is_in_a_region_that_exists_and_its_sizes_make_sense() -> None:
    bench = a_world()
    bench.put(a_pool("p", "eu", 1, 3))
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_pool("p", "ap")))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_pool("p", "eu", 4, 3)))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_pool("p", "eu", -1, 3)))


def test_a_budget_names_regions_and_tenants_that_exist() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_budget("b", ("ap",))))
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_budget("b", ("eu",), cpu(1), "nobody")))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_budget("b", ("eu", "eu"))))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_budget("b", ("eu",), cpu(-1))))


def test_a_budget_may_not_fall_below_what_is_lent() -> None:
    bench = a_world()
    bench.offer("eu", cpu(3_000), "recovery/reserve")
    bench.put(a_budget("reserve", ("eu", "us"), cpu(3_000)))
    bench.refuse(Code.IN_USE, ROOT, c.Put(a_budget("reserve", ("eu", "us"), cpu(2_999))))
    bench.refuse(Code.IN_USE, ROOT, c.Put(a_budget("reserve", ("us",), cpu(3_000))))
    bench.put(a_budget("reserve", ("eu",), cpu(3_000)))


def test_a_token_can_be_revoked_until_it_expires() -> None:
    bench = a_world()
    bench.put(a_token("t1", expires=T0 + HOUR))
    bench.later(HOUR)
    bench.refuse(Code.EXPIRED, ROOT, c.Put(a_token("t1", expires=T0 + HOUR, revoked=True)))
