"""A region's voice at the platform: one session, commands numbered in it, heartbeats; to whichever server leads.

    open ──▶ join with the region's log ──▶ commands and heartbeats ──▶ `SessionOver`: open another one, and join again
                          └── tombstoned ──▶ `ToldToStop`: nothing that this log says will ever be heard again

A command is repeated, with its number, until it is judged: what is done twice is answered once (RULES 12).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.house import OpenSession
from holdfast.core.ledger.revision import show
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.platform.commands import JoinRegion
from holdfast.host.clock import Clock
from holdfast.host.link.offset import Offset
from holdfast.host.transport import Pairs, Reply, Request, Transport, TransportError, named
from holdfast.host.waiting import doubled, jittered
from holdfast.host.wire import (
    ENVELOPES,
    JSON,
    LEADER,
    MSGPACK,
    RENEWALS,
    TIMEOUT,
    Answered,
    Renew,
    Renewed,
    Said,
    read_answered,
    read_renewed,
)

ASK_MS = 3_000
RETRY_FIRST_MS = 100
RETRY_MOST_MS = 2_000


class SessionOver(Exception):
    """The platform knows this session no more: somebody else speaks for the region, or it was silent for too long."""


class ToldToStop(Exception):
    """The region is retired: its log is tombstoned and will not be heard again (RULES 8)."""


class Platform(Struct, frozen=True):
    """Where the platform is, and who asks it: servers by name, of which one leads; this region, the address under
    which it can be reached, and the headers that prove who it is, asked for with every request."""

    servers: tuple[str, ...]
    region: str
    address: str = ""
    credentials: Callable[[], Pairs] = tuple


def joining(region: str, log_id: str, address: str) -> JoinRegion:
    """The command that joins."""
    return JoinRegion(region, log_id, address)


class Speaker:
    """One life of a region's link. `now` is the region's ledger time."""

    def __init__(self, transport: Transport, clock: Clock, platform: Platform, now: Callable[[], Instant]) -> None:
        self.region = platform.region
        self.session: Revision = 0
        self.offset = Offset()
        #: Why the last question was not answered; empty when it was.
        self.trouble = ""
        self._transport = transport
        self._clock = clock
        self._platform = platform
        self._actor = f"region/{platform.region}"
        self._now = now
        self._sequence = 0
        self._at = 0

    @property
    def server(self) -> str:
        """Who is thought to lead."""
        return self._platform.servers[self._at]

    def elsewhere(self, failed: str, hint: str = "") -> None:
        """This server does not lead: ask the one it names, or the next. Whoever is told so late changes nothing."""
        if failed == self.server:
            servers = self._platform.servers
            known = hint in servers and hint != failed
            self._at = servers.index(hint) if known else (self._at + 1) % len(servers)

    def headers(self) -> Pairs:
        """What proves to the platform who asks."""
        return self._platform.credentials()

    async def pause(self, attempt: int) -> None:
        """Wait before the next attempt, longer each time, and not as long as others do."""
        most = doubled(RETRY_FIRST_MS, RETRY_MOST_MS, attempt)
        await self._clock.sleep(jittered(most, self._actor, self._sequence, attempt))

    async def open(self) -> Answered:
        """Begin a life at the platform; what it said of the last try, which is not `unavailable`."""
        self.session, self._sequence = 0, 0
        answered = await self._until_judged(OpenSession())
        if answered.said is Said.LANDED:
            self.session = answered.session
        return answered

    async def join(self, log_id: str) -> Answered:
        """Speak for the region with its log, from now on, in this session."""
        return await self.send(joining(self.region, log_id, self._platform.address))

    async def send(self, command: Any) -> Answered:
        """Send a command until it is judged: `landed` or `refused`. Raises when the session or everything is over."""
        self._sequence += 1
        answered = await self._until_judged(command, session=self.session, sequence=self._sequence)
        if answered.code == Code.NO_SESSION:
            raise SessionOver(answered.message)
        if answered.code == Code.TOMBSTONED:
            raise ToldToStop(answered.message)
        return answered

    async def renew(self) -> Renewed | None:
        """A heartbeat; None when nobody heard it, and another server will be asked next."""
        asked, server = self._now(), self.server
        body = msgspec.json.encode(Renew(show(self.session)))
        reply = await self._ask(RENEWALS, (JSON,), body)
        if reply is None:
            return None
        renewed = read_renewed(reply)
        if isinstance(renewed, Renewed):
            self.trouble = ""
            self.offset.asked(asked, renewed.at, self._now())
            return renewed
        if renewed.code == Code.NO_SESSION:
            raise SessionOver(renewed.detail)
        self._not_here(server, renewed.code, renewed.detail, reply)
        return None

    async def _until_judged(self, command: Any, **fields: Any) -> Answered:
        envelope = Envelope(self._actor, command, self._sent(), **fields)
        attempt = 0
        while True:
            answered = await self._once(envelope)
            if answered is not None and answered.said is not Said.UNAVAILABLE:
                return answered
            attempt += 1
            await self.pause(attempt)

    def _sent(self) -> Instant:
        """Now, by the platform's time once that is known: a wrong clock here must not make a command come too late."""
        return self.offset.theirs(self._now()) if self.offset.is_measured else self._clock.wall()

    async def _once(self, envelope: Envelope[Any]) -> Answered | None:
        """Send a command once; None when it may have landed or not."""
        asked, server = self._now(), self.server
        reply = await self._ask(ENVELOPES, (MSGPACK,), encode(envelope))
        if reply is None:
            return None
        answered = read_answered(reply)
        if answered.at:
            self.offset.asked(asked, answered.at, self._now())
        if answered.said is Said.UNAVAILABLE:
            self._not_here(server, answered.code, answered.message, reply)
        else:
            self.trouble = ""
        return answered

    def _not_here(self, server: str, code: str, why: str, reply: Reply) -> None:
        self.trouble = f"{server} does not take what this region says: {why} ({code})"
        self.elsewhere(server, named(reply.headers, LEADER))

    async def _ask(self, path: str, headers: Pairs, body: bytes) -> Reply | None:
        server = self.server
        request = Request("POST", path, headers=(*headers, (TIMEOUT, str(ASK_MS)), *self.headers()), body=body)
        try:
            return await self._transport.ask(server, request, ASK_MS)
        except TransportError as error:
            self.trouble = str(error)
            self.elsewhere(server)
            return None
