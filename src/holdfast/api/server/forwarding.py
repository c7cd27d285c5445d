"""Forwarding of a request: to the leader, or to a region.

A request makes at most one hop. A command is forwarded with everything that its sender set, including the idempotency
key, so a retry may go to any server. The sender's credentials stay here: this server signs in its own name, for the one
address that it sends to, and names the principal that it acts for (RULES 27). So tokens and certificates work alike. Of
a region's reply only the headers and types that a region may send are forwarded.

The receiver cannot check the caller's token: only this server does. So a server that has not confirmed the end of its
log for `STALE_MS` acts for no caller, since the token may be revoked there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from holdfast.api.problems import Problem, from_refusal, problem
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.delegation import is_proof_rejected
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.streams import error_event, person_stream
from holdfast.core.ledger.answers import not_found
from holdfast.core.model.objects.topology import Region
from holdfast.host.ports import transport
from holdfast.host.protocol import request_signatures
from holdfast.host.protocol.commands import JSON, MSGPACK
from holdfast.host.protocol.problem import PROBLEM, read_problem

LEDGER = "holdfast-ledger"
#: Headers of a region's reply that are forwarded. Not its leader: a client must not send platform requests there.
REGION_HEADERS = (
    "allow", "content-type", "etag", "holdfast-age-ms", "holdfast-at", "holdfast-outcome", "holdfast-repeated",
    "holdfast-role", "holdfast-server", "holdfast-term", "holdfast-token", "retry-after",
)  # fmt: skip
#: Content types of a region's replies. None that a browser would show or run as content of the platform.
_MEDIA = tuple(value for _, value in (JSON, MSGPACK, PROBLEM))
#: A server with an older state acts for no caller, so a revoked token is useless within ten seconds: a stream is
#: checked before every message, and there is one every five seconds.
STALE_MS = 5_000
#: A forwarded stream that is silent for this long is broken; servers send bookmarks much more often.
IDLE_MS = 30_000


async def to_leader(ctx: ServerContext, call: ApiRequest) -> transport.Reply:
    """Return the leader's reply. Raise `not-leading` if the leader is unknown or unreachable, or this is the second
    hop."""
    leader = ctx.ledger.leading_server()
    if call.caller.via or not leader or leader == ctx.ledger.identity.server:
        raise ApiError(problem("not-leading", f"{ctx.ledger.identity.server} does not lead, and no leader is known"))
    onward = _signed(ctx, call, call.request, request_signatures.RequestTarget(leader, ctx.state.info.ledger))
    if onward is None:
        raise ApiError(problem("not-leading", f"{leader} leads, but this server has no token yet to act for callers"))
    ctx.metrics.count("api_forwarded")
    try:
        found = await ctx.transport.call(leader, onward, _part(call.timeout_ms))
    except transport.Unreachable as error:
        raise ApiError(problem("not-leading", f"{leader} leads, but is unreachable: {error}")) from error
    except transport.TransportError as error:
        raise ApiError(problem("outcome-unknown", f"{leader} leads, but did not answer: {error}")) from error
    if is_proof_rejected(found):
        raise ApiError(problem("not-leading", f"{leader} leads and rejects this server's signature: {_detail(found)}"))
    return found


async def to_region(ctx: ServerContext, call: ApiRequest) -> transport.Reply | transport.StreamReply:
    """Return the region's reply to the same request, without the part of the path that names the region."""
    name, rest = call.rest[0], call.rest[1:]
    region: Region | None = ctx.state.regions.get(name)
    if region is None or not rest:
        raise ApiError(from_refusal(not_found("Region", name)))
    if not region.spec.address:
        nowhere = f"the spec of region {name} has no address: `holdfast region set-address {name} URL` writes it"
        raise ApiError(problem("region-unreachable", nowhere, facts=_facts(ctx, region)))
    there = request_signatures.RequestTarget(region.spec.address, f"region/{name}")
    onward = _signed(ctx, call, replace(call.request, path="/v1/" + "/".join(rest)), there)
    if onward is None:
        unarmed = "this server has no token yet to act for callers: try again"
        raise ApiError(problem("region-unreachable", unarmed, facts=_facts(ctx, region)))
    ctx.metrics.count("api_to_region")
    try:
        if transport.first_value(onward.query, "watch") in ("true", "1"):
            # The region checks its own, possibly stale copy of principals; this server has the newest.
            return await person_stream(
                ctx.watches, call, lambda one: _stale(ctx) or ctx.no_longer(one), _flow(ctx, region, onward)
            )
        found = await _ask_region(ctx, call, there, onward)
    except transport.StreamDeclined as error:
        found = error.reply
    except transport.TransportError as error:
        code = (
            "outcome-unknown"
            if isinstance(error, transport.NoAnswer) and onward.verb != "GET"
            else "region-unreachable"
        )
        raise ApiError(_unreachable_problem(ctx, region, error, code)) from error
    if is_proof_rejected(found):
        why = f"region {name} rejects this server's signature: {_detail(found)}"
        raise ApiError(problem("region-unreachable", why, facts=_facts(ctx, region)))
    return _checked_reply(ctx, region, onward, found)


async def _ask_region(
    ctx: ServerContext, call: ApiRequest, there: request_signatures.RequestTarget, onward: transport.Request
) -> transport.Reply:
    """Return the region's reply. The request has a slot, so an unresponsive region delays only its own callers."""
    with call.slot(ctx.to_regions):
        return await ctx.transport.call(there.address, onward, _part(call.timeout_ms))


def _checked_reply(
    ctx: ServerContext, region: Region, onward: transport.Request, found: transport.Reply
) -> transport.Reply:
    """Return the reply as far as a region may send it. The ledger's name comes from this server's own state, not from
    the reply."""
    media = transport.first_value(found.headers, "content-type").partition(";")[0].strip().lower()
    if not (200 <= found.status < 300 or 400 <= found.status < 600) or media not in _MEDIA:
        name, code = region.meta.name, "region-unreachable" if onward.verb == "GET" else "outcome-unknown"
        why = f"the address of region {name} answers {found.status} {media[:80]!r}, which no region sends"
        raise ApiError(problem(code, why, facts=_facts(ctx, region)))
    kept = tuple(
        (name, said) for name in REGION_HEADERS if (said := transport.first_value(found.headers, name))
    )  # the first of each
    return transport.Reply(found.status, (*kept, (LEDGER, f"region/{region.meta.name}")), found.body)


async def _flow(ctx: ServerContext, region: Region, onward: transport.Request) -> transport.StreamReply:
    """Return the region's stream after its first message; until then, the region may still decline."""
    source = ctx.transport.stream(region.spec.address, onward, IDLE_MS)
    try:
        first = await anext(source)
    except StopAsyncIteration:
        raise transport.NoAnswer("the stream ended before its first message") from None

    async def messages() -> AsyncGenerator[bytes, None]:
        async with aclosing(source):  # type: ignore[type-var]
            yield first  # taken below: once started, closing this generator also closes the region's stream
            yield first
            try:
                async for message in source:
                    yield message
            except transport.TransportError as error:
                yield error_event(_unreachable_problem(ctx, region, error))

    relayed = messages()
    await anext(relayed)
    return transport.StreamReply(relayed, headers=((LEDGER, f"region/{region.meta.name}"),))


def _part(timeout_ms: int) -> int:
    """Return a part of the time, so that the failure of the other server can still be reported in time."""
    return max(1, timeout_ms * 4 // 5)


def _signed(
    ctx: ServerContext, call: ApiRequest, request: transport.Request, to: request_signatures.RequestTarget
) -> transport.Request | None:
    """Return the request, signed by this server for its caller; None: it cannot be signed yet."""
    stale = _stale(ctx)
    if stale is not None:
        raise ApiError(stale)
    own = ctx.own()
    return (
        request_signatures.signed_request(request, to, call.caller.actor, own, ctx.clock.wall())
        if own is not None
        else None
    )


def _stale(ctx: ServerContext) -> Problem | None:
    """Return why this server cannot tell whether its caller still has access; None: it can."""
    age, server = ctx.age(), ctx.ledger.identity.server
    if age is not None and age <= STALE_MS:
        return None
    since = "never" if age is None else f"{age} ms ago"
    return problem("not-reached", f"{server} acts for no caller until it reads the end of its log (last: {since})")


def _detail(reply: transport.Reply) -> str:
    return read_problem(reply).detail[:400]


def _facts(ctx: ServerContext, region: Region) -> dict[str, str]:
    status, heard_at = region.status, ctx.heard_at(region)
    return {
        "region": region.meta.name,
        "health": status.health.value,
        "address": region.spec.address,
        "lastContact": show_instant(heard_at) if heard_at else "never",
    }


def _unreachable_problem(
    ctx: ServerContext, region: Region, error: transport.TransportError, code: str = "region-unreachable"
) -> Problem:
    heard = ctx.heard_at(region)
    since = f"last contact at {show_instant(heard)}" if heard else "no contact yet"
    return problem(code, f"region {region.meta.name} is unreachable, {since}: {error}", facts=_facts(ctx, region))
