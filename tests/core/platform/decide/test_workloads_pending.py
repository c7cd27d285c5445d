"""How many replicas a tenant may wait for."""

from holdfast.core.ledger.answers import Code
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import STATUS
from tests.support.ledgers.platform import ACME, PlatformBench, a_tenant, a_workload, a_world


def a_small_tenant(most: int) -> PlatformBench:
    bench = a_world()
    bench.put(a_tenant("acme", "normal", pending_max=most))
    return bench


def test_a_tenant_may_wait_for_so_many_replicas_over_all_its_workloads() -> None:
    bench = a_small_tenant(10)
    bench.put(a_workload("web", replicas=6))
    refused = bench.refuse(Code.TOO_MANY_PENDING, ACME, c.PutWorkload(a_workload("api", replicas=5)))
    assert (refused.facts["pending"], refused.facts["most"]) == (11, 10)
    bench.put(a_workload("api", replicas=4))
    bench.put(a_workload("web", tenant="beta", replicas=50))
    assert dict(bench.state.pending_of.items()) == {"acme": 10, "beta": 50}


def test_what_is_bound_does_not_wait() -> None:
    bench = a_small_tenant(10)
    web = bench.put(a_workload("web", replicas=8))
    bench.accept(STATUS, c.ReportStatus(web, 1, 7, 0, 0))
    bench.put(a_workload("api", replicas=9))
    bench.refuse(Code.TOO_MANY_PENDING, ACME, c.PutWorkload(a_workload("web", replicas=9)))
    bench.accept(STATUS, c.ReportStatus(web, 1, 9, 0, 0))
    bench.put(a_workload("web", replicas=9))
    assert bench.state.pending_of["acme"] == 9


def test_who_is_above_the_limit_may_want_less_but_not_more() -> None:
    bench = a_small_tenant(100)
    bench.put(a_workload("web", replicas=50))
    bench.put(a_tenant("acme", "normal", pending_max=10))
    bench.refuse(Code.TOO_MANY_PENDING, ACME, c.PutWorkload(a_workload("web", replicas=51)))
    bench.put(a_workload("web", replicas=50, disruption_max=2))
    bench.put(a_workload("web", replicas=49))
    bench.put(a_workload("none", replicas=0))


def test_what_is_being_deleted_is_not_wanted_any_more() -> None:
    bench = a_small_tenant(10)
    web = bench.put(a_workload("web", replicas=8))
    bench.assign(web, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert bench.state.pending_of.get("acme") is None
    bench.put(a_workload("web", replicas=10))
    bench.accept(STATUS, c.ReportStatus(web, 1, 3, 0, 0))
    assert bench.state.pending_of["acme"] == 10
