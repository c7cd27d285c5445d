"""A transport that records which commands and heartbeats of a machine were acknowledged; a leader that records what its
embedded scheduler submits.

Both pass everything on unchanged. The log is later checked against all acknowledgements: those to links and agents as
well as those to users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.values.structs import Revision
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
    """Receives what the servers of a ledger acknowledged to machines."""

    def landed(self, envelope: Envelope[Any], revision: Revision) -> None:
        """Record an acknowledged command."""

    def now(self) -> int:
        """Return the time of the world."""

    def renewed(self, server: str, session: Revision, sent: int) -> None:
        """Record an answered heartbeat and the time at which it was sent."""


_many = msgspec.msgpack.Decoder(list[msgspec.Raw])


class SendListener(Protocol):
    """Called before a command is sent, and again when it is answered."""

    def __call__(self, envelope: Envelope[Any], *, answered: bool) -> None: ...


class AckRecorder:
    """A transport that records which commands the servers of a ledger acknowledged. A listener also gets every command
    that is sent."""

    def __init__(
        self,
        inner: ServerTransport,
        ledgers: Mapping[str, tuple[LedgerDefinition[Any], AckSink]],
        said: SendListener | None = None,
    ) -> None:
        self._inner = inner
        self._said = said
        #: By server: the definition that decodes its commands, and their recorder. Other peers are not recorded.
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
    """A leader for its embedded scheduler, which has no session. Recorded envelopes get the scheduler's incarnation as
    session and a sequence number in it."""

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
