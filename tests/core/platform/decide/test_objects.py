"""Put and Delete: what a sender may say, and what is the ledger's to say."""

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth, RegionStatus
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.metadata import Deletion, Finalizer, Meta
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import ROOT, a_class, a_pool, a_principal, a_quota, a_region, a_tenant, a_world, cpu


def test_a_new_object_gets_the_revision_of_its_event_as_its_uid() -> None:
    bench = a_world()
    revision = bench.put(a_tenant("new"))
    meta = bench.state.tenants["new"].meta
    assert (meta.uid, meta.revision, meta.generation, meta.created_by) == (revision, revision, 1, ROOT)


def test_a_changed_spec_is_a_new_generation_and_a_changed_label_is_not() -> None:
    bench = a_world()
    created = bench.put(a_tenant("new"))
    bench.put(a_tenant("new", most=5))
    labelled = replace(a_tenant("new", most=5), meta=Meta(name="new", labels=(("team", "x"),)))
    last = bench.put(labelled)
    meta = bench.state.tenants["new"].meta
    assert (meta.uid, meta.generation, meta.revision) == (created, 2, last)
    assert meta.labels == (("team", "x"),)


def test_an_object_keeps_the_time_at_which_it_was_created_until_it_is_made_again() -> None:
    bench = a_world()
    created = bench.at
    bench.put(a_tenant("new"))
    bench.later(5_000)
    bench.put(a_tenant("new", most=5))
    assert bench.state.tenants["new"].meta.created == created
    bench.accept(ROOT, c.Delete("Tenant", "new"))
    bench.put(a_tenant("new"))
    assert bench.state.tenants["new"].meta.created == bench.at == created + 5_000


def test_what_a_sender_claims_of_the_ledgers_fields_is_ignored() -> None:
    bench = a_world()
    claimed = Meta(
        name="ap",
        uid=7,
        tenant="acme",
        generation=99,
        revision=8,
        created_by="person/somebody",
        created=9,
        finalizers=(Finalizer(name="f", owner="region/eu", deadline=1),),
        deletion=Deletion(by="person/somebody", at=1),
    )
    heard = Condition(type="Heard", status=ConditionStatus.TRUE, reason=ConditionReason.AS_DESIRED)
    status = RegionStatus(health=RegionHealth.LOST, log_id="mine", conditions=(heard,), address="http://there")
    revision = bench.put(replace(a_region("ap"), meta=claimed, status=status))
    stored = bench.state.regions["ap"]
    assert stored.meta == Meta(name="ap", uid=revision, revision=revision, created_by=ROOT, created=bench.at)
    assert stored.status == RegionStatus(since=bench.at)


def test_labels_are_kept_in_order_however_they_were_sent() -> None:
    bench = a_world()
    meta = Meta(name="new", labels=(("b", "2"), ("a", "1")))
    bench.put(replace(a_tenant("new"), meta=meta))
    assert bench.state.tenants["new"].meta.labels == (("a", "1"), ("b", "2"))
    swapped = replace(meta, labels=(("a", "1"), ("b", "2")))
    bench.refuse(Code.ALREADY, ROOT, c.Put(replace(a_tenant("new"), meta=swapped)))


def test_the_same_once_more_changes_nothing() -> None:
    bench = a_world()
    bench.refuse(Code.ALREADY, ROOT, c.Put(a_tenant("acme", "normal", "critical")))


def test_a_put_that_expects_the_stored_revision_is_accepted() -> None:
    bench = a_world()
    read = bench.state.tenants["acme"].meta.revision
    bench.put(a_tenant("acme", "normal"), expect=read)


def test_a_stale_put_is_told_which_revision_to_catch_up_to() -> None:
    bench = a_world()
    read = bench.state.tenants["acme"].meta.revision
    newer = bench.put(a_tenant("acme", "normal"))
    refused = bench.refuse(Code.STALE, ROOT, c.Put(a_tenant("acme"), expect=read))
    assert (refused.facts["seen"], refused.facts["catch_up_to"]) == (read, newer)


def test_a_put_that_expects_an_object_which_is_gone_is_stale() -> None:
    bench = a_world()
    bench.refuse(Code.STALE, ROOT, c.Put(a_tenant("new"), expect=5))


def test_bad_names_and_marks_are_malformed() -> None:
    bench = a_world()
    for name in ("", "Upper", "-x", "x-", "a/b", "a|b", "a b", "x" * 129, "line\n", "ü"):
        bench.refuse(Code.MALFORMED, ROOT, c.Put(a_tenant(name)))
    for labels in ((("", "x"),), (("a", "1"), ("a", "2")), (("a", "x" * 257),)):
        bad = replace(a_tenant("new"), meta=Meta(name="new", labels=labels))
        bench.refuse(Code.MALFORMED, ROOT, c.Put(bad))


def test_only_people_who_may_operate_put_and_delete() -> None:
    bench = a_world()
    bench.put(a_principal("person/reader", Permission.READ))
    bench.refuse(Code.NO_RIGHT, "person/reader", c.Put(a_tenant("new")))
    bench.refuse(Code.NO_RIGHT, "tenant/acme", c.Put(a_tenant("new")))
    bench.refuse(Code.NO_RIGHT, "person/reader", c.Delete("Tenant", "acme"))


def test_a_sender_with_a_scope_does_not_write_what_concerns_everybody() -> None:
    bench = a_world()
    bench.put(a_principal("person/local", Permission.OPERATE, region="eu"))
    bench.put(a_principal("person/guest", Permission.OPERATE, tenant="acme"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.Put(a_quota("acme", cpu(99_000))))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.Put(a_quota("acme", cpu(99_000))))
    bench.refuse(Code.WRONG_SCOPE, "person/guest", c.Put(a_pool("p", "eu")))


def test_a_regions_operator_writes_that_region_and_its_pools() -> None:
    bench = a_world()
    bench.put(a_principal("person/local", Permission.OPERATE, region="eu"))
    bench.accept("person/local", c.Put(a_region("eu", "EU", us=90)))
    bench.accept("person/local", c.Put(a_pool("p", "eu")))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.Put(a_region("us", "EU")))
    bench.put(a_pool("q", "us"))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.Put(a_pool("q", "eu")))
    bench.refuse(Code.WRONG_SCOPE, "person/local", c.Delete("NodePool", "q"))


def test_a_deleted_object_is_gone_and_its_name_is_free() -> None:
    bench = a_world()
    first = bench.put(a_class("low", 1))
    bench.accept(ROOT, c.Delete("PriorityClass", "low", first))
    assert "low" not in bench.state.priority_classes
    assert bench.put(a_class("low", 1)) > first


def test_a_delete_that_means_another_object_of_that_name_is_stale() -> None:
    bench = a_world()
    first = bench.put(a_class("low", 1))
    bench.accept(ROOT, c.Delete("PriorityClass", "low"))
    bench.put(a_class("low", 1))
    bench.refuse(Code.STALE, ROOT, c.Delete("PriorityClass", "low", first))


def test_a_delete_of_nothing_is_not_found_and_of_no_kind_malformed() -> None:
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, ROOT, c.Delete("Tenant", "nobody"))
    bench.refuse(Code.MALFORMED, ROOT, c.Delete("Workload", "web"))


def test_a_repeated_put_gets_the_first_answer() -> None:
    bench = a_world()
    envelope = bench.envelope(ROOT, c.Put(a_tenant("new")))
    first, second = bench.give(envelope), bench.give(envelope)
    assert first.revision == second.revision  # type: ignore[union-attr]
