"""The API server: finds the route, authenticates the caller, enforces the deadline, and turns errors into problems.

Size: one table of routes, and the one way through it.
"""

from __future__ import annotations

import asyncio
import secrets

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.api.problems import Problem, from_error, from_refusal, problem
from holdfast.api.problems import to_reply as problem_reply
from holdfast.api.server import delegation
from holdfast.api.server.authentication import Caller
from holdfast.api.server.context import ServerContext
from holdfast.api.server.forwarding import LEDGER, to_leader
from holdfast.api.server.objects import reads, watch, writes
from holdfast.api.server.objects.pagination import ListSnapshots
from holdfast.api.server.objects.watch_events import WatchEventCache
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.routes import (
    ANY_SEGMENTS,
    DRY_RUN_PARAMS,
    FIXED_ROUTES,
    LIST_PARAMS,
    PLATFORM_ROUTES,
    READERS,
    REGION_ROUTES,
    Route,
)
from holdfast.api.server.visibility import refuse_route
from holdfast.api.spelling import did_you_mean
from holdfast.core.ledger.answers import too_large
from holdfast.host.errors import ListAgain, Unavailable
from holdfast.host.leader.denials import NOBODY
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.transport import Reply, Request, StreamReply
from holdfast.host.protocol.commands import ENVELOPES, RENEWALS

#: Paths that are requested thousands of times a second.
_BRIEF = (ENVELOPES, RENEWALS)
#: Headers of a reply from another server.
_FORWARDED_HEADERS = ("holdfast-server", LEDGER)
_VERBS = ("GET", "HEAD", "PUT", "POST", "DELETE")


class ApiServer:
    """The API of one server. A transport calls `serve`; the leader task `run` sends keepalives to watches."""

    def __init__(self, ctx: ServerContext, run: str = "") -> None:
        self.ctx = ctx
        ledger = ctx.ledger
        #: Distinguishes list snapshots of this incarnation of the server from those of others.
        self._pages = ListSnapshots(ledger.clock, run[:8] or secrets.token_hex(4))
        self._lines = WatchEventCache()
        #: By the first segments of the path, then by method. Kinds of the other ledger are included, to report where
        #: they are.
        self.routes = FIXED_ROUTES | (PLATFORM_ROUTES if ledger.definition.name == "platform" else REGION_ROUTES)
        for kind in KINDS.values():
            self.routes["v1", kind.plural] = self._of_kind(kind, ledger.definition.name)

    async def run(self) -> None:
        """Run the keepalives of watches until cancelled."""
        await self.ctx.watchers.run(self.ctx.clock)

    def _of_kind(self, kind: ResourceKind, ledger: str) -> dict[str, Route]:
        async def read(ctx: ServerContext, call: ApiRequest) -> Reply | StreamReply:
            if call.flag("watch"):
                return await watch.watch(ctx, call, kind, self._lines)
            if call.rest:
                return await reads.get(ctx, call, kind)
            return await reads.list_objects(ctx, call, kind, self._pages)

        async def put(ctx: ServerContext, call: ApiRequest) -> Reply:
            return await writes.put(ctx, call, kind)

        async def delete(ctx: ServerContext, call: ApiRequest) -> Reply:
            return await writes.delete(ctx, call, kind)

        asks = (*LIST_PARAMS, "workload") if kind.name == "Endpoint" else LIST_PARAMS
        routes = {"GET": Route(read, READERS, most=ANY_SEGMENTS, asks=asks)}
        if ledger in kind.written_on:
            routes["PUT"] = Route(put, is_led=True, least=1 + kind.tenanted, most=ANY_SEGMENTS, asks=DRY_RUN_PARAMS)
        if ledger in kind.written_on and kind.deletable:
            routes["DELETE"] = Route(
                delete, is_led=True, least=1 + kind.tenanted, most=ANY_SEGMENTS, asks=DRY_RUN_PARAMS
            )
        return routes

    async def serve(self, request: Request) -> Reply | StreamReply:
        """Return the reply to a request. Never raises: every error becomes a problem."""
        ctx, known = self.ctx, ""
        try:
            route, rest = self._route(request)
            caller = self._caller(route, request, rest)
            known = "" if caller is None else caller.actor
            found = await self._answer(route, ApiRequest(request, rest, caller, ctx.limits))
        except ApiError as error:
            found = problem_reply(error.problem, error.headers)
        except (Unavailable, ListAgain) as error:
            found = problem_reply(from_error(error, lane="reads" if request.verb in ("GET", "HEAD") else "operators"))
        except TimeoutError:
            found = problem_reply(problem("deadline", "no answer in time; a write may have been applied"))
        except Exception as error:
            ctx.logger.error("failed", error, verb=request.verb, path=request.path)
            found = problem_reply(problem("internal", "internal error (logged); a write may have been applied"))
        self._count(request, found)
        place = ctx.place(brief=request.path in _BRIEF)
        for name, _ in found.headers:
            if name in _FORWARDED_HEADERS:
                place = ()  # a reply or stream of another server: this server's position does not apply
        if isinstance(found, StreamReply):
            return StreamReply(found.messages, found.framing, (*found.headers, *place), known)
        return Reply(found.status, (*found.headers, *place), found.body, known)

    def _count(self, request: Request, found: Reply | StreamReply) -> None:
        status = found.status if isinstance(found, Reply) else 200
        verb = request.verb if request.verb in _VERBS else "other"
        self.ctx.metrics.count("api_answers", verb=verb, status=str(status))

    async def _answer(self, route: Route, call: ApiRequest) -> Reply | StreamReply:
        ctx, request = self.ctx, call.request
        if not route.is_open:
            ctx.require(call, refuse_route(call.caller, ctx.state.info.ledger, route.by))
        _require_known_params(route, request)
        if len(request.body) > ctx.limits.body_bytes:
            raise ApiError(from_refusal(too_large("bytes in a request", len(request.body), ctx.limits.body_bytes)))
        if route.is_prompt and ctx.ledger.leader is not None:
            return await route.answers(ctx, call)
        async with asyncio.timeout(call.timeout_ms / 1000):
            if route.is_led and ctx.ledger.leader is None:
                return await to_leader(ctx, call)
            return await route.answers(ctx, call)

    def _route(self, request: Request) -> tuple[Route, tuple[str, ...]]:
        segments = tuple(request.path.strip("/").split("/"))
        for length in (3, 2, 1):
            routes = self.routes.get(segments[:length])
            if routes is not None and len(segments) >= length:
                rest = segments[length:]
                break
        else:
            raise ApiError(problem("no-such-route", f"no such path: {request.path[:200]}"))
        route = routes.get("GET" if request.verb == "HEAD" else request.verb)
        if route is None:
            allowed = ", ".join(routes)
            raise ApiError(problem("wrong-verb", f"{request.path[:200]} supports {allowed}"), (("allow", allowed),))
        if not route.least <= len(rest) <= route.most or not all(rest):
            raise ApiError(problem("no-such-route", f"no such path: {request.path[:200]}"))
        return route, rest

    def _caller(self, route: Route, request: Request, rest: tuple[str, ...]) -> Caller | None:
        """Return the caller; None if the route needs none."""
        ctx = self.ctx
        if route.is_open:
            return None
        # First of all: a server that is still loading its state would reject valid tokens.
        if ctx.ledger.role is Role.LOADING:
            raise ApiError(problem("not-reached", f"{ctx.ledger.identity.server} is loading its state"))
        found = ctx.callers.of(ctx.state, request)
        if isinstance(found, Problem):
            # Only the route: unauthenticated callers must not choose the content or the size of log entries.
            endpoint = request.path.strip("/").split("/")[: -len(rest) or None]
            ctx.denials.note(NOBODY, f"{request.verb} /{'/'.join(endpoint)}", found.code)
            raise ApiError(found, delegation.problem_headers(found))
        return found


def _require_known_params(route: Route, request: Request) -> None:
    """Reject an unknown parameter: a misspelt `dryRun` would execute a write that was meant as a trial."""
    for name, _ in request.query:
        if route.asks is not None and name not in route.asks:
            hint = did_you_mean(name, route.asks)
            raise ApiError(problem("unreadable", f"there is no parameter {name[:80]!r} here{hint and '; ' + hint}"))
