"""Schemas are valid, accept what is shown, and refuse what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.api.kinds import BY_NAME, KINDS, public_name
from holdfast.api.openapi import document
from holdfast.api.openapi.components import PROBLEMS
from holdfast.api.resources import schemas
from holdfast.api.resources.schemas import WRITABLE, parse_command, parse_object, render_object, rules
from holdfast.api.serialization.field_errors import InvalidDocument
from holdfast.api.serialization.json_schema import DIALECT, Schema, SchemaBuilder
from holdfast.api.serialization.registry import serializer_for, struct_serializer_for, writable_serializer_for
from holdfast.core.model.values.metadata import Meta
from tests.api.serialization.strategies import values_of


def command_schema(ledger: str, tag: str) -> Schema:
    """The self-contained schema of a command's fields."""
    command: Any = rules(ledger)[tag].command
    builder = SchemaBuilder("#/$defs/")
    builder.of(struct_serializer_for(command))
    own = builder.named.pop(command.__name__)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:command:{tag}", "title": tag, **own, "$defs": builder.named}


COMMANDS = [(ledger, tag) for ledger in ("platform", "region") for tag in rules(ledger)]
LEDGERS = ("platform", "region")
few = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", [kind.name for kind in KINDS.values()])
@pytest.mark.parametrize("shown", [False, True])
def test_every_kind_has_a_valid_schema(name: str, shown: bool) -> None:
    jsonschema_rs.meta.validate(schemas.kind_schema(name, shown=shown))
    assert schemas.kind_schema(name, shown=shown)["additionalProperties"] is False


@pytest.mark.parametrize(("ledger", "tag"), COMMANDS)
def test_every_command_of_people_has_a_valid_schema(ledger: str, tag: str) -> None:
    jsonschema_rs.meta.validate(command_schema(ledger, tag))


def named(kind: str, value: Any) -> Any:
    name = "person/root" if kind == "Principal" else "web"
    meta = replace(value.meta, name=name, tenant="acme" if kind == "Workload" else "")
    if not BY_NAME[kind].marked:
        meta = replace(meta, labels=(), annotations=())
    return replace(value, meta=meta)


@pytest.mark.parametrize("kind", WRITABLE)
@few
@given(data=st.data())
def test_schemas_accept_what_is_shown(kind: str, data: st.DataObject) -> None:
    struct: Any = WRITABLE[kind]
    whole = named(kind, data.draw(values_of(serializer_for(struct))))
    tree = render_object(whole, secrets=True)
    for shown in (False, True):
        jsonschema_rs.validate(schemas.kind_schema(kind, shown=shown), tree)
    jsonschema_rs.validate(schemas.kind_schema(kind, shown=True), render_object(whole))


@pytest.mark.parametrize(("ledger", "tag"), [one for one in COMMANDS if not one[1].startswith("put")])
@few
@given(data=st.data())
def test_schemas_of_commands_accept_what_is_shown(ledger: str, tag: str, data: st.DataObject) -> None:
    form = struct_serializer_for(rules(ledger)[tag].command)
    jsonschema_rs.validate(command_schema(ledger, tag), form.render(data.draw(values_of(form)), True))


WORKLOAD: dict[str, Any] = {
    "apiVersion": "holdfast/v1",
    "kind": "Workload",
    "metadata": {"name": "web", "tenant": "acme"},
    "spec": {"template": {"need": {"cpu": "500m"}}, "replicas": 3, "priorityClass": "normal"},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("apiVersion", "holdfast/v2"),
        ("kind", "Wrokload"),
        ("more", 1),
        ("metadata.nam", "x"),
        ("metadata.name", 7),
        ("metadata.tenant", None),
        ("metadata.labels", {"a": 1}),
        ("metadata.uid", "x"),
        ("spec", None),
        ("spec.replicas", None),
        ("spec.replicas", "3"),
        ("spec.replicas", True),
        ("spec.replicas", 2**63),
        ("spec.replica", 3),
        ("spec.failover", "leasd"),
        ("spec.deadline", "30"),
        ("spec.deadline", 30),
        ("spec.template.need.cpu", "lots"),
        ("spec.template.need.cpu", True),
        ("spec.template.need.memory", 4),
        ("spec.template.need.memory", "4gi"),
        ("spec.template.need.licenses", 1.5),
        ("spec.template.command", "run"),
        ("spec.template.tolerate", [["a", "b"]]),
        ("spec.template.spread", [{"maxSkew": "1"}]),
        ("spec.placement.weights", [["eu", 1]]),
    ],
)
def test_schemas_refuse_what_is_refused(path: str, value: object) -> None:
    tree: Any = json.loads(json.dumps(WORKLOAD))
    assert jsonschema_rs.is_valid(schemas.kind_schema("Workload"), tree)
    assert parse_object(tree).spec.replicas == 3
    *outer, last = path.split(".")
    place = tree
    for part in outer:
        place = place.setdefault(part, {})
    place[last] = value
    if value is None:
        del place[last]
    assert not jsonschema_rs.is_valid(schemas.kind_schema("Workload"), tree)
    with pytest.raises(InvalidDocument):
        parse_object(tree)


def test_what_the_ledger_says_may_be_sent_back_in_any_shape() -> None:
    tree = {**WORKLOAD, "status": ["x"], "metadata": {**WORKLOAD["metadata"], "generation": "x", "owner": 5}}
    jsonschema_rs.validate(schemas.kind_schema("Workload"), tree)
    assert parse_object(tree).meta == Meta(name="web", tenant="acme")


def test_a_secret_is_written_only_and_need_not_be_given() -> None:
    spec = schemas.kind_schema("Token")["$defs"]["TokenSpec"]
    assert spec["properties"]["hash"]["writeOnly"] is True
    assert "hash" not in spec["required"]


def test_defaults_and_descriptions_are_those_of_the_model() -> None:
    spec = schemas.kind_schema("Workload")["$defs"]["WorkloadSpec"]
    assert spec["description"].startswith("Desired state of one workload.")
    assert spec["properties"]["deadline"]["default"] == "0s"
    assert spec["properties"]["onDeadline"]["default"] == "best-effort"
    assert spec["properties"]["failover"]["enum"] == ["additive", "acknowledged", "leased"]
    assert spec["required"] == ["template", "replicas", "priorityClass"]


@pytest.mark.parametrize("ledger", LEDGERS)
def test_the_description_of_a_server_is_valid_openapi(ledger: str) -> None:
    described = schemathesis.openapi.from_dict(document.description(ledger))
    described.validate()
    operations = [type(found).__name__ for found in described.get_all_operations()]
    assert set(operations) == {"Ok"}


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_reference_leads_somewhere_and_nothing_is_left_over(ledger: str) -> None:
    described = document.description(ledger)
    text = json.dumps(described)
    for group, parts in described["components"].items():
        for name in parts:
            assert group == "securitySchemes" or f'"#/components/{group}/{name}"' in text, name
    for where in set(_references(described)):
        place: Any = described
        for part in where.removeprefix("#/").split("/"):
            place = place[part]


def _references(tree: Any) -> list[str]:
    if isinstance(tree, list):
        return [found for item in tree for found in _references(item)]
    if not isinstance(tree, dict):
        return []
    own = [tree["$ref"]] if isinstance(tree.get("$ref"), str) else []
    return [*own, *(found for item in tree.values() for found in _references(item))]


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_operation_says_every_way_in_which_it_can_be_refused(ledger: str) -> None:
    names = []
    for verbs in document.description(ledger)["paths"].values():
        for operation in verbs.values():
            assert {str(status) for status in PROBLEMS} <= set(operation["responses"])
            assert "default" not in operation["responses"]
            names.append(operation["operationId"])
    assert len(names) == len(set(names))


def test_the_description_is_the_same_in_every_process() -> None:
    script = (
        "import json; from holdfast.api.openapi.document import description; print(json.dumps(description('region')))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]


def test_writes_need_a_key_and_reads_do_not() -> None:
    paths = document.description("platform")["paths"]
    key = {"$ref": "#/components/parameters/key"}
    one = paths["/v1/workloads/{tenant}/{name}"]
    assert key in one["put"]["parameters"]
    assert key in one["delete"]["parameters"]
    assert key not in one["get"]["parameters"]
    assert key in paths["/v1/commands/declare-lost"]["post"]["parameters"]


def test_each_ledger_describes_its_own_kinds_and_commands() -> None:
    on_platform, in_region = (document.description(ledger)["paths"] for ledger in LEDGERS)
    assert "/v1/workloads" in on_platform
    assert "/v1/workloads" not in in_region
    assert set(in_region["/v1/nodes/{name}"]) == {"get", "put"}
    assert set(in_region["/v1/tokens/{name}"]) == {"get"}
    assert "/v1/commands/remove-node" in in_region
    assert "/v1/in/{region}/{rest}" not in in_region


def test_commands_of_machines_are_not_for_people() -> None:
    assert "propose" not in rules("region")
    with pytest.raises(KeyError):
        parse_command("region", "propose", {})


def test_a_written_document_is_what_the_writing_form_reads() -> None:
    for struct in WRITABLE.values():
        assert writable_serializer_for(struct).kind == public_name(struct)


@pytest.mark.parametrize("revision", ["0.0", "0.1", "1.0", "41.3", "8796093022207.1048575"])
@pytest.mark.parametrize("field", ["uid", "revision"])
def test_a_schema_takes_the_revisions_of_an_object_that_are_read(field: str, revision: str) -> None:
    """Nothing is at 0.0, and to expect an object as it was there would be to expect nothing."""
    tree = {"apiVersion": "holdfast/v1", "kind": "Tenant", "metadata": {"name": "shop", field: revision}, "spec": {}}
    try:
        parse_object(tree)
        is_read = True
    except InvalidDocument:
        is_read = False
    assert jsonschema_rs.is_valid(schemas.kind_schema("Tenant"), tree) == is_read


def test_a_tag_of_nothing_is_no_tag() -> None:
    parameters = document.description("platform")["components"]["parameters"]
    tag = next(one["schema"] for one in parameters.values() if one["name"] == "If-Match")
    for text, is_one in (('"0.0"', False), ('"0.1"', True), ('W/"41.3"', True), ("*", True)):
        assert jsonschema_rs.is_valid(tag, text) == is_one, text
