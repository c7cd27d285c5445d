"""A scheduler knows whose work is on nodes that take one tenant at a time, and which agents isolate strict work."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.scheduling.filters.isolation import IsolationFilter
from holdfast.core.scheduling.filters.one_tenant import OneTenantFilter
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, nodes_of
from tests.support.node_windows import a_bench, passing, seen

STRICT_WORK = a_template(cpu=100, isolation=Isolation.STRICT)
SMALL = a_template(cpu=100)


def a_region(**nodes: dict[str, Any]) -> RegionBench:
    bench = a_bench()
    bench.a_grant("quota/beta")
    for name, said in nodes.items():
        bench.a_node(name, **said)
    return bench


def work_of(bench: RegionBench, tenant: str, number: int, count: int = 1, template: Any = SMALL) -> None:
    bench.a_workload(template, count, uid=100 * number, workload=number, tenant=tenant, accounts=(f"quota/{tenant}",))


def test_strict_work_is_looked_for_a_place_where_agents_enforce_all_of_it() -> None:
    bench = a_region(n1={}, n2={"capabilities": STRICT}, n3={"capabilities": (Capability.USERS,)})
    assert passing(IsolationFilter(), seen(bench, STRICT_WORK)) == "n2"
    assert passing(IsolationFilter(), seen(bench, SMALL)) == "n1 n2 n3"


def test_what_waits_for_isolation_says_which_of_it_how_many_nodes_lack() -> None:
    bench = a_region(n1={}, n2={}, n3={"capabilities": tuple(one for one in STRICT if one is not Capability.USERS)})
    work_of(bench, "acme", 1, template=STRICT_WORK)
    follower = Follower(bench)
    assert follower.step() is None
    (never,) = follower.reasons()
    assert never.code == "never-fits"
    (isolation,) = never.below
    assert (isolation.code, isolation.count) == (Code.ISOLATION.value, 3)
    assert {one.code: one.count for one in isolation.below} == {"cpu-limit": 2, "users": 1}


def test_strict_work_is_placed_once_an_agent_comes_that_isolates_it() -> None:
    bench = a_region(n1={})
    work_of(bench, "acme", 1, template=STRICT_WORK)
    follower = Follower(bench)
    assert follower.step() is None
    bench.open_session("agent/n1")
    bench.a_node("n1", capabilities=STRICT)
    assert nodes_of(follower.step()) == [bench.state.node_names["n1"]]


def test_a_node_with_one_user_is_one_tenants_as_soon_as_something_is_proposed_there() -> None:
    bench = a_region(n1={"shares_user": False})
    work_of(bench, "acme", 1)
    follower = Follower(bench)
    first = follower.look()
    assert nodes_of(first)
    work_of(bench, "beta", 2)
    follower.catch_up(behind=0)
    assert follower.look() is None, "what is under way is there already"
    assert follower.codes(200) == [Code.ONE_TENANT.value]
    assert "nearest fit is n1: one-tenant" in follower.reasons(200)[0].message
    assert "acme" not in str(follower.reasons(200))


def test_who_waits_for_such_a_node_is_woken_when_the_last_of_another_tenant_leaves_it() -> None:
    bench = a_region(n1={"shares_user": False})
    work_of(bench, "acme", 1, template=a_template(cpu=0, memory=0))
    follower = Follower(bench)
    follower.work()
    work_of(bench, "beta", 2)
    assert follower.step() is None
    assert follower.asleep(200) is not None
    bench.send(REPLICA, c.WithdrawSlots(100, (0,)))
    bench.move("agent/n1", Phase.RELEASED, "declined")
    assert nodes_of(follower.step()) == [bench.state.node_names["n1"]]
    assert follower.refused == []


def test_who_waits_for_such_a_node_is_woken_when_its_agent_gives_each_tenant_a_user() -> None:
    bench = a_region(n1={"shares_user": False}, n2={"shares_user": False, "cpu": 1})
    work_of(bench, "acme", 1)
    follower = Follower(bench)
    follower.work()
    work_of(bench, "beta", 2)
    assert follower.step() is None
    assert follower.asleep(200) is not None
    bench.open_session("agent/n1")
    bench.a_node("n1", shares_user=False, capabilities=(Capability.USERS,))
    assert nodes_of(follower.step()) == [bench.state.node_names["n1"]]
    assert follower.refused == []


def test_two_tenants_get_a_node_each_and_nothing_is_refused() -> None:
    bench = a_region(n1={"shares_user": False}, n2={"shares_user": False})
    work_of(bench, "acme", 1, 3)
    work_of(bench, "beta", 2, 3)
    follower = Follower(bench)
    follower.work()
    by_tenant = {number: {bench.slot(ordinal, number).node for ordinal in range(3)} for number in (1, 2)}
    assert all(0 not in nodes for nodes in by_tenant.values())
    assert not by_tenant[1] & by_tenant[2]
    assert follower.refused == []


def test_tenants_pass_where_users_are_their_own_or_shared() -> None:
    bench = a_region(n1={"shares_user": False}, n2={}, n3={"shares_user": False, "capabilities": (Capability.USERS,)})
    work_of(bench, "acme", 1, 3)
    for number, name in enumerate(("n1", "n2", "n3")):
        placement = c.SlotPlacement(number, bench.state.node_names[name])
        bench.place(bench.state.assignments[100], placement)
    assert passing(OneTenantFilter(), seen(bench, SMALL, tenant="beta")) == "n2 n3"
    assert passing(OneTenantFilter(), seen(bench, SMALL, tenant="acme")) == "n1 n2 n3"
