"""Servers with their API over any wire, in virtual or in real time, and clients that ask them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.api.server.limits import ServerLimits
from holdfast.client.async_client import AsyncClient
from holdfast.client.config import ClientConfig
from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Token, TokenSpec, format_token, hash_secret
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.link.region.link import Link
from holdfast.host.link.region.session import PlatformTarget
from holdfast.host.ports.store import Head, StoredBatch
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import OPERATOR, Part, bearer, secret_of
from tests.support.api.transports import WIRES, Peer, Wire

T = TypeVar("T")

#: So that the next leader stands soon where time is real.
#: How long tokens are good, in ms: some worlds live on real time, and tests of them for many minutes.
LIFE = 86_400_000
QUICK = replace(DEFAULTS, proof_interval=50, session_lease=2_000, suspect_after=1_500)


async def begun(definition: LedgerDefinition[Any], start: StartLog, at: Instant) -> MemoryStore:
    """A store with a log that has begun, so that its settings count from the first moment on. One server has it to
    itself until it is said to be shared: the first leader need not wait."""
    draft = BatchDraft(definition, definition.empty())
    for command in (start, StartTerm(1, "nobody")):
        draft.add(Envelope("ledger", command, at), at)
    raw, digest = draft.seal()
    store = MemoryStore(start.log_id)
    store.shared = False
    await store.append(Head(), StoredBatch(start.log_id, 1, digest, raw))
    return store


class Server(Part):
    """One server of one ledger, over any wire. `name` is what others call it: over HTTP, its URL."""

    def __init__(
        self,
        world: ClusterOverTransport,
        name: str,
        peer: Peer,
        definition: LedgerDefinition[Any],
        store: MemoryStore,
        start: StartLog,
        limits: ServerLimits,
    ) -> None:
        super().__init__(world, name, peer, definition, store, start, limits)
        self.store = store
        self.link: Link | None = None


class ClusterOverTransport:
    """Servers on one wire, and the peer that clients ask through."""

    def __init__(self, wire: Wire, limits: ServerLimits | None = None) -> None:
        self.wire = wire
        self.clock = wire.clock
        self.limits = limits or ServerLimits()
        self.servers: list[Server] = []
        self._asker: Peer | None = None

    async def asker(self) -> Peer:
        """Whoever asks."""
        if self._asker is None:
            _, self._asker = await self.wire.join("asker")
        return self._asker

    async def server(self, name: str, definition: LedgerDefinition[Any], store: MemoryStore, start: StartLog) -> Server:
        """A server that was not started yet."""
        known_as, peer = await self.wire.join(name)
        server = Server(self, known_as, peer, definition, store, start, self.limits)
        self.servers.append(server)
        return server

    async def platform(self, name: str = "p1") -> Server:
        """A platform's server that leads and knows its operator's token."""
        start = StartLog("log-platform", "platform", OPERATOR, QUICK)
        server = await self.server(name, PLATFORM, await begun(PLATFORM, start, self.clock.wall()), start)
        await server.start().leads()
        await server.submit(OPERATOR, p.Put(self.token("operator", OPERATOR)), key="operator's token")
        return server

    async def two(self) -> tuple[Server, Server]:
        """Two servers of one platform over one store: one leads, the other follows."""
        first = await self.platform("p1")
        first.store.shared = True
        assert first.ledger.identity.start is not None
        second = await self.server("p2", PLATFORM, first.store, first.ledger.identity.start)
        await second.start().follows()
        return first, second

    async def region(self, name: str, *platform: Server) -> Server:
        """A region's server; where a platform is named, with a link to it under the token `region-NAME`."""
        start = StartLog(f"log-{name}", f"region/{name}", OPERATOR, QUICK)
        server = await self.server(f"r-{name}", REGION, await begun(REGION, start, self.clock.wall()), start)
        if platform:
            token = (("authorization", bearer(f"region-{name}")),)
            where = PlatformTarget(tuple(one.name for one in platform), name, server.name, lambda: token)
            server.link = Link(server.ledger, server.peer, self.clock, where)
            server.api.ctx.link = server.link
            server.ledger.leader_tasks["link"] = server.link.run
        return await server.start().leads()

    def token(self, name: str, principal: str) -> Token:
        """A token whose secret tests can tell from its name."""
        spec = TokenSpec(principal=principal, hash=hash_secret(secret_of(name)), expires=self.clock.wall() + LIFE)
        return Token(meta=Meta(name=name), spec=spec)

    async def client(self, *servers: Server, token: str = "operator", **access: Any) -> AsyncClient:
        """A client of these servers, in this order."""
        secret = format_token(token, secret_of(token))
        names = tuple(server.name for server in servers)
        return AsyncClient(await self.asker(), self.clock, ClientConfig(servers=names, token=secret, **access))

    async def until(self, holds: Callable[[], bool], within_ms: int = 20_000) -> None:
        """Wait until something holds."""
        deadline = self.clock.boot() + within_ms
        while not holds():
            assert self.clock.boot() < deadline, "it never came to hold"
            await self.clock.sleep(10)

    async def end(self) -> None:
        for server in self.servers:
            await server.stop()
        if self._asker is not None:
            await self._asker.close()


def cluster_over_transport(kind: str, story: Callable[[ClusterOverTransport], Coroutine[Any, Any, T]]) -> T:
    """Run a story over a wire of this kind, and end every server that it started."""
    make, run = WIRES[kind]

    async def main() -> T:
        world = ClusterOverTransport(make())
        try:
            return await story(world)
        finally:
            await world.end()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    thresholds = gc.get_threshold()
    try:
        found: T = run(main())
        return found
    finally:  # what a leader asks of the collector is about its process, and this one goes on
        gc.set_threshold(*thresholds)
        gc.unfreeze()
