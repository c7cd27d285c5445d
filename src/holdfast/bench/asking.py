"""Who asks the processes of `holdfast dev` in a benchmark, and how they hear of what came of it.

    operator ──▶ platform, each region      a tenant ──▶ platform      a watch ──▶ when it first told of something

The tenant has quota for everything, and may write as fast as it likes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.api.carriers.http import HttpTransport
from holdfast.api.client.access import Access
from holdfast.api.client.aio import Holdfast
from holdfast.api.client.problems import Denied
from holdfast.api.documents.kinds import API_VERSION
from holdfast.bench.processes import LOOK_SECONDS, running
from holdfast.bench.report import must
from holdfast.core.model.secrets import hashed, spoken
from holdfast.host.clock import SystemClock
from holdfast.wiring.dev_folder import HOST, REGIONS

TENANT, CLASS = "bench", "normal"
SECRET = "b" * 43

Document = dict[str, Any]


class Clients(NamedTuple):
    """The operator, at the platform and at each region, and the tenant at the platform; where all these are, the
    platform first, and the operator's token."""

    platform: Holdfast
    regions: tuple[Holdfast, ...]
    tenant: Holdfast
    servers: tuple[str, ...]
    token: str


@asynccontextmanager
async def asking(folder: Path, *, nodes: int = 0, agents: int = 0, is_measured: bool = False) -> AsyncIterator[Clients]:
    """A platform and its regions, with so many declared nodes or agents each, that know everybody who asks."""
    async with running(folder, nodes=nodes, agents=agents, is_measured=is_measured) as port:
        token = (folder / "platform" / "operator.token").read_text(encoding="ascii").strip()
        transport = HttpTransport(SystemClock())
        await transport.start()
        try:
            servers = tuple(f"http://{HOST}:{port + number}" for number in range(len(REGIONS) + 1))
            platform, *regions = [_client(transport, server, token) for server in servers]
            tenant = _client(transport, servers[0], spoken(TENANT, SECRET))
            clients = Clients(platform, tuple(regions), tenant, servers, token)
            await _set_up(clients)
            yield clients
        finally:
            await transport.close()


def _client(transport: HttpTransport, server: str, token: str) -> Holdfast:
    return Holdfast(transport, SystemClock(), Access(servers=(server,), token=token))


async def _set_up(clients: Clients) -> None:
    """Make the tenant, and wait until regions know the operator."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    actor = f"tenant/{TENANT}"
    await clients.platform.batch(
        [
            document("PriorityClass", CLASS, {"priority": 50}),
            document("Tenant", TENANT, {"priorityClasses": [CLASS], "submitsPerMinute": 1_000_000}),
            document("Quota", TENANT, {"hard": {"cpu": "10000", "memory": "10000Gi"}}),
            document("Principal", actor, {"rights": ["read", "write"]}),
            document("Token", TENANT, {"principal": actor, "hash": hashed(SECRET), "expires": expires}),
        ]
    )
    for region in clients.regions:
        while not await _is_known(region):
            await asyncio.sleep(LOOK_SECONDS)


async def _is_known(region: Holdfast) -> bool:
    """Whether the region has been shipped who asks."""
    try:
        return bool(await region.whoami())
    except Denied:
        return False


class Telling:
    """A watch that is listened to: when it first told of each thing that `read` finds in its objects."""

    def __init__(self, client: Holdfast, kind: str, read: Callable[[Document], Hashable]) -> None:
        self._client = client
        self._kind = kind
        self._read = read
        self._at: dict[Hashable, float] = {}
        self._came = asyncio.Event()
        self._is_over = False
        #: Set once everything from now on is told.
        self.opened = asyncio.Event()

    async def run(self) -> None:
        """Listen for ever."""
        try:
            async for event in self._client.watch(self._kind):
                self.opened.set()
                if event.object:
                    self._at.setdefault(self._read(event.object), time.monotonic())
                    self._came.set()
        finally:
            self._is_over = True
            self.opened.set()
            self._came.set()

    async def told(self, what: Hashable) -> float:
        """When that was told, once it is."""
        while what not in self._at:
            must(not self._is_over, "the watch ended")
            self._came.clear()
            await self._came.wait()
        return self._at[what]


@asynccontextmanager
async def telling(
    clients: tuple[Holdfast, ...], kind: str, read: Callable[[Document], Hashable]
) -> AsyncIterator[list[Telling]]:
    """The same watch at each of them, opened."""
    watches = [Telling(client, kind, read) for client in clients]
    tasks = [asyncio.create_task(watch.run()) for watch in watches]
    try:
        for watch in watches:
            await watch.opened.wait()
        yield watches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def document(kind: str, name: str, spec: Document, tenant: str = "") -> Document:
    """What people would write to have that object."""
    metadata = {"name": name, **({"tenant": tenant} if tenant else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def workload(name: str, version: str, spec: Document) -> Document:
    """A workload of the tenant; each name and version has a template of its own."""
    template = {"command": ["serve", name], "environment": {"VERSION": version}, "need": {"cpu": "100m"}}
    return document("Workload", name, {"template": template, "priorityClass": CLASS, **spec}, TENANT)
