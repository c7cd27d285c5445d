"""Problems as servers send them, and the errors that operations raise.

    HoldfastError ─┬─ RefusedError ──┬─ NotFoundError · ConflictError · PermissionDeniedError
                   │                 ├─ RevisionGoneError · SessionEndedError
                   │                 └─ (any other 4xx)       this request changed nothing
                   ├─ UnavailableError                        this request changed nothing; no final answer
                   ├─ OutcomeUnknownError                     it may have been executed: retry it with its key
                   └─ WaitTimeoutError                        the awaited condition was not met in time

`OutcomeUnknownError` is not a subclass of `UnavailableError`: code that falls back to another action when no server is
available must not do so after an unknown outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.host.ports.transport import Reply, TransportError, Unreachable, first_value

#: Characters shown of an answer that is not a problem document.
DETAIL_MAX = 300


class FieldProblem(Struct, frozen=True):
    """A problem of one field: a JSON pointer, the detail, a hint."""

    pointer: str = ""
    detail: str = ""
    hint: str = ""


class ProblemReport(Struct, frozen=True, rename="camel"):
    """The reason of a failed request (RFC 9457). `status` is 0 if no server answered."""

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
        """Return the problem as text: what happened, the fields at fault, and the hint."""
        lines = [f"{self.detail or self.title or 'no reason given'} ({self.code})"]
        lines += [f"  {e.pointer}: {e.detail}" + (f" ({e.hint})" if e.hint else "") for e in self.errors]
        lines += [f"hint: {self.hint}"] if self.hint else []
        return "\n".join(lines)


class HoldfastError(Exception):
    """A failed operation, with its problem."""

    def __init__(self, problem: ProblemReport, message: str = "") -> None:
        super().__init__(message or problem.shown())
        self.problem = problem
        #: Results of a batch before this error, one per document (`objects.BatchItemResult`).
        self.done: tuple[Any, ...] = ()


class RefusedError(HoldfastError):
    """A server refused the request, which changed nothing."""

    #: The server's log position at the refusal; empty if the reply has none.
    token = ""


class NotFoundError(RefusedError):
    """No such object, or no such kind at this server."""


class ConflictError(RefusedError):
    """The object is not in the required state. `revision` is its current one, if the server sent it."""

    def __init__(self, problem: ProblemReport, revision: str = "") -> None:
        super().__init__(problem)
        self.revision = revision

    @property
    def is_stale(self) -> bool:
        """True if reading the object again and retrying can help; other conflicts (in use, exists) remain."""
        return self.problem.status == 412 or self.problem.code == "stale"


class PermissionDeniedError(RefusedError):
    """The server cannot authenticate the caller (401), or the caller lacks a permission (403)."""


class RevisionGoneError(RefusedError):
    """The requested log position is trimmed, or is in another log."""


class SessionEndedError(RefusedError):
    """The session of this machine has ended."""


class UnavailableError(HoldfastError):
    """No server answered in time. This request changed nothing."""


class OutcomeUnknownError(HoldfastError):
    """The write may have been executed. A retry with the same key executes it at most once."""

    def __init__(self, problem: ProblemReport, key: str = "") -> None:
        again = f"retry it with the idempotency key {key}" if key else "check its effect before you retry it"
        super().__init__(problem, f"{problem.shown()}\nit may have been executed: {again}")
        self.key = key


class WaitTimeoutError(HoldfastError):
    """The awaited condition was not met in time. `last` is the last state of the object, None if there is none."""

    def __init__(self, problem: ProblemReport, last: dict[str, Any] | None) -> None:
        super().__init__(problem)
        self.last = last


def problem_from_reply(reply: Reply) -> ProblemReport:
    """Return the problem of an unsuccessful reply, also of one from a proxy, which sends no problem document."""
    try:
        problem = msgspec.json.decode(reply.body, type=ProblemReport)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = ProblemReport(detail=reply.body[:DETAIL_MAX].decode(errors="replace").strip())
    code = problem.code or f"http-{reply.status}"
    return msgspec.structs.replace(problem, code=code, status=reply.status)


def problem_from_transport(server: str, error: TransportError) -> ProblemReport:
    """Return the problem for a server that cannot be reached or did not answer."""
    code = "unreachable" if isinstance(error, Unreachable) else "no-answer"
    return ProblemReport(code=code, detail=f"{server}: {error}")


def refused_error(problem: ProblemReport, reply: Reply = Reply()) -> RefusedError:  # noqa: B008 - frozen
    """Return the exception class for a problem, with the server's log position."""
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
    """Return the revision in a reply's ETag; empty without one."""
    return first_value(reply.headers, "etag").removeprefix("W/").strip('"')
