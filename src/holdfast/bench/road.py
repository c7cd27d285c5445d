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
from pathlib import Path

from msgspec import Struct

from holdfast.api.client.aio import Holdfast
from holdfast.bench.asking import Clients, Document, asking, telling, workload
from holdfast.bench.processes import LOOK_SECONDS
from holdfast.bench.report import Report, Result, at_most, machine, p99
from holdfast.core.ledger.revision import parse
from holdfast.stores.sqlite import SqliteStore
from holdfast.wiring.dev_folder import REGIONS

WARM_UP, CHANGES = 20, 200
WORKLOADS = 1_000
#: Between two changes, so that nothing of the last one is still under way.
PAUSE_SECONDS = 0.1
THREE: Document = {"replicas": 3}


def run(*, changes: int = CHANGES, workloads: int = WORKLOADS) -> Report:
    """All figures of the road."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        return Report(machine(), tuple(asyncio.run(_measure(Path(folder), changes, workloads))))


async def _measure(folder: Path, changes: int, workloads: int) -> list[Result]:
    async with asking(folder) as clients:
        shipped = await _shipped(clients, changes)
        applied, first, last = await _applied(clients, workloads)
    size, batches = await _logged(folder / "platform", first, last)
    return [
        shipped,
        applied,
        at_most("road.apply1000_bytes", size * 1_000 / workloads, "bytes", batches, 2_000_000),
    ]


async def _shipped(clients: Clients, changes: int) -> Result:
    """From the change of a spec until the last region tells of it, the slowest of a hundred; baseline: the write."""
    took, wrote = [], []
    async with telling(clients.regions, "assignments", _generation) as watches:
        for number in range(1, WARM_UP + changes + 1):
            document = workload("shipped", str(number), THREE)
            began = time.monotonic()
            await clients.tenant.put(document)
            written = time.monotonic()
            heard = await asyncio.gather(*(watch.told(number) for watch in watches))
            if number > WARM_UP:
                took.append(max(heard) - began)
                wrote.append(written - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return at_most("road.ship_p99", p99(took) * 1_000, "ms", statistics.median(wrote) * 1_000, 50)


def _generation(assignment: Document) -> int:
    generation: int = assignment["spec"]["generation"]
    return generation


class _Look(Struct, frozen=True):
    """What the platform has at a moment: its batch, and up to where each region has acknowledged."""

    when: float
    seq: int
    cursors: tuple[int, ...]


async def _applied(clients: Clients, workloads: int) -> tuple[Result, int, int]:
    """From the request with all workloads until every region has acknowledged the last assignment; and the batches
    of the platform's log before and after. The baseline is how long the request itself took."""
    platform = clients.platform
    first = (await _look(platform)).seq
    documents = [workload(f"applied-{number:04}", "1", THREE) for number in range(workloads)]
    began = time.monotonic()
    for one in await clients.tenant.batch(documents):
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
