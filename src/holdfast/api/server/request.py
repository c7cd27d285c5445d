"""One request on its way through a server: who asks, what for, and until when."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.api.problems import Problem, of_refusal, problem
from holdfast.api.resources.decision import WORKLOAD_PATTERN
from holdfast.api.serialization.field_errors import Faulty
from holdfast.api.serialization.scalars import TOKEN_PATTERN
from holdfast.api.serialization.strict_json import parse_json
from holdfast.api.server.authentication import Caller
from holdfast.api.server.limits import Limits
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.revision import Token
from holdfast.host.ledger.reads import Level
from holdfast.host.ports.transport import Pairs, Reply, Request, named

JSON = ("content-type", "application/json")
MSGPACK = "application/msgpack"

_TOKEN = re.compile(TOKEN_PATTERN)

encode = msgspec.json.Encoder(order="deterministic").encode


class Trouble(Exception):
    """Ends a request with a problem. Raised below an endpoint and answered above it, never seen by a caller."""

    def __init__(self, found: Problem, headers: Pairs = ()) -> None:
        super().__init__(found.detail)
        self.problem = found
        self.headers = headers


class Call:
    """A request with its caller. `rest` is the path behind the word that chose the endpoint, in segments."""

    __slots__ = ("_caller", "held_at", "request", "rest", "timeout_ms")

    def __init__(self, request: Request, rest: tuple[str, ...], caller: Caller | None, limits: Limits) -> None:
        self.request = request
        self.rest = rest
        self._caller = caller
        #: After which batch the caller of a stream was last seen to be what it was.
        self.held_at = -1
        asked = named(request.headers, "holdfast-timeout-ms", str(limits.timeout_ms))
        self.timeout_ms = _number("holdfast-timeout-ms", asked, limits.timeout_most_ms)

    @property
    def caller(self) -> Caller:
        """Who asks: endpoints that everybody may ask for do not look."""
        assert self._caller is not None, "this endpoint asks for nobody's name"
        return self._caller

    def header(self, name: str) -> str:
        """A header's value; empty when it is not there."""
        return named(self.request.headers, name)

    def query(self, name: str) -> str:
        """The value of a query parameter; empty when it is not there."""
        return named(self.request.query, name)

    def flag(self, name: str) -> bool:
        """A query parameter that is said or not."""
        value = named(self.request.query, name, "false")
        if value not in ("true", "false", "1", "0"):
            raise Trouble(problem("unreadable", f"{name} is true or false, not {value!r}"))
        return value in ("true", "1")

    def count(self, name: str, otherwise: int, most: int) -> int:
        """A query parameter that is a number from 1 on; more than the most counts as that."""
        said = [value for key, value in self.request.query if key == name]
        return _number(name, said[0], most) if said else otherwise

    def is_dry_run(self) -> bool:
        """Whether nothing is to be written."""
        said = [value for name, value in self.request.query if name == "dryRun"]
        if any(value != "All" for value in said):
            raise Trouble(problem("unreadable", f"dryRun is All or not there, not {said[0]!r}"))
        return bool(said)

    def level(self) -> tuple[Level, Token | None]:
        """How fresh an answer must be. What the header says counts before the query."""
        asked = _level(named(self.request.query, "read", "any"))
        said = [value for name, value in self.request.headers if name == "holdfast-read"]
        return _level(said[0]) if said else asked

    def since(self) -> Token | None:
        """The token to go on from, if one is named."""
        said = [value for name, value in self.request.query if name == "since"]
        return read_token(said[0]) if said else None

    def json(self) -> Any:
        """The body as plain values."""
        media = self.header("content-type").partition(";")[0].strip().lower()
        if media not in ("", "application/json"):
            raise Trouble(problem("wrong-media-type", f"application/json is read here, not {media}"))
        try:
            return parse_json(self.request.body)
        except Faulty as error:
            raise Trouble(problem("unreadable", f"the body: {error.faults[0].message}")) from None


def _number(name: str, value: str, most: int) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 9 or int(value) < 1:
        raise Trouble(problem("unreadable", f"{name} is a number from 1 on, not {value[:80]!r}"))
    return min(int(value), most)


def _level(text: str) -> tuple[Level, Token | None]:
    if text.startswith("at-least="):
        return Level.AT_LEAST, read_token(text.removeprefix("at-least="))
    if text not in ("any", "linear"):
        raise Trouble(problem("unreadable", f"a read is any, linear or at-least=TOKEN, not {text[:80]!r}"))
    return Level(text), None


def read_token(text: str) -> Token:
    """A token from its text, `log:term:seq:digest`."""
    if _TOKEN.fullmatch(text) is None:
        raise Trouble(problem("unreadable", f"{text[:80]!r} is no token: LOG:TERM:SEQ:DIGEST"))
    log_id, term, seq, digest = text.split(":")
    return Token(log_id, int(term), int(seq), bytes.fromhex(digest))


def answer(tree: Any, headers: Pairs = (), status: int = 200) -> Reply:
    """An answer in JSON."""
    return Reply(status, (JSON, *headers), encode(tree))


def named_workload(call: Call) -> str | None:
    """The workload that was asked for, as it is written; None: none was."""
    said = dict(reversed(call.request.query)).get("workload")
    if said is not None and re.fullmatch(WORKLOAD_PATTERN, said) is None:
        raise Trouble(problem("unreadable", f"workload is [TENANT/]NAME, not {said[:80]!r}"))
    return said


def of_tenant(tenant: str, workload: str) -> tuple[str, str]:
    """The tenant and the name of a workload that may name its tenant itself."""
    owner, slash, name = workload.partition("/")
    if slash and tenant not in ("", owner):
        text = f"tenant {tenant[:80]!r} and workload {workload[:80]!r} contradict one another"
        raise Trouble(of_refusal(Refused(Code.CONTRADICTORY, text)))
    return (owner, name) if slash else (tenant, workload)
