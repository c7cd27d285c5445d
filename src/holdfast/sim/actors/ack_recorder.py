"""A machine's way to a ledger, with a witness: what the machine is told to have landed there is noted, and which of its
heartbeats were answered. And a leader as the scheduler beside it speaks to it, with a witness of what that sends.

Both carry everything as it is. What was promised to a link or an agent is held against the log as what was promised to
anybody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.values.structs import Revision
from holdfast.host.leader.group_commit import CommandAnswer
from holdfast.host.leader.leader import Leader
from holdfast.host.ports.transport import Reply, Request, RequestHandler
from holdfast.host.protocol.commands import (
    ENVELOPES,
    ENVELOPES_BATCH,
    RENEWALS,
    CommandOutcome,
    CommandReply,
    Renew,
    Renewed,
    read_command_replies,
    read_command_reply,
    read_renewed,
)
from holdfast.wiring.server_ports import ServerTransport


class AckSink(Protocol):
    """Who notes what machines are told by a ledger's servers."""

    def landed(self, envelope: Envelope[Any], revision: Revision) -> None:
        """A command has landed."""

    def now(self) -> int:
        """The world's time."""

    def renewed(self, server: str, session: Revision, sent: int) -> None:
        """A server has answered a heartbeat that was sent then."""


_many = msgspec.msgpack.Decoder(list[msgspec.Raw])


class SendListener(Protocol):
    """Told of every command that somebody is about to send, and when there is an answer to it."""

    def __call__(self, envelope: Envelope[Any], *, answered: bool) -> None: ...


class AckRecorder:
    """A way to others that notes which commands the servers of a ledger answered to have landed; and, if somebody is to
    be told, which are sent at all."""

    def __init__(
        self,
        inner: ServerTransport,
        ledgers: Mapping[str, tuple[LedgerDefinition[Any], AckSink]],
        said: SendListener | None = None,
    ) -> None:
        self._inner = inner
        self._said = said
        #: By server: what its commands are read with, and who notes them. What others answer is for others to note.
        self._ledgers = ledgers

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        sent = self._commands(peer, request)
        self._say(peer, sent, answered=False)
        began = self._ledgers[peer][1].now() if peer in self._ledgers else 0
        reply = await self._inner.call(peer, request, timeout_ms)
        if request.path == RENEWALS and peer in self._ledgers and isinstance(read_renewed(reply), Renewed):
            session = parse_revision(msgspec.json.decode(request.body, type=Renew).session)
            assert session is not None, request.body
            self._ledgers[peer][1].renewed(peer, session, began)
        self._say(peer, sent, answered=True)
        if sent:
            one = request.path == ENVELOPES
            self._note(peer, sent, [read_command_reply(reply)] if one else read_command_replies(reply, len(sent)))
        return reply

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        return self._inner.stream(peer, request, idle_ms)

    def serve(self, serving: RequestHandler) -> None:
        self._inner.serve(serving)

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    def last_error(self) -> str:
        return self._inner.last_error()

    def _say(self, peer: str, sent: list[bytes], *, answered: bool) -> None:
        if self._said is not None:
            for body in sent:
                self._said(self._read(peer, body), answered=answered)

    def _commands(self, peer: str, request: Request) -> list[bytes]:
        if peer not in self._ledgers or request.path not in (ENVELOPES, ENVELOPES_BATCH):
            return []
        return [request.body] if request.path == ENVELOPES else [bytes(one) for one in _many.decode(request.body)]

    def _read(self, peer: str, body: bytes) -> Envelope[Any]:
        envelope = self._ledgers[peer][0].envelopes.read(body)
        assert not isinstance(envelope, Refused), envelope
        return envelope

    def _note(self, peer: str, sent: list[bytes], answers: list[CommandReply]) -> None:
        _, heard = self._ledgers[peer]
        for body, answered in zip(sent, answers, strict=True):
            if answered.said is CommandOutcome.LANDED:
                heard.landed(self._read(peer, body), answered.revision)


class SubmitRecorder:
    """A leader for the scheduler beside it, which has no session: what it sends is told as if its life were one, and it
    numbered there what it sends."""

    def __init__(self, leader: Leader[Any], life: int, said: SendListener) -> None:
        self.term = leader.term
        self._leader = leader
        self._life = life
        self._said = said
        self._count = 0

    async def submit(self, envelope: Envelope[Any]) -> CommandAnswer:
        self._count += 1
        told = replace(envelope, session=self._life, sequence=self._count)
        self._said(told, answered=False)
        answer = await self._leader.submit(envelope)
        self._said(told, answered=True)
        return answer
