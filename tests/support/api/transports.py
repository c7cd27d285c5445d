"""The transports that contracts are tested over. A new one joins by a line in `WIRES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.transport import Transport
from holdfast.sim.world.links import CALM
from holdfast.sim.world.network import SimNetwork
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.transports.http_connection import ConnectionLimits
from holdfast.transports.http_transport import HttpTransport
from tests.support import event_loop
from tests.support.hosts.local_network import LocalNetwork


class Peer(Transport, Protocol):
    """A transport that a test can close."""

    async def close(self) -> None: ...


class Wire(Protocol):
    """How peers of one kind are made, and on which loop they live."""

    clock: Clock
    #: A name that nobody has.
    nobody: str

    async def join(self, name: str) -> tuple[str, Peer]:
        """A new peer, and what others call it: a name that was left is taken again where peers can choose theirs."""


class LocalWire:
    nobody = "nobody"

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self._network = LocalNetwork(self.clock, buffer=4)

    async def join(self, name: str) -> tuple[str, Peer]:
        return name, self._network.join(name)


class SimulatedWire:
    """The simulated network in calm weather: its faults are in tests/sim."""

    nobody = "nobody"

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self._network = SimNetwork(loop, Random(0), CALM, buffer=4)

    async def join(self, name: str) -> tuple[str, Peer]:
        return name, self._network.join(name)


class HttpWire:
    """Sockets on the loopback, in real time. What is HTTP's own is in tests/transports/test_http.py."""

    #: Port 1 is nobody's here, and a connection to it is refused.
    nobody = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self._ports: dict[str, str] = {}

    async def join(self, name: str) -> tuple[str, Peer]:
        listen = self._ports.get(name, "127.0.0.1:0")
        peer = HttpTransport(self.clock, listen=listen, limits=ConnectionLimits(drain_ms=100))
        await peer.start()
        self._ports[name] = peer.address.removeprefix("http://")
        return peer.address, peer


Running = Callable[[Any], Any]
WIRES: dict[str, tuple[Callable[[], Wire], Running]] = {
    "http": (HttpWire, event_loop.run),
    "local": (LocalWire, run_virtual),
    "simulated": (SimulatedWire, run_virtual),
}
