"""How tenants divide a region that is too small for them: by weight, in small parts, over all their accounts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.core.model.records.lifecycle import ON_NODE
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.queue.tenant_shares import TenantShares, tenant_usage
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower


def a_small_region(places: int = 10, **grants: dict[str, Any]) -> tuple[RegionBench, Follower]:
    """A region of so many cpus, and tenants with these terms of their quota."""
    bench = RegionBench()
    for tenant, terms in grants.items():
        bench.a_grant(f"quota/{tenant}", **terms)
        bench.a_grant(f"reclaimable/{tenant}")
    bench.a_node("n1", cpu=places * 1000, memory=10**9, disk=10**9)
    return bench, Follower(bench)


def wants(bench: RegionBench, uid: int, tenant: str, count: int, **fields: Any) -> None:
    template = fields.pop("template", a_template(cpu=1000, memory=0))
    account = fields.pop("account", f"quota/{tenant}")
    bench.a_workload(template, count=count, uid=uid, workload=uid, tenant=tenant, accounts=(account,), **fields)


def placed(bench: RegionBench) -> dict[str, int]:
    """By tenant: its slots on nodes."""
    tenant = {uid: one.tenant for uid, one in bench.state.assignments.items()}
    return dict(Counter(tenant[slot.assignment] for slot in bench.state.slots.values() if slot.phase in ON_NODE))


def test_two_equal_tenants_get_half_of_the_places_each_though_one_group_could_take_all() -> None:
    bench, follower = a_small_region(acme={}, beta={})
    wants(bench, 1, "acme", 10)
    wants(bench, 2, "beta", 10)
    follower.work()
    assert placed(bench) == {"acme": 5, "beta": 5}


def test_places_are_divided_by_weight() -> None:
    bench, follower = a_small_region(12, acme={}, beta={"weight": 3})
    wants(bench, 1, "acme", 12)
    wants(bench, 2, "beta", 12)
    follower.work()
    assert placed(bench) == {"acme": 3, "beta": 9}


def test_reclaimable_and_recovery_work_count_for_the_share_of_their_tenant() -> None:
    bench, follower = a_small_region(12, acme={}, beta={})
    bench.a_grant("recovery/critical")
    wants(bench, 1, "acme", 2, account="reclaimable/acme", priority_class="best-effort")
    wants(bench, 2, "acme", 2, account="recovery/critical")
    follower.work()
    assert tenant_usage(bench.state, "acme").cpu == 4_000
    wants(bench, 3, "acme", 12)
    wants(bench, 4, "beta", 12)
    follower.work()
    assert placed(bench) == {"acme": 6, "beta": 6}


def test_recovery_work_of_one_proposal_counts_for_its_tenant_at_once() -> None:
    bench, follower = a_small_region(10, acme={}, beta={})
    bench.a_grant("recovery/critical")
    wants(bench, 1, "acme", 10, account="recovery/critical")
    wants(bench, 2, "beta", 10, account="recovery/critical")
    follower.work()
    assert placed(bench) == {"acme": 5, "beta": 5}


def test_use_within_the_protected_amount_does_not_count() -> None:
    bench, follower = a_small_region(10, acme={"protected": Resources(4000)}, beta={})
    wants(bench, 1, "acme", 10)
    wants(bench, 2, "beta", 10)
    follower.work()
    assert placed(bench) == {"acme": 7, "beta": 3}


def test_reclaimable_work_does_not_use_up_what_is_protected() -> None:
    bench, follower = a_small_region(10, acme={"protected": Resources(4000)}, beta={})
    wants(bench, 1, "acme", 2, account="reclaimable/acme", priority_class="best-effort")
    follower.work()
    shares = TenantShares(bench.state)
    assert shares.share("acme") > shares.share("beta") == 0


def test_the_share_is_of_the_resource_of_which_a_tenant_has_most() -> None:
    bench = RegionBench()
    for tenant in ("acme", "beta"):
        bench.a_grant(f"quota/{tenant}")
    bench.a_node("n1", cpu=9_000, memory=18_000)
    follower = Follower(bench)
    wants(bench, 1, "acme", 20, template=a_template(cpu=1000, memory=4000))
    wants(bench, 2, "beta", 20, template=a_template(cpu=3000, memory=1000))
    follower.work()
    assert placed(bench) == {"acme": 3, "beta": 2}, "two thirds of the memory, two thirds of the cpu"


def test_a_tenant_that_waits_alone_places_its_whole_group_in_one_pass() -> None:
    bench, follower = a_small_region(1_000, acme={}, beta={})
    wants(bench, 1, "acme", 900)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert [len(group.placements) for group in attempt.command.groups] == [900]


def test_in_a_large_region_two_tenants_take_turns_of_a_thousandth_of_it() -> None:
    bench, follower = a_small_region(10_000, acme={}, beta={})
    wants(bench, 1, "acme", 100)
    wants(bench, 2, "beta", 100)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert [len(group.placements) for group in attempt.command.groups][:4] == [10, 20, 20, 20]


def test_a_tenant_with_less_catches_up_in_one_quantum() -> None:
    bench, follower = a_small_region(100, acme={}, beta={})
    wants(bench, 1, "acme", 30)
    follower.work()
    wants(bench, 2, "acme", 50, template=a_template(cpu=500, memory=0))
    wants(bench, 3, "beta", 50)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    sizes = [(group.assignment, len(group.placements)) for group in attempt.command.groups]
    assert sizes[0] == (3, 30)


def test_a_request_that_may_not_run_here_waits_with_its_reason_while_its_equals_take_turns() -> None:
    bench, follower = a_small_region(10, acme={}, beta={})
    wants(bench, 1, "acme", 4)
    wants(bench, 2, "acme", 2, right_until=bench.at)
    wants(bench, 3, "beta", 4)
    follower.work()
    assert placed(bench) == {"acme": 4, "beta": 4}
    assert follower.codes(2) == ["not-assigned"]


def test_the_weight_of_a_grant_reaches_the_region_as_its_other_terms_do() -> None:
    bench = RegionBench()
    bench.a_grant(weight=7)
    assert bench.state.accepted_grants["quota/acme"].weight == 7
    known = bench.state.accepted_grants["quota/acme"]
    bench.ship(c.ShippedGrant("quota/acme", 2, known.target, known.ends, weight=8))
    assert bench.state.accepted_grants["quota/acme"].weight == 8
