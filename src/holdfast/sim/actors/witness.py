"""A machine's way to a ledger, with a witness: what the machine is told to have landed there is noted.

It carries everything as it is. What was promised to a link or an agent is held against the log as what was promised to
anybody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.draft import Book
from holdfast.host.transport import Reply, Request, Serving, Transport
from holdfast.host.wire import ENVELOPES, ENVELOPES_MANY, Answered, Said, read_answered, read_answered_many
from holdfast.sim.actors.remote import Heard

_many = msgspec.msgpack.Decoder(list[msgspec.Raw])


class Witness:
    """A transport that notes which commands were answered to have landed."""

    def __init__(self, inner: Transport, book: Book[Any], heard: Heard) -> None:
        self._inner = inner
        self._book = book
        self._heard = heard

    async def ask(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        reply = await self._inner.ask(peer, request, timeout_ms)
        if request.path == ENVELOPES:
            self._note([request.body], [read_answered(reply)])
        elif request.path == ENVELOPES_MANY:
            sent = [bytes(one) for one in _many.decode(request.body)]
            self._note(sent, read_answered_many(reply, len(sent)))
        return reply

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        return self._inner.stream(peer, request, idle_ms)

    def serve(self, serving: Serving) -> None:
        self._inner.serve(serving)

    def _note(self, sent: list[bytes], answers: list[Answered]) -> None:
        for body, answered in zip(sent, answers, strict=True):
            if answered.said is Said.LANDED:
                envelope = self._book.envelopes.read(body)
                assert not isinstance(envelope, Refused), envelope
                self._heard(envelope, answered.revision)
