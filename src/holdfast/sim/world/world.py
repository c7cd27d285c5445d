"""A world: machines, a network between them, stores they share, and the faults of a run.

    world = World(seed)
    world.machine("s1", program)          the program gets its process: clock, transport, connections to stores
    world.partition("s1", "s2"); await world.crash("s3"); world.restart("s3"); world.heal()

One seed gives one world: the same events at the same times, with the same `digest`. A program is production code around
its ports and cannot detect the simulation.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from holdfast.host.ports.store import Store
from holdfast.sim.world import links, store_service
from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.machine import Incarnation, SeedStreams, SimClock, SimMachine, track_incarnations
from holdfast.sim.world.network import SimNetwork, SimTransport
from holdfast.sim.world.store import SimStore
from holdfast.sim.world.virtual_loop import VirtualLoop


class SimProcess:
    """What a program in this world gets: its name, its clock, its transport and its stores."""

    def __init__(self, world: World, incarnation: Incarnation, transport: SimTransport) -> None:
        self.name = incarnation.name
        self.machine = incarnation.machine.name
        self.clock = incarnation.machine.clock
        self.transport = transport
        self._world = world
        self._incarnation = incarnation

    def rejoin(self) -> None:
        """Start another process in this incarnation, with a new transport if the last one was closed."""
        if not self.transport.has_left:
            return
        shown, self.transport = self.transport.certificate, self._world.network.join(self.machine)
        self.transport.certificate = shown
        self._incarnation.on_death(self.transport.die)

    def store(self, name: str) -> Store:
        """Connect this incarnation to a store of this world."""
        door = self._world.store(name).door(self._incarnation.machine.name)
        self._incarnation.on_death(door.die)
        return door

    def chance(self, *names: str | int) -> Random:
        """Return a random stream of this program, different in each incarnation."""
        return self._world.chance.stream(self.name, *names)


Program = Callable[[SimProcess], Coroutine[Any, Any, None]]


class World:
    """Machines, network, stores and randomness of one run."""

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
        #: Faults of this world with their times in milliseconds.
        self.timeline: list[tuple[int, str]] = []
        self._store_weather = stores
        self._failures: list[str] = []
        loop.set_exception_handler(self._note_failure)

    def now(self) -> int:
        """Return the milliseconds since this world began."""
        return round(self.loop.now * 1000)

    def store(self, name: str) -> SimStore:
        """Return the store of this name; create it at first use."""
        if name not in self.stores:
            stream = self.chance.stream("store", name)
            self.stores[name] = SimStore(SimDisk(name), stream, self._store_weather)
        return self.stores[name]

    def machine(self, name: str, program: Program, *, fast_per_million: int = 0, wrong_by: int = 0) -> SimMachine:
        """Add a machine and start its program."""
        assert name not in self.machines, f"there is a machine {name}"
        clock = SimClock(self.loop, fast_per_million=fast_per_million, wrong_by=wrong_by)

        def run(incarnation: Incarnation) -> Coroutine[Any, Any, None]:
            transport = self.network.join(name)
            incarnation.on_death(transport.die)
            return program(SimProcess(self, incarnation, transport))

        machine = self.machines[name] = SimMachine(self.loop, name, clock, run, self._failures.append)
        machine.start()
        return machine

    async def crash(self, name: str) -> None:
        """Kill a machine's program: memory is lost, stores are not."""
        self._note(f"crash {name}")
        await self.machines[name].crash()

    def restart(self, name: str) -> None:
        """Start the program of a crashed machine."""
        self._note(f"restart {name}")
        self.machines[name].start()

    def pause(self, name: str) -> None:
        """Pause a machine: nothing runs on it or reaches it until `resume`."""
        self._note(f"pause {name}")
        self.machines[name].pause()
        self.network.pause(name)
        for store in self.stores.values():
            store.hang(name)

    def resume(self, name: str) -> None:
        """Resume a machine after the time that has passed."""
        self._note(f"resume {name}")
        for store in self.stores.values():
            store.heal(name)
        self.network.resume(name)
        self.machines[name].resume()

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Cut the link between two machines; with `one_way`, only from `a` to `b`."""
        self._note(f"partition {a} {b}{' one way' if one_way else ''}")
        self.network.partition(a, b, one_way=one_way)

    def isolate(self, name: str) -> None:
        """Cut a machine off from all others; stores stay reachable."""
        self._note(f"isolate {name}")
        self.network.isolate(name)

    def clog(self, a: str, b: str, ms: int) -> None:
        """Delay packets between two machines by `ms`."""
        self._note(f"clog {a} {b} by {ms}")
        self.network.clog(a, b, ms)

    def age(self, name: str, what: str, ms: int) -> None:
        """Delay packets to a machine by `ms` if their text contains `what`."""
        self._note(f"age {what} of {name} by {ms}")
        self.network.lag(name, what, ms)

    def renew(self, name: str) -> None:
        """End the delay of packets to a machine."""
        self._note(f"renew {name}")
        self.network.keep_up(name)

    def join(self, a: str, b: str | None = None) -> None:
        """End partitions, clogs and isolation: between two machines, or all of one."""
        self._note(f"join {a} {b or 'everybody'}")
        self.network.heal(a, b)

    def cut_store(self, name: str, store: str) -> None:
        """Cut a machine off from a store."""
        self._note(f"cut {name} from {store}")
        self.store(store).cut(name)

    def hang_store(self, name: str, store: str) -> None:
        """Leave a machine's calls to a store unanswered."""
        self._note(f"hang {name} at {store}")
        self.store(store).hang(name)

    def mend_store(self, name: str, store: str) -> None:
        """Restore a machine's path to a store."""
        self._note(f"mend {name} to {store}")
        self.store(store).heal(name)

    def power_cut(self, store: str) -> None:
        """Cut the power of a store and restart it."""
        self._note(f"power cut of {store}")
        self.store(store).power_cut()

    def step_clock(self, name: str, by_ms: int) -> None:
        """Set a machine's wall clock."""
        self._note(f"step clock of {name} by {by_ms}")
        self.machines[name].clock.step(by_ms)

    def heal(self) -> None:
        """Restore the network and the paths to stores, and resume paused machines. Crashed machines stay down."""
        self._note("heal")
        self.network.heal()
        for name in self.machines:
            self.network.resume(name)
            self.machines[name].resume()
            for store in self.stores.values():
                store.heal(name)

    async def end(self) -> None:
        """Crash all machines."""
        for machine in self.machines.values():
            await machine.crash()

    def failures(self) -> list[str]:
        """Return errors that no fault explains: programs that ended, handlers and callbacks that raised."""
        stores = [one for store in self.stores.values() for one in store.failures]
        return [*self._failures, *self.network.failures, *stores]

    def _note_failure(self, _loop: Any, what: dict[str, Any]) -> None:
        self._failures.append(f"{what['message']}: {what.get('exception')!r}")

    def _note(self, what: str) -> None:
        self.timeline.append((self.now(), what))

    def digest(self) -> str:
        """Return a digest of the timeline, the store heads and the network, to compare two runs."""
        found = hashlib.blake2b(digest_size=16)
        for at, what in self.timeline:
            found.update(f"{at} {what}\n".encode())
        for name, store in self.stores.items():
            head = store.disk.now()
            found.update(f"{name} {head.log_id} {head.seq} {head.digest.hex()} {head.floor}\n".encode())
        found.update(self.network.digest().encode())
        return found.hexdigest()
