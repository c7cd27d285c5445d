"""The parts that every operation of the API's description is made of: headers, parameters, problems, bodies."""

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

#: Every way in which any request can be refused.
PROBLEMS = {
    400: "The request cannot be read, or lacks an Idempotency-Key.",
    401: "Nobody is known by these credentials.",
    403: "The sender may not do or see that.",
    404: "There is no such object or route.",
    405: "The route does not answer this verb.",
    409: "It contradicts what is there.",
    410: "What the client wants to go on from is not in the log any more.",
    412: "It has changed since the revision in If-Match.",
    413: "The request is too large.",
    415: "The body is not in a form that is read here.",
    422: "The document or command is wrong: `errors` says where.",
    429: "Too many requests: Retry-After says when to come back.",
    502: "The region cannot be reached.",
    503: "Nobody can answer now: Retry-After says when to come back.",
    504: "The deadline of the request has passed.",
}

OUTCOMES = ["created", "configured", "unchanged", "deleted", "deleting"]

_ANSWER_HEADERS = {
    "Holdfast-Server": ("The name of the server that answers.", TEXT),
    "Holdfast-Role": ("What it is: leading, following, ...", TEXT),
    "Holdfast-Ledger": ("Whose ledger it is: `platform` or `region/NAME`.", TEXT),
    "Holdfast-Token": ("Where in the log the answer stands: `log_id:term:seq:digest`.", TEXT),
    "Holdfast-Term": ("The term of the leader.", COUNT),
    "Holdfast-Age-Ms": ("How old the proof is that nobody else leads; absent: never proven.", COUNT),
    "Holdfast-Leader": ("The name of the leader, when it is known.", TEXT),
}
_MORE_HEADERS = {
    "ETag": ("The object's revision, in quotes.", TEXT),
    "Holdfast-Outcome": ("What a write did.", {"type": "string", "enum": OUTCOMES}),
    "Retry-After": ("Seconds until it is worth trying again.", COUNT),
}


def header_parts() -> Schema:
    """The component for each header of an answer."""
    headers = {**_ANSWER_HEADERS, **_MORE_HEADERS}
    return {name: {"description": text, "schema": schema} for name, (text, schema) in headers.items()}


def _headers(*more: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_ANSWER_HEADERS, *more)}


def response(text: str, content: Schema, *headers: str) -> Schema:
    """One answer: what it means, what it holds by media type, and its headers beside those of every answer."""
    return {
        "description": text,
        "headers": _headers(*headers),
        "content": {media: {"schema": schema} for media, schema in content.items()},
    }


def problem_parts() -> Schema:
    """The component for each way to be refused."""
    ref = {"$ref": "#/components/schemas/Problem"}
    return {
        f"Problem{status}": response(text, {PROBLEM: ref}, *(["Retry-After"] if status in (429, 503) else []))
        for status, text in PROBLEMS.items()
    }


def problem_responses() -> Schema:
    """By status: a reference to its component."""
    return {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in PROBLEMS}


def _header(name: str, text: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": "header", "description": text, "required": required, "schema": schema}


def _query(name: str, text: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": text, "required": False, "schema": schema}


def path_parameter(name: str, text: str, schema: Schema) -> Schema:
    """A part of the path."""
    return {"name": name, "in": "path", "description": text, "required": True, "schema": schema}


#: More digits than these are no number that anybody means.
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
        "Holdfast-Timeout-Ms", "The deadline of the request, in milliseconds; at most what the server allows.", _TIMEOUT
    ),
    "readHeader": _header("Holdfast-Read", "How fresh the answer must be.", _READ),
    "read": _query("read", "How fresh the answer must be; as the header.", _READ),
    "ifMatch": _header("If-Match", "The revision that was read, in quotes, or `*`.", _TAG),
    "ifNoneMatch": _header("If-None-Match", "`*`: only if there is none yet.", {"const": "*"}),
    "key": _header(
        "Idempotency-Key",
        "The same key is the same request: it is done once, and answered again.",
        pattern_schema(KEY_PATTERN),
        required=True,
    ),
    "sent": _header("Holdfast-Sent", "When a write that is repeated later was first sent.", INSTANT),
    "dryRun": _query("dryRun", "`All`: judge it, and write nothing.", {"type": "string", "enum": ["All"]}),
    "limit": _query("limit", "At most so many, and no more than the server gives at once.", _NUMBER),
    "continue": _query("continue", "Where the page before ended.", TEXT),
    "selector": _query("selector", "By labels: `a=b,c!=d,e,!f`.", _SELECTOR),
    "tenant": _query("tenant", "Of this tenant only.", TEXT),
    "watch": _query("watch", "Go on with every change, one JSON object in a line.", {"type": "boolean"}),
    "since": _query("since", "Go on from this token.", pattern_schema(TOKEN_PATTERN)),
    "initial": _query("initial", "Begin with what is there.", {"type": "boolean"}),
    "actor": _query("actor", "What this principal did.", TEXT),
    "command": _query("command", "Commands of this tag.", TEXT),
    "outcome": _query("outcome", "`accepted`, or the code of a refusal.", TEXT),
    "notBefore": _query("since", "Nothing older than this.", INSTANT),
    "before": _query("continue", "Where the page before ended.", pattern_schema("^[0-9]{1,15}[.][0-9]{1,15}$")),
}

#: Of what waits in a region and was decided there alone, so that they stand with their operations.
SCHEDULING_PARAMETERS: dict[str, Schema] = {
    "workload": _query("workload", "Of this workload: `[TENANT/]NAME`, or its uid.", pattern_schema(WORKLOAD_PATTERN)),
    "slot": _query("slot", "Of this slot: `[TENANT/]WORKLOAD/REGION/ORDINAL`.", pattern_schema(SLOT_PATTERN)),
    "node": _query("node", "What went to this node, by name or uid.", pattern_schema(NODE_PATTERN)),
    "notAfter": _query("until", "Nothing newer than this.", INSTANT),
    "decided": _query("outcome", "What became of it.", {"type": "string", "enum": list(DecisionOutcome)}),
    "older": _query("continue", "Where the page before ended.", REVISION),
}

#: Of endpoints alone, so that it stands with their operation.
WORKLOAD_PARAMETER = _query("workload", "Of this workload: `[TENANT/]NAME`.", pattern_schema(WORKLOAD_PATTERN))

#: Of the link alone, so that they stand with their operation.
LINK_PARAMETERS = [
    _query("log", "The platform's log that the region follows.", TEXT),
    _query("term", "The newest term of it that the region has seen.", COUNT),
    _query("cursor", "How far the region is in it.", REVISION),
    _query("session", "The region's session.", REVISION),
    _query("list", "`yes`: begin with a full list all the same.", TEXT),
]

AGENT_PARAMETERS = [{**_query("session", "The agent's session.", REVISION), "required": True}]


def parameters(*names: str) -> list[Schema]:
    """References to these parameters, after the one that every operation has."""
    return [{"$ref": f"#/components/parameters/{name}"} for name in ("timeout", *names)]


def body(content: Schema, *, required: bool = True) -> Schema:
    """A body, by media type; it must be given unless it may be empty."""
    return {"required": required, "content": {media: {"schema": schema} for media, schema in content.items()}}


def page_of(item: Schema) -> Schema:
    """A page of a list."""
    properties: dict[str, Any] = {
        "kind": {"const": "List"},
        "items": {"type": "array", "items": item},
        "metadata": ref("ListMetadata"),
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def name_parts(kind: ResourceKind) -> list[tuple[str, str]]:
    """The parts of a path that name an object."""
    inner = {
        "Assignment": [("workload", "A workload."), ("region", "A region."), ("purpose", "serving or recovery.")],
        "Replica": [("workload", "A workload."), ("region", "A region."), ("ordinal", "The replica's ordinal.")],
        "Endpoint": [("workload", "A workload."), ("region", "A region."), ("ordinal", "The replica's ordinal.")],
    }.get(kind.name, [("name", f"The name of a {kind.name}; it may hold slashes.")])
    return [("tenant", "A tenant."), *inner] if kind.tenanted else inner


def part_schema(kind: ResourceKind, part: str) -> Schema:
    """What a part of a path looks like: names of what people write as they write them."""
    # The name of a principal holds a slash, of which a path says nothing: it may as well part two parameters.
    if part == "tenant" or (part == "name" and kind.writable and kind.name != "Principal"):
        return {"type": "string", "pattern": name_pattern(kind.name if part == "name" else "Tenant")}
    return {"type": "string", "minLength": 1}
