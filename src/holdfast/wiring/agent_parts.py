"""The agent of a node, put together: of a real machine, of one that is only declared, of one in a simulated world."""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.agent.agent import Agent
from holdfast.agent.drivers.driver import Driver
from holdfast.agent.lease_times import KeptTimes
from holdfast.agent.node_load import Faring
from holdfast.agent.prober import Asking
from holdfast.agent.term_fence import Terms
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.session_client import Sender, Voice
from holdfast.host.runtime.telemetry import Meters


class NodePorts(Struct, frozen=True):
    """What an agent has of its node: what starts and ends processes, what asks them, and what the node remembers."""

    driver: Driver
    asking: Asking
    terms: Terms
    times: KeptTimes = field(default_factory=KeptTimes)
    #: How the node fares; None: it is not told.
    faring: Faring | None = None


def agent_of(
    node: RegisterNode, sender: Sender, transport: Transport, clock: Clock, ports: NodePorts, meters: Meters
) -> Agent:
    """The agent that speaks for this node."""
    voice = Voice(transport, clock, sender, clock.boot)
    return Agent(
        node, voice, transport, ports.driver, ports.asking, ports.terms, clock, meters, ports.faring, ports.times
    )
