"""What goes wrong in a run: each kind of fault is done, lasts, and is undone.

Faults overlap as they come, but none mends what another one broke: what a fault takes hold of is its own until it ends.

Size: a table of small functions, one for each kind of fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple

from holdfast.host.ledger.ledger import Role
from holdfast.host.protocol.log_stream import LOG
from holdfast.host.streams.mirror import IDLE_MS
from holdfast.replay.recording import PLATFORM_NAME
from holdfast.replay.run_plan import Fault
from holdfast.sim.cluster.cluster import Scene
from holdfast.sim.plan import LEAP_MS, STEP_MS
from holdfast.sim.world import store_service

SLOW = store_service.Weather(latency_ms=(100, 900), lose_answer=0.02, land_late=0.05)

#: Longer than any run: what is sent then has not come when it ends.
NEVER_MS = 86_400_000

#: Whatever was kept from anybody is found by a resync within this.
MADE_UP_MS = 70_000

#: How long a fault waits for another one to be over, before it lets it be.
WAITS, WAIT_MS = 20, 500

#: Something that a fault takes hold of: a machine, its ways to others, its way to its store, a store's weather.
Hold = tuple[str, str]


class Strike(NamedTuple):
    """How a fault begins and ends, and what it takes hold of meanwhile: nobody else touches that."""

    holds: list[Hold]
    do: Callable[[], Awaitable[None] | None]
    undo: Callable[[], Awaitable[None] | None]


class Troubles:
    """The faults of one run. `happened` counts those that really struck, `struck` is when each of them did; whoever is
    to know is told just before."""

    def __init__(self, scene: Scene, on_strike: Callable[[Fault], None] = lambda _fault: None) -> None:
        self.scene = scene
        self.happened: dict[str, int] = {}
        self.struck: dict[Fault, int] = {}
        self._on_strike = on_strike
        self._world = scene.world
        self._held: dict[Hold, None] = {}

    def is_deaf(self, ledger: str) -> bool:
        """Whether changes are kept from whoever watches a ledger, or were a while ago and may not be made up for."""
        now = self._world.now()
        deaf = [(fault, at) for fault, at in self.struck.items() if (fault.what, fault.where) == ("deafen", ledger)]
        return any(now < at + fault.lasts + MADE_UP_MS for fault, at in deaf)

    async def run(self, faults: tuple[Fault, ...], after: Callable[[], None]) -> None:
        """Let them come at their times; `after` is called when one has struck and when it is over.

        Ended early, faults are left as they are, for whoever heals the world. A fault that cannot be done is raised.
        """
        tasks = [asyncio.create_task(self._one(fault, after)) for fault in faults]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def _one(self, fault: Fault, after: Callable[[], None]) -> None:
        await asyncio.sleep(max(0, fault.at - self._world.now()) / 1000)
        strike = await self._free(fault)
        if strike is None:
            return
        self._held |= dict.fromkeys(strike.holds)
        self._on_strike(fault)
        self.happened[fault.what] = self.happened.get(fault.what, 0) + 1
        self.struck[fault] = self._world.now()
        await _done(strike.do)
        after()
        await asyncio.sleep(fault.lasts / 1000)
        await _done(strike.undo)
        for hold in strike.holds:
            self._held.pop(hold, None)
        after()

    async def _free(self, fault: Fault) -> Strike | None:
        """The strike, once nothing that it needs is in another one's hold; None when that takes too long."""
        for _ in range(WAITS):
            strike = KINDS[fault.what](self, fault.where, Random(fault.draw))
            if not any(hold in self._held for hold in strike.holds):
                return strike
            await asyncio.sleep(WAIT_MS / 1000)
        return None

    # Machines

    def _crashed(self, names: list[str], *, power: bool = False) -> Strike:
        async def crash() -> None:
            for name in names:
                if power and name in self.scene.metals:
                    self.scene.metals[name].lose_power()
                await self._world.crash(name)

        def restart() -> None:
            for name in names:
                self._world.restart(name)

        return Strike([("machine", name) for name in names], crash, restart)

    def crash(self, where: str, _chance: Random) -> Strike:
        """A program is killed: what a node runs lives on without its agent."""
        return self._crashed([where])

    def lose_node(self, where: str, _chance: Random) -> Strike:
        """A node loses its power."""
        return self._crashed([where], power=True)

    def lose_zone(self, where: str, _chance: Random) -> Strike:
        """All nodes of a zone lose their power."""
        region, _, zone = where.partition("/")
        found = [name for name, metal in self.scene.metals.items() if (metal.region, metal.zone) == (region, zone)]
        return self._crashed(found, power=True)

    def lose_region(self, where: str, _chance: Random) -> Strike:
        """Everything of a region loses its power."""
        cast = self.scene.cast
        return self._crashed([*cast.servers[where], *cast.schedulers[where], *cast.nodes[where]], power=True)

    def pause(self, where: str, _chance: Random) -> Strike:
        """A machine stands still, and goes on."""
        holds = [("machine", where), ("store of", where)]
        return Strike(holds, lambda: self._world.pause(where), lambda: self._world.resume(where))

    def replace_node(self, where: str, _chance: Random) -> Strike:
        """Another machine takes a node's name, with an agent of its own. Of the old one nobody hears again: what runs
        there lives on until its guards end it."""

        async def take_over() -> None:
            await self._world.crash(where)
            self.scene.metals[where] = self.scene.metals[where].replaced()
            self._world.restart(where)

        return Strike([("machine", where)], take_over, lambda: None)

    def leap(self, where: str, chance: Random) -> Strike:
        """Whoever leads is killed, and the clocks of those who may lead next are ahead: ledger time leaps."""
        servers, found = self.scene.cast.servers[where], self.scene.servers.ledgers
        leading = [name for name in servers if name in found and found[name].role is Role.LEADING] or servers[:1]
        others, by = [name for name in servers if name not in leading], chance.randint(*LEAP_MS)
        crashed = self._crashed(leading)

        def step(by_ms: int) -> None:
            for name in others:
                self._world.step_clock(name, by_ms)

        async def do() -> None:
            step(by)
            await _done(crashed.do)

        async def undo() -> None:
            step(-by)
            await _done(crashed.undo)

        return Strike([*crashed.holds, *(("clock", name) for name in others)], do, undo)

    def step_clock(self, where: str, chance: Random) -> Strike:
        """A wall clock is set wrong, and set right again."""
        by = chance.randint(-STEP_MS, STEP_MS)
        step = self._world.step_clock
        return Strike([("clock", where)], lambda: step(where, by), lambda: step(where, -by))

    # Ways between them

    def partition(self, where: str, chance: Random) -> Strike:
        """Two machines do not hear each other, or one not the other."""
        a, _, b = where.partition(" ")
        one_way = chance.random() < 0.5
        cut = self._world.partition
        return Strike([("ways", a), ("ways", b)], lambda: cut(a, b, one_way=one_way), lambda: self._world.join(a, b))

    def isolate(self, where: str, _chance: Random) -> Strike:
        """A machine hears nobody, but reaches its store."""
        return Strike([("ways", where)], lambda: self._world.isolate(where), lambda: self._world.join(where))

    def clog(self, where: str, chance: Random) -> Strike:
        """What passes between two machines takes seconds."""
        a, _, b = where.partition(" ")
        by = chance.randrange(500, 5_000)
        return Strike([("ways", a), ("ways", b)], lambda: self._world.clog(a, b, by), lambda: self._world.join(a, b))

    def swizzle(self, where: str, chance: Random) -> Strike:
        """Machines of a ledger fall silent one after the other, and come back in another order."""
        cast = self.scene.cast
        names = [*cast.servers[where], *cast.schedulers.get(where, []), *cast.nodes.get(where, [])]
        struck = chance.sample(names, chance.randint(2, len(names)))

        async def one_by_one(names: list[str], verb: Callable[[str], None]) -> None:
            for name in names:
                verb(name)
                await asyncio.sleep(chance.randrange(100, 1_500) / 1000)

        again = chance.sample(struck, len(struck))
        return Strike(
            [("ways", name) for name in struck],
            lambda: one_by_one(struck, self._world.isolate),
            lambda: one_by_one(again, self._world.join),
        )

    def cut_link(self, where: str, _chance: Random) -> Strike:
        """A region and the platform do not hear each other."""
        servers = self.scene.cast.servers
        pairs = [(a, b) for a in servers[where] for b in servers[PLATFORM_NAME]]

        def each(verb: Callable[[str, str], None]) -> None:
            for a, b in pairs:
                verb(a, b)

        holds = [("ways", name) for name in servers[where]]
        return Strike(holds, lambda: each(self._world.partition), lambda: each(self._world.join))

    def stale_view(self, where: str, chance: Random) -> Strike:
        """A scheduler hears of its region's log late, or so late that its stream breaks each time; all else is heard in
        time."""
        late = chance.randrange(500, IDLE_MS) if chance.random() < 0.5 else NEVER_MS
        return Strike([("view", where)], lambda: self._world.age(where, LOG, late), lambda: self._world.renew(where))

    # Stores

    def cut_store(self, where: str, _chance: Random) -> Strike:
        """A server does not reach its store."""
        return self._unstored(where, self._world.cut_store)

    def hang_store(self, where: str, _chance: Random) -> Strike:
        """What it asks of its store is not answered, not even with an error."""
        return self._unstored(where, self._world.hang_store)

    def _unstored(self, where: str, verb: Callable[[str, str], None]) -> Strike:
        ledger = self.scene.cast.ledger_of(where)
        return Strike([("store of", where)], lambda: verb(where, ledger), lambda: self._world.mend_store(where, ledger))

    def depose(self, where: str, chance: Random) -> Strike:
        """Whoever leads does not reach the store, and everybody else reaches whoever leads."""
        servers, found = self.scene.cast.servers[where], self.scene.servers.ledgers
        leading = [name for name in servers if name in found and found[name].role is Role.LEADING]
        strike = self.hang_store if chance.random() < 0.5 else self.cut_store
        return strike((leading or servers)[0], chance)

    def slow_store(self, where: str, _chance: Random) -> Strike:
        """A store takes its time with everything."""
        weather = self._world.store(where).set_weather
        return Strike([("weather", where)], lambda: weather(SLOW), lambda: weather(self.scene.store_weather))

    def power_cut(self, where: str, _chance: Random) -> Strike:
        """A store starts anew: what was not synced is lost or torn."""
        return Strike([], lambda: self._world.power_cut(where), lambda: None)

    def fill(self, where: str, _chance: Random) -> Strike:
        """A store has no room left."""
        store = self._world.store(where)
        return Strike([("room", where)], store.fill, store.empty)

    def deafen(self, where: str, chance: Random) -> Strike:
        """Whoever watches a ledger is told of some changes late, twice, or not at all."""
        cast = self.scene.cast
        names = [*cast.servers[where], *cast.schedulers.get(where, [])]
        ears = [self.scene.servers.ears[name] for name in names if name in self.scene.servers.ears]

        def hear(badly: bool) -> None:
            for one in ears:
                one.become(Random(chance.getrandbits(32)) if badly else None)

        return Strike([("ears", where)], lambda: hear(badly=True), lambda: hear(badly=False))


async def _done(act: Callable[[], Awaitable[None] | None]) -> None:
    waiting = act()
    if waiting is not None:
        await waiting


KINDS: dict[str, Callable[[Troubles, str, Random], Strike]] = {
    "crash": Troubles.crash,
    "lose-node": Troubles.lose_node,
    "replace-node": Troubles.replace_node,
    "leap": Troubles.leap,
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
    "stale-view": Troubles.stale_view,
    "hang-store": Troubles.hang_store,
    "depose": Troubles.depose,
    "slow-store": Troubles.slow_store,
    "power-cut": Troubles.power_cut,
    "fill": Troubles.fill,
    "deafen": Troubles.deafen,
}
