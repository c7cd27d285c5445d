"""The schemas of replies that are not objects: problems, pages, reports of a server, messages to machines."""

from __future__ import annotations

from typing import Any

from holdfast.api.serialization.json_schema import Schema, closed_object
from holdfast.api.serialization.scalars import INSTANT_PATTERN, REVISION_PATTERN
from holdfast.core.model.objects.principals import Permission


def pattern_schema(pattern: str, **more: Any) -> Schema:
    return {"type": "string", "pattern": pattern, **more}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INSTANT = pattern_schema(INSTANT_PATTERN, format="date-time")
REVISION = pattern_schema(REVISION_PATTERN, examples=["41.3"])

_ERROR = {
    "type": "object",
    "properties": {"pointer": TEXT, "detail": TEXT, "hint": TEXT},
    "required": ["pointer", "detail"],
}

_FLAG: Schema = {"type": "boolean"}
_AGE: Schema = {"anyOf": [COUNT, {"type": "null"}]}


def _with(properties: Schema, *optional: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _many(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_CONDITION = _with({"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT})
_LANE = _with({"lane": TEXT, "sharePercent": COUNT, "waiting": COUNT})
_OF_REGION = _with(
    {
        "name": TEXT,
        "health": TEXT,
        "address": TEXT,
        "reportedAddress": TEXT,
        "lastContactMsAgo": _AGE,
        "summaryMsAgo": {**_AGE, "description": "Since its last summary; a region sends one after a change."},
        "behind": {**_AGE, "description": "Batches it has not acknowledged; most may not concern it."},
        "joined": _FLAG,
    }
)
_ENTRY = {"at": INSTANT, "actor": TEXT, "command": TEXT, "revision": REVISION, "outcome": TEXT}
_ENTRY |= {"body": {}, "tenant": TEXT, "count": COUNT, "expected": TEXT, "via": TEXT}

_AMOUNTS: Schema = {"type": "object", "additionalProperties": {"anyOf": [TEXT, {"type": "integer"}]}}
_QUOTA_IN = {"region": TEXT, "health": TEXT, **dict.fromkeys(("requested", "target", "settled", "protected"), _AMOUNTS)}
_QUOTA_IN |= {"charged": _AMOUNTS, "reclaimable": _AMOUNTS, "reportedMsAgo": _AGE}
_QUOTA_IN |= {"ends": {"anyOf": [INSTANT, {"type": "null"}]}}
_STANDING = {"tenant": TEXT, **dict.fromkeys(("hard", "protected", "effective", "requested"), _AMOUNTS)}
_STANDING |= {"granted": _AMOUNTS, "charged": _AMOUNTS, "reclaimablePercent": COUNT}
_STANDING |= {"regions": _many(_with(_QUOTA_IN)), "warnings": _many(TEXT)}

_PERCENT: Schema = {"type": "number", "minimum": 0}
_TENANT_SHARE = {"tenant": TEXT, "weight": COUNT, "dominantResource": TEXT, "sharePercent": _PERCENT}
_TENANT_SHARE |= {"entitledPercent": _PERCENT, "recentPercent": {"anyOf": [_PERCENT, {"type": "null"}]}}
_TENANT_SHARE |= {"charged": _AMOUNTS, "protected": _AMOUNTS, "waiting": COUNT}
_TENANT_SHARE |= {"oldestSince": {"anyOf": [INSTANT, {"type": "null"}]}}

#: Reports of a server about itself, the caller, and the audit.
ABOUT: dict[str, Schema] = {
    "Alive": _with({"status": {"const": "alive"}, "version": TEXT}),
    "Readiness": _with({"ready": _FLAG, "role": TEXT, "conditions": _many(_CONDITION)}),
    "KindNames": _with({"kinds": _many(TEXT)}),
    "ServerStatus": _with(
        {
            "server": TEXT,
            "role": TEXT,
            "ledger": TEXT,
            "leader": TEXT,
            "term": COUNT,
            "token": TEXT,
            "settingsRevision": REVISION,
            "ageMs": _AGE,
            "at": INSTANT,
            "version": TEXT,
            "conditions": _many(_CONDITION),
            "degraded": _many(TEXT),
            "warnings": _many(TEXT),
            "lanes": _many(_LANE),
            "watches": COUNT,
            "overrides": _many(ref("OverrideShown")),
            "regions": _many(_OF_REGION),
            "platform": _with({"lastContactMsAgo": _AGE, "degradedReason": TEXT}),
        },
        "warnings",
        "overrides",
        "regions",
        "platform",
    ),
    "WhoAmI": _with(
        {
            "principal": TEXT,
            "rights": _many({"type": "string", "enum": list(Permission)}),
            "scope": _with({"tenant": TEXT, "region": TEXT, "node": TEXT}),
            "via": TEXT,
            "token": TEXT,
            "expires": INSTANT,
        },
        "via",
        "token",
        "expires",
    ),
    "AuditPage": _with(
        {
            "kind": {"const": "AuditList"},
            "items": _many(_with(_ENTRY, "body", "tenant", "count", "expected", "via")),
            "metadata": _with({"continue": TEXT}, "continue"),
        }
    ),
}

#: Schemas of the platform alone.
PLATFORM_SCHEMAS: dict[str, Schema] = {
    "QuotaReport": _with(
        {"kind": {"const": "QuotaReport"}, "at": INSTANT, "items": _many(_with(_STANDING)), "warnings": _many(TEXT)}
    )
}

SCHEMAS: dict[str, Schema] = {
    "Problem": {
        "description": "Why a request was refused, and what to do next (RFC 9457).",
        "type": "object",
        "properties": {
            "type": {"type": "string", "pattern": "^urn:holdfast:problem:"},
            "title": TEXT,
            "status": {"type": "integer"},
            "detail": TEXT,
            "code": TEXT,
            "facts": {"type": "object"},
            "errors": {"type": "array", "items": _ERROR},
            "hint": TEXT,
            "retryAfterMs": COUNT,
            "lane": TEXT,
        },
        "required": ["type", "title", "status", "detail", "code"],
    },
    "ListMetadata": {"type": "object", "properties": {"token": TEXT, "continue": TEXT, "remaining": COUNT}},
    "Verdict": {"type": "object", "properties": {"allowed": {"type": "boolean"}, "why": TEXT}, "required": ["allowed"]},
    "Done": {
        "description": "A command was accepted, at this revision of the log.",
        "type": "object",
        "properties": {"command": TEXT, "revision": REVISION, "repeated": {"type": "boolean"}},
        "required": ["command", "revision", "repeated"],
    },
    "Renewal": closed_object({"session": REVISION}, ["session"], "A machine renews the lease of its session."),
    "Renewed": {
        "type": "object",
        "properties": {"worthMs": {"type": "integer"}, "term": COUNT, "logId": TEXT, "at": {"type": "integer"}},
        "required": ["worthMs", "term", "logId", "at"],
    },
    "GoneObject": {
        "description": "Kind and metadata of an object that is deleted.",
        "type": "object",
        "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}},
        "required": ["apiVersion", "kind", "metadata"],
    },
    **ABOUT,
}


def can_i_request(commands: tuple[str, ...]) -> Schema:
    """Return the schema of a question about the caller's own permissions: a command, or a permission."""
    where = {"tenant": TEXT, "region": TEXT, "node": TEXT}
    of_command = closed_object({"command": {"type": "string", "enum": list(commands)}, **where}, ["command"])
    of_right = closed_object({"right": {"type": "string", "enum": list(Permission)}, **where}, ["right"])
    return {
        "description": "Whether the caller may send this command, or has this permission, there.",
        "oneOf": [of_command, of_right],
    }


def repair_list(item: Schema) -> Schema:
    """Return the schema of the list of stuck operations, with their total number."""
    return _with(
        {"kind": {"const": "RepairList"}, "items": _many(item), "metadata": _with({"total": COUNT, "at": INSTANT})}
    )


def fairness_report() -> Schema:
    """Return the schema of the shares of tenants, as far as the caller may see them."""
    metadata = _with({"total": COUNT, "at": INSTANT})
    return _with({"kind": {"const": "FairnessReport"}, "items": _many(_with(_TENANT_SHARE)), "metadata": metadata})


def queue_list(item: Schema) -> Schema:
    """Return the schema of the queue, as far as the caller may see it; `waiting` counts all pending requests."""
    metadata = _with({"total": COUNT, "waiting": COUNT, "at": INSTANT})
    return _with({"kind": {"const": "QueueList"}, "items": _many(item), "metadata": metadata})


def decision_page(item: Schema) -> Schema:
    """Return the schema of a page of decisions: all `since` a time, up to a batch of the log."""
    metadata = _with({"upTo": COUNT, "since": INSTANT, "continue": REVISION}, "since", "continue")
    return _with({"kind": {"const": "DecisionList"}, "items": _many(item), "metadata": metadata})
