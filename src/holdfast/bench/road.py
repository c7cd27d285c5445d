"""The road from the platform to its regions, between the processes of `holdfast dev`, durable on SQLite.

One platform and three regions, each a server of its own. First one workload is changed again and again while nothing
else happens: how long until the change is in every region's log. Then a thousand workloads are applied at once: how
long until all is assigned to three regions and acknowledged from their logs, and how much the platform's log has grown.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.api.carriers.http import HttpTransport
from holdfast.api.client.access import Access
from holdfast.api.client.aio import Holdfast
from holdfast.api.client.problems import Denied
from holdfast.api.documents.kinds import API_VERSION
from holdfast.bench.processes import LOOK_SECONDS, running
from holdfast.bench.report import Report, Result, at_most, machine
from holdfast.core.ledger.revision import parse
from holdfast.core.model.secrets import hashed, spoken
from holdfast.host.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.wiring.dev_folder import REGIONS

TENANT, CLASS = "bench", "normal"
SECRET = "b" * 43
WARM_UP, CHANGES = 20, 200
WORKLOADS = 1_000
#: Between two changes, so that nothing of the last one is still under way.
PAUSE_SECONDS = 0.1

Document = dict[str, Any]


def run(*, changes: int = CHANGES, workloads: int = WORKLOADS) -> Report:
    """All figures of the road."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        return Report(machine(), tuple(asyncio.run(_measure(Path(folder), changes, workloads))))


async def _measure(folder: Path, changes: int, workloads: int) -> list[Result]:
    async with running(folder) as port:
        token = (folder / "platform" / "operator.token").read_text(encoding="ascii").strip()
        transport = HttpTransport(SystemClock())
        await transport.start()
        try:
            clients = [_client(transport, port + number, token) for number in range(len(REGIONS) + 1)]
            await _set_up(*clients)
            tenant = _client(transport, port, spoken(TENANT, SECRET))
            shipped = await _shipped(clients, tenant, changes)
            applied, first, last = await _applied(clients[0], tenant, workloads)
        finally:
            await transport.close()
    size, batches = await _logged(folder / "platform", first, last)
    return [
        shipped,
        applied,
        at_most("road.apply1000_bytes", size * 1_000 / workloads, "bytes", batches, 2_000_000),
    ]


def _client(transport: HttpTransport, port: int, token: str) -> Holdfast:
    return Holdfast(transport, SystemClock(), Access(servers=(f"http://127.0.0.1:{port}",), token=token))


async def _set_up(platform: Holdfast, *regions: Holdfast) -> None:
    """A tenant with quota for everything that may write as fast as it likes, and regions that know the operator."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    actor = f"tenant/{TENANT}"
    await platform.batch(
        [
            _document("PriorityClass", CLASS, {"priority": 50}),
            _document("Tenant", TENANT, {"priorityClasses": [CLASS], "submitsPerMinute": 1_000_000}),
            _document("Quota", TENANT, {"hard": {"cpu": "10000", "memory": "10000Gi"}}),
            _document("Principal", actor, {"rights": ["read", "write"]}),
            _document("Token", TENANT, {"principal": actor, "hash": hashed(SECRET), "expires": expires}),
        ]
    )
    for region in regions:
        while not await _is_known(region):
            await asyncio.sleep(LOOK_SECONDS)


async def _is_known(region: Holdfast) -> bool:
    """Whether the region has been shipped who asks."""
    try:
        return bool(await region.whoami())
    except Denied:
        return False


async def _shipped(clients: list[Holdfast], tenant: Holdfast, changes: int) -> Result:
    """From the change of a spec until the last region tells of it, the slowest of a hundred; baseline: the write."""
    _, *regions = clients
    watches = [_Watch(region) for region in regions]
    tasks = [asyncio.create_task(watch.run()) for watch in watches]
    for watch in watches:
        await watch.opened.wait()
    took, wrote = [], []
    for number in range(1, WARM_UP + changes + 1):
        document = _workload("shipped", str(number))
        began = time.monotonic()
        await tenant.put(document)
        written = time.monotonic()
        heard = await asyncio.gather(*(watch.reached(number) for watch in watches))
        if number > WARM_UP:
            took.append(max(heard) - began)
            wrote.append(written - began)
        await asyncio.sleep(PAUSE_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return at_most("road.ship_p99", _p99(took) * 1_000, "ms", statistics.median(wrote) * 1_000, 50)


class _Watch:
    """One region's assignments, as they come."""

    def __init__(self, region: Holdfast) -> None:
        self._region = region
        self._generation = 0
        self._at = 0.0
        self._came = asyncio.Event()
        #: Set once everything from now on is told.
        self.opened = asyncio.Event()

    async def run(self) -> None:
        async for event in self._region.watch("assignments"):
            self.opened.set()
            generation = event.object.get("spec", {}).get("generation", 0)
            if generation > self._generation:
                self._generation, self._at = generation, time.monotonic()
                self._came.set()

    async def reached(self, generation: int) -> float:
        """When this region told of that generation."""
        while self._generation < generation:
            self._came.clear()
            await self._came.wait()
        return self._at


class _Look(Struct, frozen=True):
    """What the platform has at a moment: its batch, and up to where each region has acknowledged."""

    when: float
    seq: int
    cursors: tuple[int, ...]


async def _applied(platform: Holdfast, tenant: Holdfast, workloads: int) -> tuple[Result, int, int]:
    """From the request with all workloads until every region has acknowledged the last assignment; and the batches
    of the platform's log before and after. The baseline is how long the request itself took."""
    first = (await _look(platform)).seq
    documents = [_workload(f"applied-{number:04}", "1") for number in range(workloads)]
    began = time.monotonic()
    for one in await tenant.batch(documents):
        assert one.outcome == "created", one
    written = time.monotonic()
    looks: list[_Look] = []
    newest = 0
    while not newest or min(looks[-1].cursors) < newest:
        await asyncio.sleep(LOOK_SECONDS)
        looks.append(await _look(platform))
        if not newest and _is_quiet(looks):
            newest = await _newest(platform, workloads * len(REGIONS))
    done = next(look for look in looks if min(look.cursors) >= newest)
    return at_most("road.apply1000", done.when - began, "s", written - began, 5), first, done.seq


def _is_quiet(looks: list[_Look]) -> bool:
    """Whether nobody has acknowledged anything new for a while: only then is the long list asked for."""
    settled = [look.cursors for look in looks if look.when >= looks[-1].when - 1.0]
    return len(settled) > 10 and all(cursors == settled[0] for cursors in settled)


async def _look(platform: Holdfast) -> _Look:
    listed = await platform.list("regions")
    cursors = tuple(parse(one["status"]["cursor"] or "0.0") or 0 for one in listed.items)
    return _Look(time.monotonic(), int(listed.token.split(":")[2]), cursors)


async def _newest(platform: Holdfast, count: int) -> int:
    """The revision of the newest assignment, once there are so many; 0 before."""
    found = (await platform.list("assignments")).items
    mine = [one for one in found if one["metadata"]["name"].startswith("applied-")]
    return max(parse(one["metadata"]["revision"]) or 0 for one in mine) if len(mine) >= count else 0


async def _logged(folder: Path, first: int, last: int) -> tuple[int, int]:
    """How many bytes and batches the platform's log holds after the first batch, up to the last."""
    store = await SqliteStore.open(folder / "ledger")
    try:
        size = batches = 0
        for seq in range(first + 1, last + 1):
            (stored,) = await store.read(seq, 1)
            size, batches = size + len(stored.raw), batches + 1
        return size, batches
    finally:
        await store.close()


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def _document(kind: str, name: str, spec: Document, tenant: str = "") -> Document:
    metadata = {"name": name, **({"tenant": tenant} if tenant else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _workload(name: str, version: str) -> Document:
    template = {"command": ["serve", name], "environment": {"VERSION": version}, "need": {"cpu": "100m"}}
    return _document("Workload", name, {"template": template, "replicas": 3, "priorityClass": CLASS}, TENANT)
