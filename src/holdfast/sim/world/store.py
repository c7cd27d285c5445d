"""A store service that several simulated servers use, each through its own connection.

    server --> connection --path: latency, loss, cuts, hangs--> service --> disk
               dies with its process                            outlives every server

    store = SimStore(SimDisk(), chance, StoreConditions(latency_ms=(1, 5), lose_answer=0.01))
    store.connect("server-1")                     the server's connection; the one of its earlier incarnation is dead
    store.cut(host) / .hang(host) / .heal(host)   its calls fail / are not answered / work again
    store.set_conditions(conditions, host)        add latency or losses; without a host, for all hosts
    store.crash(host)                             its connection never answers again
    store.power_cut() / .go_backwards(5)          the service restarts: torn chunks / five batches short
    store.fill() / .empty()                       no space / space again
    store.happened                                how often each fault happened, for coverage

A write that was sent is applied or lost regardless of its caller, even after the server died. All chance comes from one
seed, in a stream per incarnation of each host.
"""

from __future__ import annotations

from random import Random

from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.store_connection import StoreConnection
from holdfast.sim.world.store_service import CALM, StoreConditions, StorePath, StoreService


class SimStore:
    """The store service. It exists as long as the simulation; servers start and end."""

    def __init__(self, disk: SimDisk, chance: Random, weather: StoreConditions = CALM) -> None:
        #: The medium, for the checks of a run. Servers use connections.
        self.disk = disk
        self._service = StoreService(disk)
        #: Count of each kind of event: `append_unknown`, `landed_late`, `landed_unheard`, `landed_after_death`, ...
        self.happened = self._service.happened
        self.failures = self._service.failures
        self._weather = weather
        # One draw, then a stream for each connection: calls of one server never change the fates of another's.
        self._seed = chance.getrandbits(64)
        self._chance = Random(f"{self._seed}/service")
        self._ways: dict[str, StorePath] = {}
        #: All connections ever made: a task that waits on a dead one must not be garbage-collected.
        self._doors: dict[str, list[StoreConnection]] = {}

    def door(self, host: str) -> StoreConnection:
        """Return a connection for the next incarnation of this host. The host's earlier connection is dead."""
        self.crash(host)
        doors = self._doors.setdefault(host, [])
        door = StoreConnection(self._service, self._way(host), Random(f"{self._seed}/{host}/{len(doors)}"))
        doors.append(door)
        return door

    def crash(self, host: str) -> None:
        """End the host's connection with its process. Writes under way may still be applied; no caller is answered."""
        for door in self._doors.get(host, [])[-1:]:
            door.die()

    def cut(self, host: str) -> None:
        """Break the path: every call fails, including those under way."""
        self._service.count("cuts")
        self._way(host).become("cut")

    def hang(self, host: str) -> None:
        """Block the path: no request arrives and no reply returns, not even an error, until it heals."""
        self._service.count("hangs")
        self._way(host).become("hung")

    def heal(self, host: str) -> None:
        """Open the path. Calls that hung either continue or fail with an unknown outcome."""
        self._way(host).become("open")

    def set_weather(self, weather: StoreConditions, host: str | None = None) -> None:
        """Set the conditions of later calls: of this host, or of all hosts, including later ones."""
        if host is not None:
            self._way(host).weather = weather
            return
        self._weather = weather
        for way in self._ways.values():
            way.weather = weather

    def power_cut(self) -> None:
        """Restart the service. Chunks without a manifest may be lost or torn; the rest stays."""
        damage = self._service.disk.power_cut(self._chance)
        self._service.start_anew("power_cuts")
        self._service.count("chunks_lost", damage.lost)
        self._service.count("chunks_torn", damage.torn)

    def go_backwards(self, batches: int = 5) -> int:
        """Restart the service from a backup that lacks some batches. Return how many were removed."""
        gone = self._service.disk.go_backwards(batches)
        self._service.start_anew("restores")
        self._service.count("batches_taken_back", gone)
        return gone

    def fill(self) -> None:
        """Fill the disk: only later trims and drops free space."""
        self._service.count("fills")
        self._service.disk.fill()

    def empty(self) -> None:
        """Free the space that `fill` took."""
        self._service.disk.empty()

    def _way(self, host: str) -> StorePath:
        if host not in self._ways:
            self._ways[host] = StorePath(host, self._weather)
        return self._ways[host]
