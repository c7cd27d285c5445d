"""The operations of the OpenAPI document: kinds, batches, commands, machines, regions."""

from __future__ import annotations

from typing import Any

from holdfast.api.kinds import KINDS, Kind
from holdfast.api.openapi.components import (
    AGENT_PARAMETERS,
    FRAMES,
    JSON,
    LINES,
    LINK_PARAMETERS,
    MSGPACK,
    OF_WORKLOAD,
    answer,
    body,
    name_parts,
    page_of,
    parameters,
    part_schema,
    path_parameter,
    problems,
)
from holdfast.api.openapi.schemas import ref
from holdfast.api.resources.command_catalog import by_name
from holdfast.api.resources.schemas import form_of_kind
from holdfast.api.serialization.json_schema import Schema, Schemas
from holdfast.api.serialization.registry import fields_of

_ANYTHING: Schema = {"type": "object"}

_OPEN: list[Schema] = [{}]

_READ = ("readHeader", "read")

_LEFT_OUT = "apiVersion, kind, name and tenant are the path's where the document leaves them out"


def _operation(name: str, summary: str, asked: list[Schema], answers: Schema, request: Schema | None = None) -> Schema:
    operation: Schema = {
        "operationId": name,
        "summary": summary,
        "parameters": asked,
        "responses": {**answers, **problems()},
    }
    return {**operation, "requestBody": request} if request is not None else operation


def _get(name: str, summary: str, schema: Schema, *asked: str, more: list[Schema] | None = None) -> Schema:
    """A read of one thing."""
    found = {"200": answer(summary, {JSON: schema})}
    return _operation(name, summary, [*(more or []), *parameters(*asked)], found)


def _open(operation: Schema) -> Schema:
    """The same, without authentication."""
    return {**operation, "security": _OPEN}


def _kind(kind: Kind, ledger: str, schemas: Schemas) -> Schema:
    shown = schemas.of(form_of_kind(kind.name, shown=True))
    many = "List" + kind.name
    schemas.named[many] = page_of(shown)
    listed = {"200": answer(f"Objects of kind {kind.name}, or their changes.", {JSON: ref(many), LINES: {}})}
    asked = parameters(*_READ, "limit", "continue", "selector", "tenant", "watch", "since", "initial")
    if kind.name == "Endpoint":
        asked.append(OF_WORKLOAD)
    parts = name_parts(kind)
    where = [path_parameter(part, text, part_schema(kind, part)) for part, text in parts]
    path = f"/v1/{kind.plural}/" + "/".join(f"{{{part}}}" for part, _ in parts)
    one = {"200": answer(f"The {kind.name}, or its changes.", {JSON: shown, LINES: {}}, "ETag")}
    reading = [*where, *parameters(*_READ, "watch", "since", "initial")]
    verbs = {"get": _operation(f"get{kind.name}", f"One {kind.name}.", reading, one)}
    if ledger in kind.written_on:
        verbs |= _writes(kind, where, shown, schemas)
    return {
        f"/v1/{kind.plural}": {"get": _operation(f"list{kind.name}", f"All of kind {kind.name}.", asked, listed)},
        path: verbs,
    }


def _writes(kind: Kind, where: list[Schema], shown: Schema, schemas: Schemas) -> Schema:
    written = schemas.of(form_of_kind(kind.name))
    or_gone = {"anyOf": [shown, ref("GoneObject")]}
    done = {
        "200": answer(f"The {kind.name} as it is now.", {JSON: or_gone}, "ETag", "Holdfast-Outcome"),
        "201": answer(f"The {kind.name} that was created.", {JSON: shown}, "ETag", "Holdfast-Outcome"),
    }
    asked = [*where, *parameters("ifMatch", "ifNoneMatch", "key", "sent", "dryRun")]
    put = _operation(
        f"put{kind.name}", f"Create or change a {kind.name}; {_LEFT_OUT}.", asked, done, body({JSON: written})
    )
    if not kind.deletable:
        return {"put": put}
    gone = {"200": answer(f"The {kind.name}: gone, or being deleted.", {JSON: or_gone}, "Holdfast-Outcome")}
    asked = [*where, *parameters("ifMatch", "key", "sent", "dryRun")]
    return {"put": put, "delete": _operation(f"delete{kind.name}", f"End a {kind.name}.", asked, gone)}


def _batch(ledger: str, schemas: Schemas) -> Schema:
    kinds = [kind for kind in KINDS.values() if ledger in kind.written_on]
    one_of = {"oneOf": [schemas.of(form_of_kind(kind.name)) for kind in kinds]}
    request = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": one_of, "minItems": 1, "maxItems": 1_000}},
        "required": ["items"],
        "additionalProperties": False,
    }
    outcome = {"type": "string", "enum": ["created", "configured", "unchanged", "refused", "unknown"]}
    item = {
        "type": "object",
        "properties": {"outcome": outcome, "object": _ANYTHING, "problem": ref("Problem")},
        "required": ["outcome"],
    }
    result = {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}
    done = {"200": answer("What became of each, in order.", {JSON: result})}
    asked = parameters("key", "sent", "dryRun")
    summary = "Write many documents, each judged by itself, in order: one that is wrong does not keep the others."
    return {"/v1/batch": {"post": _operation("batch", summary, asked, done, body({JSON: request}))}}


def _commands(ledger: str, schemas: Schemas) -> Schema:
    paths = {}
    for tag, rule in by_name(ledger).items():
        command: Any = rule.command
        schema = schemas.of(fields_of(command))
        done = {"200": answer(f"Done: {rule.side_effect}.", {JSON: ref("Done")})}
        summary = f"{' '.join((command.__doc__ or '').split())} Undone by: {rule.undone}."
        conditions = ("ifMatch", "ifNoneMatch") if rule.subject is not None else ()
        asked = parameters(*conditions, "key", "sent", "dryRun")
        fields = body({JSON: schema}, required=any(field.required for field in fields_of(command).fields.values()))
        operation = _operation(f"command{command.__name__}", summary, asked, done, fields)
        paths[f"/v1/commands/{tag}"] = {"post": operation}
    return paths


def _machines() -> Schema:
    """What machines speak: envelopes of the core, and renewals of their sessions."""
    answers = {"200": answer("What the ledger answers.", {MSGPACK: {}, JSON: {}})}
    raw = body({MSGPACK: {}})
    renewed = {"200": answer("How long the session is good for.", {JSON: ref("Renewed")})}
    renew = _operation("renew", "Renew a session.", parameters(), renewed, body({JSON: ref("Renewal")}))
    return {
        "/v1/envelopes": {"post": _operation("send", "Send one command.", parameters(), answers, raw)},
        "/v1/envelopes/batch": {"post": _operation("sendMany", "Send many commands.", parameters(), answers, raw)},
        "/v1/renewals": {"post": renew},
    }


def _in_regions() -> Schema:
    where = [
        path_parameter("region", "A region.", {"type": "string", "minLength": 1}),
        path_parameter("rest", "The path there, without /v1/.", {"type": "string", "minLength": 1}),
    ]
    media: Schema = {JSON: {}, LINES: {}, MSGPACK: {}}
    answers = {"200": answer("The region's answer.", media), "201": answer("The region's answer.", media)}
    verbs = {}
    for verb in ("get", "put", "post", "delete"):
        operation = _operation(f"{verb}InRegion", "The same at that region's server.", where + parameters(), answers)
        if verb in ("put", "post"):
            operation["requestBody"] = {"content": {JSON: {"schema": {}}, MSGPACK: {"schema": {}}}}
        verbs[verb] = operation
    return {"/v1/in/{region}/{rest}": verbs}


def _shipments() -> Schema:
    stream = {"200": answer("The platform's log, filtered for the region.", {FRAMES: {}})}
    operation = _operation("shipments", "The link's stream.", [*LINK_PARAMETERS, *parameters()], stream)
    return {"/v1/shipments": {"get": operation}}


def _bindings() -> Schema:
    stream = {"200": answer("All that stands on the agent's node, whenever it changed.", {FRAMES: {}})}
    operation = _operation("bindings", "An agent's stream.", [*AGENT_PARAMETERS, *parameters()], stream)
    return {"/v1/bindings": {"get": operation}}


def _log() -> Schema:
    stream = {"200": answer("The region's log, from a snapshot or from a place on.", {FRAMES: {}})}
    return {"/v1/log": {"get": _operation("log", "A scheduler's stream.", parameters("since"), stream)}}
