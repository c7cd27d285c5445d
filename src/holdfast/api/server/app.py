"""Routes: from a path to the function that answers it, past identity, deadline and everything that can go wrong.

Size: one table of routes, and the one way through it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.api.kinds import KINDS, Kind
from holdfast.api.problems import Problem, of_error, of_refusal, problem
from holdfast.api.problems import reply as problem_reply
from holdfast.api.server import delegation
from holdfast.api.server.authentication import Caller
from holdfast.api.server.context import Desk, Hearing
from holdfast.api.server.forwarding import LEDGER, to_leader
from holdfast.api.server.limits import Limits
from holdfast.api.server.objects import reads, watch, writes
from holdfast.api.server.objects.pagination import Pages
from holdfast.api.server.objects.watch_events import Lines
from holdfast.api.server.request import Call, Trouble
from holdfast.api.server.routes import (
    _ANY,
    _BY_READERS,
    _DRY,
    _FIXED,
    _IN_REGION,
    _LISTED,
    _ON_PLATFORM,
    Route,
)
from holdfast.api.server.visibility import refuse_asking
from holdfast.api.spelling import did_you_mean
from holdfast.core.ledger.answers import too_large
from holdfast.host.errors import ListAgain, Unavailable
from holdfast.host.indexes.audit_index import Audit
from holdfast.host.indexes.decision_index import Decisions
from holdfast.host.leader.denials import NOBODY
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.ports.transport import Flow, Reply, Request, Transport
from holdfast.host.protocol.commands import ENVELOPES, RENEWALS
from holdfast.host.protocol.request_signatures import OwnToken

#: Asked for thousands of times a second.
_BRIEF = (ENVELOPES, RENEWALS)
#: On what another server has answered.
_HANDED_ON = ("holdfast-server", LEDGER)
_VERBS = ("GET", "HEAD", "PUT", "POST", "DELETE")


class Api:
    """The API of one server. `serve` is what a transport serves; `run` beside it keeps watches awake."""

    def __init__(
        self,
        ledger: Ledger[Any],
        transport: Transport,
        *,
        limits: Limits | None = None,
        link: Hearing | None = None,
        kept: Decisions | None = None,
        warnings: Callable[[], Sequence[str]] = tuple,
        own: Callable[[], OwnToken | None] = lambda: None,
        addresses: tuple[str, ...] = (),
        audit: Audit | None = None,
        run: str = "",
    ) -> None:
        self.desk = Desk(ledger, transport, limits or Limits(), link, kept, warnings, own, addresses, audit)
        #: What tells the lists of this life of a server from those of others.
        self._pages = Pages(ledger.clock, run[:8] or secrets.token_hex(4))
        self._lines = Lines()
        #: By the first segments of the path, then by verb. Kinds of the other ledger are there to say where they are.
        self.routes = _FIXED | (_ON_PLATFORM if ledger.book.name == "platform" else _IN_REGION)
        for kind in KINDS.values():
            self.routes["v1", kind.plural] = self._of_kind(kind, ledger.book.name)

    async def run(self) -> None:
        """What goes on beside the requests."""
        await self.desk.watchers.run(self.desk.clock)

    def _of_kind(self, kind: Kind, ledger: str) -> dict[str, Route]:
        async def read(desk: Desk, call: Call) -> Reply | Flow:
            if call.flag("watch"):
                return await watch.watch(desk, call, kind, self._lines)
            if call.rest:
                return await reads.get(desk, call, kind)
            return await reads.list_(desk, call, kind, self._pages)

        async def put(desk: Desk, call: Call) -> Reply:
            return await writes.put(desk, call, kind)

        async def delete(desk: Desk, call: Call) -> Reply:
            return await writes.delete(desk, call, kind)

        asks = (*_LISTED, "workload") if kind.name == "Endpoint" else _LISTED
        routes = {"GET": Route(read, _BY_READERS, most=_ANY, asks=asks)}
        if ledger in kind.written_on:
            routes["PUT"] = Route(put, is_led=True, least=1 + kind.tenanted, most=_ANY, asks=_DRY)
        if ledger in kind.written_on and kind.deletable:
            routes["DELETE"] = Route(delete, is_led=True, least=1 + kind.tenanted, most=_ANY, asks=_DRY)
        return routes

    async def serve(self, request: Request) -> Reply | Flow:
        """The answer to a request. Never raises: what goes wrong is a problem."""
        desk, known = self.desk, ""
        try:
            route, rest = self._route(request)
            caller = self._caller(route, request, rest)
            known = "" if caller is None else caller.actor
            found = await self._answer(route, Call(request, rest, caller, desk.limits))
        except Trouble as error:
            found = problem_reply(error.problem, error.headers)
        except (Unavailable, ListAgain) as error:
            found = problem_reply(of_error(error, lane="reads" if request.verb in ("GET", "HEAD") else "operators"))
        except TimeoutError:
            found = problem_reply(problem("deadline", "not answered in time; a write may have been done"))
        except Exception as error:
            desk.journal.error("failed", error, verb=request.verb, path=request.path)
            found = problem_reply(problem("internal", "a fault of ours, which was logged; it may have been done"))
        self._count(request, found)
        place = desk.place(brief=request.path in _BRIEF)
        for name, _ in found.headers:
            if name in _HANDED_ON:
                place = ()  # another server's answer or stream: what is true of this one is not of it
        if isinstance(found, Flow):
            return Flow(found.messages, found.framing, (*found.headers, *place), known)
        return Reply(found.status, (*found.headers, *place), found.body, known)

    def _count(self, request: Request, found: Reply | Flow) -> None:
        status = found.status if isinstance(found, Reply) else 200
        verb = request.verb if request.verb in _VERBS else "other"
        self.desk.meters.count("api_answers", verb=verb, status=str(status))

    async def _answer(self, route: Route, call: Call) -> Reply | Flow:
        desk, request = self.desk, call.request
        refused = None if route.is_open else refuse_asking(call.caller, desk.state.facts.ledger, route.by)
        if refused is not None:
            raise Trouble(desk.deny(call, refused))
        _must_know(route, request)
        if len(request.body) > desk.limits.body_bytes:
            raise Trouble(_too_large(len(request.body), desk.limits.body_bytes))
        if route.is_prompt and desk.ledger.leader is not None:
            return await route.answers(desk, call)
        async with asyncio.timeout(call.timeout_ms / 1000):
            if route.is_led and desk.ledger.leader is None:
                return await to_leader(desk, call)
            return await route.answers(desk, call)

    def _route(self, request: Request) -> tuple[Route, tuple[str, ...]]:
        segments = tuple(request.path.strip("/").split("/"))
        for length in (3, 2, 1):
            routes = self.routes.get(segments[:length])
            if routes is not None and len(segments) >= length:
                rest = segments[length:]
                break
        else:
            raise Trouble(problem("no-such-route", f"there is nothing at {request.path[:200]}"))
        route = routes.get("GET" if request.verb == "HEAD" else request.verb)
        if route is None:
            allowed = ", ".join(routes)
            raise Trouble(problem("wrong-verb", f"{request.path[:200]} knows {allowed}"), (("allow", allowed),))
        if not route.least <= len(rest) <= route.most or not all(rest):
            raise Trouble(problem("no-such-route", f"there is nothing at {request.path[:200]}"))
        return route, rest

    def _caller(self, route: Route, request: Request, rest: tuple[str, ...]) -> Caller | None:
        """Who asks; None where that makes no difference."""
        desk = self.desk
        if route.is_open:
            return None
        # Before anything else: who has no state yet knows nobody, and must not say that a good token is none.
        if desk.ledger.role is Role.LOADING:
            raise Trouble(problem("not-reached", f"{desk.ledger.identity.server} is loading its state"))
        found = desk.callers.of(desk.state, request)
        if isinstance(found, Problem):
            # The endpoint and no more: strangers must not choose what is written into the log, nor how much.
            endpoint = request.path.strip("/").split("/")[: -len(rest) or None]
            desk.denials.note(NOBODY, f"{request.verb} /{'/'.join(endpoint)}", found.code)
            raise Trouble(found, delegation.headers_of(found))
        return found


def _must_know(route: Route, request: Request) -> None:
    """Refuse a parameter that nobody would look at: a misspelt `dryRun` would do what was only to be tried."""
    for name, _ in request.query:
        if route.asks is not None and name not in route.asks:
            hint = did_you_mean(name, route.asks)
            raise Trouble(problem("unreadable", f"there is no parameter {name[:80]!r} here{hint and '; ' + hint}"))


def _too_large(size: int, most: int) -> Problem:
    return of_refusal(too_large("bytes in a request", size, most))
