"""The OpenAPI 3.1 description of a ledger's server, made from the tables of kinds and commands and kept.

Size: one function for each part of the API, all of it in one place.
"""

from __future__ import annotations

from functools import cache

from holdfast import __version__
from holdfast.api.kinds import KINDS
from holdfast.api.openapi.components import (
    JSON,
    PARAMETERS,
    PROBLEM,
    SCHEDULING_PARAMETERS,
    answer,
    body,
    header_parts,
    parameters,
    path_parameter,
    problem_parts,
)
from holdfast.api.openapi.operations import (
    _ANYTHING,
    _READ,
    _batch,
    _bindings,
    _commands,
    _get,
    _in_regions,
    _kind,
    _log,
    _machines,
    _open,
    _operation,
    _shipments,
)
from holdfast.api.openapi.schemas import ON_PLATFORM, SCHEMAS, decision_page, question, queue_list, ref, repair_list
from holdfast.api.resources.command_catalog import tags
from holdfast.api.resources.decision import Decision
from holdfast.api.serialization.json_schema import DIALECT, Schema, Schemas, name_pattern
from holdfast.api.serialization.registry import fields_of
from holdfast.core.model.records.breaches import Repair
from holdfast.core.scheduling.queue.queue_view import Queued


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
