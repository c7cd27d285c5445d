"""Servers with their API in one process, on virtual time: what tests of the API ask, whoever carries it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from random import Random
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import parse_qsl

import msgspec

from holdfast.api.server.app import ApiServer
from holdfast.api.server.context import ServerContext
from holdfast.api.server.limits import ServerLimits
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import (
    Permission,
    Principal,
    PrincipalSpec,
    Scope,
    Token,
    TokenSpec,
    format_token,
    hash_secret,
)
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ledger.server_admission import ServerAdmission
from holdfast.host.ledger.server_token import ServerTokenKeeper
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Store
from holdfast.host.ports.transport import Reply, Request
from holdfast.sim.actors.server_files import TokenFile, token_source
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.indexes.audit_store import AuditDatabase
from holdfast.stores.indexes.decision_rows import DecisionDatabase
from holdfast.stores.memory import MemoryStore
from tests.support.api.transports import Peer
from tests.support.hosts.local_network import LocalNetwork

T = TypeVar("T")

OPERATOR = "person/operator"
V1 = "holdfast/v1"
TOKEN_LIFE = 600_000
ALL_RIGHTS = tuple(Permission)


def secret_of(name: str) -> str:
    """A secret that tests can tell from the token's name."""
    return (name + "-" * 43)[:43]


def bearer(name: str) -> str:
    """What the owner of a token says."""
    return f"Bearer {format_token(name, secret_of(name))}"


def ledger_at(name: str) -> str:
    """The ledger of the server that is called so here: `p1` is the platform's, `r-eu` one of region eu."""
    return f"region/{name.split('-')[1]}" if name.startswith("r-") else "platform"


class Answer:
    """A reply as a test looks at it."""

    def __init__(self, reply: Reply) -> None:
        self.status = reply.status
        self.headers = dict(reply.headers)
        self.body = reply.body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:400]!r}"


class Around(Protocol):
    """What a server of a test lives in."""

    clock: Clock

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""


class Part:
    """One server with its API, by the name that others know it by."""

    def __init__(
        self,
        world: Around,
        name: str,
        peer: Peer,
        definition: LedgerDefinition[Any],
        store: Store,
        start: StartLog,
        limits: ServerLimits,
    ) -> None:
        self.name = name
        self.peer = peer
        self.ledger: Ledger[Any] = Ledger(definition, store, world.clock, ServerIdentity(name, start))
        self.decisions = DecisionIndex(self.ledger, DecisionDatabase()) if definition is REGION else None
        admission = ServerAdmission(self.ledger)
        self.ledger.leader_tasks["servers"] = admission.run
        #: The file in which this server keeps its token: who starts it anew hands it on.
        self.file = TokenFile()
        self.token = ServerTokenKeeper(self.ledger, self.file, token_source(Random(name)), admission.wake)
        self.audit = AuditIndex(self.ledger, AuditDatabase())
        own = self.token.current
        ctx = ServerContext(self.ledger, peer, limits=limits, decisions=self.decisions, own=own, audit=self.audit)
        self.api = ApiServer(ctx)
        peer.serve(self.api.serve)
        self._world = world
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def state(self) -> Any:
        return self.ledger.durable.state

    def start(self) -> Self:
        work = (self.ledger.run(), self.api.run(), self.token.run(), self.audit.run())
        self._tasks = [asyncio.create_task(one) for one in work]
        if self.decisions is not None:
            self._tasks.append(asyncio.create_task(self.decisions.run()))
        return self

    def is_known(self) -> bool:
        """Whether the log has this server's token: from then on it can act for others."""
        own = self.token.current()
        return own is not None and own.name in self.state.servers

    async def leads(self) -> Self:
        await self._world.until(lambda: self.ledger.role is Role.LEADING)
        return self

    async def follows(self) -> Self:
        await self._world.until(lambda: self.ledger.role is Role.FOLLOWING and self.state.info.seq > 0)
        return self

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        await self.peer.close()

    async def submit(self, actor: str, command: Any, **fields: Any) -> Committed:
        """A command past the API, as controllers beside the leader send theirs."""
        answer = await self.ledger.submit(Envelope(actor, command, self._world.clock.wall(), **fields))
        assert isinstance(answer, Committed), answer
        return answer


class World:
    """Servers in one process, and somebody who asks them."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self.network = LocalNetwork(self.clock)
        self.caller = self.network.join("caller")
        self.parts: list[Part] = []
        self.keys = 0

    async def platform(self, name: str = "p1", store: Store | None = None, limits: ServerLimits | None = None) -> Part:
        """A platform that leads and knows its operator's token."""
        part = self.part(name, PLATFORM, store, StartLog("log-platform", "platform", OPERATOR), limits)
        await part.start().leads()
        await self.token(part, "operator", OPERATOR)
        return part

    def part(
        self,
        name: str,
        definition: LedgerDefinition[Any],
        store: Store | None,
        start: StartLog,
        limits: ServerLimits | None = None,
    ) -> Part:
        """A server that was not started yet."""
        part = Part(
            self, name, self.network.join(name), definition, store or MemoryStore(name), start, limits or ServerLimits()
        )
        self.parts.append(part)
        return part

    async def region(
        self, region: str = "eu", name: str = "", limits: ServerLimits | None = None, store: Store | None = None
    ) -> Part:
        """A region that leads, and has been shipped its operator, schedulers and agents."""
        part = self.part(
            name or f"r-{region}", REGION, store, StartLog(f"log-{region}", f"region/{region}", OPERATOR), limits
        )
        await part.start().leads()
        principals = [Principal(meta=Meta(name=f"{kind}/*"), spec=PrincipalSpec()) for kind in ("agent", "scheduler")]
        tokens = [
            self._token("operator", OPERATOR),
            self._token("agents", "agent/*"),
            self._token("schedulers", "scheduler/*"),
        ]
        puts: tuple[c.ShippedItem, ...] = (
            c.ShippedRegion(region, "eu"),
            *[c.ShippedPrincipal(one) for one in principals],
            *[c.ShippedToken(one) for one in tokens],
            *[c.ShippedServer(one) for one in await self.platform_servers()],
        )
        await part.submit("controller/link", c.Ship("log-platform", 1, 0, 1, puts))
        return part

    async def platform_servers(self) -> list[ServerToken]:
        """The tokens of the platform's servers that there are by now, as its log has them."""
        platform = [one for one in self.parts if one.ledger.definition is PLATFORM]
        await self.until(lambda: all(one.is_known() for one in platform))
        return [row for one in platform[:1] for row in one.state.servers.values()]

    def _token(self, name: str, principal: str) -> Token:
        spec = TokenSpec(
            principal=principal,
            hash=hash_secret(secret_of(name)),
            expires=self.clock.wall() + TOKEN_LIFE,
            any=principal.endswith("/*"),
        )
        return Token(meta=Meta(name=name), spec=spec)

    async def token(self, part: Part, name: str, principal: str) -> None:
        """A token for a principal that exists."""
        self.keys += 1
        await part.submit(OPERATOR, p.Put(self._token(name, principal)), key=f"token-{self.keys}")

    async def principal(
        self, part: Part, name: str, *rights: Permission, token: str = "", scope: Scope | None = None
    ) -> None:
        """A principal with rights, and a token of it."""
        spec = PrincipalSpec(rights=rights, scope=scope or Scope())
        self.keys += 1
        await part.submit(OPERATOR, p.Put(Principal(meta=Meta(name=name), spec=spec)), key=f"principal-{self.keys}")
        await self.token(part, token or name.replace("/", "-"), name)

    async def ask(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        to: str = "p1",
        token: str = "operator",
        key: str = "",
        **headers: str,
    ) -> Answer:
        """One request of the owner of a token; writes get a key of their own unless one is named."""
        request = self.request(verb, path, body, token=token, key=key, **headers)
        return Answer(await self.caller.call(to, request, 60_000))

    def request(
        self, verb: str, path: str, body: Any = None, *, token: str = "operator", key: str = "", **headers: str
    ) -> Request:
        pairs = [(name.replace("_", "-").lower(), value) for name, value in headers.items()]
        if token:
            pairs.append(("authorization", bearer(token)))
        if verb != "GET":
            self.keys += 1
            pairs.append(("idempotency-key", key or f"key-{self.keys}"))
        raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        path, _, query = path.partition("?")
        return Request(verb, path, tuple(parse_qsl(query, keep_blank_values=True)), tuple(pairs), raw)

    async def watch(self, path: str, *, to: str = "p1", token: str = "operator") -> AsyncIterator[Any]:
        """The lines of a watch, decoded."""
        request = self.request("GET", path, token=token)
        source: Any = self.caller.stream(to, request, 60_000)
        async with aclosing(source):
            async for line in source:
                yield msgspec.json.decode(line)

    async def until(self, holds: Callable[[], bool], within_ms: int = 60_000) -> None:
        """Wait until something holds."""
        deadline = self.clock.boot() + within_ms
        while not holds():
            assert self.clock.boot() < deadline, "it never came to hold"
            await self.clock.sleep(10)

    async def end(self) -> None:
        for part in self.parts:
            await part.stop()
        await self.caller.close()


def in_world(story: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Run a story on virtual time, and end every server that it started."""

    async def main() -> T:
        world = World()
        try:
            return await story(world)
        finally:
            await world.end()

    return run_virtual(main())


def a_tenant(name: str = "shop", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"priorityClasses": ["standard"], **spec},
    }


def a_class(name: str = "standard", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "PriorityClass", "metadata": {"name": name}, "spec": {"priority": 10, **spec}}


def a_workload(name: str = "web", tenant: str = "shop", **spec: Any) -> dict[str, Any]:
    template = {"command": ["serve"], "need": {"cpu": "500m", "memory": "1Gi"}}
    return {
        "apiVersion": V1,
        "kind": "Workload",
        "metadata": {"name": name, "tenant": tenant},
        "spec": {"template": template, "replicas": 2, "priorityClass": "standard", **spec},
    }


async def a_shop(world: World) -> Part:
    """A platform with one tenant that may run standard work."""
    part = await world.platform()
    for path, body in (("/v1/priorityclasses/standard", a_class()), ("/v1/tenants/shop", a_tenant())):
        answer = await world.ask("PUT", path, body)
        assert answer.status == 201, answer
    return part
