"""One request in a server: its caller, parameters, body and deadline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from holdfast.api.problems import Problem, from_refusal, problem
from holdfast.api.resources.decision import WORKLOAD_PATTERN
from holdfast.api.serialization.field_errors import InvalidDocument, parse_json
from holdfast.api.serialization.scalars import TOKEN_PATTERN, parse_instant
from holdfast.api.server.authentication import Caller
from holdfast.api.server.limits import ConcurrencyLimiter, ServerLimits
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.structs import Instant
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.transport import Pairs, Reply, Request, first_value

JSON = ("content-type", "application/json")
MSGPACK = "application/msgpack"

_TOKEN = re.compile(TOKEN_PATTERN)

encode = msgspec.json.Encoder(order="deterministic").encode


class ApiError(Exception):
    """Ends a request with a problem. Handlers raise it, `app` catches it."""

    def __init__(self, found: Problem, headers: Pairs = ()) -> None:
        super().__init__(found.detail)
        self.problem = found
        self.headers = headers


class ApiRequest:
    """A request with its caller. `rest` has the segments of the path after the route."""

    __slots__ = ("_caller", "held_at", "request", "rest", "timeout_ms")

    def __init__(self, request: Request, rest: tuple[str, ...], caller: Caller | None, limits: ServerLimits) -> None:
        self.request = request
        self.rest = rest
        self._caller = caller
        #: The batch at which the caller of a stream was last checked.
        self.held_at = -1
        asked = first_value(request.headers, "holdfast-timeout-ms", str(limits.timeout_ms))
        self.timeout_ms = _number("holdfast-timeout-ms", asked, limits.timeout_most_ms)

    @property
    def caller(self) -> Caller:
        """The authenticated caller; open routes have none."""
        assert self._caller is not None, "this route has no caller"
        return self._caller

    @contextmanager
    def slot(self, limiter: ConcurrencyLimiter) -> Iterator[None]:
        """Hold one of the limiter's slots for the caller. A request that gets none is refused."""
        full = limiter.acquire(self.caller.actor)
        if full is not None:
            raise ApiError(full)
        try:
            yield
        finally:
            limiter.release(self.caller.actor)

    def header(self, name: str) -> str:
        """Return a header's value; empty if it is missing."""
        return first_value(self.request.headers, name)

    def query(self, name: str) -> str:
        """Return the value of a query parameter; empty if it is missing."""
        return first_value(self.request.query, name)

    def given(self, name: str) -> str | None:
        """Return the value of a query parameter; None if it is missing."""
        return next((value for key, value in self.request.query if key == name), None)

    def matching(self, name: str, pattern: str, form: str) -> str | None:
        """Return a query parameter of this pattern, in words `form`; None if it is missing."""
        value = self.given(name)
        if value is not None and re.fullmatch(pattern, value) is None:
            raise ApiError(problem("unreadable", f"{name} must be {form}, not {value[:80]!r}"))
        return value

    def instant(self, name: str) -> Instant:
        """Return a query parameter that is a time; 0 if it is missing."""
        value = self.given(name)
        found = 0 if value is None else parse_instant(value)
        if found is None:
            raise ApiError(problem("unreadable", f"{name} must be a time in RFC 3339, not {str(value)[:80]!r}"))
        return found

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter."""
        value = first_value(self.request.query, name, "false")
        if value not in ("true", "false", "1", "0"):
            raise ApiError(problem("unreadable", f"{name} must be true or false, not {value!r}"))
        return value in ("true", "1")

    def count(self, name: str, otherwise: int, most: int) -> int:
        """Return a query parameter that is a number from 1 on, reduced to `most` if it is larger."""
        said = self.given(name)
        return otherwise if said is None else _number(name, said, most)

    def is_dry_run(self) -> bool:
        said = [value for name, value in self.request.query if name == "dryRun"]
        if any(value != "All" for value in said):
            raise ApiError(problem("unreadable", f"dryRun must be All or absent, not {said[0]!r}"))
        return bool(said)

    def level(self) -> tuple[ReadLevel, RevisionToken | None]:
        """Return the read level. The header has precedence over the query."""
        asked = _level(first_value(self.request.query, "read", "any"))
        said = [value for name, value in self.request.headers if name == "holdfast-read"]
        return _level(said[0]) if said else asked

    def since(self) -> RevisionToken | None:
        """Return the revision token to continue from, if the request has one."""
        said = self.given("since")
        return None if said is None else parse_token(said)

    def json(self) -> Any:
        """Return the body as plain values."""
        media = self.header("content-type").partition(";")[0].strip().lower()
        if media not in ("", "application/json"):
            raise ApiError(problem("wrong-media-type", f"only application/json is supported, not {media}"))
        try:
            return parse_json(self.request.body)
        except InvalidDocument as error:
            raise ApiError(problem("unreadable", f"the body: {error.faults[0].message}")) from None


def _number(name: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 9 or int(value) < 1:
        raise ApiError(problem("unreadable", f"{name} must be a number from 1 on, not {value[:80]!r}"))
    return min(int(value), most)


def _level(text: str) -> tuple[ReadLevel, RevisionToken | None]:
    if text.startswith("at-least="):
        return ReadLevel.AT_LEAST, parse_token(text.removeprefix("at-least="))
    if text not in ("any", "linear"):
        raise ApiError(problem("unreadable", f"a read level is any, linear or at-least=TOKEN, not {text[:80]!r}"))
    return ReadLevel(text), None


def parse_token(text: str) -> RevisionToken:
    """Parse a revision token, `log:term:seq:digest`."""
    if _TOKEN.fullmatch(text) is None:
        raise ApiError(problem("unreadable", f"{text[:80]!r} is not a revision token: LOG:TERM:SEQ:DIGEST"))
    log_id, term, seq, digest = text.split(":")
    return RevisionToken(log_id, int(term), int(seq), bytes.fromhex(digest))


def json_reply(tree: Any, headers: Pairs = (), status: int = 200) -> Reply:
    return Reply(status, (JSON, *headers), encode(tree))


def workload_param(call: ApiRequest) -> str | None:
    """Return the parameter `workload` as it was sent; None if it is missing."""
    return call.matching("workload", WORKLOAD_PATTERN, "[TENANT/]NAME")


def contradictory(text: str) -> ApiError:
    """Return the error of parameters that contradict each other."""
    return ApiError(from_refusal(Refused(Code.CONTRADICTORY, text)))


def split_workload_name(tenant: str, workload: str) -> tuple[str, str]:
    """Return the tenant and the name of a workload that may contain its tenant."""
    owner, slash, name = workload.partition("/")
    if slash and tenant not in ("", owner):
        raise contradictory(f"tenant {tenant[:80]!r} and workload {workload[:80]!r} contradict each other")
    return (owner, name) if slash else (tenant, workload)
