"""Puts together the agent of a real, a declared or a simulated node."""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.agent.agent import Agent
from holdfast.agent.drivers.driver import Driver
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.agent.node_load import NodeLoadSource
from holdfast.agent.prober import Prober
from holdfast.agent.term_fence import TermFence
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.session_client import SessionClient, SessionConfig
from holdfast.host.runtime.telemetry import Metrics


class AgentPorts(Struct, frozen=True):
    """An agent's access to its node: the driver, the prober, and the data stored on the node."""

    driver: Driver
    prober: Prober
    terms: TermFence
    times: AgentLeaseTimes = field(default_factory=AgentLeaseTimes)
    #: The source of the node load; None: it is not reported.
    load_source: NodeLoadSource | None = None


def build_agent(
    node: RegisterNode, sender: SessionConfig, transport: Transport, clock: Clock, ports: AgentPorts, metrics: Metrics
) -> Agent:
    session = SessionClient(transport, clock, sender, clock.boot)
    return Agent(
        node,
        session,
        transport,
        ports.driver,
        ports.prober,
        ports.terms,
        clock,
        metrics,
        ports.load_source,
        ports.times,
    )
