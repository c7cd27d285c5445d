"""PutWorkload: what a tenant may ask for."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.probes import HttpProbe, Probe
from holdfast.core.model.objects.workloads import FailoverMode, OnDisconnect, Placement
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import (
    ACME,
    ROOT,
    a_budget,
    a_principal,
    a_template,
    a_tenant,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)


def test_a_workload_is_stored_with_its_template_and_its_revision_is_its_uid() -> None:
    bench = a_world()
    uid = bench.put(a_workload())
    stored = bench.state.workloads[uid]
    assert (stored.meta.uid, stored.meta.tenant, stored.meta.created_by) == (uid, "acme", ACME)
    assert bench.state.templates[template_digest(a_template())] == a_template()
    assert bench.workload("web") is stored


def test_scaling_is_a_new_generation_and_no_new_template() -> None:
    bench = a_world()
    uid = bench.put(a_workload())
    bench.put(a_workload(replicas=5))
    assert bench.state.workloads[uid].meta.generation == 2
    assert len(bench.state.templates) == 1


def test_scaling_what_is_watched_over_makes_no_new_template_either() -> None:
    bench = a_world()
    watched = replace(a_template(), ports=1, readiness=Probe(http=HttpProbe(path="/health")), secrets=(("A", "env:A"),))
    bench.put(a_workload(template=watched))
    bench.put(a_workload(template=watched, replicas=5))
    assert len(bench.state.templates) == 1


def test_exclusive_work_takes_no_longer_to_stop_than_its_fence_allows() -> None:
    bench = a_world()
    most = bench.state.info.settings.grace
    bench.put(a_workload(template=replace(a_template(), grace=10 * most)))
    bench.put(an_exclusive(template=replace(a_template(), grace=most)))
    late = an_exclusive("lock", template=replace(a_template(), grace=most + 1))
    refused = bench.refuse(Code.CONTRADICTORY, ACME, c.PutWorkload(late))
    assert (refused.facts["grace"], refused.facts["most"]) == (most + 1, most)


def test_equal_templates_are_stored_once_whoever_wrote_them() -> None:
    bench = a_world()
    bench.put(a_workload("web", "acme"))
    bench.put(a_workload("api", "beta"))
    assert len(bench.state.templates) == 1


def test_the_same_once_more_changes_nothing() -> None:
    bench = a_world()
    bench.put(a_workload())
    bench.refuse(Code.ALREADY, ACME, c.PutWorkload(a_workload()))


def test_a_stale_put_is_told_which_revision_to_catch_up_to() -> None:
    bench = a_world()
    read = bench.put(a_workload())
    newer = bench.put(a_workload(replicas=4))
    refused = bench.refuse(Code.STALE, ACME, c.PutWorkload(a_workload(replicas=5), expect=read))
    assert refused.facts["catch_up_to"] == newer


def test_an_edit_is_not_stale_because_of_a_status_report() -> None:
    bench = a_world()
    read = bench.put(a_workload())
    bench.accept("controller/status", c.ReportStatus(read, 1, 1, 1, 1))
    bench.put(a_workload(replicas=4), expect=read)


def test_a_tenant_writes_its_own_workloads_only() -> None:
    bench = a_world()
    bench.refuse(Code.WRONG_SCOPE, "tenant/beta", c.PutWorkload(a_workload()))
    bench.put(a_principal("person/scoped", Permission.WRITE, tenant="beta"))
    bench.refuse(Code.WRONG_SCOPE, "person/scoped", c.PutWorkload(a_workload()))
    bench.accept("person/scoped", c.PutWorkload(a_workload("web", "beta")))
    bench.accept(ROOT, c.PutWorkload(a_workload()))


def test_a_regions_writer_writes_what_stays_in_that_region() -> None:
    bench = a_world()
    bench.put(a_principal("person/local", Permission.WRITE, region="eu"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.PutWorkload(a_workload()))
    bench.accept("person/local", c.PutWorkload(a_workload(regions=("eu",))))
    bench.put(a_workload("wide"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.PutWorkload(a_workload("wide", regions=("eu",))))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.DeleteWorkload("acme", "wide"))


def test_a_person_without_the_right_to_write_writes_nothing() -> None:
    bench = a_world()
    bench.put(a_principal("person/reader", Permission.READ))
    bench.refuse(Code.NO_RIGHT, "person/reader", c.PutWorkload(a_workload()))


REFUSALS: list[tuple[Code, dict[str, Any]]] = [
    (Code.CONTRADICTORY, {"replicas": -1}),
    (Code.CONTRADICTORY, {"exclusive": True}),
    (Code.CONTRADICTORY, {"failover": FailoverMode.LEASED, "on_disconnect": OnDisconnect.STOP}),
    (Code.MALFORMED, {"replicas": 100_001}),
    (Code.MALFORMED, {"template": a_template(-1)}),
    (Code.MALFORMED, {"placement": Placement(weights=(("eu", -1),))}),
    (Code.NOT_FOUND, {"priority_class": "urgent"}),
    (Code.NOT_FOUND, {"regions": ("ap",)}),
    (Code.NOT_FOUND, {"placement": Placement(weights=(("ap", 1),))}),
    (Code.NOT_FOUND, {"budget": "nothing"}),
    (Code.RESIDENCY, {"jurisdictions": ("CH",)}),
    (Code.RESIDENCY, {"regions": ("us",), "jurisdictions": ("EU",)}),
]


@pytest.mark.parametrize(("code", "fields"), REFUSALS, ids=[str(fields) for _, fields in REFUSALS])
def test_what_can_never_be_is_refused_at_once(code: Code, fields: dict[str, Any]) -> None:
    a_world().refuse(code, ACME, c.PutWorkload(a_workload(**fields)))


def test_names_may_be_grouped_and_must_be_names() -> None:
    bench = a_world()
    bench.put(a_workload("shop/cart.v2"))
    for name in ("", "Web", "web/", "a|b"):
        bench.refuse(Code.MALFORMED, ACME, c.PutWorkload(a_workload(name)))


def test_a_tenant_that_does_not_exist_has_no_workloads() -> None:
    a_world().refuse(Code.NOT_FOUND, "tenant/nobody", c.PutWorkload(a_workload("web", "nobody")))


def test_a_priority_class_must_be_allowed_to_the_tenant() -> None:
    bench = a_world()
    bench.put(a_tenant("beta", "normal"))
    refused = bench.refuse(
        Code.PRIORITY, "tenant/beta", c.PutWorkload(a_workload("w", "beta", priority_class="critical"))
    )
    assert refused.facts["allowed"] == ["normal"]


def test_a_tenant_has_no_more_workloads_than_it_may_and_may_still_change_them() -> None:
    bench = a_world()
    bench.put(a_tenant("beta", "normal", most=1))
    bench.put(a_workload("one", "beta"))
    bench.refuse(Code.OVER_QUOTA, "tenant/beta", c.PutWorkload(a_workload("two", "beta")))
    bench.put(a_workload("one", "beta", replicas=9))


def test_a_retired_region_satisfies_no_residency_rule() -> None:
    bench = a_world()
    bench.retire("eu")
    bench.refuse(Code.RESIDENCY, ACME, c.PutWorkload(a_workload(jurisdictions=("EU",))))


def test_a_budget_must_hold_room_for_the_tenant() -> None:
    bench = a_world()
    bench.put(a_budget("own", ("eu",), cpu(1), "beta"))
    bench.refuse(Code.CONTRADICTORY, ACME, c.PutWorkload(a_workload(budget="own")))
    bench.put(a_workload("web", "beta", budget="own"))


def test_how_identities_are_kept_does_not_change_while_a_region_acts_on_it() -> None:
    bench = a_world()
    workload = bench.put(an_exclusive())
    bench.hold(workload, "eu", 0)
    bench.refuse(Code.IN_USE, ACME, c.PutWorkload(an_exclusive(leased=True)))
    bench.refuse(Code.IN_USE, ACME, c.PutWorkload(a_workload("db")))
    bench.put(an_exclusive(replicas=9))


def test_how_identities_are_kept_may_change_before_anything_runs() -> None:
    bench = a_world()
    bench.put(an_exclusive())
    bench.put(an_exclusive(leased=True))


def test_an_object_that_is_being_deleted_cannot_be_changed() -> None:
    bench = a_world()
    uid = bench.put(a_workload())
    bench.assign(uid, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    read_before = replace(a_workload(replicas=9), meta=Meta(name="web", tenant="acme", uid=uid))
    bench.refuse(Code.WRONG_PHASE, ACME, c.PutWorkload(read_before))
