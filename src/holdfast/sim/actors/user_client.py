"""A user of a ledger: the API client with a token, and a record of what the servers acknowledged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from holdfast.api.server.request import parse_token
from holdfast.client.async_client import AsyncClient
from holdfast.client.config import ClientConfig
from holdfast.client.requester import KEY
from holdfast.host.ports.transport import Reply, Request, RequestHandler, Transport, first_value
from holdfast.sim.world.world import SimProcess

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
        """Return a client for one user."""
        process = self._process
        chance = process.chance("client", actor, *self._servers)
        first = chance.randrange(len(self._servers))
        servers = (*self._servers[first:], *self._servers[:first])
        access = ClientConfig(servers=servers, token=token, timeout_ms=ask_ms, retry_for_ms=patience_ms)
        return AsyncClient(
            AckNotingTransport(process.transport, actor, self._accepted), process.clock, access, jitter=chance.random
        )
