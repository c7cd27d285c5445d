"""examples/platform.yaml is taken by a real platform ledger, document by document, and asks for what it says."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from holdfast.api.kinds import apply_order
from holdfast.api.resources.schemas import parse_object
from holdfast.core.model.objects.policies import SCORES
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import FailoverMode, OnDeadline, Workload
from holdfast.core.model.values.resources import first_exceeded, times, total
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.tables import PlatformState
from holdfast.wiring.dev.data_folder import REGIONS, documents_in
from tests.support.ledgers.platform import ROOT, PlatformBench

FILE = Path(__file__).parents[3] / "examples" / "platform.yaml"
POLICY = FILE.with_name("policy.yaml")


def applied(objects: list[Any]) -> PlatformBench:
    bench = PlatformBench()
    for one in objects:
        bench.accept(ROOT, c.PutWorkload(one) if isinstance(one, Workload) else c.Put(one))
    return bench


def applied_example() -> PlatformBench:
    """A platform to which the example was applied in the order of the file."""
    return applied([parse_object(tree) for tree in documents_in(FILE)])


@cache
def example() -> PlatformState:
    return applied_example().state


def workload(name: str) -> Workload:
    return next(one for _, one in example().workloads.items() if one.meta.name == name)


def class_of(one: Workload) -> PriorityClass:
    return example().priority_classes[one.spec.priority_class]


def test_the_file_is_in_an_order_in_which_everything_that_is_named_is_there() -> None:
    assert len(list(example().workloads.items())) == 5


def test_what_dev_sorts_first_is_in_such_an_order_too() -> None:
    trees = documents_in(FILE)
    trees.reverse()
    trees.sort(key=lambda tree: apply_order(tree["kind"]))
    sorted_by_kind = applied([parse_object(tree) for tree in trees]).state
    assert len(list(sorted_by_kind.workloads.items())) == 5


def test_every_line_with_a_field_is_explained_somewhere() -> None:
    """A reader who knows no field finds each of them explained at least once."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    fields, explained = set(), set()
    for line in lines:
        text, _, comment = line.partition(" #")
        key = text.strip(" -").partition(":")[0]
        if ":" in text and not text.startswith("#") and line.startswith("  "):
            fields.add(key)
            if comment:
                explained.add(key)
    plain = {"name", "tenant", "region", "us-east", "us-west", "eu-central", "command", "template", "placement"}
    grouped = {"recovery", "spread", "apart", "need"}
    assert fields - explained - plain - grouped == set()


def test_its_regions_are_those_of_dev() -> None:
    found = {region.meta.name: region.spec.jurisdiction for _, region in example().regions.items()}
    assert found == dict(zip(REGIONS, ("eu", "us", "us"), strict=True))


def test_risk_api_is_critical_in_every_region_with_four_to_recover_from_room_that_is_held() -> None:
    one, budget = workload("risk-api"), example().recovery_budgets["critical-failover"]
    assert one.spec.placement.regions == REGIONS == budget.spec.regions
    assert one.spec.recovery.min_serving == 4
    assert first_exceeded(times(one.spec.template.need, 4), budget.spec.each) == ""
    assert [rule.key for rule in one.spec.template.spread] == ["zone"]
    assert class_of(one).spec.may_preempt


def test_billing_api_is_one_of_each_kept_apart_in_one_jurisdiction_with_its_own_room() -> None:
    one = workload("billing-api")
    assert (one.spec.exclusive, one.spec.failover, one.spec.disruption_max) == (True, FailoverMode.ACKNOWLEDGED, 1)
    assert one.spec.placement.jurisdictions == ("eu",)
    assert one.spec.template.apart
    protected = example().quotas["billing"].spec.protected
    assert first_exceeded(times(one.spec.template.need, one.spec.replicas), protected) == ""


def test_indexing_asks_for_much_memory_and_for_nodes_of_that_shape() -> None:
    template = workload("indexing").spec.template
    assert template.need.memory >= 8 * template.need.cpu
    assert template.require == (("shape", "memory"),)


def test_detection_is_batch_that_fails_at_its_deadline_and_may_preempt() -> None:
    one = workload("detection")
    assert (one.spec.batch, one.spec.deadline, one.spec.on_deadline) == (True, 30 * 60_000, OnDeadline.FAIL)
    assert class_of(one).spec.may_preempt
    assert not class_of(one).spec.reclaimable


def test_reports_can_be_taken_back() -> None:
    assert class_of(workload("reports")).spec.reclaimable


def test_every_workload_fits_its_tenants_quota() -> None:
    state = example()
    for tenant in state.tenants.values():
        name = tenant.meta.name
        own = [one.spec for _, one in state.workloads.items() if one.meta.tenant == name]
        wanted = total(times(spec.template.need, spec.replicas) for spec in own)
        # What a quota does not name is not granted at all.
        assert first_exceeded(wanted, state.quotas[name].spec.hard) == "", name


def test_each_tenant_has_a_person_of_its_own_and_nobody_in_the_example_can_break_the_glass() -> None:
    state = example()
    people = {p.meta.name: p.spec for _, p in state.principals.items() if p.meta.name != ROOT}
    for tenant in state.tenants.values():
        assert people[f"person/{tenant.meta.name}"].scope.tenant == tenant.meta.name
    assert not any(Permission.BREAK_GLASS in spec.rights for spec in people.values())
    assert list(state.tokens.items()) == []


def test_the_policy_is_one_that_the_platform_publishes_and_names_every_score_of_its_strategy() -> None:
    [policy] = [parse_object(tree) for tree in documents_in(POLICY)]
    applied_example().accept(ROOT, c.PublishPolicy(policy.meta.name, policy.spec))
    assert {name for name, _ in policy.spec.scores} == {*SCORES} - {"emptiness"}
