"""The OpenAPI 3.1 description of a ledger's server, made from the tables of kinds and commands and kept.

Size: one function for each part of the API, all of it in one place.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast import __version__
from holdfast.api.documents.commands import by_name, tags
from holdfast.api.documents.decided import Decision
from holdfast.api.documents.forms import fields_of
from holdfast.api.documents.kinds import KINDS, Kind
from holdfast.api.documents.openapi_parts import (
    AGENT_PARAMETERS,
    FRAMES,
    JSON,
    LINES,
    LINK_PARAMETERS,
    MSGPACK,
    OF_WORKLOAD,
    PARAMETERS,
    PROBLEM,
    SCHEDULING_PARAMETERS,
    answer,
    body,
    header_parts,
    name_parts,
    page_of,
    parameters,
    part_schema,
    path_parameter,
    problem_parts,
    problems,
)
from holdfast.api.documents.openapi_schemas import (
    ON_PLATFORM,
    SCHEMAS,
    decision_page,
    question,
    queue_list,
    ref,
    repair_list,
)
from holdfast.api.documents.schema import DIALECT, Schema, Schemas, form_of_kind, name_pattern
from holdfast.core.model.repair import Repair
from holdfast.core.scheduling.queued import Queued

_ANYTHING: Schema = {"type": "object"}
_OPEN: list[Schema] = [{}]
_READ = ("readHeader", "read")
_LEFT_OUT = "apiVersion, kind, name and tenant are the path's where the document leaves them out"


@cache
def description(ledger: str) -> Schema:
    """Everything that a server of this ledger (`platform` or `region`) answers."""
    schemas = Schemas("#/components/schemas/")
    paths: Schema = {**_health(), **_about(ledger), **_machines(), **_lists(schemas)}
    for kind in KINDS.values():
        if ledger in kind.ledger:
            paths |= _kind(kind, ledger, schemas)
    paths |= {**_batch(ledger, schemas), **_commands(ledger, schemas)}
    if ledger == "platform":
        paths |= {**_in_regions(), **_shipments(), **_quota()}
    else:
        paths |= {**_scheduling(schemas), **_log(), **_bindings()}
    fixed = SCHEMAS | ON_PLATFORM if ledger == "platform" else SCHEMAS
    assert not schemas.named.keys() & fixed.keys(), "two schemas have one name"
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Holdfast: {ledger}", "version": __version__, "license": {"name": "Apache-2.0"}},
        "jsonSchemaDialect": DIALECT,
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted({**fixed, **schemas.named}.items())),
            "parameters": PARAMETERS,
            "headers": header_parts(),
            "responses": problem_parts(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`hf_<token name>_<secret>`"}
            },
        },
    }


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


def _health() -> Schema:
    paths = {}
    for path, name, text, schema in (
        ("/healthz", "health", "The process lives.", ref("Alive")),
        ("/readyz", "ready", "Reads are served; the body has the conditions.", ref("Readiness")),
    ):
        operation = _open(_get(name, text, schema))
        not_yet = answer("Not now.", {JSON: schema, PROBLEM: ref("Problem")}, "Retry-After")
        operation["responses"]["503"] = not_yet
        paths[path] = {"get": operation}
    return paths


def _about(ledger: str) -> Schema:
    names = [kind.name for kind in KINDS.values()]
    kind = path_parameter("kind", "A kind.", {"type": "string", "enum": names})
    asked = body({JSON: question(tags(ledger))})
    verdict = {"200": answer("Whether the sender may.", {JSON: ref("Verdict")})}
    return {
        "/openapi.json": {"get": _open(_get("openapi", "This description.", _ANYTHING))},
        "/v1/schemas": {"get": _open(_get("listSchemas", "The kinds that have a schema.", ref("KindNames")))},
        "/v1/schemas/{kind}": {"get": _open(_get("getSchema", "The JSON Schema of a kind.", _ANYTHING, more=[kind]))},
        "/v1/status": {"get": _get("status", "How this server and its ledger are.", ref("ServerStatus"))},
        "/v1/whoami": {"get": _get("whoami", "Who the sender is, and what it may do.", ref("WhoAmI"))},
        "/v1/can-i": {"post": _operation("canI", "May the sender do that?", parameters(), verdict, asked)},
    }


def _lists(schemas: Schemas) -> Schema:
    item = schemas.of(fields_of(Repair))
    asked = ("notBefore", "actor", "command", "outcome", "limit", "before")
    done = _get("audit", "What people did, newest first.", ref("AuditPage"), *asked)
    hangs = _get("repairs", "What waits to be ended or put right.", repair_list(item), *_READ, "limit", "tenant")
    return {"/v1/audit": {"get": done}, "/v1/repairs": {"get": hangs}}


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


def _quota() -> Schema:
    summary = "What tenants were promised, what of it is lent and used where, and what cannot be kept."
    asked = ("readHeader", "read")
    tenant = path_parameter("tenant", "A tenant.", {"type": "string", "pattern": name_pattern("Tenant")})
    return {
        "/v1/quota": {"get": _get("quotas", summary, ref("QuotaReport"), *asked)},
        "/v1/quota/{tenant}": {"get": _get("quota", summary, ref("QuotaReport"), *asked, more=[tenant])},
    }


def _scheduling(schemas: Schemas) -> Schema:
    """What waits in a region, and what its schedulers decided."""
    waiting = queue_list(schemas.of(fields_of(Queued)))
    decided = decision_page(schemas.of(fields_of(Decision)))
    own, asked = SCHEDULING_PARAMETERS, (*_READ, "tenant", "limit")
    first = "What waits, and why: first what is looked at first."
    queue = _get("queue", first, waiting, *asked, more=[own["workload"]])
    newest = "What schedulers decided, newest first."
    decisions = _get("decisions", newest, decided, *asked, "notBefore", more=list(own.values()))
    return {"/v1/queue": {"get": queue}, "/v1/decisions": {"get": decisions}}


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
