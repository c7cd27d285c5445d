"""API clients with a record of what servers acknowledged. Some only read, some storm: small commands at a high rate,
with almost no retries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.api.resources.schemas import render_command, tag_of
from holdfast.api.server.request import parse_token
from holdfast.client.async_client import AsyncClient
from holdfast.client.config import ClientConfig
from holdfast.client.errors import HoldfastError
from holdfast.client.requester import KEY
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.host.ports.transport import Reply, Request, RequestHandler, Transport, first_value
from holdfast.sim.checks.ledger_audit import LedgerAudit, PendingRead
from holdfast.sim.world.world import Program, SimProcess

#: The operator that exists in every new log.
ROOT = "person/root"
#: Timeout of one request, and of all its retries before the user decides again.
ASK_MS, PATIENCE_MS = 3_000, 20_000

#: Called with the actor and idempotency key of an acknowledged write, and the log position at that time.
OnAccepted = Callable[[str, str, int], None]


class AckNotingTransport:
    """A transport that records which writes the servers acknowledged."""

    def __init__(self, inner: Transport, actor: str, accepted: OnAccepted) -> None:
        self._inner = inner
        self._actor = actor
        self._accepted = accepted

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        reply = await self._inner.call(peer, request, timeout_ms)
        key = first_value(request.headers, KEY)
        if key and reply.status < 300 and first_value(reply.headers, "holdfast-outcome") != "unchanged":
            self._accepted(self._actor, key, parse_token(first_value(reply.headers, "holdfast-token")).seq)
        return reply

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        return self._inner.stream(peer, request, idle_ms)

    def serve(self, serving: RequestHandler) -> None:
        self._inner.serve(serving)


class UserConnection:
    """The connection of one machine's users to a ledger: its servers, and the recorder of their acknowledgements."""

    def __init__(self, process: SimProcess, servers: Sequence[str], accepted: OnAccepted) -> None:
        self._process = process
        self._servers = tuple(servers)
        self._accepted = accepted

    def client(self, actor: str, token: str, *, ask_ms: int = ASK_MS, patience_ms: int = PATIENCE_MS) -> AsyncClient:
        process = self._process
        chance = process.chance("client", actor, *self._servers)
        first = chance.randrange(len(self._servers))
        servers = (*self._servers[first:], *self._servers[:first])
        access = ClientConfig(servers=servers, token=token, timeout_ms=ask_ms, retry_for_ms=patience_ms)
        return AsyncClient(
            AckNotingTransport(process.transport, actor, self._accepted), process.clock, access, jitter=chance.random
        )


STORM_ASK_MS, STORM_PATIENCE_MS, STORM_LIFE_MS = 40, 2_000, 10_000
READ_MS = 3_000
KINDS = {"platform": "Workload"}
OF_REGIONS = "Node"

#: A machine's connections to all ledgers, and the operator's token as soon as it exists.
UserConnections = Callable[[SimProcess], Mapping[str, UserConnection]]
TokenSource = Callable[[], Awaitable[str]]


def reader(lines: UserConnections, proof: TokenSource, audits: Mapping[str, LedgerAudit[Any]]) -> Program:
    """Return a program that reads any ledger: linear, or at least as new as its last read."""

    async def run(process: SimProcess) -> None:
        chance, token = process.chance("reads"), await proof()
        clients = {
            name: line.client(ROOT, token, ask_ms=READ_MS, patience_ms=READ_MS) for name, line in lines(process).items()
        }
        known: dict[str, str] = {}
        while True:
            ledger = chance.choice(sorted(clients))
            before = known.get(ledger, "") if chance.random() < 0.5 else ""
            audit = audits[ledger]
            asked = PendingRead(parse_token(before).seq, "at-least") if before else audit.asks()
            try:
                read = f"at-least={before}" if before else "linear"
                found = await clients[ledger].list(KINDS.get(ledger, OF_REGIONS), read=read)
            except HoldfastError:
                found = None
            if found is not None and found.token:
                seen = found.token
                audit.reads(asked, parse_token(seen).seq, found.items)
                known[ledger] = max(seen, known.get(ledger, seen), key=lambda one: parse_token(one).seq)
            await process.clock.sleep(chance.randrange(200, 2_000))

    return run


def storm(lines: UserConnections, proof: TokenSource, regions: list[str], goes_on: Callable[[], bool]) -> Program:
    """Return a program that sends small commands at a high rate; many machines run it at once."""

    async def run(process: SimProcess) -> None:
        chance = process.chance("storm")
        ledger, token = chance.choice(regions), await proof()
        client = lines(process)[ledger].client(ROOT, token, ask_ms=STORM_ASK_MS, patience_ms=STORM_PATIENCE_MS)
        number = 0
        while goes_on():
            number += 1
            ends = process.clock.wall() + STORM_LIFE_MS
            drill = OpenOverride(OverrideAction.PAUSE_AUTOSCALER, ledger, "", "a storm", ends)
            key = f"{process.name}-{number}"
            with suppress(HoldfastError):  # a failed command is not retried
                await client.command(tag_of(OpenOverride), idempotency_key=key, **render_command(drill))
            await process.clock.sleep(chance.randrange(20, 200))

    return run
