"""A small world for host tests: servers on one store, on virtual time, and people and machines who send commands."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.values.settings import DEFAULTS, Settings
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.store import Head, Store, WriteOk
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.ledgers.region import CLASSES, LINK, ROOT, a_principal

T = TypeVar("T")


def start_log(settings: Settings = DEFAULTS) -> StartLog:
    return StartLog("log-eu", "region/eu", ROOT, settings)


class Server:
    """A server with one ledger: started, stopped, killed."""

    def __init__(self, store: Store, clock: VirtualClock, name: str, **fields: Any) -> None:
        start = fields.pop("start", start_log())
        self.name = name
        self.clock = clock
        definition = REGION.of_level(fields.pop("level", LEVEL))
        self.ledger: Ledger[RegionState] = Ledger(definition, store, clock, ServerIdentity(name, start), **fields)
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> RegionState:
        return self.ledger.durable.state

    def start(self) -> Server:
        self._task = asyncio.create_task(self.ledger.run(), name=self.name)
        return self

    async def leads(self, within_ms: int = 60_000) -> Server:
        await until(lambda: self.ledger.role is Role.LEADING, self.clock, within_ms)
        return self

    async def stop(self) -> None:
        """End it in good order."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def failure(self) -> BaseException | None:
        """How it ended by itself."""
        assert self._task is not None
        await asyncio.wait({self._task})
        return self._task.exception()

    async def send(self, actor: str, command: Any, **fields: Any) -> Committed | Refused | Repeated:
        fields.setdefault("sent", self.clock.wall())
        return await self.ledger.submit(Envelope(actor, command, **fields))

    async def accept(self, actor: str, command: Any, **fields: Any) -> Committed:
        answer = await self.send(actor, command, **fields)
        assert isinstance(answer, Committed), answer
        return answer

    async def override(self, key: str, **fields: Any) -> Committed | Refused | Repeated:
        """A small command of a person: what most tests of hosts send."""
        return await self.send(ROOT, an_override(self.clock.wall(), key), key=key, **fields)

    async def prepare(self) -> Server:
        """A region to which agents and schedulers may speak."""
        principals = [c.ShippedPrincipal(a_principal(name)) for name in ("agent/*", "scheduler/*")]
        classes = [c.ShippedPriorityClass(cls) for cls in CLASSES]
        await self.accept(LINK, c.Ship("log-platform", 1, 0, 1, (c.ShippedRegion("eu", "eu"), *classes, *principals)))
        return self

    async def open_session(self, actor: str) -> int:
        await self.accept(actor, OpenSession())
        session = self.state.session_of.get(actor)
        assert session is not None
        return session


async def as_it_was(store: Store, seq: int) -> MemoryStore:
    """A copy of a store from when it was at that batch: what a restored backup is."""
    copy, head = MemoryStore(store.name), Head()
    for stored in (await store.read(1))[:seq]:
        outcome = await copy.append(head, stored)
        assert isinstance(outcome, WriteOk)
        head = outcome.head
    assert head.seq == seq
    return copy


def an_override(now: int, reason: str) -> OpenOverride:
    return OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "eu", "", reason, now + 3_600_000)


class World:
    """Servers on stores, on one virtual loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.servers: list[Server] = []

    def clock(self, **fields: Any) -> VirtualClock:
        return VirtualClock(self.loop, **fields)

    def server(self, store: Store, name: str = "s1", *, clock: VirtualClock | None = None, **fields: Any) -> Server:
        server = Server(store, clock or self.clock(), name, **fields)
        self.servers.append(server)
        return server

    async def end(self) -> None:
        for server in self.servers:
            await server.stop()


def in_world(story: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Run a story on virtual time, and end every server that it started."""

    async def told() -> T:
        world = World()
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


async def until(true: Callable[[], object], clock: VirtualClock, within_ms: int = 60_000) -> None:
    """Wait until something is true; fail when that takes longer."""
    deadline = clock.boot() + within_ms
    while not true():
        assert clock.boot() < deadline, f"not within {within_ms} ms"
        await clock.sleep(max(10, within_ms // 1_000))


async def batches_in(store: Store) -> list[Batch[Any]]:
    """Every batch that is in the log, decoded and with its chain verified."""
    head = await store.head()
    found: list[Batch[Any]] = []
    previous = b""
    while len(found) < head.seq:
        for stored in await store.read(len(found) + 1):
            found.append(REGION.batches.read(stored.raw, previous, stored.digest))
            previous = stored.digest
    assert previous == head.digest
    return found


async def keys_in(store: Store) -> list[int]:
    """The idempotency keys of every record in the log, in order."""
    return [record.key for batch in await batches_in(store) for record in batch.records if record.key]
