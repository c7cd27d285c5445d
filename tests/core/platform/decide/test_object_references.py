"""What refers to an object refuses its deletion."""

from holdfast.core.ledger.answers import Code
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import (
    HOUR,
    ROOT,
    T0,
    a_budget,
    a_class,
    a_pool,
    a_principal,
    a_tenant,
    a_token,
    a_workload,
    a_world,
    cpu,
)


def test_a_tenant_stays_while_it_has_a_quota_workloads_or_a_budget() -> None:
    bench = a_world()
    bench.put(a_budget("own", ("eu",), cpu(1), "beta"))
    bench.put(a_workload("web", "beta"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Tenant", "beta"))
    bench.accept(ROOT, c.Delete("Quota", "beta"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Tenant", "beta"))
    bench.accept("tenant/beta", c.DeleteWorkload("beta", "web"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Tenant", "beta"))
    bench.accept(ROOT, c.Delete("RecoveryBudget", "own"))
    bench.accept(ROOT, c.Delete("Tenant", "beta"))


def test_a_quota_stays_while_some_of_it_is_lent() -> None:
    bench = a_world()
    bench.offer("eu", cpu(1))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Quota", "acme"))
    bench.offer("eu", cpu(0))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Quota", "acme"))
    bench.settle("eu", 2, cpu(0))
    bench.accept(ROOT, c.Delete("Quota", "acme"))


def test_a_priority_class_stays_while_tenants_workloads_or_assignments_name_it() -> None:
    bench = a_world()
    workload = bench.put(a_workload())
    bench.assign(workload, "eu", 1)
    bench.refuse(Code.IN_USE, ROOT, c.Delete("PriorityClass", "normal"))
    for tenant in ("acme", "beta"):
        bench.put(a_tenant(tenant, "critical"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("PriorityClass", "normal"))
    bench.put(a_workload(priority_class="critical"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("PriorityClass", "normal"))
    bench.assign(workload, "eu", 1)
    bench.accept(ROOT, c.Delete("PriorityClass", "normal"))


def test_a_principal_stays_while_a_live_token_speaks_for_it() -> None:
    bench = a_world()
    bench.put(a_principal("person/x"))
    bench.put(a_token("t", "person/x"))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Principal", "person/x"))
    bench.put(a_token("t", "person/x", revoked=True))
    bench.accept(ROOT, c.Delete("Principal", "person/x"))


def test_a_token_is_forgotten_once_it_is_revoked_or_expired() -> None:
    bench = a_world()
    bench.put(a_token("t1"))
    bench.put(a_token("t2", expires=T0 + HOUR))
    bench.refuse(Code.TOO_EARLY, ROOT, c.Delete("Token", "t1"))
    bench.put(a_token("t1", revoked=True))
    bench.accept(ROOT, c.Delete("Token", "t1"))
    bench.later(HOUR)
    bench.accept(ROOT, c.Delete("Token", "t2"))


def test_a_region_stays_until_it_is_retired_and_nothing_names_it() -> None:
    bench = a_world()
    bench.put(a_pool("p", "us"))
    bench.put(a_workload(regions=("us", "eu")))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Region", "us"))
    bench.retire("us")
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Region", "us"))
    bench.accept(ROOT, c.Delete("NodePool", "p"))
    bench.put(a_budget("reserve", ("eu",), cpu(4_000)))
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Region", "us"))
    bench.put(a_workload(regions=("eu",)))
    bench.accept(ROOT, c.Delete("Region", "us"))


def test_a_budget_stays_while_some_of_it_is_lent_or_a_workload_counts_on_it() -> None:
    bench = a_world()
    bench.put(a_workload(budget="reserve"))
    bench.offer("eu", cpu(1), "recovery/reserve")
    bench.refuse(Code.IN_USE, ROOT, c.Delete("RecoveryBudget", "reserve"))
    bench.offer("eu", cpu(0), "recovery/reserve")
    bench.settle("eu", 2, cpu(0), "recovery/reserve")
    bench.refuse(Code.IN_USE, ROOT, c.Delete("RecoveryBudget", "reserve"))
    bench.put(a_workload())
    bench.accept(ROOT, c.Delete("RecoveryBudget", "reserve"))


def test_a_policy_that_was_pinned_for_a_tenant_or_a_region_goes_with_it() -> None:
    bench = a_world()
    bench.put(a_tenant("gone"))
    bench.accept(ROOT, c.ActivatePolicy(0, "us2", "gone"))
    bench.accept(ROOT, c.ActivatePolicy(0, "us2"))
    bench.accept(ROOT, c.Delete("Tenant", "gone"))
    assert [validity.scope for validity in bench.state.validities.values()] == [""]
    bench.retire("us2")
    bench.accept(ROOT, c.Delete("Region", "us2"))
    assert len(bench.state.validities) == 0


def test_an_unused_class_goes_at_once() -> None:
    bench = a_world()
    bench.put(a_class("low", 1))
    bench.accept(ROOT, c.Delete("PriorityClass", "low"))
