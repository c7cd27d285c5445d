"""Handing a request on: to the server that leads, or to a region.

One hop and no more. A command is handed on with all that its sender said of it, above all the key, so that it makes no
difference which server a repeat comes to. What the sender proved itself with stays here: this server signs in its own
name, for the one address that it sends to, and says whom it acts for (RULES 27). So it makes no difference either
whether that was a token or a certificate. Of what a region answers only what a region may say is handed on.

Where it goes nobody knows by which token the caller is known here: whether that is good, this server alone judges. So
one that has not seen the end of its log for a while, where a token may have been revoked, acts for nobody.
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
from holdfast.host.ports.transport import (
    NoAnswer,
    Reply,
    Request,
    StreamDeclined,
    StreamReply,
    TransportError,
    Unreachable,
    first_value,
)
from holdfast.host.protocol import request_signatures
from holdfast.host.protocol.commands import JSON, MSGPACK
from holdfast.host.protocol.problem import PROBLEM, read_problem

LEDGER = "holdfast-ledger"
#: What a region's answer may say beside its status and its body, and is handed on. Not who leads there: nobody follows
#: that with what is for the platform.
REGION_HEADERS = (
    "allow", "content-type", "etag", "holdfast-age-ms", "holdfast-at", "holdfast-outcome", "holdfast-repeated",
    "holdfast-role", "holdfast-server", "holdfast-term", "holdfast-token", "retry-after",
)  # fmt: skip
#: What a region answers with. Nothing that a browser would show, or run, as the platform's own.
_MEDIA = tuple(value for _, value in (JSON, MSGPACK, PROBLEM))
#: A server whose state is older than this acts for nobody, so that what is revoked is of no use within ten seconds: a
#: stream is judged with every word, of which there is one every five.
STALE_MS = 5_000
#: A stream through here that says nothing for so long is broken; servers send bookmarks much more often.
IDLE_MS = 30_000


async def to_leader(ctx: ServerContext, call: ApiRequest) -> Reply:
    """The leader's answer. `not-leading` when it is not known, not reached, or would not be the last hop."""
    leader = ctx.ledger.leading_server()
    if call.caller.via or not leader or leader == ctx.ledger.identity.server:
        raise ApiError(problem("not-leading", f"{ctx.ledger.identity.server} does not lead, and knows nobody who does"))
    onward = _signed(ctx, call, call.request, request_signatures.RequestTarget(leader, ctx.state.info.ledger))
    if onward is None:
        raise ApiError(problem("not-leading", f"{leader} leads, and this server has no token yet to act for others"))
    ctx.metrics.count("api_forwarded")
    try:
        found = await ctx.transport.call(leader, onward, _part(call.timeout_ms))
    except Unreachable as error:
        raise ApiError(problem("not-leading", f"{leader} leads and cannot be reached: {error}")) from error
    except TransportError as error:
        raise ApiError(problem("outcome-unknown", f"{leader} leads and did not answer: {error}")) from error
    if is_proof_rejected(found):
        raise ApiError(problem("not-leading", f"{leader} leads and does not take this server's word: {_detail(found)}"))
    return found


async def to_region(ctx: ServerContext, call: ApiRequest) -> Reply | StreamReply:
    """What the region answers to the same request, without the part of the path that names it."""
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
        unarmed = "this server has no token yet to act for others: try again"
        raise ApiError(problem("region-unreachable", unarmed, facts=_facts(ctx, region)))
    ctx.metrics.count("api_to_region")
    try:
        if first_value(onward.query, "watch") in ("true", "1"):
            # The region judges by its own copy, which may be old: here the newest is known.
            return await person_stream(
                ctx.watches, call, lambda one: _stale(ctx) or ctx.no_longer(one), _flow(ctx, region, onward)
            )
        found = await _ask_region(ctx, call, there, onward)
    except StreamDeclined as error:
        found = error.reply
    except TransportError as error:
        code = "outcome-unknown" if isinstance(error, NoAnswer) and onward.verb != "GET" else "region-unreachable"
        raise ApiError(_unreachable_problem(ctx, region, error, code)) from error
    if is_proof_rejected(found):
        why = f"region {name} does not take this server's word: {_detail(found)}"
        raise ApiError(problem("region-unreachable", why, facts=_facts(ctx, region)))
    return _checked_reply(ctx, region, onward, found)


async def _ask_region(
    ctx: ServerContext, call: ApiRequest, there: request_signatures.RequestTarget, onward: Request
) -> Reply:
    """What the region answers. It has a place: one that does not answer holds up those who ask it, and no others."""
    actor = call.caller.actor
    full = ctx.to_regions.acquire(actor)
    if full is not None:
        raise ApiError(full)
    try:
        return await ctx.transport.call(there.address, onward, _part(call.timeout_ms))
    finally:
        ctx.to_regions.release(actor)


def _checked_reply(ctx: ServerContext, region: Region, onward: Request, found: Reply) -> Reply:
    """The answer as far as it can be a region's. Whose it is stands in our own log, whatever it says itself."""
    media = first_value(found.headers, "content-type").partition(";")[0].strip().lower()
    if not (200 <= found.status < 300 or 400 <= found.status < 600) or media not in _MEDIA:
        name, code = region.meta.name, "region-unreachable" if onward.verb == "GET" else "outcome-unknown"
        why = f"whoever is at the address of region {name} answers {found.status} {media[:80]!r}, as no region does"
        raise ApiError(problem(code, why, facts=_facts(ctx, region)))
    kept = tuple(
        (name, said) for name in REGION_HEADERS if (said := first_value(found.headers, name))
    )  # each once: the first
    return Reply(found.status, (*kept, (LEDGER, f"region/{region.meta.name}")), found.body)


async def _flow(ctx: ServerContext, region: Region, onward: Request) -> StreamReply:
    """The region's stream. Its first message is waited for: before it, the region may still decline."""
    source = ctx.transport.stream(region.spec.address, onward, IDLE_MS)
    try:
        first = await anext(source)
    except StopAsyncIteration:
        raise NoAnswer("the stream ended before it began") from None

    async def messages() -> AsyncGenerator[bytes, None]:
        async with aclosing(source):  # type: ignore[type-var]
            yield first  # taken below: once begun, closing this closes the region's stream, too
            yield first
            try:
                async for message in source:
                    yield message
            except TransportError as error:
                yield error_event(_unreachable_problem(ctx, region, error))

    relayed = messages()
    await anext(relayed)
    return StreamReply(relayed, headers=((LEDGER, f"region/{region.meta.name}"),))


def _part(timeout_ms: int) -> int:
    """Less than the whole time: that the other did not answer in it is an answer too, and has to be given in time."""
    return max(1, timeout_ms * 4 // 5)


def _signed(
    ctx: ServerContext, call: ApiRequest, request: Request, to: request_signatures.RequestTarget
) -> Request | None:
    """The request in this server's own name, for its caller; None: it cannot be signed yet."""
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
    """Why this server cannot tell whether its caller may still ask; None: it can."""
    age, server = ctx.age(), ctx.ledger.identity.server
    if age is not None and age <= STALE_MS:
        return None
    since = "never" if age is None else f"not for {age} ms"
    return problem("not-reached", f"{server} has {since} seen the end of its log, and acts for nobody until it does")


def _detail(reply: Reply) -> str:
    return read_problem(reply).detail[:400]


def _facts(ctx: ServerContext, region: Region) -> dict[str, str]:
    status, heard_at = region.status, ctx.heard_at(region)
    return {
        "region": region.meta.name,
        "health": status.health.value,
        "address": region.spec.address,
        "heardAt": show_instant(heard_at) if heard_at else "never",
    }


def _unreachable_problem(
    ctx: ServerContext, region: Region, error: TransportError, code: str = "region-unreachable"
) -> Problem:
    heard = ctx.heard_at(region)
    since = f"last heard at {show_instant(heard)}" if heard else "never heard"
    return problem(code, f"region {region.meta.name} is unreachable, {since}: {error}", facts=_facts(ctx, region))
