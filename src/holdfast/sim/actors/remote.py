"""A ledger as somebody sees it who is not beside it: servers by name, of which one leads, now and then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.house import OpenSession
from holdfast.core.model.shapes import Instant, Revision
from holdfast.host.transport import TransportError
from holdfast.sim.actors.desk import Reply, encode, read_reply
from holdfast.sim.actors.paths import post
from holdfast.sim.world import Process

#: Called with every command that somebody was told has landed.
Heard = Callable[[Envelope[Any], Revision], None]

#: The operator that every log begins with.
ROOT = "person/root"
ASK_MS = 3_000
#: Refusals that say nothing about the command itself: the sender has to open a session first.
NO_SESSION = "no-session"


class Remote:
    """One sender's way to a ledger. It goes on with whoever answered last, and tries the others in turn."""

    def __init__(self, process: Process, servers: Sequence[str], heard: Heard, *, ask_ms: int = ASK_MS) -> None:
        self._process = process
        self._servers = servers
        self._heard = heard
        self._ask_ms = ask_ms
        self._chance: Random = process.chance("remote", *servers)
        self._at = self._chance.randrange(len(servers))

    async def ask(self, path: str, body: bytes) -> bytes | None:
        """One question to whoever is thought to lead; None when nobody answered it there."""
        try:
            reply = await self._process.transport.ask(self._servers[self._at], post(path, body), self._ask_ms)
        except TransportError:
            reply = None
        if reply is None or reply.status != 200:
            self.elsewhere()
            return None
        return reply.body

    def elsewhere(self) -> None:
        """Ask the next server from now on."""
        self._at = (self._at + 1) % len(self._servers)

    async def once(self, envelope: Envelope[Any]) -> Reply | None:
        """Send a command once; None when it may have landed or not."""
        raw = await self.ask("/submit", encode(envelope))
        if raw is None:
            return None
        reply = read_reply(raw)
        if reply.said == "landed":
            self._heard(envelope, reply.revision)
        elif reply.said == "unavailable":
            self.elsewhere()
        return reply

    async def submit(self, envelope: Envelope[Any], patience_ms: int = 1 << 40) -> Reply | None:
        """Send a command again and again until it is judged; None when patience ended first."""
        clock = self._process.clock
        until = clock.boot() + patience_ms
        while clock.boot() < until:
            reply = await self.once(envelope)
            if reply is not None and reply.said in ("landed", "refused"):
                return reply
            await clock.sleep(self._chance.randrange(20, 300))
        return None


class Speaker:
    """A machine that speaks to a ledger in sessions, each command numbered."""

    def __init__(self, process: Process, remote: Remote, actor: str) -> None:
        self.actor = actor
        self.remote = remote
        self.session: Revision = 0
        self._process = process
        self._sequence = 0
        self._ahead = 0

    async def open(self) -> bool:
        """Begin a life at the ledger."""
        self.session, self._sequence, self._ahead = 0, 0, 0
        reply = await self.remote.once(Envelope(self.actor, OpenSession(), self._process.clock.wall()))
        if reply is not None and reply.said == "landed":
            self.session = reply.session
        return bool(self.session)

    async def renew(self) -> bool:
        """A heartbeat, for whoever has no other: whether it was heard. A session that is over is forgotten."""
        sent = self._process.clock.boot()
        raw = await self.remote.ask("/renew", encode((self.actor, self.session)))
        reply = read_reply(raw) if raw is not None else Reply("unavailable")
        if reply.code == NO_SESSION:
            self.session = 0
        elif reply.said == "unavailable" and raw is not None:
            self.remote.elsewhere()
        if reply.said == "renewed":
            self._ahead = reply.at - sent
        return reply.said == "renewed"

    @property
    def is_renewed(self) -> bool:
        """Whether it has a session that was renewed, so that it knows what time it is there."""
        return bool(self.session and self._ahead)

    def ledger_time(self) -> Instant:
        """What time it is for the ledger, by its last answer to a heartbeat; never too early by more than that took."""
        return self._process.clock.boot() + self._ahead

    def envelope(self, command: Any, **fields: Any) -> Envelope[Any]:
        """The next command of this life."""
        self._sequence += 1
        return Envelope(
            self.actor, command, self._process.clock.wall(), session=self.session, sequence=self._sequence, **fields
        )

    async def send(self, command: Any, patience_ms: int = 20_000, **fields: Any) -> Reply | None:
        """Send a command until it is judged. A session that is over is forgotten; None when it stayed open."""
        reply = await self.remote.submit(self.envelope(command, **fields), patience_ms)
        if reply is not None and reply.code == NO_SESSION:
            self.session = 0
        return reply
