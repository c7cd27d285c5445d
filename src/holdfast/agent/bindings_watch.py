"""The stream of what is bound to this node, followed across broken connections, restarts and changes of leader.

    request to the presumed leader ──▶ templates, all bindings of the node ──▶ again after each change
                 ▲                                                │
                 └── broken, idle for too long, deposed ──────────┘

Its content belongs to one session. A message with a lower term than the newest one seen comes from a deposed leader and
is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from holdfast.agent.term_fence import TermFence
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.workloads import Template
from holdfast.host.ports.transport import Request, StreamDeclined, Transport, TransportError, first_value
from holdfast.host.protocol.bindings import BINDINGS, SESSION, NodeBindings, TemplateMessage, read_message
from holdfast.host.protocol.commands import LEADER
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.session_client import SessionClient
from holdfast.host.runtime.telemetry import Logger, Metrics

#: A stream without a frame for this time counts as broken.
IDLE_MS = 12_000


class _Broken(Exception):
    """This stream cannot go on; the next one may."""


class BindingsWatch:
    """The bindings received in one session. `run` it beside the heartbeats; it calls `wake` after each change."""

    def __init__(
        self, session: SessionClient, transport: Transport, terms: TermFence, metrics: Metrics, wake: Callable[[], None]
    ) -> None:
        self._session = session
        self._transport = transport
        self._terms = terms
        self._metrics = metrics
        self._wake = wake
        self._logger = Logger("agent", actor=session.actor)
        self.templates: dict[str, Template] = {}
        #: All bindings of this node; None: none were received yet in this session.
        self.bindings: NodeBindings | None = None

    async def run(self) -> None:
        """Follow the stream until `SessionLost`."""
        attempt = 0
        while True:
            server = self._session.server
            before = self.bindings
            try:
                await self._follow(server)
            except (_Broken, TransportError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                hint, why = "", str(error)
                if isinstance(error, StreamDeclined):
                    told = read_problem(error.reply)
                    self._session.raise_if_session_lost(told)
                    hint, why = first_value(error.reply.headers, LEADER), f"{told.detail} ({told.code})"
                self._logger.info("stream-broke", server=server, why=why)
                self._metrics.count("agent_streams_broken")
                self._session.try_another_server(server, hint)
            attempt = 1 if self.bindings is not before else attempt + 1
            await self._session.back_off(attempt)

    async def _follow(self, server: str) -> None:
        query = ((SESSION, format_revision(self._session.session)),)
        request = Request("GET", BINDINGS, query, self._session.headers())
        fresh: dict[str, Template] = {}
        async with aclosing(self._transport.stream(server, request, IDLE_MS)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                message = read_message(frame)
                if isinstance(message, TemplateMessage):
                    fresh[message.digest] = message.template
                elif isinstance(message, NodeBindings):
                    self._take(message, fresh)
                elif message.over:
                    raise _Broken("the server is no longer the leader, or this session has ended")
        raise _Broken("the stream ended")

    def _take(self, told: NodeBindings, fresh: dict[str, Template]) -> None:
        if not self._terms.heard(told.log_id, told.term):
            raise _Broken(f"term {told.term} is not followed: the newest seen is {self._terms.newest[1]}")
        known = self.templates | fresh
        if not {one.template for one in told.slots} <= known.keys():
            raise _Broken("a binding names a template that the stream has not sent")
        self.templates = {one.template: known[one.template] for one in told.slots}
        self.bindings = told
        self._wake()
        fresh.clear()
