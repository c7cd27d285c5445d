"""Problems as servers write them, and the errors that calls raise.

    HoldfastError ─┬─ Refusal ──┬─ NotFound · Conflict · Denied · Gone · NoSession
                   │            └─ (any other 4xx)                  nothing was changed by this request
                   ├─ Unavailable                                   nothing was changed, and nobody could say more
                   ├─ OutcomeUnknown                                it may have been done: repeat it with its key
                   └─ NotInTime                                     what was waited for did not come about

`OutcomeUnknownError` is no kind of `UnavailableError`: whoever handles the one by doing something else must not take
the other for it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.host.ports.transport import Reply, TransportError, Unreachable, first_value

#: The longest part of an answer that is not a problem document that is shown to people.
DETAIL_MAX = 300


class FieldProblem(Struct, frozen=True):
    """What is wrong with one field: a JSON pointer, what it says, what to do."""

    pointer: str = ""
    detail: str = ""
    hint: str = ""


class ProblemReport(Struct, frozen=True, rename="camel"):
    """Why something was not done (RFC 9457). `status` is 0 where no server answered."""

    code: str = ""
    status: int = 0
    title: str = ""
    detail: str = ""
    facts: dict[str, Any] = {}
    errors: tuple[FieldProblem, ...] = ()
    hint: str = ""
    retry_after_ms: int = 0
    lane: str = ""

    def shown(self) -> str:
        """The problem as people read it: what happened, field by field, and what to do next."""
        lines = [f"{self.detail or self.title or 'no reason given'} ({self.code})"]
        lines += [f"  {e.pointer}: {e.detail}" + (f" ({e.hint})" if e.hint else "") for e in self.errors]
        lines += [f"hint: {self.hint}"] if self.hint else []
        return "\n".join(lines)


class HoldfastError(Exception):
    """A call did not do what it was asked to."""

    def __init__(self, problem: ProblemReport, message: str = "") -> None:
        super().__init__(message or problem.shown())
        self.problem = problem
        #: What a batch had done before this happened, document by document (`objects.Applied`).
        self.done: tuple[Any, ...] = ()


class RefusedError(HoldfastError):
    """A server looked at the request and said no. Nothing was changed by it."""

    #: Where in the log the server stood when it said so; empty where it does not say.
    token = ""


class NotFoundError(RefusedError):
    """There is no such object, or no such kind here."""


class ConflictError(RefusedError):
    """The object is not what the request took it for. `revision` is what it is at now, where the server says so."""

    def __init__(self, problem: ProblemReport, revision: str = "") -> None:
        super().__init__(problem)
        self.revision = revision

    @property
    def is_stale(self) -> bool:
        """Whether to look again and try again is the way out; other conflicts (in use, exists) stay what they are."""
        return self.problem.status == 412 or self.problem.code == "stale"


class PermissionDeniedError(RefusedError):
    """The server does not know who is asking (401), or knows and does not allow it (403)."""


class RevisionGoneError(RefusedError):
    """The place in the log to read from is not there any more, or is in another log."""


class SessionEndedError(RefusedError):
    """The session of this machine has ended."""


class UnavailableError(HoldfastError):
    """No server gave an answer in time. Nothing was changed by this request."""


class OutcomeUnknownError(HoldfastError):
    """The write may have been done or not. Repeated with the same key, it is done at most once."""

    def __init__(self, problem: ProblemReport, key: str = "") -> None:
        again = f"repeat it with the idempotency key {key}" if key else "look before you repeat it"
        super().__init__(problem, f"{problem.shown()}\nit may have been done: {again}")
        self.key = key


class WaitTimeoutError(HoldfastError):
    """What was waited for did not come about in time. `last` is the object as it was seen last, None without it."""

    def __init__(self, problem: ProblemReport, last: dict[str, Any] | None) -> None:
        super().__init__(problem)
        self.last = last


def problem_from_reply(reply: Reply) -> ProblemReport:
    """What a reply that is no success says, whoever wrote it: proxies in between do not write problems."""
    try:
        problem = msgspec.json.decode(reply.body, type=ProblemReport)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = ProblemReport(detail=reply.body[:DETAIL_MAX].decode(errors="replace").strip())
    code = problem.code or f"http-{reply.status}"
    return msgspec.structs.replace(problem, code=code, status=reply.status)


def problem_from_transport(server: str, error: TransportError) -> ProblemReport:
    """A server that could not be talked to, as a problem."""
    code = "unreachable" if isinstance(error, Unreachable) else "no-answer"
    return ProblemReport(code=code, detail=f"{server}: {error}")


def refused_error(problem: ProblemReport, reply: Reply = Reply()) -> RefusedError:  # noqa: B008 - frozen
    """The error that callers branch on."""
    error = _refusal(problem, etag_of(reply))
    error.token = first_value(reply.headers, "holdfast-token")
    return error


def _refusal(problem: ProblemReport, etag: str) -> RefusedError:
    if problem.code == "no-session":
        return SessionEndedError(problem)
    match problem.status:
        case 401 | 403:
            return PermissionDeniedError(problem)
        case 404:
            return NotFoundError(problem)
        case 409 | 412:
            told = problem.facts.get("revision") or problem.facts.get("current") or ""
            return ConflictError(problem, etag or str(told))
        case 410:
            return RevisionGoneError(problem)
    return RefusedError(problem)


def etag_of(reply: Reply) -> str:
    """The revision in an answer's ETag; empty without one."""
    return first_value(reply.headers, "etag").removeprefix("W/").strip('"')
