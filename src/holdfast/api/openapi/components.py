"""The parts that all operations share: headers, parameters, problems, bodies."""

from __future__ import annotations

from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.openapi.schemas import COUNT, INSTANT, REVISION, TEXT, pattern_schema, ref
from holdfast.api.resources.decision import NODE_PATTERN, SLOT_PATTERN, WORKLOAD_PATTERN
from holdfast.api.serialization.json_schema import Schema, name_pattern
from holdfast.api.serialization.scalars import KEY_PATTERN, PLACE_PATTERN, TOKEN_PATTERN
from holdfast.core.model.records.decisions import DecisionOutcome

JSON, PROBLEM, LINES = "application/json", "application/problem+json", "application/x-ndjson"
MSGPACK, FRAMES = "application/msgpack", "application/vnd.holdfast.frames"

#: Every error status of any request.
PROBLEMS = {
    400: "The request is malformed, or has no Idempotency-Key.",
    401: "The credentials are missing or not valid.",
    403: "The caller has no permission to do or see this.",
    404: "There is no such object or route.",
    405: "The route does not support this method.",
    409: "The request conflicts with the current state.",
    410: "The position to continue from is no longer in the log.",
    412: "The object has changed since the revision in If-Match.",
    413: "The request is too large.",
    415: "The content type of the body is not supported.",
    422: "The document or command is not valid: `errors` lists the fields.",
    429: "Too many requests: retry after Retry-After seconds.",
    502: "The region is unreachable.",
    503: "Temporarily unavailable: retry after Retry-After seconds.",
    504: "The deadline of the request has expired.",
}

OUTCOMES = ["created", "configured", "unchanged", "deleted", "deleting"]

_ANSWER_HEADERS = {
    "Holdfast-Server": ("The name of the server that replies.", TEXT),
    "Holdfast-Role": ("The server's role: leading, following, ...", TEXT),
    "Holdfast-Ledger": ("The server's ledger: `platform` or `region/NAME`.", TEXT),
    "Holdfast-Token": ("The revision token of the reply: `log_id:term:seq:digest`.", TEXT),
    "Holdfast-Term": ("The term of the leader.", COUNT),
    "Holdfast-Age-Ms": ("Age of the proof that the leader is current; absent: never proven.", COUNT),
    "Holdfast-Leader": ("The name of the leader, if it is known.", TEXT),
}
_MORE_HEADERS = {
    "ETag": ("The object's revision, in quotes.", TEXT),
    "Holdfast-Outcome": ("The outcome of a write.", {"type": "string", "enum": OUTCOMES}),
    "Retry-After": ("Seconds to wait before a retry.", COUNT),
}


def header_parts() -> Schema:
    """Return the component of each reply header."""
    headers = {**_ANSWER_HEADERS, **_MORE_HEADERS}
    return {name: {"description": text, "schema": schema} for name, (text, schema) in headers.items()}


def _headers(*more: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_ANSWER_HEADERS, *more)}


def response(text: str, content: Schema, *headers: str) -> Schema:
    """Return one reply: its meaning, its content by media type, and its own headers in addition to those of every
    reply."""
    return {
        "description": text,
        "headers": _headers(*headers),
        "content": {media: {"schema": schema} for media, schema in content.items()},
    }


def problem_parts() -> Schema:
    """Return the component of each error status."""
    ref = {"$ref": "#/components/schemas/Problem"}
    return {
        f"Problem{status}": response(text, {PROBLEM: ref}, *(["Retry-After"] if status in (429, 503) else []))
        for status, text in PROBLEMS.items()
    }


def problem_responses() -> Schema:
    """Return a reference to each component, by status."""
    return {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in PROBLEMS}


def _header(name: str, text: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": "header", "description": text, "required": required, "schema": schema}


def _query(name: str, text: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": text, "required": False, "schema": schema}


def path_parameter(name: str, text: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "description": text, "required": True, "schema": schema}


#: At most nine digits: more are a mistake.
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
_TIMEOUT = {**_NUMBER, "default": 10_000}
_READ = pattern_schema(f"^(any|linear|at-least={TOKEN_PATTERN[1:-1]})$", default="any")
_TAG = pattern_schema(rf'^(\*|(W/)?"?{PLACE_PATTERN[1:-1]}"?)$', examples=['"41.3"'])

_LABEL, _VALUE = r"[^\x00-\x20\x7f!=,]+", r"[^\x00-\x1f\x7f=,]*"
_TERM = f" *(!?{_LABEL}|{_LABEL} *(=|==|!=){_VALUE}) *"
_SELECTOR = pattern_schema(
    f"^( *|{_TERM}(,{_TERM}){{0,31}})$", maxLength=4_096, examples=["app=web,tier!=back,canary,!old"]
)

PARAMETERS: dict[str, Schema] = {
    "timeout": _header(
        "Holdfast-Timeout-Ms", "The deadline of the request, in milliseconds; limited by the server.", _TIMEOUT
    ),
    "readHeader": _header("Holdfast-Read", "The read level: how fresh the reply must be.", _READ),
    "read": _query("read", "The read level, as in the header.", _READ),
    "ifMatch": _header("If-Match", "The revision that was read, in quotes, or `*`.", _TAG),
    "ifNoneMatch": _header("If-None-Match", "`*`: only if the object does not exist.", {"const": "*"}),
    "key": _header(
        "Idempotency-Key",
        "Identifies the request: a retry with the same key is applied once and gets the first answer.",
        pattern_schema(KEY_PATTERN),
        required=True,
    ),
    "sent": _header("Holdfast-Sent", "When a retried write was first sent.", INSTANT),
    "dryRun": _query("dryRun", "`All`: decide the request without writing.", {"type": "string", "enum": ["All"]}),
    "limit": _query("limit", "Largest number of items; limited by the server.", _NUMBER),
    "continue": _query("continue", "The last page's `continue`.", TEXT),
    "selector": _query("selector", "A label selector: `a=b,c!=d,e,!f`.", _SELECTOR),
    "tenant": _query("tenant", "Only objects of this tenant.", TEXT),
    "watch": _query("watch", "Stream changes, one JSON object per line.", {"type": "boolean"}),
    "since": _query("since", "Continue after this revision token.", pattern_schema(TOKEN_PATTERN)),
    "initial": _query("initial", "Start with the existing objects.", {"type": "boolean"}),
    "actor": _query("actor", "Only commands of this principal.", TEXT),
    "command": _query("command", "Only commands with this tag.", TEXT),
    "outcome": _query("outcome", "`accepted`, or a refusal code.", TEXT),
    "notBefore": _query("since", "Nothing older than this time.", INSTANT),
    "before": _query("continue", "The last page's `continue`.", pattern_schema("^[0-9]{1,15}[.][0-9]{1,15}$")),
}

#: Parameters of a region's queue and decisions only, so they are with their operations.
SCHEDULING_PARAMETERS: dict[str, Schema] = {
    "workload": _query("workload", "Of this workload: `[TENANT/]NAME`, or its uid.", pattern_schema(WORKLOAD_PATTERN)),
    "slot": _query("slot", "Only of this slot: `[TENANT/]WORKLOAD/REGION/ORDINAL`.", pattern_schema(SLOT_PATTERN)),
    "node": _query("node", "Only on this node, by name or uid.", pattern_schema(NODE_PATTERN)),
    "notAfter": _query("until", "Nothing newer than this time.", INSTANT),
    "decided": _query("outcome", "Only this outcome.", {"type": "string", "enum": list(DecisionOutcome)}),
    "older": _query("continue", "The last page's `continue`.", REVISION),
}

#: A parameter of endpoints only.
WORKLOAD_PARAMETER = _query("workload", "Only of this workload: `[TENANT/]NAME`.", pattern_schema(WORKLOAD_PATTERN))

#: Parameters of the link only.
LINK_PARAMETERS = [
    _query("log", "The platform's log that the region follows.", TEXT),
    _query("term", "The newest term of that log that the region has seen.", COUNT),
    _query("cursor", "The region's cursor in that log.", REVISION),
    _query("session", "The region's session.", REVISION),
    _query("list", "`yes`: start with a full list in any case.", TEXT),
]

AGENT_PARAMETERS = [{**_query("session", "The agent's session.", REVISION), "required": True}]


def parameters(*names: str) -> list[Schema]:
    """Return references to these parameters, after the one of every operation."""
    return [{"$ref": f"#/components/parameters/{name}"} for name in ("timeout", *names)]


def body(content: Schema, *, required: bool = True) -> Schema:
    """Return a body by media type; it is required unless it may be empty."""
    return {"required": required, "content": {media: {"schema": schema} for media, schema in content.items()}}


def page_of(item: Schema) -> Schema:
    properties: dict[str, Any] = {
        "kind": {"const": "List"},
        "items": {"type": "array", "items": item},
        "metadata": ref("ListMetadata"),
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def name_parts(kind: ResourceKind) -> list[tuple[str, str]]:
    """Return the parts of a path that name an object."""
    inner = {
        "Assignment": [("workload", "A workload."), ("region", "A region."), ("purpose", "serving or recovery.")],
        "Replica": [("workload", "A workload."), ("region", "A region."), ("ordinal", "The replica's ordinal.")],
        "Endpoint": [("workload", "A workload."), ("region", "A region."), ("ordinal", "The replica's ordinal.")],
    }.get(kind.name, [("name", f"The name of a {kind.name}; it may contain slashes.")])
    return [("tenant", "A tenant."), *inner] if kind.tenanted else inner


def part_schema(kind: ResourceKind, part: str) -> Schema:
    """Return the schema of a part of a path; names of writable kinds have the pattern of their kind."""
    # A principal's name contains a slash, and OpenAPI cannot express that in a path: the slash may separate two
    # parameters.
    if part == "tenant" or (part == "name" and kind.writable and kind.name != "Principal"):
        return {"type": "string", "pattern": name_pattern(kind.name if part == "name" else "Tenant")}
    return {"type": "string", "minLength": 1}
