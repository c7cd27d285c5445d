"""The schemas of what is no object: problems, pages, what a server says of itself, what machines are told."""

from __future__ import annotations

from typing import Any

from holdfast.api.serialization.json_schema import Schema, closed_object
from holdfast.api.serialization.scalars import INSTANT_PATTERN, REVISION_PATTERN
from holdfast.core.model.objects.principals import Permission


def pattern_schema(pattern: str, **more: Any) -> Schema:
    """Text that looks so."""
    return {"type": "string", "pattern": pattern, **more}


def ref(name: str) -> Schema:
    """A reference to a schema."""
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
        "heardMsAgo": _AGE,
        "summaryMsAgo": {**_AGE, "description": "Since its last summary came; one comes when something has changed."},
        "behind": {**_AGE, "description": "Batches after what it has acknowledged; most may hold nothing for it."},
        "joined": _FLAG,
    }
)
_ENTRY = {"at": INSTANT, "actor": TEXT, "command": TEXT, "revision": REVISION, "outcome": TEXT}
_ENTRY |= {"body": {}, "tenant": TEXT, "count": COUNT, "expected": TEXT, "via": TEXT}

_AMOUNTS: Schema = {"type": "object", "additionalProperties": {"anyOf": [TEXT, {"type": "integer"}]}}
_QUOTA_IN = {"region": TEXT, "health": TEXT, **dict.fromkeys(("asked", "target", "settled", "protected"), _AMOUNTS)}
_QUOTA_IN |= {"charged": _AMOUNTS, "reclaimable": _AMOUNTS, "toldMsAgo": _AGE}
_QUOTA_IN |= {"ends": {"anyOf": [INSTANT, {"type": "null"}]}}
_STANDING = {"tenant": TEXT, **dict.fromkeys(("hard", "protected", "effective", "asked"), _AMOUNTS)}
_STANDING |= {"granted": _AMOUNTS, "charged": _AMOUNTS, "reclaimablePercent": COUNT}
_STANDING |= {"regions": _many(_with(_QUOTA_IN)), "warnings": _many(TEXT)}

#: What a server says of itself, of who asks, and of what was done.
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
            "platform": _with({"heardMsAgo": _AGE, "trouble": TEXT}),
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

#: What the platform alone is asked for.
PLATFORM_SCHEMAS: dict[str, Schema] = {
    "QuotaReport": _with(
        {
            "kind": {"const": "QuotaReport"},
            "at": INSTANT,
            "items": _many(_with(_STANDING)),
            "warnings": _many(TEXT),
        }
    ),
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
    "ListMetadata": {
        "type": "object",
        "properties": {"token": TEXT, "continue": TEXT, "remaining": COUNT},
    },
    "Verdict": {
        "type": "object",
        "properties": {"allowed": {"type": "boolean"}, "why": TEXT},
        "required": ["allowed"],
    },
    "Done": {
        "description": "A command was accepted, at this revision of the log.",
        "type": "object",
        "properties": {"command": TEXT, "revision": REVISION, "repeated": {"type": "boolean"}},
        "required": ["command", "revision", "repeated"],
    },
    "Renewal": closed_object(
        {"session": REVISION}, ["session"], "A machine asks for its session to be worth some time more."
    ),
    "Renewed": {
        "type": "object",
        "properties": {"worthMs": {"type": "integer"}, "term": COUNT, "logId": TEXT, "at": {"type": "integer"}},
        "required": ["worthMs", "term", "logId", "at"],
    },
    "GoneObject": {
        "description": "An object that is gone by now: which one it was.",
        "type": "object",
        "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}},
        "required": ["apiVersion", "kind", "metadata"],
    },
    **ABOUT,
}


def can_i_request(commands: tuple[str, ...]) -> Schema:
    """What may be asked of one's own rights: about a command, or about a right."""
    where = {"tenant": TEXT, "region": TEXT, "node": TEXT}
    of_command = closed_object({"command": {"type": "string", "enum": list(commands)}, **where}, ["command"])
    of_right = closed_object({"right": {"type": "string", "enum": list(Permission)}, **where}, ["right"])
    return {
        "description": "May the sender send this command, or has it this right, there?",
        "oneOf": [of_command, of_right],
    }


def repair_list(item: Schema) -> Schema:
    """What waits to be ended or put right, and how much of that there is in all."""
    return _with(
        {"kind": {"const": "RepairList"}, "items": _many(item), "metadata": _with({"total": COUNT, "at": INSTANT})}
    )


def queue_list(item: Schema) -> Schema:
    """What waits, as far as the sender may see it; `waiting` is how much waits in all."""
    metadata = _with({"total": COUNT, "waiting": COUNT, "at": INSTANT})
    return _with({"kind": {"const": "QueueList"}, "items": _many(item), "metadata": metadata})


def decision_page(item: Schema) -> Schema:
    """Decisions: all of them `since` a time, up to a batch of the log."""
    metadata = _with({"upTo": COUNT, "since": INSTANT, "continue": REVISION}, "since", "continue")
    return _with({"kind": {"const": "DecisionList"}, "items": _many(item), "metadata": metadata})
