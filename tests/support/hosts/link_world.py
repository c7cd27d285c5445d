"""A platform and a region on virtual time, each on its own store, with a line between them that can be cut."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.servers import SERVERS, AdmitServer
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision, parse_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.link.platform.content import everything
from holdfast.host.link.platform.request import PositionProofs
from holdfast.host.link.platform.server import serve_shipments
from holdfast.host.link.region.link import Link
from holdfast.host.link.region.session import PlatformTarget
from holdfast.host.ports.store import Store
from holdfast.host.ports.transport import (
    NoAnswer,
    Pairs,
    Reply,
    Request,
    RequestHandler,
    StreamReply,
    Transport,
    Unreachable,
    first_value,
)
from holdfast.host.protocol.commands import (
    ENVELOPES,
    ENVELOPES_BATCH,
    JSON,
    MSGPACK,
    RENEWALS,
    CommandOutcome,
    CommandReply,
    Renew,
    Renewed,
)
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.protocol.request_signatures import SigningToken, public_key_of
from holdfast.host.protocol.shipments import SHIPMENTS
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import until
from tests.support.hosts.local_network import LocalNetwork, LocalTransport
from tests.support.ledgers.platform import a_principal, a_region

S = TypeVar("S", bound=LedgerState)
T = TypeVar("T")

ROOT = "person/root"
WHO = "authorization"


def full_list(state: PlatformState, region: str) -> tuple[c.ShippedItem, ...]:
    """All that a region has a copy of."""
    return tuple(put for put in everything(state, region) if put is not None)


class CuttableTransport:
    """A region's way to the platform: it can be cut, and it can lose answers or repeat and drop what is streamed."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_cut = False
        self.loses_answers = False
        #: What was asked for, in order.
        self.asked: list[Request] = []
        #: What becomes of each message of a stream.
        self.fate: Callable[[bytes], list[bytes]] = lambda message: [message]

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        self.asked.append(request)
        if self.is_cut:
            raise Unreachable("the line is cut")
        reply = await self._inner.call(peer, request, timeout_ms)
        self._must_be_whole()
        if self.loses_answers:
            raise NoAnswer("the answer was lost")
        return reply

    async def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        self.asked.append(request)
        if self.is_cut:
            raise Unreachable("the line is cut")
        messages = self._inner.stream(peer, request, idle_ms)
        try:
            async for message in messages:
                self._must_be_whole()
                for one in self.fate(message):
                    yield one
        finally:
            await messages.aclose()  # type: ignore[attr-defined]

    def serve(self, serving: RequestHandler) -> None:
        self._inner.serve(serving)

    def _must_be_whole(self) -> None:
        if self.is_cut:
            raise NoAnswer("the line was cut")

    def streams(self) -> list[Request]:
        """The streams that were asked for."""
        return [request for request in self.asked if request.path == SHIPMENTS]


class Server(Generic[S]):
    """A server of one ledger, with its name in the network."""

    def __init__(
        self, definition: LedgerDefinition[S], store: Store, world: LinkWorld, name: str, start: StartLog, **fields: Any
    ) -> None:
        self.name = name
        self.world = world
        self.clock: VirtualClock = fields.pop("clock", world.clock)
        self.ledger: Ledger[S] = Ledger(definition, store, self.clock, ServerIdentity(name, start), **fields)
        self.transport: LocalTransport | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> S:
        return self.ledger.durable.state

    def start(self) -> None:
        self._task = asyncio.create_task(self.ledger.run(), name=self.name)

    async def leads(self) -> None:
        await until(lambda: self.ledger.role is Role.LEADING, self.clock)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        if self.transport is not None:
            await self.transport.close()

    async def failure(self) -> BaseException | None:
        """How it ends by itself, soon."""
        assert self._task is not None
        await until(self._task.done, self.clock)
        return self._task.exception()

    async def accept(self, actor: str, command: Any) -> int:
        """What must be accepted; its revision."""
        self.world.keys += 1
        key = f"k{self.world.keys}" if actor.partition("/")[0] in ("person", "tenant") else ""
        answer = await self.ledger.submit(Envelope(actor, command, self.clock.wall(), key=key))
        assert isinstance(answer, Committed), answer
        return answer.revision


class PlatformServer(Server[PlatformState]):
    """One that answers what a link asks, and nothing else: whoever asks is who the headers say."""

    def __init__(self, store: Store, world: LinkWorld, name: str, log_id: str, **fields: Any) -> None:
        super().__init__(PLATFORM, store, world, name, StartLog(log_id, "platform", ROOT), **fields)
        self.transport = world.network.join(name)
        self.transport.serve(self._serve)
        #: With what it signs where it brings regions, once it is `announced`.
        self.own = SigningToken(f"server-{name}", f"the secret of {name}")
        self.evidence = PositionProofs(lambda: self.own)

    async def announced(self) -> None:
        """Have the key of this server in the log."""
        ends = self.clock.wall() + SERVER_TOKEN_LIFE
        token = ServerToken(self.own.name, f"platform/{self.name}", public_key_of(self.own.secret), ends)
        await self.accept(SERVERS, AdmitServer(token))

    async def put(self, thing: Any) -> int:
        return await self.accept(ROOT, p.Put(thing))

    async def _serve(self, request: Request) -> Reply | StreamReply:
        actor = first_value(request.headers, WHO)
        if request.path == ENVELOPES:
            return Reply(200, (MSGPACK,), encode(await self._submit(request.body)))
        if request.path == ENVELOPES_BATCH:
            bodies = msgspec.msgpack.decode(request.body, type=list[msgspec.Raw])
            answers = await asyncio.gather(*[self._submit(bytes(one)) for one in bodies])
            return Reply(200, (MSGPACK,), encode(answers))
        if request.path == RENEWALS:
            return self._renew(actor, request.body)
        assert request.path == SHIPMENTS, request
        return await serve_shipments(self.ledger, request, actor.removeprefix("region/"), self.evidence)

    async def _submit(self, body: bytes) -> CommandReply:
        envelope = PLATFORM.envelopes.read(body)
        if isinstance(envelope, Refused):
            return CommandReply(CommandOutcome.REFUSED, envelope.code.value, envelope.message)
        try:
            answer = await self.ledger.submit(envelope)
        except Unavailable as error:
            return CommandReply(CommandOutcome.UNAVAILABLE, error.code, str(error))
        at = self.ledger.leader.term.now() if self.ledger.leader is not None else 0
        if isinstance(answer, Refused):
            return CommandReply(
                CommandOutcome.REFUSED, answer.code.value, answer.message, at=at, facts=dict(answer.facts)
            )
        session = self.state.session_of.get(envelope.actor) or 0
        return CommandReply(CommandOutcome.LANDED, "", "", answer.revision, session, answer.answer, at)

    def _renew(self, actor: str, body: bytes) -> Reply:
        session = parse_revision(msgspec.json.decode(body, type=Renew).session)
        try:
            renewal = self.ledger.renew(actor, session or 0)
        except Unavailable as error:
            return problem_reply(503, error.code, str(error))
        if isinstance(renewal, Refused):
            return problem_reply(409, renewal.code.value, renewal.message)
        assert self.ledger.leader is not None
        renewed = Renewed(renewal.worth, renewal.term, renewal.log_id, self.ledger.leader.term.now())
        return Reply(200, (JSON,), msgspec.json.encode(renewed))


class RegionServer(Server[RegionState]):
    """One with a link to the platform."""

    def __init__(self, store: Store, world: LinkWorld, name: str, servers: tuple[str, ...], **fields: Any) -> None:
        super().__init__(REGION, store, world, name, StartLog("log-eu", "region/eu", ROOT), **fields)
        self.transport = world.network.join(name)
        self.line = CuttableTransport(self.transport)

        def credentials() -> Pairs:
            return ((WHO, "region/eu"),)

        self.link = Link(
            self.ledger, self.line, self.clock, PlatformTarget(servers, "eu", f"local:{name}", credentials)
        )
        self.ledger.leader_tasks["link"] = self.link.run


class LinkWorld:
    """Servers on one virtual loop: `p1`, `p2`, ... of the platform, `r1`, `r2`, ... of region eu."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.network = LocalNetwork(self.clock)
        self.keys = 0
        self.platform_store = MemoryStore("platform")
        self.region_store = MemoryStore("region")
        self.servers: list[Server[Any]] = []

    def platform(
        self, name: str = "p1", log_id: str = "log-platform", store: Store | None = None, **fields: Any
    ) -> PlatformServer:
        server = PlatformServer(store or self.platform_store, self, name, log_id, **fields)
        self._start(server)
        return server

    def region(
        self, name: str = "r1", servers: tuple[str, ...] = ("p1",), store: Store | None = None, **fields: Any
    ) -> RegionServer:
        server = RegionServer(store or self.region_store, self, name, servers, **fields)
        self._start(server)
        return server

    def _start(self, server: Server[Any]) -> None:
        self.servers.append(server)
        server.start()

    async def a_platform(self, name: str = "p1", **fields: Any) -> PlatformServer:
        """A platform that leads, knows region eu, and lets regions speak."""
        server = self.platform(name, **fields)
        await server.leads()
        await server.put(a_principal("region/*"))
        await server.put(a_region("eu", "EU"))
        return server

    async def both(self) -> tuple[PlatformServer, RegionServer]:
        """A platform and its region, which has caught up."""
        platform, region = await self.a_platform(), self.region()
        await region.leads()
        await self.same(platform, region)
        return platform, region

    async def same(self, platform: PlatformServer, region: RegionServer, within_ms: int = 30_000) -> None:
        """The region has come to have what the platform has for it."""
        await until(lambda: not differences(platform.state, region.state), self.clock, within_ms)

    async def end(self) -> None:
        for server in reversed(self.servers):
            await server.stop()


def linked(story: Callable[[LinkWorld], Coroutine[Any, Any, T]]) -> T:
    """Run a story on virtual time, and end every server that it started."""

    async def told() -> T:
        world = LinkWorld()
        try:
            return await story(world)
        finally:
            await world.end()

    thresholds = gc.get_threshold()
    try:
        return run_virtual(told())
    finally:  # what a leader asks of the collector is about its process, and this one goes on
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def differences(platform: PlatformState, region: RegionState, name: str = "eu") -> list[str]:
    """In which kinds the region's copy is not what the platform has for it, told without the link's own code."""
    place = region.region
    theirs, ours = _theirs(platform, name), _ours(region)
    found = [kind for kind in theirs if theirs[kind] != ours[kind]]
    named_here = {share.template for one in ours["assignments"].values() for share in one.shares}
    known = {digest for digest, _ in region.templates.items()}
    leaving = {digest for digest, _ in region.leaving_templates.items()}
    if not named_here <= known or not known - leaving <= {digest for digest, _ in platform.templates.items()}:
        found.append("templates")
    if platform.info.log_id != place.platform_log or place.cursor > pack_revision(platform.info.seq, INDEX_MAX):
        found.append("cursor")
    return found


def _theirs(state: PlatformState, name: str) -> dict[str, Any]:
    grants = [one for one in state.grants.values() if one.region == name]
    return {
        "place": (name, state.regions[name].spec.jurisdiction),
        "classes": dict(state.priority_classes.items()),
        "principals": {key: one for key, one in state.principals.items() if one.meta.created_by != "ledger"},
        "tokens": dict(state.tokens.items()),
        "servers": dict(state.servers.items()),
        "pools": {key: one.spec.cost for key, one in state.node_pools.items() if one.spec.region == name},
        "policies": dict(state.policies.items()),
        "validities": {one.scope: one.revision for one in state.validities.values() if one.region == name},
        "overrides": {uid: one for uid, one in state.overrides.items() if one.region in ("", name)},
        "grants": {one.account: (one.version, one.target, one.ends, one.protected) for one in grants},
        "assignments": {uid: one for uid, one in state.assignments.items() if one.region == name},
    }


def _ours(state: RegionState) -> dict[str, Any]:
    allowances = state.accepted_grants.values()
    return {
        "place": (state.region.name, state.region.jurisdiction),
        "classes": dict(state.priority_classes.items()),
        "principals": {key: one for key, one in state.principals.items() if one.meta.created_by != "ledger"},
        "tokens": dict(state.tokens.items()),
        "servers": dict(state.platform_servers.items()),
        "pools": dict(state.pool_costs.items()),
        "policies": dict(state.policies.items()),
        "validities": dict(state.validities.items()),
        "overrides": dict(state.platform_overrides.items()),
        "grants": {one.account: (one.version, one.target, one.ends, one.protected) for one in allowances},
        "assignments": dict(state.assignments.items()),
    }
