"""Fault injection of a run: each kind of fault starts, lasts and ends.

Faults may overlap, but a fault reserves its targets until it ends, so that no fault repairs what another one broke.

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
from holdfast.replay.recording import PLATFORM_NAME, PlannedFault
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.plan import LEAP_MS, STEP_MS
from holdfast.sim.world import store_service

SLOW = store_service.StoreConditions(latency_ms=(100, 900), lose_answer=0.02, land_late=0.05)

#: Longer than any run: messages with this delay never arrive.
NEVER_MS = 86_400_000

#: A resync finds every dropped change within this time.
MADE_UP_MS = 70_000

#: Attempts of a fault to get its targets, and the interval; after that it is skipped.
WAITS, WAIT_MS = 20, 500

#: A target of a fault: a machine, its links, its path to its store, the conditions of a store.
FaultTarget = tuple[str, str]


class FaultAction(NamedTuple):
    """Start and end of a fault, and the targets that it reserves meanwhile."""

    holds: list[FaultTarget]
    do: Callable[[], Awaitable[None] | None]
    undo: Callable[[], Awaitable[None] | None]


class FaultInjector:
    """The faults of one run. `happened` counts those that started, `struck` has the start of each. `on_strike` is
    called just before a start."""

    def __init__(
        self, scene: SimulatedCluster, on_strike: Callable[[PlannedFault], None] = lambda _fault: None
    ) -> None:
        self.scene = scene
        self.happened: dict[str, int] = {}
        self.struck: dict[PlannedFault, int] = {}
        self._on_strike = on_strike
        self._world = scene.world
        self._held: dict[FaultTarget, None] = {}

    def is_deaf(self, ledger: str) -> bool:
        """Return whether watches of a ledger lose changes, or did so recently that no resync has repaired it yet."""
        now = self._world.now()
        deaf = [(fault, at) for fault, at in self.struck.items() if (fault.what, fault.where) == ("deafen", ledger)]
        return any(now < at + fault.lasts + MADE_UP_MS for fault, at in deaf)

    async def run(self, faults: tuple[PlannedFault, ...], after: Callable[[], None]) -> None:
        """Run the faults at their times; `after` is called when a fault has started and when it has ended.

        If it is cancelled, the faults stay as they are and the caller heals the world. An error in a fault is raised.
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

    async def _one(self, fault: PlannedFault, after: Callable[[], None]) -> None:
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

    async def _free(self, fault: PlannedFault) -> FaultAction | None:
        """Return the action once its targets are free; None if that takes too long."""
        for _ in range(WAITS):
            strike = KINDS[fault.what](self, fault.where, Random(fault.draw))
            if not any(hold in self._held for hold in strike.holds):
                return strike
            await asyncio.sleep(WAIT_MS / 1000)
        return None

    def _crashed(self, names: list[str], *, power: bool = False) -> FaultAction:
        async def crash() -> None:
            for name in names:
                if power and name in self.scene.metals:
                    self.scene.metals[name].lose_power()
                await self._world.crash(name)

        def restart() -> None:
            for name in names:
                self._world.restart(name)

        return FaultAction([("machine", name) for name in names], crash, restart)

    def crash(self, where: str, _chance: Random) -> FaultAction:
        """Kill a program. The processes of a node live on without its agent."""
        return self._crashed([where])

    def lose_node(self, where: str, _chance: Random) -> FaultAction:
        """Cut the power of a node."""
        return self._crashed([where], power=True)

    def lose_zone(self, where: str, _chance: Random) -> FaultAction:
        """Cut the power of all nodes of a zone."""
        region, _, zone = where.partition("/")
        found = [name for name, metal in self.scene.metals.items() if (metal.region, metal.zone) == (region, zone)]
        return self._crashed(found, power=True)

    def lose_region(self, where: str, _chance: Random) -> FaultAction:
        """Cut the power of all machines of a region."""
        cast = self.scene.cast
        return self._crashed([*cast.servers[where], *cast.schedulers[where], *cast.nodes[where]], power=True)

    def pause(self, where: str, _chance: Random) -> FaultAction:
        """Pause a machine, and resume it."""
        holds = [("machine", where), ("store of", where)]
        return FaultAction(holds, lambda: self._world.pause(where), lambda: self._world.resume(where))

    def replace_node(self, where: str, _chance: Random) -> FaultAction:
        """Replace a node by another machine of the same name, with its own agent. The old machine is silent; its
        processes live on until their guards end them."""

        async def take_over() -> None:
            await self._world.crash(where)
            self.scene.metals[where] = self.scene.metals[where].replaced()
            self._world.restart(where)

        return FaultAction([("machine", where)], take_over, lambda: None)

    def leap(self, where: str, chance: Random) -> FaultAction:
        """Kill the leader while the clocks of the other servers are ahead: ledger time leaps."""
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

        return FaultAction([*crashed.holds, *(("clock", name) for name in others)], do, undo)

    def step_clock(self, where: str, chance: Random) -> FaultAction:
        """Set a wall clock wrong, and back."""
        by = chance.randint(-STEP_MS, STEP_MS)
        step = self._world.step_clock
        return FaultAction([("clock", where)], lambda: step(where, by), lambda: step(where, -by))

    def partition(self, where: str, chance: Random) -> FaultAction:
        """Cut the link between two machines, or only one direction of it."""
        a, _, b = where.partition(" ")
        one_way = chance.random() < 0.5
        cut = self._world.partition
        return FaultAction(
            [("ways", a), ("ways", b)], lambda: cut(a, b, one_way=one_way), lambda: self._world.join(a, b)
        )

    def isolate(self, where: str, _chance: Random) -> FaultAction:
        """Cut all links of a machine; it still reaches its store."""
        return FaultAction([("ways", where)], lambda: self._world.isolate(where), lambda: self._world.join(where))

    def clog(self, where: str, chance: Random) -> FaultAction:
        """Delay packets between two machines by up to five seconds."""
        a, _, b = where.partition(" ")
        by = chance.randrange(500, 5_000)
        return FaultAction(
            [("ways", a), ("ways", b)], lambda: self._world.clog(a, b, by), lambda: self._world.join(a, b)
        )

    def swizzle(self, where: str, chance: Random) -> FaultAction:
        """Isolate machines of a ledger one after the other, and reconnect them in another order."""
        cast = self.scene.cast
        names = [*cast.servers[where], *cast.schedulers.get(where, []), *cast.nodes.get(where, [])]
        struck = chance.sample(names, chance.randint(2, len(names)))

        async def one_by_one(names: list[str], verb: Callable[[str], None]) -> None:
            for name in names:
                verb(name)
                await asyncio.sleep(chance.randrange(100, 1_500) / 1000)

        again = chance.sample(struck, len(struck))
        return FaultAction(
            [("ways", name) for name in struck],
            lambda: one_by_one(struck, self._world.isolate),
            lambda: one_by_one(again, self._world.join),
        )

    def cut_link(self, where: str, _chance: Random) -> FaultAction:
        """Cut all links between a region and the platform."""
        servers = self.scene.cast.servers
        pairs = [(a, b) for a in servers[where] for b in servers[PLATFORM_NAME]]

        def each(verb: Callable[[str, str], None]) -> None:
            for a, b in pairs:
                verb(a, b)

        holds = [("ways", name) for name in servers[where]]
        return FaultAction(holds, lambda: each(self._world.partition), lambda: each(self._world.join))

    def stale_view(self, where: str, chance: Random) -> FaultAction:
        """Delay a region's log stream to a scheduler, so long in some cases that the stream breaks. Other messages are
        on time."""
        late = chance.randrange(500, IDLE_MS) if chance.random() < 0.5 else NEVER_MS
        return FaultAction(
            [("view", where)], lambda: self._world.age(where, LOG, late), lambda: self._world.renew(where)
        )

    def cut_store(self, where: str, _chance: Random) -> FaultAction:
        """Cut a server off from its store."""
        return self._unstored(where, self._world.cut_store)

    def hang_store(self, where: str, _chance: Random) -> FaultAction:
        """Leave a server's calls to its store unanswered, even without an error."""
        return self._unstored(where, self._world.hang_store)

    def _unstored(self, where: str, verb: Callable[[str, str], None]) -> FaultAction:
        ledger = self.scene.cast.ledger_of(where)
        return FaultAction(
            [("store of", where)], lambda: verb(where, ledger), lambda: self._world.mend_store(where, ledger)
        )

    def depose(self, where: str, chance: Random) -> FaultAction:
        """Cut or hang the leader's path to the store; all links to the leader stay."""
        servers, found = self.scene.cast.servers[where], self.scene.servers.ledgers
        leading = [name for name in servers if name in found and found[name].role is Role.LEADING]
        strike = self.hang_store if chance.random() < 0.5 else self.cut_store
        return strike((leading or servers)[0], chance)

    def slow_store(self, where: str, _chance: Random) -> FaultAction:
        weather = self._world.store(where).set_weather
        return FaultAction([("weather", where)], lambda: weather(SLOW), lambda: weather(self.scene.store_weather))

    def power_cut(self, where: str, _chance: Random) -> FaultAction:
        """Restart a store; unsynced chunks are lost or torn."""
        return FaultAction([], lambda: self._world.power_cut(where), lambda: None)

    def fill(self, where: str, _chance: Random) -> FaultAction:
        store = self._world.store(where)
        return FaultAction([("room", where)], store.fill, store.empty)

    def deafen(self, where: str, chance: Random) -> FaultAction:
        """Delay, repeat or drop changes that watches of a ledger deliver."""
        cast = self.scene.cast
        names = [*cast.servers[where], *cast.schedulers.get(where, [])]
        ears = [self.scene.servers.watch_faults[name] for name in names if name in self.scene.servers.watch_faults]

        def hear(badly: bool) -> None:
            for one in ears:
                one.become(Random(chance.getrandbits(32)) if badly else None)

        return FaultAction([("ears", where)], lambda: hear(badly=True), lambda: hear(badly=False))


async def _done(act: Callable[[], Awaitable[None] | None]) -> None:
    waiting = act()
    if waiting is not None:
        await waiting


_ACTIONS: tuple[Callable[[FaultInjector, str, Random], FaultAction], ...] = (
    FaultInjector.crash, FaultInjector.lose_node, FaultInjector.replace_node, FaultInjector.leap,
    FaultInjector.lose_zone, FaultInjector.lose_region, FaultInjector.pause, FaultInjector.step_clock,
    FaultInjector.partition, FaultInjector.isolate, FaultInjector.clog, FaultInjector.swizzle, FaultInjector.cut_link,
    FaultInjector.cut_store, FaultInjector.stale_view, FaultInjector.hang_store, FaultInjector.depose,
    FaultInjector.slow_store, FaultInjector.power_cut, FaultInjector.fill, FaultInjector.deafen,
)  # fmt: skip
#: Each kind of fault, by the name of its method with hyphens.
KINDS = {action.__name__.replace("_", "-"): action for action in _ACTIONS}
