"""Problems: what a server says instead of what it was asked for (RFC 9457).

A problem has a code from a closed list, which callers branch on, and a text for people. The codes are the refusals of
the ledgers, the answers that a host gives instead of one, and what only an API can find.
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

#: What only an API can find, with its status and title.
API_PROBLEMS: dict[str, tuple[int, str]] = {
    "unauthenticated": (401, "Who are you?"),
    "no-such-route": (404, "There is nothing at this path"),
    "wrong-verb": (405, "This path does not know that verb"),
    "wrong-media-type": (415, "The body is in a form that is not read here"),
    "unreadable": (400, "The body or a parameter cannot be read"),
    "invalid": (422, "The document is not what its kind asks for"),
    "no-key": (400, "A write by a person names an idempotency key"),
    "rate-limited": (429, "Too many requests"),
    "region-unreachable": (502, "The region cannot be reached"),
    "deadline": (504, "Not answered in time"),
    # What a host says instead of an answer.
    "overloaded": (429, "Too much waits already"),
    "unavailable": (503, "No answer can be given now"),
    "not-leading": (503, "This server does not lead"),
    "not-proven": (503, "This server cannot show that it leads"),
    "read-only": (503, "The store takes no writes"),
    "failed": (503, "A fault of ours; nothing was done"),
    "internal": (500, "A fault of ours"),
    "outcome-unknown": (503, "It may have been done or not"),
    "not-reached": (503, "Not as far as was asked for"),
    "stopped": (503, "This server has stopped"),
    "gone": (410, "The log no longer reaches back that far"),
    "diverged": (410, "That place is not in this log"),
}

#: Refusals whose status is not 409, the conflict with what is.
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
#: Refusals that a while cures, as far as can be told.
RETRYABLE = ("too-many-pending",)

#: Facts that are revisions of the log; the one to catch up to is the object's present one.
_REVISIONS = ("seen", "catch_up_to", "revision", "uid", "session", "current", "joined")

#: What people may do next, by code.
_HINTS: dict[str, str] = {
    "unauthenticated": "holdfast config show, then holdfast token create",
    "no-right": "holdfast can-i COMMAND, holdfast whoami",
    "wrong-scope": "holdfast whoami",
    "stale": "read it again and repeat with what you read: holdfast get KIND NAME -o yaml",
    "exists": "holdfast get KIND NAME",
    "not-found": "holdfast get KIND",
    "in-use": "holdfast describe KIND NAME",
    "not-leading": "holdfast status",
    "outcome-unknown": "repeat it with the same key: it is done at most once",
    "deadline": "repeat it with the same key: it is done at most once",
    "region-unreachable": "holdfast get regions",
    "gone": "list again",
    "diverged": "list again",
    "invalid": "holdfast schema KIND",
    "too-many-pending": "holdfast get workloads, holdfast describe tenant NAME",
}


class InvalidField(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong, and where in the body."""

    pointer: str
    detail: str
    hint: str = ""


class Problem(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A problem document. `type` and `code` never change their meaning; texts may."""

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
    """A problem of the API's own, or of a host's."""
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
    """A ledger's refusal. `conditional`: the sender named what it expects, so a conflict is a failed condition."""
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
    """The facts in the words of documents: revisions as texts, names in camel case."""
    found = {}
    for name, value in refused.facts.items():
        if name in _REVISIONS and isinstance(value, int):
            found["revision" if name == "catch_up_to" else name] = format_revision(value)
        else:
            head, *rest = name.split("_")
            found[head + "".join(map(str.capitalize, rest))] = value
    return found


def from_error(error: Unavailable | ListAgain, *, lane: str = "") -> Problem:
    """What a host said instead of an answer."""
    if isinstance(error, ListAgain):
        return problem("diverged" if isinstance(error, Diverged) else "gone", str(error))
    return problem(error.code, str(error) or error.code, lane=lane)


_encode = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


def to_reply(found: Problem, headers: Pairs = ()) -> Reply:
    """The problem as an answer."""
    own: list[tuple[str, str]] = [CONTENT_TYPE, *headers]
    if found.retry_after_ms:
        own.append(("retry-after", str(max(1, -(-found.retry_after_ms // 1_000)))))
    if found.status == 401:
        own.append(("www-authenticate", "Bearer"))
    return Reply(found.status, tuple(own), _encode(found))
