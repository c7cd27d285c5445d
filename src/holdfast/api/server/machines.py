"""Routes for machines: commands in their sessions, heartbeats, and streams.

The streams are shipments to a region, a region's log to standalone schedulers, and the bindings of a node to its agent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.api.problems import from_refusal, problem
from holdfast.api.server.context import ServerContext, check_rate
from holdfast.api.server.redaction import Redaction, by_number
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.streams import machine_stream
from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.commit.draft import CommandAnswer, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.values.limits import TEXT_MAX
from holdfast.core.model.values.structs import Revision
from holdfast.host.errors import Unavailable
from holdfast.host.link.platform.server import serve_shipments
from holdfast.host.ports.transport import Reply, StreamReply
from holdfast.host.protocol.bindings import SESSION
from holdfast.host.protocol.commands import AT, JSON, MSGPACK, CommandOutcome, CommandReply, Renewed, SchedulerVitals
from holdfast.host.streams.bindings_server import BindingsReader, serve_bindings
from holdfast.host.streams.log_server import serve_log

SCHEDULER = "scheduler"
#: Largest number of envelopes in one request.
ENVELOPES_MAX = 256
_many = msgspec.msgpack.Decoder(list[msgspec.Raw])
_MEDIA = (MSGPACK,)
#: A renewal exactly as machines write it, which needs no parser.
_RENEWS = re.compile(rb'{"session":"([0-9.]{1,64})"}')


async def envelope(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Submit one envelope of a machine or of a user."""
    made = _read(ctx, call, call.request.body)
    _pace(ctx, call, [made])
    found = made if isinstance(made, Refused) else await ctx.ledger.submit(made)
    if not isinstance(made, Refused):
        _note_proposal(ctx, call, made, found)
    if isinstance(made, Refused) or isinstance(found, Refused):
        assert isinstance(found, Refused)
        refused = _refused(ctx, call, made, found)
        raise ApiError(from_refusal(refused, lane=_lane(ctx, made)), ((AT, str(ctx.now())),))
    return Reply(200, _MEDIA, encode(_landed(ctx, made, found)))


async def envelopes(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Submit many envelopes; each is decided by itself, in order."""
    try:
        raw = _many.decode(call.request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(problem("unreadable", f"the body is not an array of envelopes: {error}")) from None
    if not 1 <= len(raw) <= ENVELOPES_MAX:
        raise ApiError(problem("unreadable", f"expected 1 to {ENVELOPES_MAX} envelopes, got {len(raw)}"))
    made = [_read(ctx, call, bytes(one)) for one in raw]
    _pace(ctx, call, made)
    said = await asyncio.gather(*[_submitted(ctx, call, one) for one in made])
    return Reply(200, _MEDIA, encode(said))


def _read(ctx: ServerContext, call: ApiRequest, raw: bytes) -> Envelope[Any] | Refused:
    """Return an envelope that the caller may send under its own name."""
    found = ctx.ledger.definition.envelopes.read(raw)
    if isinstance(found, Refused):
        return found
    if found.actor == call.caller.actor:
        # This server sets who forwarded the envelope, whatever the envelope contains.
        return found if found.via == call.caller.via else replace(found, via=call.caller.via)
    refused = Refused(Code.NO_RIGHT, f"{call.caller.actor} cannot act for {found.actor[:80]}", {})
    ctx.denials.note(call.caller.actor, "envelope", Code.NO_RIGHT.value)
    return refused


def _pace(ctx: ServerContext, call: ApiRequest, made: Sequence[Envelope[Any] | Refused]) -> None:
    """Enforce the rate limit of users for envelopes as for documents. Machines are limited by the windows of their
    sessions."""
    if call.caller.kind in PEOPLE:
        check_rate(ctx, call, *[one.key for one in made if not isinstance(one, Refused)])


def _refused(ctx: ServerContext, call: ApiRequest, made: Envelope[Any] | Refused, found: Refused) -> Refused:
    """Return the refusal as this caller may see it."""
    if isinstance(made, Refused):
        return found
    return Redaction(call.caller, ctx.state).refused(found, by_number=by_number(made.command))


async def _submitted(ctx: ServerContext, call: ApiRequest, made: Envelope[Any] | Refused) -> CommandReply:
    if isinstance(made, Refused):
        return CommandReply(CommandOutcome.REFUSED, made.code.value, made.message)
    try:
        found = await ctx.ledger.submit(made)
    except Unavailable as error:
        return CommandReply(CommandOutcome.UNAVAILABLE, error.code, str(error))
    _note_proposal(ctx, call, made, found)
    if isinstance(found, Refused):
        found = _refused(ctx, call, made, found)
        return CommandReply(CommandOutcome.REFUSED, found.code.value, found.message, facts=dict(found.facts))
    return _landed(ctx, made, found)


def _landed(ctx: ServerContext, made: Envelope[Any], found: Committed | Repeated) -> CommandReply:
    session = made.session or ctx.state.session_of.get(made.actor) or 0
    return CommandReply(CommandOutcome.LANDED, "", "", found.revision, session, found.answer, ctx.now())


def _lane(ctx: ServerContext, made: Envelope[Any] | Refused) -> str:
    rule = None if isinstance(made, Refused) else ctx.ledger.definition.rules.get(type(made.command))
    return "" if rule is None or isinstance(made, Refused) else rule.lane_of(made.command).name.lower()


async def renewal(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Renew a session; the reply has the lease, which counts from the time of sending."""
    body = _renewal_of(call)
    session = _session_of(body)
    found = ctx.ledger.renew(call.caller.actor, session)
    if isinstance(found, Refused):
        raise ApiError(from_refusal(found, lane="proofs"))
    live = _live_schedulers(ctx, call, body) if call.caller.kind == SCHEDULER else ()
    renewed = Renewed(found.worth, found.term, found.log_id, ctx.now(), found.times, live)
    return Reply(200, (JSON,), msgspec.json.encode(renewed))


def _live_schedulers(ctx: ServerContext, call: ApiRequest, body: Any) -> tuple[str, ...]:
    """Note how a scheduler fares, if it says so, and return the names of all that are live."""
    if ctx.ledger.leader is None:
        return ()
    board = ctx.ledger.leader.term.schedulers
    if "scheduler" in body:
        try:
            vitals = msgspec.convert(body["scheduler"], SchedulerVitals)
        except msgspec.ValidationError as error:
            raise ApiError(problem("unreadable", f"the scheduler's report is not valid: {error}")) from None
        where = vitals.where[:TEXT_MAX]
        board.heard(call.caller.actor, replace(vitals, where=where), ctx.state.info.settings.session_lease)
    return board.live()


def _note_proposal(ctx: ServerContext, call: ApiRequest, made: Envelope[Any], found: CommandAnswer) -> None:
    """Count how a scheduler's proposal fared."""
    if call.caller.kind == SCHEDULER and ctx.ledger.leader is not None:
        ctx.ledger.leader.term.schedulers.answered(made, found)


def _renewal_of(call: ApiRequest) -> Any:
    written = _RENEWS.fullmatch(call.request.body)
    if written is not None and call.header("content-type") == JSON[1]:
        return {"session": written[1].decode()}
    return call.json()


def _session_of(body: Any) -> Revision:
    session = body.get("session") if isinstance(body, dict) else None
    found = parse_revision(session) if isinstance(session, str) else None
    if found is None:
        raise ApiError(problem("unreadable", 'a renewal must be {"session": "41.3"}'))
    return found


async def shipped(ctx: ServerContext, call: ApiRequest) -> Reply | StreamReply:
    """Stream to a region the changes of the platform's log that concern it."""
    name = call.caller.actor.partition("/")[2]
    serving = serve_shipments(ctx.ledger, call.request, name, ctx.evidence, ctx.limits.shipped_objects)
    return await machine_stream(ctx.streams, call, ctx.no_longer, serving)


async def log(ctx: ServerContext, call: ApiRequest) -> StreamReply:
    """Stream the region's log to a scheduler, without redaction."""
    serving = serve_log(ctx.ledger, call.since())
    return await machine_stream(ctx.streams, call, ctx.no_longer, serving)


async def bindings(ctx: ServerContext, call: ApiRequest) -> StreamReply:
    """Stream to an agent the bindings of its own node, in the session that it names."""
    session = parse_revision(call.query(SESSION))
    if session is None:
        raise ApiError(problem("unreadable", "the parameter session is missing: ?session=41.3"))
    name = call.caller.actor.partition("/")[2]
    return await machine_stream(ctx.streams, call, ctx.no_longer, _bound(ctx, call, name, session))


async def _bound(ctx: ServerContext, call: ApiRequest, name: str, session: Revision) -> StreamReply:
    found = await serve_bindings(ctx.ledger, BindingsReader(name, session), call.timeout_ms, ctx.watchers)
    if isinstance(found, Refused):
        raise ApiError(from_refusal(found))
    return found
