"""A world: machines, a network between them, stores they share, and what happens to them.

    world = World(seed)
    world.machine("s1", program)          the program is given its process: clock, transport, doors to stores
    world.partition("s1", "s2"); await world.crash("s3"); world.restart("s3"); world.heal()

One seed gives one world: the same things happen at the same times, and `digest` says so. A program is production code
around its ports; it cannot tell where it runs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from holdfast.host.ports.store import Store
from holdfast.sim.world import links, store_service
from holdfast.sim.world.clocks import SimClock
from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.machine import Incarnation, SimMachine, track_incarnations
from holdfast.sim.world.network import SimNetwork, SimTransport
from holdfast.sim.world.randomness import SeedStreams
from holdfast.sim.world.store import SimStore
from holdfast.sim.world.virtual_loop import VirtualLoop


class SimProcess:
    """What a program in this world has: its name, its clock, and its ways to everybody else."""

    def __init__(self, world: World, incarnation: Incarnation, transport: SimTransport) -> None:
        self.name = incarnation.name
        self.machine = incarnation.machine.name
        self.clock = incarnation.machine.clock
        self.transport = transport
        self._world = world
        self._incarnation = incarnation

    def rejoin(self) -> None:
        """Another process begins in this life of the machine. If the one before closed its ways to others, it has new
        ones."""
        if not self.transport.has_left:
            return
        shown, self.transport = self.transport.certificate, self._world.network.join(self.machine)
        self.transport.certificate = shown
        self._incarnation.on_death(self.transport.die)

    def store(self, name: str) -> Store:
        """A door to a store of this world, for this life."""
        door = self._world.store(name).door(self._incarnation.machine.name)
        self._incarnation.on_death(door.die)
        return door

    def chance(self, *names: str | int) -> Random:
        """A stream of chance of this program's own, another one in each life."""
        return self._world.chance.stream(self.name, *names)


Program = Callable[[SimProcess], Coroutine[Any, Any, None]]


class World:
    """Everything there is in one run."""

    def __init__(
        self,
        seed: int,
        *,
        network: links.NetworkConditions = links.CALM,
        stores: store_service.StoreConditions = store_service.CALM,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "a world needs virtual time: run it with `run_virtual`"
        track_incarnations(loop)
        self.loop = loop
        self.chance = SeedStreams(seed)
        self.network = SimNetwork(loop, self.chance.stream("network"), network)
        self.machines: dict[str, SimMachine] = {}
        self.stores: dict[str, SimStore] = {}
        #: What was done to this world, and when, in milliseconds.
        self.timeline: list[tuple[int, str]] = []
        self._store_weather = stores
        self._failures: list[str] = []
        loop.set_exception_handler(self._note_failure)

    def now(self) -> int:
        """Milliseconds since this world began."""
        return round(self.loop.now * 1000)

    # What is in it

    def store(self, name: str) -> SimStore:
        """The store of this name, which is there from when it is first asked for."""
        if name not in self.stores:
            stream = self.chance.stream("store", name)
            self.stores[name] = SimStore(SimDisk(name), stream, self._store_weather)
        return self.stores[name]

    def machine(self, name: str, program: Program, *, fast_per_million: int = 0, wrong_by: int = 0) -> SimMachine:
        """A machine that runs this program from now on."""
        assert name not in self.machines, f"there is a machine {name}"
        clock = SimClock(self.loop, fast_per_million=fast_per_million, wrong_by=wrong_by)

        def run(incarnation: Incarnation) -> Coroutine[Any, Any, None]:
            transport = self.network.join(name)
            incarnation.on_death(transport.die)
            return program(SimProcess(self, incarnation, transport))

        machine = self.machines[name] = SimMachine(self.loop, name, clock, run, self._failures.append)
        machine.start()
        return machine

    # What happens to it

    async def crash(self, name: str) -> None:
        """Kill a machine's program: memory is gone, stores are not."""
        self._note(f"crash {name}")
        await self.machines[name].crash()

    def restart(self, name: str) -> None:
        """Start the program of a machine that crashed."""
        self._note(f"restart {name}")
        self.machines[name].start()

    def pause(self, name: str) -> None:
        """Nothing happens on a machine, and nothing reaches it, until `resume`."""
        self._note(f"pause {name}")
        self.machines[name].pause()
        self.network.pause(name)
        for store in self.stores.values():
            store.hang(name)

    def resume(self, name: str) -> None:
        """A machine goes on, and finds that time has passed."""
        self._note(f"resume {name}")
        for store in self.stores.values():
            store.heal(name)
        self.network.resume(name)
        self.machines[name].resume()

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Nothing gets from one to the other; one way: only what the first sends is lost."""
        self._note(f"partition {a} {b}{' one way' if one_way else ''}")
        self.network.partition(a, b, one_way=one_way)

    def isolate(self, name: str) -> None:
        """Nothing passes between this machine and any other; stores are reached as before."""
        self._note(f"isolate {name}")
        self.network.isolate(name)

    def clog(self, a: str, b: str, ms: int) -> None:
        """What passes between two machines takes so much longer."""
        self._note(f"clog {a} {b} by {ms}")
        self.network.clog(a, b, ms)

    def age(self, name: str, what: str, ms: int) -> None:
        """Of what is sent to a machine, that which is called so comes so much later."""
        self._note(f"age {what} of {name} by {ms}")
        self.network.lag(name, what, ms)

    def renew(self, name: str) -> None:
        """What is sent to a machine comes in time again."""
        self._note(f"renew {name}")
        self.network.keep_up(name)

    def join(self, a: str, b: str | None = None) -> None:
        """Partitions, clogs and isolation end: between two machines, or all of one."""
        self._note(f"join {a} {b or 'everybody'}")
        self.network.heal(a, b)

    def cut_store(self, name: str, store: str) -> None:
        """A machine does not reach a store."""
        self._note(f"cut {name} from {store}")
        self.store(store).cut(name)

    def hang_store(self, name: str, store: str) -> None:
        """What a machine asks of a store is not answered."""
        self._note(f"hang {name} at {store}")
        self.store(store).hang(name)

    def mend_store(self, name: str, store: str) -> None:
        """A machine reaches a store again."""
        self._note(f"mend {name} to {store}")
        self.store(store).heal(name)

    def power_cut(self, store: str) -> None:
        """A store loses its power and starts anew."""
        self._note(f"power cut of {store}")
        self.store(store).power_cut()

    def step_clock(self, name: str, by_ms: int) -> None:
        """Somebody sets a machine's wall clock."""
        self._note(f"step clock of {name} by {by_ms}")
        self.machines[name].clock.step(by_ms)

    def heal(self) -> None:
        """Network and stores are whole again, and whoever is paused goes on; whoever crashed is not started."""
        self._note("heal")
        self.network.heal()
        for name in self.machines:
            self.network.resume(name)
            self.machines[name].resume()
            for store in self.stores.values():
                store.heal(name)

    async def end(self) -> None:
        """Nothing runs any more."""
        for machine in self.machines.values():
            await machine.crash()

    def failures(self) -> list[str]:
        """Programs that ended, handlers and callbacks that raised: what no fault explains."""
        stores = [one for store in self.stores.values() for one in store.failures]
        return [*self._failures, *self.network.failures, *stores]

    def _note_failure(self, _loop: Any, what: dict[str, Any]) -> None:
        self._failures.append(f"{what['message']}: {what.get('exception')!r}")

    def _note(self, what: str) -> None:
        self.timeline.append((self.now(), what))

    def digest(self) -> str:
        """What tells two runs apart: everything that happened, and what is in every store."""
        found = hashlib.blake2b(digest_size=16)
        for at, what in self.timeline:
            found.update(f"{at} {what}\n".encode())
        for name, store in self.stores.items():
            head = store.disk.now()
            found.update(f"{name} {head.log_id} {head.seq} {head.digest.hex()} {head.floor}\n".encode())
        found.update(self.network.digest().encode())
        return found.hexdigest()
