"""Problems as servers write them, and the errors that calls raise.

    HoldfastError ─┬─ Refusal ──┬─ NotFound · Conflict · Denied · Gone · NoSession
                   │            └─ (any other 4xx)                  nothing was changed by this request
                   ├─ Unavailable                                   nothing was changed, and nobody could say more
                   ├─ OutcomeUnknown                                it may have been done: repeat it with its key
                   └─ NotInTime                                     what was waited for did not come about

`OutcomeUnknown` is no kind of `Unavailable`: whoever handles the one by doing something else must not take the other
for it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.host.ports.transport import Reply, TransportError, Unreachable, named

#: The longest part of an answer that is not a problem document that is shown to people.
SHOWN = 300


class Fault(Struct, frozen=True):
    """What is wrong with one field: a JSON pointer, what it says, what to do."""

    pointer: str = ""
    detail: str = ""
    hint: str = ""


class Problem(Struct, frozen=True, rename="camel"):
    """Why something was not done (RFC 9457). `status` is 0 where no server answered."""

    code: str = ""
    status: int = 0
    title: str = ""
    detail: str = ""
    facts: dict[str, Any] = {}
    errors: tuple[Fault, ...] = ()
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

    def __init__(self, problem: Problem, message: str = "") -> None:
        super().__init__(message or problem.shown())
        self.problem = problem
        #: What a batch had done before this happened, document by document (`objects.Applied`).
        self.done: tuple[Any, ...] = ()


class Refusal(HoldfastError):
    """A server looked at the request and said no. Nothing was changed by it."""

    #: Where in the log the server stood when it said so; empty where it does not say.
    token = ""


class NotFound(Refusal):
    """There is no such object, or no such kind here."""


class Conflict(Refusal):
    """The object is not what the request took it for. `revision` is what it is at now, where the server says so."""

    def __init__(self, problem: Problem, revision: str = "") -> None:
        super().__init__(problem)
        self.revision = revision

    @property
    def is_stale(self) -> bool:
        """Whether to look again and try again is the way out; other conflicts (in use, exists) stay what they are."""
        return self.problem.status == 412 or self.problem.code == "stale"


class Denied(Refusal):
    """The server does not know who is asking (401), or knows and does not allow it (403)."""


class Gone(Refusal):
    """The place in the log to read from is not there any more, or is in another log."""


class NoSession(Refusal):
    """The session of this machine has ended."""


class Unavailable(HoldfastError):
    """No server gave an answer in time. Nothing was changed by this request."""


class OutcomeUnknown(HoldfastError):
    """The write may have been done or not. Repeated with the same key, it is done at most once."""

    def __init__(self, problem: Problem, key: str = "") -> None:
        again = f"repeat it with the idempotency key {key}" if key else "look before you repeat it"
        super().__init__(problem, f"{problem.shown()}\nit may have been done: {again}")
        self.key = key


class NotInTime(HoldfastError):
    """What was waited for did not come about in time. `last` is the object as it was seen last, None without it."""

    def __init__(self, problem: Problem, last: dict[str, Any] | None) -> None:
        super().__init__(problem)
        self.last = last


def problem_in(reply: Reply) -> Problem:
    """What a reply that is no success says, whoever wrote it: proxies in between do not write problems."""
    try:
        problem = msgspec.json.decode(reply.body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = Problem(detail=reply.body[:SHOWN].decode(errors="replace").strip())
    code = problem.code or f"http-{reply.status}"
    return msgspec.structs.replace(problem, code=code, status=reply.status)


def problem_of(server: str, error: TransportError) -> Problem:
    """A server that could not be talked to, as a problem."""
    code = "unreachable" if isinstance(error, Unreachable) else "no-answer"
    return Problem(code=code, detail=f"{server}: {error}")


def refusal(problem: Problem, reply: Reply = Reply()) -> Refusal:  # noqa: B008 - frozen
    """The error that callers branch on."""
    error = _refusal(problem, etag_of(reply))
    error.token = named(reply.headers, "holdfast-token")
    return error


def _refusal(problem: Problem, etag: str) -> Refusal:
    if problem.code == "no-session":
        return NoSession(problem)
    match problem.status:
        case 401 | 403:
            return Denied(problem)
        case 404:
            return NotFound(problem)
        case 409 | 412:
            told = problem.facts.get("revision") or problem.facts.get("current") or ""
            return Conflict(problem, etag or str(told))
        case 410:
            return Gone(problem)
    return Refusal(problem)


def etag_of(reply: Reply) -> str:
    """The revision in an answer's ETag; empty without one."""
    return named(reply.headers, "etag").removeprefix("W/").strip('"')
