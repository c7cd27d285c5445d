"""The client side of one session with a ledger: numbered commands and heartbeats, sent to the server that leads.

    open ──▶ commands and heartbeats ──▶ `SessionLost`: the owner decides whether to open another one

A command is repeated with its number until it is decided: a duplicate gets the first answer (RULES 12). A request with
several commands is repeated as a unit. One task sends all commands, in the order of their numbers. A refused number is
not used again; a session with too many of them in a row is replaced.

Size: one object, one life; its halves would share every field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.errors import OutcomeUnknown
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Pairs, Reply, Request, Transport, TransportError, Unreachable, first_value
from holdfast.host.protocol.commands import (
    ENVELOPES,
    ENVELOPES_BATCH,
    JSON,
    LEADER,
    MSGPACK,
    RENEWALS,
    TIMEOUT,
    CommandOutcome,
    CommandReply,
    Renew,
    Renewed,
    SchedulerVitals,
    read_command_replies,
    read_command_reply,
    read_renewed,
    successor,
)
from holdfast.host.protocol.problem import ProblemBody
from holdfast.host.protocol.time_offset import TimeOffset
from holdfast.host.runtime.backoff import exponential, jittered
from holdfast.host.runtime.deadlines import ClockEvent

REQUEST_MS = 3_000
#: Largest size of one request, below a server's limit.
REQUEST_BYTES = 512 << 10
RETRY_FIRST_MS = 100
RETRY_MAX_MS = 2_000

#: Takes the answer to a heartbeat, and when that was sent by the boot clock. Returns the length of the lease; None if
#: the server is not followed.
OnRenewed = Callable[[Renewed, int], int | None]


class SessionLost(Exception):
    """The session has ended: it expired, or another process opened one under this name.

    `successor` is the other process's session, if the ledger reported it; 0: none.
    """

    def __init__(self, why: str, successor: Revision = 0) -> None:
        super().__init__(why)
        self.successor = successor


class Superseded(Exception):
    """Another process has a session under this name: this one must stop, so that they do not replace each other in
    turn."""


class SessionConfig(Struct, frozen=True):
    """A principal, the names of the ledger's servers, and the credentials for every request."""

    actor: str
    servers: tuple[str, ...]
    credentials: Callable[[], Pairs] = tuple


class SessionCommand(Struct, frozen=True):
    """A command, the revisions that it was based on, and its evidence."""

    command: Any
    view: Revision = 0
    policy: Revision = 0
    evidence: bytes = b""


class SessionClient:
    """The client of one ledger. `now` is the evenly running clock that ledger time is compared with."""

    def __init__(self, transport: Transport, clock: Clock, sender: SessionConfig, now: Callable[[], Instant]) -> None:
        self.actor = sender.actor
        self.session: Revision = 0
        self.offset = TimeOffset()
        #: What a scheduler reports with each heartbeat, and the live schedulers by the last reply.
        self.vitals: Callable[[], SchedulerVitals] | None = None
        self.schedulers: tuple[str, ...] = ()
        self._last_error = ""
        #: Set when `last_error` changes.
        self.turned = ClockEvent()
        self._transport = transport
        self._clock = clock
        self._sender = sender
        self._now = now
        self._sequence = 0
        #: The highest number that was committed in this session.
        self._landed = 0
        #: Requests with an unknown outcome, and openings among them that may still be committed.
        self._unknown = 0
        self._late = 0
        self._at = 0

    @property
    def last_error(self) -> str:
        """Why the last request failed; empty: it succeeded."""
        return self._last_error

    @last_error.setter
    def last_error(self, why: str) -> None:
        if why != self._last_error:
            self._last_error = why
            self.turned.set()

    @property
    def server(self) -> str:
        """The server that is expected to lead."""
        return self._sender.servers[self._at]

    def try_another_server(self, failed: str, hint: str = "") -> None:
        """Switch from a server that does not lead to the one that it names, or the next. Late calls have no effect."""
        if failed == self.server:
            servers = self._sender.servers
            known = hint in servers and hint != failed
            self._at = servers.index(hint) if known else (self._at + 1) % len(servers)

    def headers(self) -> Pairs:
        """Return the credentials."""
        return self._sender.credentials()

    async def back_off(self, attempt: int) -> None:
        """Wait before the next attempt: longer each time, with jitter."""
        most = exponential(RETRY_FIRST_MS, RETRY_MAX_MS, attempt)
        await self._clock.sleep(jittered(most, self.actor, self._sequence, attempt))

    async def open(self) -> CommandReply:
        """Open a session; return the reply, which is never `unavailable`."""
        self.session, self._sequence, self._landed = 0, 0, 0
        opening, unknown = encode(Envelope(self.actor, OpenSession(), self._sent())), self._unknown
        (answered,) = await self._until_judged(ENVELOPES, opening, 1)
        self._late += self._unknown - unknown
        if answered.said is CommandOutcome.LANDED:
            self.session = answered.session
        return answered

    async def send(self, command: Any) -> CommandReply:
        """Send a command until it is decided: `landed` or `refused`. Raises `SessionLost` if the session ended."""
        (body,) = self._numbered([command])
        return self._judged(await self._until_judged(ENVELOPES, body, 1))[0]

    async def send_many(self, commands: Sequence[Any]) -> list[CommandReply]:
        """Send commands in order until each is decided, as many per request as fit. Raises as `send` does."""
        found: list[CommandReply] = []
        while len(found) < len(commands):
            bodies = self._numbered(commands[len(found) :])
            answers = await self._until_judged(ENVELOPES_BATCH, encode([Raw(one) for one in bodies]), len(bodies))
            found += self._judged(answers)
        return found

    def _numbered(self, commands: Sequence[Any]) -> list[bytes]:
        """Number and encode as many commands as the dedup window and one request allow."""
        left = WINDOW - (self._sequence - self._landed)
        if left <= 0:
            raise SessionLost(f"{WINDOW} commands in a row were refused: their numbers are used up")
        bodies: list[bytes] = []
        size_bytes, sent = 0, self._sent()
        for command in commands[:left]:
            number = self._sequence + 1
            body = encode(self._envelope(command, sent, number))
            size_bytes += len(body)
            if bodies and size_bytes > REQUEST_BYTES:
                break
            bodies.append(body)
            self._sequence = number
        return bodies

    def _envelope(self, command: Any, sent: Instant, number: int) -> Envelope[Any]:
        one = command if isinstance(command, SessionCommand) else SessionCommand(command)
        return Envelope(
            self.actor, one.command, sent, session=self.session, sequence=number, view=one.view, policy=one.policy,
            evidence=one.evidence,
        )  # fmt: skip

    def _judged(self, answers: list[CommandReply]) -> list[CommandReply]:
        """Check the replies to the last commands; raise `SessionLost` if one ends the session."""
        first = self._sequence - len(answers) + 1
        for number, answered in enumerate(answers, first):
            if answered.code in (Code.NO_SESSION, Code.TOO_MANY_IN_FLIGHT):
                raise self._over(answered.message, successor(self.session, answered.facts))
            if answered.said is CommandOutcome.LANDED:
                self._landed = number
        return answers

    async def keep_alive(self, on_renewed: OnRenewed = lambda renewed, _sent: renewed.worth_ms) -> None:
        """Send heartbeats, four in each lease, until the session ends."""
        attempt = 0
        while True:
            sent = self._clock.boot()
            renewed = await self.renew()
            lease_ms = on_renewed(renewed, sent) if renewed is not None else None
            attempt = attempt + 1 if lease_ms is None else 0
            if lease_ms is None:
                await self.back_off(attempt)
            else:
                await self._clock.sleep(lease_ms // 4)

    async def renew(self) -> Renewed | None:
        """Send a heartbeat; None if it failed."""
        asked, server = self._now(), self.server
        body = msgspec.json.encode(Renew(format_revision(self.session), self.vitals() if self.vitals else None))
        reply = await self._ask(RENEWALS, (JSON,), body)
        if reply is None:
            return None
        renewed = read_renewed(reply)
        if isinstance(renewed, Renewed):
            self.last_error, self.schedulers = "", renewed.schedulers
            self.offset.measure(asked, renewed.at, self._now(), (renewed.log_id, renewed.term))
            return renewed
        self.raise_if_session_lost(renewed)
        self._not_here(server, renewed.code, renewed.detail, reply)
        return None

    def raise_if_session_lost(self, told: ProblemBody) -> None:
        """Raise `SessionLost` if this is the problem, which only a leader reports."""
        if told.code == Code.NO_SESSION:
            raise self._over(told.detail, successor(self.session, told.facts))

    def raise_if_superseded(self, over: SessionLost) -> None:
        """Raise `Superseded` if another process has the name's session."""
        if over.successor:
            raise Superseded(f"{self.actor} has another session, {format_revision(over.successor)}") from over

    def _over(self, why: str, later: Revision) -> SessionLost:
        """Return the error of this session. An own opening that was committed late is no successor."""
        if later and self._late:
            self._late -= 1
            return SessionLost(why)
        return SessionLost(why, later)

    async def _until_judged(self, path: str, body: bytes, count: int) -> list[CommandReply]:
        attempt = 0
        while True:
            answers = await self._once(path, body, count)
            if answers is not None and all(one.said is not CommandOutcome.UNAVAILABLE for one in answers):
                return answers
            attempt += 1
            await self.back_off(attempt)

    def _sent(self) -> Instant:
        """Return ledger time if known: a wrong local clock must not make commands expire."""
        return self.offset.to_remote(self._now()) if self.offset.is_measured else self._clock.wall()

    async def _once(self, path: str, body: bytes, count: int) -> list[CommandReply] | None:
        """Send commands once; None if their outcome is unknown."""
        asked, server = self._now(), self.server
        reply = await self._ask(path, (MSGPACK,), body)
        if reply is None:
            return None
        answers = read_command_replies(reply, count) if path == ENVELOPES_BATCH else [read_command_reply(reply)]
        at = max(one.at for one in answers)
        if at:
            self.offset.measure(asked, at, self._now())
        unjudged = next((one for one in answers if one.said is CommandOutcome.UNAVAILABLE), None)
        if unjudged is not None:
            self._unknown += unjudged.code == OutcomeUnknown.code
            self._not_here(server, unjudged.code, unjudged.message, reply)
        else:
            self.last_error = ""
        return answers

    def _not_here(self, server: str, code: str, why: str, reply: Reply) -> None:
        self.last_error = f"{server} did not accept a request of {self.actor}: {why} ({code})"
        self.try_another_server(server, first_value(reply.headers, LEADER))

    async def _ask(self, path: str, headers: Pairs, body: bytes) -> Reply | None:
        server = self.server
        request = Request("POST", path, headers=(*headers, (TIMEOUT, str(REQUEST_MS)), *self.headers()), body=body)
        try:
            return await self._transport.call(server, request, REQUEST_MS)
        except TransportError as error:
            self._unknown += not isinstance(error, Unreachable)
            self.last_error = str(error)
            self.try_another_server(server)
            return None
