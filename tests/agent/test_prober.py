"""Probes of real processes: how they are asked, and whose fault it is when they are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver, SimulatedMachine
from holdfast.agent.prober import NodeProber, ProbeNotRun
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import HttpProbe, Probe, TcpProbe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from tests.support.event_loop import in_a_loop
from tests.support.processes.no_descriptors import no_descriptors
from tests.support.processes.process_world import CLOCK

TEMPLATE = Template(command=("serve",), ports=1)
PROBES = [Probe(http=HttpProbe("/ready")), Probe(tcp=TcpProbe())]


@asynccontextmanager
async def served(host: str) -> AsyncIterator[BoundSlot]:
    """Somebody who answers at this address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, host, 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield BoundSlot((1, 0), 1, Phase.RUNNING, "", "t", "w", "acme", 1, 1, ports=(port,))
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


@asynccontextmanager
async def asking(host: str) -> AsyncIterator[NodeProber]:
    made = NodeProber(SimulatedDriver(SimulatedMachine(CLOCK, lambda _: SimulatedBehavior())), CLOCK, host)
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@in_a_loop
async def test_a_process_is_asked_at_its_nodes_address_of_either_kind(host: str, probe: Probe) -> None:
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    async with served(host) as one, asking(host) as real:
        assert await real.probe(one, TEMPLATE, probe) == ""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("probe", PROBES)
@in_a_loop
async def test_an_agent_without_a_descriptor_left_does_not_say_that_others_fail(probe: Probe) -> None:
    async with served("127.0.0.1") as one, asking("127.0.0.1") as real:
        assert await real.probe(one, TEMPLATE, probe) == ""
        with no_descriptors(), pytest.raises(ProbeNotRun):
            await real.probe(one, TEMPLATE, probe)
        assert await real.probe(one, TEMPLATE, probe) == ""
