"""A platform and a region on the loopback, in a thread with a loop of its own, for clients that block."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.api.server.limits import ServerLimits
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from tests.support.api.api_cluster import OPERATOR, a_class, a_tenant, a_workload
from tests.support.api.cluster_over_transport import ClusterOverTransport, Server
from tests.support.api.transports import HttpWire
from tests.support.ledgers.platform import a_principal
from tests.support.ledgers.region import CLASSES, a_template, an_assignment

#: Nobody is too fast here, and no list is kept from anybody: what is tested is what is said, not how often.
TIMEOUT_MS = 100
LIMITS = ServerLimits(writes_per_second=1_000_000, writes_burst=1_000_000, lists_at_a_time=10_000)


@contextmanager
def loopback() -> Iterator[dict[str, str]]:
    """The URLs of a `platform` and a `region` that run for as long as this is open, each with one of most things."""

    async def hurried(world: ClusterOverTransport) -> dict[str, str]:
        urls = await both(world)
        for server in world.servers:  # from now on, what waits for what never comes is told so soon
            server.api.ctx.limits = replace(LIMITS, timeout_ms=TIMEOUT_MS, timeout_most_ms=TIMEOUT_MS)
        return urls

    with serving(hurried) as urls:
        yield urls


async def both(world: ClusterOverTransport) -> dict[str, str]:
    """A platform and its region, each with one of most things; their URLs."""
    region = await _region(world)
    platform = await _platform(world, region.name)
    await _joined(platform, region)
    return {"platform": platform.name, "region": region.name}


@contextmanager
def serving(make: Callable[[ClusterOverTransport], Awaitable[dict[str, str]]]) -> Iterator[dict[str, str]]:
    """What `make` tells of the servers that it starts, which run for as long as this is open."""
    ready: dict[str, str] = {}
    failed: list[BaseException] = []
    is_ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        world = ClusterOverTransport(HttpWire(), LIMITS)
        try:
            ready.update(await make(world))
            is_ready.set()
            await stop.wait()
        finally:
            await world.end()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            is_ready.set()
            loop.close()

    thresholds = gc.get_threshold()
    thread = threading.Thread(target=run, name="servers")
    thread.start()
    try:
        assert is_ready.wait(30), "the servers did not start"
        if failed:
            raise failed[0]
        yield ready
    finally:
        if not failed:
            loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert not failed, failed


async def _platform(world: ClusterOverTransport, address: str) -> Server:
    """With a tenant, classes, workloads and regions."""
    server = await world.platform()
    client = await world.client(server)
    spec = {"jurisdiction": "eu", "address": address}
    region = {"apiVersion": "holdfast/v1", "kind": "Region", "metadata": {"name": "eu"}, "spec": spec}
    documents: list[dict[str, Any]] = [a_class(), a_tenant(), a_workload(), a_workload("api"), region]
    for applied in await client.batch(documents):
        assert applied.outcome == "created", applied
    for name in ("region/eu", "person/spare"):
        await server.submit(OPERATOR, p.Put(a_principal(name)), key=name)
    return server


async def _region(world: ClusterOverTransport) -> Server:
    """With nodes, an assignment and its replicas."""
    server = await world.region("eu")
    template = a_template()
    assignment = an_assignment(template=template, count=3, tenant="shop", workload_name="web")
    puts: tuple[c.ShippedItem, ...] = (
        c.ShippedRegion("eu", "eu"),
        *[c.ShippedPriorityClass(one) for one in CLASSES],
        c.ShippedPrincipal(a_principal("agent/*")),
        c.ShippedPrincipal(a_principal(OPERATOR, *Permission)),
        c.ShippedToken(world.token("operator", OPERATOR)),
        c.ShippedTemplate(template_digest(template), template),
        c.ShippedAssignment(assignment),
        c.ShippedGrant("quota/shop", 1, Resources(100_000, 10**6, 10**6, 0), world.clock.wall() + 86_400_000),
    )
    await server.submit("controller/link", c.Ship("log-platform", 1, 0, 1, puts))
    await server.submit("controller/replica", c.OpenSlots(assignment.uid, template_digest(template), (0, 1, 2)))
    for name in ("n1", "n2"):
        agent = f"agent/{name}"
        await server.submit(agent, OpenSession())
        node = c.RegisterNode(name, "general", "a", Resources(8_000, 16_384, 100_000, 0), (), (30_000, 30_009))
        await server.submit(agent, node, session=server.state.session_of[agent], sequence=1)
    return server


async def _joined(platform: Server, region: Server) -> None:
    """The platform knows where the region is, and has given it a part of a workload."""
    await platform.submit("region/eu", OpenSession())
    session = platform.state.session_of["region/eu"]
    await platform.submit("region/eu", p.JoinRegion("eu", "log-eu", region.name), session=session, sequence=1)
    while not platform.is_known():
        await asyncio.sleep(0.01)
    servers = tuple(c.ShippedServer(one) for one in platform.state.servers.values())
    await region.submit("controller/link", c.Ship("log-platform", 1, 1, 2, servers))
    uid = platform.state.workload_names["shop/web"]
    template = platform.state.templates_of[uid][0]
    assign = p.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, (Share(template, 2),))
    await platform.submit("controller/assignment", assign)
