"""A store service that several simulated servers reach, each through a door of its own.

    server --> door --way: latency, loss, cuts, hangs--> service --> disk
               dies with its process                     outlives every server

    store = SimStore(SimDisk(), chance, Weather(latency_ms=(1, 5), lose_answer=0.01))
    store.door("server-1")                        what the server is given; an earlier life's door is dead from here on
    store.cut(host) / .hang(host) / .heal(host)   its calls fail / are not answered / work again
    store.set_weather(weather, host)              slow it down, lose more of its answers; for all without a host
    store.crash(host)                             its door never answers again
    store.power_cut() / .go_backwards(5)          the service starts anew: torn chunks / five batches short
    store.fill() / .empty()                       no room / room again
    store.happened                                what happened how often, for coverage

What a write does to the disk does not depend on whether somebody still waits for it: once sent, it lands or is lost by
itself, also after its server died. All chance is drawn from one seed, for each life of each host apart.
"""

from __future__ import annotations

from random import Random

from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.store_connection import StoreConnection
from holdfast.sim.world.store_service import CALM, StoreConditions, StorePath, StoreService


class SimStore:
    """The service. It lives as long as the simulation; its servers come and go."""

    def __init__(self, disk: SimDisk, chance: Random, weather: StoreConditions = CALM) -> None:
        #: What is on the medium, for whoever judges a run: servers go through doors.
        self.disk = disk
        self._service = StoreService(disk)
        #: What happened how often: `append_unknown`, `landed_late`, `landed_unheard`, `landed_after_death`, ...
        self.happened = self._service.happened
        self.failures = self._service.failures
        self._weather = weather
        # One draw, and a stream for each door: what one server does never changes what another one meets.
        self._seed = chance.getrandbits(64)
        self._chance = Random(f"{self._seed}/service")
        self._ways: dict[str, StorePath] = {}
        #: Every door there was: a task that waits at a dead one for ever must not be tidied away unseen.
        self._doors: dict[str, list[StoreConnection]] = {}

    # Verbs

    def door(self, host: str) -> StoreConnection:
        """The store as the next life of this host sees it. An earlier door of the host is dead from now on."""
        self.crash(host)
        doors = self._doors.setdefault(host, [])
        door = StoreConnection(self._service, self._way(host), Random(f"{self._seed}/{host}/{len(doors)}"))
        doors.append(door)
        return door

    def crash(self, host: str) -> None:
        """The process behind this host's door is gone. What it sent may still land; nobody is told."""
        for door in self._doors.get(host, [])[-1:]:
            door.die()

    def cut(self, host: str) -> None:
        """Nothing arrives and nothing comes back: every call fails, also what is under way."""
        self._service.count("cuts")
        self._way(host).become("cut")

    def hang(self, host: str) -> None:
        """Nothing arrives and nothing is answered, not even with an error, until it heals."""
        self._service.count("hangs")
        self._way(host).become("hung")

    def heal(self, host: str) -> None:
        """As before. Of what hung, some goes on as if nothing had been, and the rest is told that it is unknown."""
        self._way(host).become("open")

    def set_weather(self, weather: StoreConditions, host: str | None = None) -> None:
        """From the next call on: for this host, or for every host, also those to come."""
        if host is not None:
            self._way(host).weather = weather
            return
        self._weather = weather
        for way in self._ways.values():
            way.weather = weather

    def power_cut(self) -> None:
        """The service starts anew. Chunks that no manifest made durable may be lost or torn; the rest stays."""
        damage = self._service.disk.power_cut(self._chance)
        self._service.start_anew("power_cuts")
        self._service.count("chunks_lost", damage.lost)
        self._service.count("chunks_torn", damage.torn)

    def go_backwards(self, batches: int = 5) -> int:
        """The service starts anew from a backup, so many batches short. Says how many were really taken back."""
        gone = self._service.disk.go_backwards(batches)
        self._service.start_anew("restores")
        self._service.count("batches_taken_back", gone)
        return gone

    def fill(self) -> None:
        """There is no room left, except for what is trimmed or dropped from now on."""
        self._service.count("fills")
        self._service.disk.fill()

    def empty(self) -> None:
        """There is room again."""
        self._service.disk.empty()

    def _way(self, host: str) -> StorePath:
        if host not in self._ways:
            self._ways[host] = StorePath(host, self._weather)
        return self._ways[host]
