"""The OpenAPI 3.1 document of a ledger's server, generated once from the tables of kinds and commands.

Size: one function for each part of the API, all of it in one place.
"""

from __future__ import annotations

from functools import cache

from holdfast import __version__
from holdfast.api.kinds import KINDS, SOFT_KINDS
from holdfast.api.openapi import components
from holdfast.api.openapi.operations import (
    ANY_OBJECT,
    READ_PARAMETERS,
    batch_paths,
    binding_paths,
    command_paths,
    kind_paths,
    log_paths,
    machine_paths,
    make_operation,
    read_operation,
    region_paths,
    shipment_paths,
    without_auth,
)
from holdfast.api.openapi.schemas import (
    PLATFORM_SCHEMAS,
    SCHEMAS,
    can_i_request,
    decision_page,
    fairness_report,
    queue_list,
    ref,
    repair_list,
)
from holdfast.api.resources.decision import DecisionView
from holdfast.api.resources.schemas import serializer_for_kind, tags
from holdfast.api.serialization.json_schema import DIALECT, Schema, SchemaBuilder, name_pattern
from holdfast.api.serialization.registry import struct_serializer_for
from holdfast.core.model.records.breaches import Repair
from holdfast.core.scheduling.queue.queue_view import Queued


@cache
def description(ledger: str) -> Schema:
    """Return the document of the servers of this ledger (`platform` or `region`)."""
    schemas = SchemaBuilder("#/components/schemas/")
    paths: Schema = {**_health(), **_about(ledger), **machine_paths(), **_lists(schemas)}
    for kind in KINDS.values():
        if ledger in kind.ledger:
            paths |= kind_paths(kind, ledger, schemas)
    paths |= {**batch_paths(ledger, schemas), **command_paths(ledger, schemas)}
    if ledger == "platform":
        paths |= {**region_paths(), **shipment_paths(), **_quota()}
    else:
        paths |= {**_scheduling(schemas), **log_paths(), **binding_paths()}
    fixed = SCHEMAS | PLATFORM_SCHEMAS if ledger == "platform" else SCHEMAS
    assert not schemas.named.keys() & fixed.keys(), "two schemas have one name"
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Holdfast: {ledger}", "version": __version__, "license": {"name": "Apache-2.0"}},
        "jsonSchemaDialect": DIALECT,
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted({**fixed, **schemas.named}.items())),
            "parameters": components.PARAMETERS,
            "headers": components.header_parts(),
            "responses": components.problem_parts(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`hf_<token name>_<secret>`"}
            },
        },
    }


def _health() -> Schema:
    paths = {}
    for path, name, text, schema in (
        ("/healthz", "health", "Whether the process is alive.", ref("Alive")),
        ("/readyz", "ready", "Whether reads are served; the body has the conditions.", ref("Readiness")),
    ):
        operation = without_auth(read_operation(name, text, schema))
        not_yet = components.response(
            "Not ready.", {components.JSON: schema, components.PROBLEM: ref("Problem")}, "Retry-After"
        )
        operation["responses"]["503"] = not_yet
        paths[path] = {"get": operation}
    return paths


def _about(ledger: str) -> Schema:
    names = [kind.name for kind in KINDS.values()]
    kind = components.path_parameter("kind", "A kind.", {"type": "string", "enum": names})
    asked = components.body({components.JSON: can_i_request(tags(ledger))})
    verdict = {"200": components.response("Whether the caller has the permission.", {components.JSON: ref("Verdict")})}
    return {
        "/openapi.json": {"get": without_auth(read_operation("openapi", "This OpenAPI document.", ANY_OBJECT))},
        "/v1/schemas": {
            "get": without_auth(read_operation("listSchemas", "The kinds that have a schema.", ref("KindNames")))
        },
        "/v1/schemas/{kind}": {
            "get": without_auth(read_operation("getSchema", "The JSON Schema of a kind.", ANY_OBJECT, more=[kind]))
        },
        "/v1/status": {"get": read_operation("status", "State of this server and its ledger.", ref("ServerStatus"))},
        "/v1/whoami": {"get": read_operation("whoami", "The caller and its permissions.", ref("WhoAmI"))},
        "/v1/can-i": {
            "post": make_operation("canI", "Whether the caller may do this.", components.parameters(), verdict, asked)
        },
    }


def _lists(schemas: SchemaBuilder) -> Schema:
    item = schemas.of(struct_serializer_for(Repair))
    asked = ("notBefore", "actor", "command", "outcome", "limit", "before")
    done = read_operation("audit", "Commands of operators and tenants, newest first.", ref("AuditPage"), *asked)
    hangs = read_operation(
        "repairs", "Stuck operations and next steps.", repair_list(item), *READ_PARAMETERS, "limit", "tenant"
    )
    shares = read_operation(
        "fairness", "Shares of tenants and what they are entitled to.", fairness_report(), *READ_PARAMETERS, "limit",
        "tenant",
    )  # fmt: skip
    return {"/v1/audit": {"get": done}, "/v1/repairs": {"get": hangs}, "/v1/fairness": {"get": shares}}


def _quota() -> Schema:
    summary = "Quota, grants and usage by tenant and region, with warnings."
    asked = ("readHeader", "read")
    tenant = components.path_parameter("tenant", "A tenant.", {"type": "string", "pattern": name_pattern("Tenant")})
    return {
        "/v1/quota": {"get": read_operation("quotas", summary, ref("QuotaReport"), *asked)},
        "/v1/quota/{tenant}": {"get": read_operation("quota", summary, ref("QuotaReport"), *asked, more=[tenant])},
    }


def _scheduling(schemas: SchemaBuilder) -> Schema:
    """Return the paths of a region's queue and decisions."""
    waiting = queue_list(schemas.of(struct_serializer_for(Queued)))
    decided = decision_page(schemas.of(struct_serializer_for(DecisionView)))
    own, asked = components.SCHEDULING_PARAMETERS, (*READ_PARAMETERS, "tenant", "limit")
    first = "Pending scheduling requests and their reasons, in the order of the queue."
    queue = read_operation("queue", first, waiting, *asked, more=[own["workload"]])
    newest = "Decisions of schedulers, newest first."
    decisions = read_operation("decisions", newest, decided, *asked, "notBefore", more=list(own.values()))
    return {"/v1/queue": {"get": queue}, "/v1/decisions": {"get": decisions}, **_schedulers(schemas)}


def _schedulers(schemas: SchemaBuilder) -> Schema:
    """Return the paths of a region's schedulers, which its leader knows."""
    kind = SOFT_KINDS["schedulers"]
    shown = schemas.of(serializer_for_kind(kind.name, shown=True))
    schemas.named["ListScheduler"] = components.page_of(shown)
    named = components.path_parameter(
        "name", "The principal's name, such as scheduler/main.", {"type": "string", "minLength": 1}
    )
    read = read_operation("listScheduler", "List the live schedulers.", ref("ListScheduler"), *READ_PARAMETERS, "limit")
    one = read_operation("getScheduler", "Read one Scheduler.", shown, *READ_PARAMETERS, "limit", more=[named])
    return {"/v1/schedulers": {"get": read}, "/v1/schedulers/{name}": {"get": one}}
