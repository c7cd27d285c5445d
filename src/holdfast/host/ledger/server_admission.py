"""Admission of servers: their announcements in the store, recorded in the log by the leader.

    another server ──announce──▶ store ──every two seconds──▶ AdmitServer ──▶ log ──▶ every server, every region
    long expired ──▶ ForgetServer

Announcements are not trusted: every server, also of a later version, writes to the store. An unreadable or refused one
is logged and removed; its server announces it again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, forgettable_at
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.records.servers import ServerToken
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.store import ANNOUNCEMENT_BYTES, ANNOUNCEMENTS, StoreError
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger

#: The principal that records announced servers.
ACTOR = "controller/servers"
#: The interval of checks for announcements; its own server's wake the leader.
POLL_MS = 2_000
#: The lowest ledger level with a table of servers.
LEVEL = 2

_read = msgspec.msgpack.Decoder(ServerToken)


def announcement(token: ServerToken) -> bytes:
    return encode(token)


def read_announcement(raw: bytes) -> ServerToken | None:
    """Return the announced token; None: it is unreadable."""
    try:
        return _read.decode(raw) if len(raw) <= ANNOUNCEMENT_BYTES else None
    except (msgspec.MsgspecError, ValueError):
        return None


class ServerAdmission:
    """Maintains the table of servers. `ledger.leader_tasks["servers"] = ServerAdmission(ledger).run`."""

    def __init__(self, ledger: Ledger[S]) -> None:
        self._store = ledger.store
        self._clock = ledger.clock
        self._metrics = ledger.metrics
        self._logger = Logger("servers", server=ledger.identity.server)
        self._woken = ClockEvent()

    def wake(self) -> None:
        """Check at once: this server has announced something."""
        self._woken.set()

    async def run(self, leader: Leader[S]) -> None:
        """Admit and forget servers while this server leads."""
        while True:
            self._woken.clear()
            try:
                await self._look(leader)
            except (StoreError, Unavailable) as error:
                self._logger.warning("servers-wait", why=error)
            await self._woken.within(self._clock, POLL_MS)

    async def _look(self, leader: Leader[S]) -> None:
        state = leader.term.durable.state
        if state.info.level < LEVEL:
            return
        for name, raw in (await self._store.announced())[:ANNOUNCEMENTS]:
            await self._admit(leader, name, raw)
            await self._store.announce(name, b"")
        for token in list(state.servers.values()):
            if leader.term.now() >= forgettable_at(token):
                await self._send(leader, ForgetServer(token.name), token)

    async def _admit(self, leader: Leader[S], name: str, raw: bytes) -> None:
        token = read_announcement(raw)
        if token is None:
            self._metrics.count("servers_refused", code="unreadable")
            self._logger.warning("announcement-unreadable", name=ascii(name[:80]), size_bytes=len(raw))
        elif token.name not in leader.term.durable.state.servers:
            await self._send(leader, AdmitServer(token), token)

    async def _send(self, leader: Leader[S], command: Any, token: ServerToken) -> None:
        answer = await leader.submit_as(ACTOR, command)
        about = {"token": ascii(token.name), "principal": ascii(token.principal), "expires": token.expires}
        if isinstance(answer, Refused):
            self._metrics.count("servers_refused", code=answer.code.value)
            self._logger.warning("server-refused", code=answer.code.value, why=ascii(answer.message), **about)
        elif isinstance(command, AdmitServer):
            self._metrics.count("servers_admitted")
            self._logger.info("server-admitted", **about)
        else:
            self._logger.info("server-forgotten", **about)
