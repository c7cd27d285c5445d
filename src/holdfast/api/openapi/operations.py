"""The operations of the OpenAPI document: kinds, batches, commands, machines, regions."""

from __future__ import annotations

from typing import Any

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.api.openapi.components import (
    AGENT_PARAMETERS,
    FRAMES,
    JSON,
    LINES,
    LINK_PARAMETERS,
    MSGPACK,
    WORKLOAD_PARAMETER,
    body,
    name_parts,
    page_of,
    parameters,
    part_schema,
    path_parameter,
    problem_responses,
    response,
)
from holdfast.api.openapi.schemas import ref
from holdfast.api.resources.schemas import named_commands, serializer_for_kind
from holdfast.api.serialization.json_schema import Schema, SchemaBuilder
from holdfast.api.serialization.registry import struct_serializer_for

ANY_OBJECT: Schema = {"type": "object"}

_OPEN: list[Schema] = [{}]

READ_PARAMETERS = ("readHeader", "read")

_LEFT_OUT = "apiVersion, kind, name and tenant default to those of the path"


def make_operation(
    name: str, summary: str, asked: list[Schema], answers: Schema, request: Schema | None = None
) -> Schema:
    operation: Schema = {
        "operationId": name,
        "summary": summary,
        "parameters": asked,
        "responses": {**answers, **problem_responses()},
    }
    return {**operation, "requestBody": request} if request is not None else operation


def read_operation(name: str, summary: str, schema: Schema, *asked: str, more: list[Schema] | None = None) -> Schema:
    found = {"200": response(summary, {JSON: schema})}
    return make_operation(name, summary, [*(more or []), *parameters(*asked)], found)


def without_auth(operation: Schema) -> Schema:
    return {**operation, "security": _OPEN}


def kind_paths(kind: ResourceKind, ledger: str, schemas: SchemaBuilder) -> Schema:
    shown = schemas.of(serializer_for_kind(kind.name, shown=True))
    many = "List" + kind.name
    schemas.named[many] = page_of(shown)
    listed = {"200": response(f"The objects of kind {kind.name}, or their changes.", {JSON: ref(many), LINES: {}})}
    asked = parameters(*READ_PARAMETERS, "limit", "continue", "selector", "tenant", "watch", "since", "initial")
    if kind.name == "Endpoint":
        asked.append(WORKLOAD_PARAMETER)
    parts = name_parts(kind)
    where = [path_parameter(part, text, part_schema(kind, part)) for part, text in parts]
    path = f"/v1/{kind.plural}/" + "/".join(f"{{{part}}}" for part, _ in parts)
    one = {"200": response(f"The {kind.name}, or its changes.", {JSON: shown, LINES: {}}, "ETag")}
    reading = [*where, *parameters(*READ_PARAMETERS, "watch", "since", "initial")]
    verbs = {"get": make_operation(f"get{kind.name}", f"Read one {kind.name}.", reading, one)}
    if ledger in kind.written_on:
        verbs |= _writes(kind, where, shown, schemas)
    return {
        f"/v1/{kind.plural}": {"get": make_operation(f"list{kind.name}", f"List {kind.plural}.", asked, listed)},
        path: verbs,
    }


def _writes(kind: ResourceKind, where: list[Schema], shown: Schema, schemas: SchemaBuilder) -> Schema:
    written = schemas.of(serializer_for_kind(kind.name))
    or_gone = {"anyOf": [shown, ref("GoneObject")]}
    done = {
        "200": response(f"The current {kind.name}.", {JSON: or_gone}, "ETag", "Holdfast-Outcome"),
        "201": response(f"The {kind.name} that was created.", {JSON: shown}, "ETag", "Holdfast-Outcome"),
    }
    asked = [*where, *parameters("ifMatch", "ifNoneMatch", "key", "sent", "dryRun")]
    put = make_operation(
        f"put{kind.name}", f"Create or change a {kind.name}; {_LEFT_OUT}.", asked, done, body({JSON: written})
    )
    if not kind.deletable:
        return {"put": put}
    gone = {"200": response(f"The {kind.name}: deleted, or under deletion.", {JSON: or_gone}, "Holdfast-Outcome")}
    asked = [*where, *parameters("ifMatch", "key", "sent", "dryRun")]
    return {"put": put, "delete": make_operation(f"delete{kind.name}", f"Delete a {kind.name}.", asked, gone)}


def batch_paths(ledger: str, schemas: SchemaBuilder) -> Schema:
    kinds = [kind for kind in KINDS.values() if ledger in kind.written_on]
    one_of = {"oneOf": [schemas.of(serializer_for_kind(kind.name)) for kind in kinds]}
    request = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": one_of, "minItems": 1, "maxItems": 1_000}},
        "required": ["items"],
        "additionalProperties": False,
    }
    outcome = {"type": "string", "enum": ["created", "configured", "unchanged", "refused", "unknown"]}
    item = {
        "type": "object",
        "properties": {"outcome": outcome, "object": ANY_OBJECT, "problem": ref("Problem")},
        "required": ["outcome"],
    }
    result = {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}
    done = {"200": response("The outcome of each document, in order.", {JSON: result})}
    asked = parameters("key", "sent", "dryRun")
    summary = "Write many documents in order. Each is decided by itself: a wrong one does not affect the others."
    return {"/v1/batch": {"post": make_operation("batch", summary, asked, done, body({JSON: request}))}}


def command_paths(ledger: str, schemas: SchemaBuilder) -> Schema:
    paths = {}
    for tag, rule in named_commands(ledger).items():
        command: Any = rule.command
        schema = schemas.of(struct_serializer_for(command))
        done = {"200": response(f"Done: {rule.side_effect}.", {JSON: ref("Done")})}
        summary = f"{' '.join((command.__doc__ or '').split())} Undone by: {rule.undone}."
        conditions = ("ifMatch", "ifNoneMatch") if rule.subject is not None else ()
        asked = parameters(*conditions, "key", "sent", "dryRun")
        fields = body(
            {JSON: schema}, required=any(field.required for field in struct_serializer_for(command).fields.values())
        )
        operation = make_operation(f"command{command.__name__}", summary, asked, done, fields)
        paths[f"/v1/commands/{tag}"] = {"post": operation}
    return paths


def machine_paths() -> Schema:
    """Return the paths of machines: envelopes, and renewals of their sessions."""
    answers = {"200": response("The ledger's answer.", {MSGPACK: {}, JSON: {}})}
    raw = body({MSGPACK: {}})
    renewed = {"200": response("How long the session stays valid.", {JSON: ref("Renewed")})}
    renew = make_operation("renew", "Renew a session.", parameters(), renewed, body({JSON: ref("Renewal")}))
    return {
        "/v1/envelopes": {"post": make_operation("send", "Send one command.", parameters(), answers, raw)},
        "/v1/envelopes/batch": {"post": make_operation("sendMany", "Send many commands.", parameters(), answers, raw)},
        "/v1/renewals": {"post": renew},
    }


def region_paths() -> Schema:
    where = [
        path_parameter("region", "A region.", {"type": "string", "minLength": 1}),
        path_parameter("rest", "The path at the region, without /v1/.", {"type": "string", "minLength": 1}),
    ]
    media: Schema = {JSON: {}, LINES: {}, MSGPACK: {}}
    answers = {"200": response("The region's reply.", media), "201": response("The region's reply.", media)}
    verbs = {}
    for verb in ("get", "put", "post", "delete"):
        operation = make_operation(
            f"{verb}InRegion", "Forward the request to a server of the region.", where + parameters(), answers
        )
        if verb in ("put", "post"):
            operation["requestBody"] = {"content": {JSON: {"schema": {}}, MSGPACK: {"schema": {}}}}
        verbs[verb] = operation
    return {"/v1/in/{region}/{rest}": verbs}


def shipment_paths() -> Schema:
    stream = {"200": response("The changes of the platform's log that concern the region.", {FRAMES: {}})}
    operation = make_operation("shipments", "Stream shipments to a region.", [*LINK_PARAMETERS, *parameters()], stream)
    return {"/v1/shipments": {"get": operation}}


def binding_paths() -> Schema:
    stream = {"200": response("All bindings of the agent's node, after each change.", {FRAMES: {}})}
    operation = make_operation("bindings", "Stream bindings to an agent.", [*AGENT_PARAMETERS, *parameters()], stream)
    return {"/v1/bindings": {"get": operation}}


def log_paths() -> Schema:
    stream = {"200": response("The region's log, from a snapshot or from a revision on.", {FRAMES: {}})}
    return {"/v1/log": {"get": make_operation("log", "Stream the log to a scheduler.", parameters("since"), stream)}}
