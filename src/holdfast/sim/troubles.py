"""What goes wrong in a run: each kind of fault is done, lasts, and is undone.

Faults overlap as they come. One that would strike a machine that is down already lets it be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from random import Random

from holdfast.host.ledger import Role
from holdfast.sim import service
from holdfast.sim.plan import STEP_MS, Fault
from holdfast.sim.scene import PLATFORM_NAME, Scene

#: Something that goes wrong from its beginning to its end.
Lasting = AbstractAsyncContextManager[None]

SLOW = service.Weather(latency_ms=(100, 900), lose_answer=0.02, land_late=0.05)


class Troubles:
    """The faults of one run. `happened` counts those that really struck."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.happened: dict[str, int] = {}
        self._world = scene.world
        self._down: dict[str, None] = {}

    async def run(self, faults: tuple[Fault, ...], after: Callable[[], None]) -> None:
        """Let them come at their times; `after` is called when one has struck and when it is over.

        Ended early, faults are undone in the order in which they were planned: a task group would choose one by itself.
        """
        tasks = [asyncio.create_task(self._one(fault, after)) for fault in faults]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, fault: Fault, after: Callable[[], None]) -> None:
        await asyncio.sleep(max(0, fault.at - self._world.now()) / 1000)
        async with KINDS[fault.what](self, fault.where, Random(fault.draw)):
            self.happened[fault.what] = self.happened.get(fault.what, 0) + 1
            after()
            await asyncio.sleep(fault.lasts / 1000)
        after()

    # Machines

    @asynccontextmanager
    async def _crashed(self, names: list[str], *, power: bool = False) -> AsyncIterator[None]:
        mine = [name for name in names if name not in self._down]
        for name in mine:
            self._down[name] = None
            if power and name in self.scene.metals:
                self.scene.metals[name].lose_power()
            await self._world.crash(name)
        try:
            yield
        finally:
            for name in mine:
                del self._down[name]
                self._world.restart(name)

    def crash(self, where: str, _chance: Random) -> Lasting:
        """A program is killed: what a node runs lives on without its agent."""
        return self._crashed([where])

    def lose_node(self, where: str, _chance: Random) -> Lasting:
        """A node loses its power."""
        return self._crashed([where], power=True)

    def lose_zone(self, where: str, _chance: Random) -> Lasting:
        """All nodes of a zone lose their power."""
        region, _, zone = where.partition("/")
        found = [name for name, metal in self.scene.metals.items() if (metal.region, metal.zone) == (region, zone)]
        return self._crashed(found, power=True)

    def lose_region(self, where: str, _chance: Random) -> Lasting:
        """Everything of a region loses its power."""
        nodes = [name for name, metal in self.scene.metals.items() if metal.region == where]
        return self._crashed([*self.scene.cast.servers[where], *self.scene.cast.schedulers[where], *nodes], power=True)

    def pause(self, where: str, _chance: Random) -> Lasting:
        """A machine stands still, and goes on."""
        if where in self._down:
            return nullcontext()
        return _while(lambda: self._world.pause(where), lambda: self._world.resume(where))

    def step_clock(self, where: str, chance: Random) -> Lasting:
        """A wall clock is set wrong, and set right again."""
        by = chance.randint(-STEP_MS, STEP_MS)
        return _while(lambda: self._world.step_clock(where, by), lambda: self._world.step_clock(where, -by))

    # Ways between them

    def partition(self, where: str, chance: Random) -> Lasting:
        """Two machines do not hear each other, or one not the other."""
        a, _, b = where.partition(" ")
        one_way = chance.random() < 0.5
        return _while(lambda: self._world.partition(a, b, one_way=one_way), lambda: self._world.join(a, b))

    def isolate(self, where: str, _chance: Random) -> Lasting:
        """A machine hears nobody, but reaches its store."""
        return _while(lambda: self._world.isolate(where), lambda: self._world.join(where))

    def clog(self, where: str, chance: Random) -> Lasting:
        """What passes between two machines takes seconds."""
        a, _, b = where.partition(" ")
        by = chance.randrange(500, 5_000)
        return _while(lambda: self._world.clog(a, b, by), lambda: self._world.join(a, b))

    @asynccontextmanager
    async def swizzle(self, where: str, chance: Random) -> AsyncIterator[None]:
        """Machines of a ledger fall silent one after the other, and come back in another order."""
        cast = self.scene.cast
        names = [*cast.servers[where], *cast.schedulers.get(where, []), *cast.nodes.get(where, [])]
        struck = chance.sample(names, chance.randint(2, len(names)))
        for name in struck:
            self._world.isolate(name)
            await asyncio.sleep(chance.randrange(100, 1_500) / 1000)
        try:
            yield
        finally:
            for name in chance.sample(struck, len(struck)):
                self._world.join(name)
                await asyncio.sleep(chance.randrange(100, 1_500) / 1000)

    def cut_link(self, where: str, _chance: Random) -> Lasting:
        """A region and the platform do not hear each other."""
        servers = self.scene.cast.servers
        pairs = [(a, b) for a in servers[where] for b in servers[PLATFORM_NAME]]

        def cut() -> None:
            for a, b in pairs:
                self._world.partition(a, b)

        def mend() -> None:
            for a, b in pairs:
                self._world.join(a, b)

        return _while(cut, mend)

    # Stores

    def cut_store(self, where: str, _chance: Random) -> Lasting:
        """A server or a scheduler does not reach its store."""
        ledger = self.scene.cast.ledger_of(where)
        return _while(lambda: self._world.cut_store(where, ledger), lambda: self._world.mend_store(where, ledger))

    def hang_store(self, where: str, _chance: Random) -> Lasting:
        """What it asks of its store is not answered, not even with an error."""
        ledger = self.scene.cast.ledger_of(where)
        return _while(lambda: self._world.hang_store(where, ledger), lambda: self._world.mend_store(where, ledger))

    def depose(self, where: str, chance: Random) -> Lasting:
        """Whoever leads does not reach the store, and everybody else reaches whoever leads."""
        servers, found = self.scene.cast.servers[where], self.scene.servers.ledgers
        leading = [name for name in servers if name in found and found[name].role is Role.LEADING]
        strike = self.hang_store if chance.random() < 0.5 else self.cut_store
        return strike((leading or servers)[0], chance)

    def slow_store(self, where: str, _chance: Random) -> Lasting:
        """A store takes its time with everything."""
        store = self._world.store(where)
        return _while(lambda: store.set_weather(SLOW), lambda: store.set_weather(self.scene.store_weather))

    def power_cut(self, where: str, _chance: Random) -> Lasting:
        """A store starts anew: what was not synced is lost or torn."""
        return _while(lambda: self._world.power_cut(where), lambda: None)

    def fill(self, where: str, _chance: Random) -> Lasting:
        """A store has no room left."""
        store = self._world.store(where)
        return _while(store.fill, store.empty)

    def deafen(self, where: str, chance: Random) -> Lasting:
        """Whoever watches a ledger is told of some changes late, twice, or not at all."""
        ears = [self.scene.servers.ears[name] for name in self.scene.cast.servers[where]]

        def hear(badly: bool) -> None:
            for one in ears:
                one.become(Random(chance.getrandbits(32)) if badly else None)

        return _while(lambda: hear(badly=True), lambda: hear(badly=False))


@asynccontextmanager
async def _while(do: Callable[[], None], undo: Callable[[], None]) -> AsyncIterator[None]:
    do()
    try:
        yield
    finally:
        undo()


KINDS: dict[str, Callable[[Troubles, str, Random], Lasting]] = {
    "crash": Troubles.crash,
    "lose-node": Troubles.lose_node,
    "lose-zone": Troubles.lose_zone,
    "lose-region": Troubles.lose_region,
    "pause": Troubles.pause,
    "step-clock": Troubles.step_clock,
    "partition": Troubles.partition,
    "isolate": Troubles.isolate,
    "clog": Troubles.clog,
    "swizzle": Troubles.swizzle,
    "cut-link": Troubles.cut_link,
    "cut-store": Troubles.cut_store,
    "stale-view": Troubles.cut_store,
    "hang-store": Troubles.hang_store,
    "depose": Troubles.depose,
    "slow-store": Troubles.slow_store,
    "power-cut": Troubles.power_cut,
    "fill": Troubles.fill,
    "deafen": Troubles.deafen,
}
