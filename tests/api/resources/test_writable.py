"""Whole documents: what people must say, what they may send back, and what is never shown."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.api.resources.region_types import NodeSpec, NodeView
from holdfast.api.resources.schemas import parse_object, render_object
from holdfast.api.resources.validation import administer_command
from holdfast.api.serialization.field_errors import FieldError, InvalidDocument
from holdfast.core.model.objects.principals import Token, TokenSpec
from holdfast.core.model.objects.probes import ExecProbe, HttpProbe, Probe, TcpProbe
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import RestartPolicy, Template, Workload, WorkloadSpec, WorkloadStatus
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.metadata import Deletion, Finalizer, Meta, Owner
from holdfast.core.region.commands import AdministerNode

WEB = Workload(
    meta=Meta(name="web", tenant="acme", labels=(("app", "web"),)),
    spec=WorkloadSpec(template=Template(command=("serve",)), replicas=3, priority_class="normal"),
)


def document(**parts: Any) -> dict[str, Any]:
    tree = {
        "apiVersion": "holdfast/v1",
        "kind": "Workload",
        "metadata": {"name": "web", "tenant": "acme", "labels": {"app": "web"}},
        "spec": {"template": {"command": ["serve"]}, "replicas": 3, "priorityClass": "normal"},
    }
    return {name: part for name, part in {**tree, **parts}.items() if part is not None}


def faults_of(tree: object) -> list[FieldError]:
    with pytest.raises(InvalidDocument) as caught:
        parse_object(tree)
    return list(caught.value.faults)


def test_a_document_is_an_object() -> None:
    assert parse_object(document()) == WEB


def test_how_a_process_is_run_and_watched_over_is_written_as_people_write_it() -> None:
    template: dict[str, Any] = {
        "command": ["serve"],
        "secrets": {"TOKEN": "file:/run/token"},
        "user": "web",
        "ports": 2,
        "uses": ["model-7"],
        "startup": {"exec": {"command": ["ready"]}, "delay": "2s"},
        "readiness": {"http": {"path": "/health", "port": 1}, "period": "500ms"},
        "liveness": {"tcp": {}, "timeout": "2s", "failures": 5},
        "grace": "5s",
        "restart": "on-failure",
    }
    tree = document(spec={"template": template, "replicas": 3, "priorityClass": "normal"})
    found = parse_object(tree)
    assert found.spec.template == Template(
        command=("serve",),
        secrets=(("TOKEN", "file:/run/token"),),
        user="web",
        ports=2,
        uses=("model-7",),
        startup=Probe(exec=ExecProbe(command=("ready",)), delay=2_000),
        readiness=Probe(http=HttpProbe(path="/health", port=1), period=500),
        liveness=Probe(tcp=TcpProbe(), timeout=2_000, failures=5),
        grace=5_000,
        restart=RestartPolicy.ON_FAILURE,
    )
    assert parse_object(render_object(found)) == found
    del template["readiness"]["http"]["path"]
    assert [fault.pointer for fault in faults_of(tree)] == ["/spec/template/readiness/http/path"]


def test_metadata_is_shown_without_what_is_empty_and_the_spec_in_full() -> None:
    shown = render_object(WEB)
    assert shown["metadata"] == {"name": "web", "tenant": "acme", "labels": {"app": "web"}}
    assert shown["spec"]["failover"] == "additive"
    assert shown["spec"]["deadline"] == "0s"
    assert shown["status"]["serving"] == 0


def test_what_the_server_showed_can_be_written_back() -> None:
    meta = Meta(
        name="web",
        uid=41 << 20,
        tenant="acme",
        generation=7,
        revision=(43 << 20) + 3,
        labels=(("app", "web"),),
        owner=Owner(kind="Tenant", name="acme", uid=1),
        created_by="tenant/acme",
        finalizers=(Finalizer(name="f", owner="region/eu", deadline=5),),
        deletion=Deletion(by="person/root", at=5),
        created=1_700_000_000_000,
    )
    condition = Condition(type="Ready", status=ConditionStatus.TRUE, reason=ConditionReason.AS_DESIRED)
    status = WorkloadStatus(serving=3, conditions=(condition,))
    shown = render_object(replace(WEB, meta=meta, status=status))
    sent = replace(WEB.meta, uid=meta.uid, revision=meta.revision)
    assert parse_object(shown) == replace(WEB, meta=sent)
    assert parse_object(shown, whole=True) == replace(WEB, meta=meta, status=status)
    assert shown["metadata"]["revision"] == "43.3"
    assert shown["metadata"]["created"] == "2023-11-14T22:13:20.000Z"


def test_what_is_stored_says_its_generation_even_when_it_is_the_first() -> None:
    assert "generation" not in render_object(WEB)["metadata"]
    stored = replace(WEB, meta=replace(WEB.meta, created_by="tenant/acme"))
    assert render_object(stored)["metadata"]["generation"] == 1


def test_a_status_that_nobody_understands_is_passed_over() -> None:
    assert parse_object(document(status={"from": ["another", "version"]})) == WEB


@pytest.mark.parametrize(
    ("tree", "pointer", "message", "hint"),
    [
        (document(apiVersion="holdfast/v2"), "/apiVersion", "there is no apiVersion", "reads apiVersion: holdfast/v1"),
        (document(apiVersion=None), "/apiVersion", "apiVersion is missing", "holdfast/v1"),
        (document(kind="Wrokload"), "/kind", "expected a kind", "did you mean Workload?"),
        (document(kind=None), "/kind", "kind is missing", "one of Tenant"),
        (document(kind="Replica"), "/kind", "a Replica cannot be written", "one of Tenant"),
        (document(kind=7), "/kind", "expected a kind", "one of Tenant"),
        (document(specs={}), "/specs", "there is no field 'specs'", "did you mean spec?"),
        (document(metadata=[]), "/metadata", "expected a map", ""),
        (document(metadata={"name": "web"}), "/metadata/tenant", "a Workload belongs to a tenant", ""),
        (document(metadata={"tenant": "acme"}), "/metadata/name", "name is missing", ""),
        (["x"], "", "expected a document", ""),
    ],
)
def test_what_is_no_document_is_told_with_its_place(tree: object, pointer: str, message: str, hint: str) -> None:
    [fault] = faults_of(tree)
    assert fault.pointer == pointer
    assert fault.message.startswith(message)
    assert hint in fault.hint


def test_without_a_spec_what_it_must_say_is_missing() -> None:
    pointers = [fault.pointer for fault in faults_of(document(spec=None))]
    assert pointers == ["/spec/template", "/spec/replicas", "/spec/priorityClass"]
    tenant = {"apiVersion": "holdfast/v1", "kind": "Tenant", "metadata": {"name": "acme"}}
    assert parse_object(tenant).spec.workloads_max == 10_000


def test_what_belongs_to_no_tenant_names_none() -> None:
    tree = document(kind="Quota", spec={"hard": {}})
    assert [fault.pointer for fault in faults_of(tree)] == ["/metadata/tenant"]


def test_a_tokens_hash_is_taken_and_never_shown() -> None:
    token = Token(meta=Meta(name="t"), spec=TokenSpec(principal="person/root", hash="00ff", expires=5_000))
    shown = render_object(token)
    assert "hash" not in shown["spec"]
    assert "00ff" not in str(shown)
    assert parse_object(render_object(token, secrets=True)) == token
    assert parse_object(shown).spec.hash == ""


def test_a_nodes_document_says_all_that_an_operator_says() -> None:
    spec = NodeSpec(cordoned=True, taints=(Taint("gpu"),), labels=(("rack", "r1"),), tenancy=("acme",), note="repair")
    node = parse_object(render_object(NodeView(meta=Meta(name="n1"), spec=spec)))
    assert administer_command(node, 5) == AdministerNode(
        5, cordoned=True, taints=(Taint("gpu"),), labels=(("rack", "r1"),), tenancy=("acme",), note="repair"
    )


def test_nothing_that_operators_say_of_a_node_is_left_out() -> None:
    assert ("node", *NodeSpec.__struct_fields__) == AdministerNode.__struct_fields__
    assert NodeSpec.__struct_defaults__ == AdministerNode.__struct_defaults__
