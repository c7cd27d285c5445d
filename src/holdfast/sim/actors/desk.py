"""What a simulated server answers over the network for its ledger: commands, heartbeats and reads."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import Token
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.region.state import RegionState
from holdfast.host.errors import ListAgain, Unavailable
from holdfast.host.ledger import Ledger
from holdfast.host.reads import Level
from holdfast.sim.actors.paths import Paths

READ_WITHIN_MS = 2_000

encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Reply(Struct, frozen=True, array_like=True):
    """What became of a command: `landed` at a revision, `refused` with a code, or the code of why nobody can tell.

    A refusal has the revision to wait for, if waiting helps, and as its answer the parts that were refused.
    `session` is the sender's present session, for one that has just opened it; `at` is ledger time.
    """

    said: str
    code: str = ""
    revision: Revision = 0
    session: Revision = 0
    answer: bytes = b""
    at: Instant = 0


class Look(Struct, frozen=True, array_like=True):
    """A read: linear, or at least as new as a token."""

    token: Token | None = None


class Seen(Struct, frozen=True, array_like=True):
    """What became of a read: where in the log it saw everything up to, or why it saw nothing."""

    said: str
    token: Token | None = None


_replies = msgspec.msgpack.Decoder(Reply)
_looks = msgspec.msgpack.Decoder(Look)
_seen = msgspec.msgpack.Decoder(Seen)
_lives = msgspec.msgpack.Decoder(tuple[str, int])
read_reply = _replies.decode
read_seen = _seen.decode


def serve(paths: Paths, ledger: Ledger[Any]) -> None:
    """Answer for this ledger from now on."""

    async def submit(body: bytes) -> bytes:
        envelope = ledger.book.envelopes.read(body)
        if isinstance(envelope, Refused):
            return encode(Reply("refused", envelope.code.value))
        return encode(await _submit(ledger, envelope))

    async def read(body: bytes) -> bytes:
        token = _looks.decode(body).token
        level = Level.LINEAR if token is None else Level.AT_LEAST
        try:
            view = await ledger.read(level, token, READ_WITHIN_MS)
        except Unavailable as error:
            return encode(Seen(error.code))
        except ListAgain as error:
            return encode(Seen(type(error).__name__))
        return encode(Seen("read", view.token))

    async def renew(body: bytes) -> bytes:
        actor, session = _lives.decode(body)
        try:
            renewal = ledger.renew(actor, session)
        except Unavailable as error:
            return encode(Reply("unavailable", error.code))
        if isinstance(renewal, Refused):
            return encode(Reply("refused", renewal.code.value))
        return encode(Reply("renewed", at=ledger.leader.term.now() if ledger.leader is not None else 0))

    paths.add("/submit", submit)
    paths.add("/renew", renew)
    paths.add("/read", read)


def serve_nodes(paths: Paths, ledger: Ledger[RegionState]) -> None:
    """Answer whoever asks which nodes there are in a region."""

    async def nodes(_body: bytes) -> bytes:
        return encode([uid for uid, _ in ledger.durable.state.nodes.items()])

    paths.add("/nodes", nodes)


async def _submit(ledger: Ledger[Any], envelope: Envelope[Any]) -> Reply:
    try:
        answer = await ledger.submit(envelope)
    except Unavailable as error:
        return Reply("unavailable", error.code)
    if isinstance(answer, Refused):
        parts = encode(answer.facts["refused"]) if "refused" in answer.facts else b""
        return Reply("refused", answer.code.value, int(answer.facts.get("catch_up_to", 0)), answer=parts)
    session = ledger.durable.state.session_of.get(envelope.actor) or 0
    return Reply("landed", "", answer.revision, session, answer.answer)
