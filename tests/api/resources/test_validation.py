"""What is refused without a server is what the ledger refuses, in the ledger's words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.api.resources.region_types import NodeSpec, NodeView
from holdfast.api.resources.validation import validate_object
from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec, Token, TokenSpec
from holdfast.core.model.objects.probes import HttpProbe, Probe
from holdfast.core.model.objects.tenants import (
    PriorityClass,
    PriorityClassSpec,
    Quota,
    QuotaSpec,
    RecoveryBudget,
    RecoveryBudgetSpec,
    Tenant,
    TenantSpec,
)
from holdfast.core.model.objects.topology import NodePool, NodePoolSpec, Region, RegionSpec
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import (
    FailoverMode,
    Placement,
    Recovery,
    Spread,
    Template,
    Workload,
    WorkloadSpec,
)
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform.commands import Put
from tests.support.ledgers.platform import ROOT, PlatformBench, a_tenant


def a_workload(name: str = "web", **fields: Any) -> Workload:
    spec = WorkloadSpec(**{"template": Template(), "replicas": 3, "priority_class": "normal", **fields})
    return Workload(meta=Meta(name=name, tenant="acme"), spec=spec)


GOOD: list[Any] = [
    a_workload(
        placement=Placement(regions=("eu",), jurisdictions=("de", "fr"), weights=(("eu", 2),)),
        recovery=Recovery(budget="spare"),
    ),
    a_workload("group/web"),
    Tenant(meta=Meta(name="acme"), spec=TenantSpec(priority_classes=("normal",))),
    Quota(meta=Meta(name="acme"), spec=QuotaSpec(hard=Resources(1000, 10))),
    PriorityClass(meta=Meta(name="normal"), spec=PriorityClassSpec(priority=50)),
    Principal(meta=Meta(name="person/root"), spec=PrincipalSpec(rights=tuple(Permission))),
    Token(meta=Meta(name="t"), spec=TokenSpec(principal="person/root", hash="", expires=1)),
    Region(meta=Meta(name="eu"), spec=RegionSpec(jurisdiction="de")),
    NodePool(meta=Meta(name="big"), spec=NodePoolSpec(region="eu", maximum=3)),
    RecoveryBudget(meta=Meta(name="spare"), spec=RecoveryBudgetSpec(regions=("eu",), each=ZERO, tenants=("acme",))),
    NodeView(meta=Meta(name="n1"), spec=NodeSpec(cordoned=True, note="repair")),
    NodeView(meta=Meta(name="n1"), spec=NodeSpec()),
]


@pytest.mark.parametrize("obj", GOOD, ids=lambda obj: type(obj).__name__)
def test_nothing_is_said_against_what_only_a_server_can_judge(obj: Any) -> None:
    assert validate_object(obj) == []


@pytest.mark.parametrize(
    ("obj", "pointer", "message"),
    [
        (a_workload("Web"), "/metadata/name", "'Web' is no name for a Workload"),
        (a_workload(replicas=100_001), "/spec/replicas", "a workload has at most 100000 replicas"),
        (a_workload(template=Template(gpus=1)), "/spec/template/need", "need.gpu must be gpus times gpuMilli"),
        (a_workload(template=Template(need=Resources(-1))), "/spec/template/need", "need: cpu is -1"),
        (a_workload(template=Template(spread=(Spread(key="node"),))), "/spec/template/spread", "spread needs zone"),
        (a_workload(placement=Placement(weights=(("eu", -1),))), "/spec/placement/weights", "weights"),
        (
            a_workload(template=Template(ports=1, readiness=Probe(http=HttpProbe(path="health")))),
            "/spec/template/readiness/http/path",
            "readiness.http.path begins",
        ),
        (a_workload(template=Template(liveness=Probe())), "/spec/template/liveness", "liveness needs exactly one of"),
        (
            a_workload(template=Template(secrets=(("A", "x"),))),
            "/spec/template/secrets/A",
            "secrets.A needs the source",
        ),
        (
            a_workload(exclusive=True, failover=FailoverMode.ACKNOWLEDGED, template=Template(grace=10_001)),
            "/spec/template/grace",
            "grace of 10001 ms is longer",
        ),
        (
            Quota(meta=Meta(name="a"), spec=QuotaSpec(hard=ZERO, protected=Resources(5))),
            "/spec/protected",
            "protected",
        ),
        (Quota(meta=Meta(name="a"), spec=QuotaSpec(hard=Resources(2**41))), "/spec/hard", "hard: cpu is"),
        (Tenant(meta=Meta(name="a"), spec=TenantSpec(workloads_max=-1)), "/spec/workloadsMax", "workloadsMax"),
        (PriorityClass(meta=Meta(name="a"), spec=PriorityClassSpec(priority=10**7)), "/spec/priority", "priority is"),
        (
            Principal(meta=Meta(name="root"), spec=PrincipalSpec()),
            "/metadata/name",
            "'root' is no name for a Principal",
        ),
        (NodePool(meta=Meta(name="a"), spec=NodePoolSpec(region="eu", minimum=2)), "/spec/maximum", "maximum is below"),
        (Region(meta=Meta(name="a"), spec=RegionSpec(latencies=(("b", -1),))), "/spec/latencies", "latencies cannot"),
        (
            NodeView(meta=Meta(name="n"), spec=NodeSpec(draining=True)),
            "/spec/note",
            "a cordon or a drain requires a note",
        ),
    ],
)
def test_what_no_ledger_takes_is_told_with_its_place(obj: Any, pointer: str, message: str) -> None:
    [fault] = validate_object(obj)
    assert fault.pointer == pointer
    assert fault.message.startswith(message)


def test_every_contradiction_is_told_by_itself() -> None:
    workload = a_workload(replicas=-1, exclusive=True, batch=True, failover=FailoverMode.ADDITIVE)
    assert [fault.message for fault in validate_object(workload)] == workload_problems(workload.spec)


def test_labels_and_annotations_are_told_apart() -> None:
    meta = Meta(name="web", tenant="acme", labels=(("", "x"),), annotations=(("a", "x" * 5_000),))
    pointers = [fault.pointer for fault in validate_object(replace(a_workload(), meta=meta))]
    assert pointers == ["/metadata/labels", "/metadata/annotations"]


def test_the_ledger_says_the_same() -> None:
    bench = PlatformBench()
    bench.accept(ROOT, Put(a_tenant("acme")))
    quota = Quota(meta=Meta(name="acme"), spec=QuotaSpec(hard=ZERO, protected=Resources(5)))
    refused = bench.refuse(Code.CONTRADICTORY, ROOT, Put(quota))
    assert [fault.message for fault in validate_object(quota)] == [refused.message]


@pytest.mark.parametrize(("principal", "many", "faults"), [
    ("agent/n1", False, 0), ("agent/n1", True, 0), ("agent/*", True, 0), ("agent/*", False, 1), ("region/*", True, 1),
])  # fmt: skip
def test_a_token_for_many_is_told_apart_without_a_server(principal: str, many: bool, faults: int) -> None:
    token = Token(meta=Meta(name="t"), spec=TokenSpec(principal=principal, hash="", expires=1, any=many))
    assert len(validate_object(token)) == faults
