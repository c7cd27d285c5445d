"""Problems: the error bodies of the API (RFC 9457).

A problem has a code from a closed list, for programs, and a text for users. The codes are the refusal codes of the
ledgers, the errors of a host, and those of the API itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.revision import format_revision
from holdfast.host.errors import Diverged, ListAgain, Unavailable
from holdfast.host.ports.transport import Pairs, Reply

CONTENT_TYPE = ("content-type", "application/problem+json")

#: Status and title of the problems of the API and of a host.
API_PROBLEMS: dict[str, tuple[int, str]] = {
    "unauthenticated": (401, "Authentication required"),
    "no-such-route": (404, "No such path"),
    "wrong-verb": (405, "Method not allowed"),
    "wrong-media-type": (415, "Unsupported content type"),
    "unreadable": (400, "Malformed body or parameter"),
    "invalid": (422, "Invalid document"),
    "no-key": (400, "Idempotency key required"),
    "rate-limited": (429, "Too many requests"),
    "region-unreachable": (502, "Region unreachable"),
    "deadline": (504, "Deadline exceeded"),
    # Errors of a host.
    "overloaded": (429, "Overloaded"),
    "unavailable": (503, "Temporarily unavailable"),
    "not-leading": (503, "This server is not the leader"),
    "not-proven": (503, "Leadership not proven"),
    "read-only": (503, "The store is read-only"),
    "failed": (503, "Internal error; nothing was changed"),
    "internal": (500, "Internal error"),
    "outcome-unknown": (503, "Outcome unknown"),
    "not-reached": (503, "Revision not reached in time"),
    "stopped": (503, "Server stopped"),
    "gone": (410, "Revision trimmed from the log"),
    "diverged": (410, "Revision not in this log"),
}

#: Refusals whose status is not 409 (conflict with the current state).
_STATUS: dict[Code, int] = {
    Code.MALFORMED: 422,
    Code.TOO_LARGE: 413,
    Code.TOO_MANY_IN_FLIGHT: 429,
    Code.TOO_MANY_KEYS: 429,
    Code.NO_RIGHT: 403,
    Code.WRONG_SCOPE: 403,
    Code.NOT_OWNER: 403,
    Code.NOT_FOUND: 404,
    Code.CONTRADICTORY: 422,
    Code.PRIORITY: 422,
    Code.RESIDENCY: 422,
    Code.LATENCY: 422,
}
#: Refusals that resolve themselves after a while.
RETRYABLE = ("too-many-pending",)

#: Facts that are revisions of the log. `catch_up_to` is the object's current revision.
_REVISIONS = ("seen", "catch_up_to", "revision", "uid", "session", "current", "joined")

#: Next steps for users, by code.
_HINTS: dict[str, str] = {
    "unauthenticated": "holdfast config show, then holdfast token create",
    "wrong-media-type": "send the header Content-Type: application/json",
    "no-right": "holdfast can-i COMMAND, holdfast whoami",
    "wrong-scope": "holdfast whoami",
    "stale": "read the object again and repeat the change at that revision: holdfast get KIND NAME -o yaml",
    "exists": "holdfast get KIND NAME",
    "not-found": "holdfast get KIND",
    "in-use": "holdfast describe KIND NAME",
    "not-leading": "holdfast status",
    "outcome-unknown": "retry with the same key: the command is applied at most once",
    "deadline": "retry with the same key: the command is applied at most once",
    "region-unreachable": "holdfast get regions",
    "gone": "list again",
    "diverged": "list again",
    "invalid": "holdfast schema KIND",
    "too-many-pending": "holdfast get workloads, holdfast describe tenant NAME",
}


class InvalidField(Struct, frozen=True, omit_defaults=True):
    """One field error: what is wrong, and a JSON pointer into the body."""

    pointer: str
    detail: str
    hint: str = ""


class Problem(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A problem document (RFC 9457). The meaning of `type` and `code` never changes; texts may."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, Any] = {}
    errors: tuple[InvalidField, ...] = ()
    hint: str = ""
    retry_after_ms: int = 0
    lane: str = ""


def problem(
    code: str,
    detail: str,
    *,
    facts: Mapping[str, Any] | None = None,
    errors: Sequence[InvalidField] = (),
    retry_after_ms: int = 0,
    lane: str = "",
) -> Problem:
    """Return a problem of the API itself, or of a host."""
    status, title = API_PROBLEMS[code]
    if status in (429, 503) and not retry_after_ms:
        retry_after_ms = 1_000
    return Problem(
        type=f"urn:holdfast:problem:{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        facts=dict(facts or {}),
        errors=tuple(errors),
        hint=_HINTS.get(code, ""),
        retry_after_ms=retry_after_ms,
        lane=lane,
    )


def from_refusal(refused: Refused, *, lane: str = "", conditional: bool = False) -> Problem:
    """Return a refusal as a problem. `conditional`: the sender named a precondition, so a conflict has status 412."""
    code = refused.code
    status = 429 if code.value in RETRYABLE else _STATUS.get(code, 409)
    if conditional and code in (Code.STALE, Code.EXISTS):
        status = 412
    return Problem(
        type=f"urn:holdfast:problem:{code.value}",
        title=code.value.replace("-", " ").capitalize(),
        status=status,
        detail=refused.message,
        code=code.value,
        facts=_facts(refused),
        hint=_HINTS.get(code.value, ""),
        retry_after_ms=1_000 if status == 429 else 0,
        lane=lane,
    )


def _facts(refused: Refused) -> dict[str, Any]:
    """Return the facts as documents have them: revisions as text, names in camel case."""
    found = {}
    for name, value in refused.facts.items():
        if name in _REVISIONS and isinstance(value, int):
            found["revision" if name == "catch_up_to" else name] = format_revision(value)
        else:
            head, *rest = name.split("_")
            found[head + "".join(map(str.capitalize, rest))] = value
    return found


def from_error(error: Unavailable | ListAgain, *, lane: str = "") -> Problem:
    """Return a host's error as a problem."""
    if isinstance(error, ListAgain):
        return problem("diverged" if isinstance(error, Diverged) else "gone", str(error))
    return problem(error.code, str(error) or error.code, lane=lane)


_encode = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


def to_reply(found: Problem, headers: Pairs = ()) -> Reply:
    own: list[tuple[str, str]] = [CONTENT_TYPE, *headers]
    if found.retry_after_ms:
        own.append(("retry-after", str(max(1, -(-found.retry_after_ms // 1_000)))))
    if found.status == 401:
        own.append(("www-authenticate", "Bearer"))
    return Reply(found.status, tuple(own), _encode(found))
