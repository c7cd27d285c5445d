"""A server as its callers use it: over HTTP on loopback, from another process, durable on SQLite.

One region of 1,000 nodes whose leader serves its API: proposals of a hundred, single placements over 32 connections,
and a thousand watchers, with ten thousand other subscriptions in the index. Then the command line, as users run it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from holdfast.api.server.app import ApiServer
from holdfast.api.server.context import ServerContext
from holdfast.bench import report
from holdfast.bench.fixtures.ledger_load import LedgerLoad, leading_ledger
from holdfast.bench.fixtures.region import SCHEDULER
from holdfast.bench.load.api_load import ChangeSeen, LoadTask, SendResult
from holdfast.bench.load.load_process import LoadProcess
from holdfast.bench.store import RawFile
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects import principals
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c
from holdfast.host.ports.clock import SystemClock
from holdfast.host.watch.changes import filter_for
from holdfast.transports.http_transport import HttpTransport

SECRET = "b" * 43
OPERATOR = "person/bench"
LOAD_MODULE = "holdfast.bench.load.api_load"
ROWS = ("api.batch100", "api.single", "api.watch1000", "cli.get")


class ApiSize(NamedTuple):
    """Sizes of the measurements: rounds, and workloads per round."""

    nodes: int
    rounds: int
    batch_workloads: int
    single_workloads: int
    watchers: int
    subscriptions: int
    changes: int
    cli_runs: int


WHOLE, SMALL = ApiSize(1_000, 5, 20, 2, 1_000, 10_000, 20, 15), ApiSize(50, 1, 2, 1, 5, 10, 2, 1)


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of a server's API."""
    sheet = report.ReportBuilder()
    with sheet.part(*ROWS), report.temporary_folder() as folder:
        asyncio.run(_measure(sheet, folder, SMALL if small else WHOLE))
    return sheet.report()


async def _measure(sheet: report.ReportBuilder, folder: Path, size: ApiSize) -> None:
    clock = SystemClock()
    transport = HttpTransport(clock, listen="127.0.0.1:0")
    await transport.start()
    try:
        async with leading_ledger(folder / "ledger", size.nodes, server=transport.address) as load:
            api = ApiServer(ServerContext(load.ledger, transport))
            transport.serve(api.serve)
            serving = asyncio.create_task(api.run())
            try:
                await _tokens(load)
                await _measure_all(sheet, load, transport.address, folder, size)
            finally:
                serving.cancel()
                await asyncio.wait({serving})
    finally:
        await transport.close()


async def _measure_all(sheet: report.ReportBuilder, load: LedgerLoad, server: str, folder: Path, size: ApiSize) -> None:
    rates = _Rates(load, RawFile(folder / "raw"), server, folder / "envelopes", size.rounds)
    with sheet.part("api.batch100"):
        sheet.add(await rates.measure("api.batch100", size.batch_workloads, 100, 8, 35_000))
    with sheet.part("api.single"):
        sheet.add(await rates.measure("api.single", size.single_workloads, 1, 32, 4_000))
    with sheet.part("api.watch1000"):
        sheet.add(await _watched(load, server, size))
    with sheet.part("cli.get"):
        sheet.add(await _command_line(server, size.cli_runs))


async def _tokens(load: LedgerLoad) -> None:
    """Create principals and tokens of a scheduler and an operator."""
    now, cursor = load.region.at, load.ledger.durable.state.region.cursor
    rights = tuple(principals.Permission)
    puts: list[Any] = [
        c.ShippedPrincipal(principals.Principal(meta=Meta(name=SCHEDULER), spec=principals.PrincipalSpec())),
        c.ShippedPrincipal(
            principals.Principal(meta=Meta(name=OPERATOR), spec=principals.PrincipalSpec(rights=rights))
        ),
    ]
    for name, principal in (("scheduler", SCHEDULER), ("operator", OPERATOR)):
        spec = principals.TokenSpec(principal=principal, hash=principals.hash_secret(SECRET), expires=now + 10**9)
        puts.append(c.ShippedToken(principals.Token(meta=Meta(name=name), spec=spec)))
    await load.send(Envelope("controller/link", c.Ship("platform", 1, cursor, cursor + 1, tuple(puts)), now))


class _Rates(NamedTuple):
    """Durable placements per second over HTTP, in rounds."""

    load: LedgerLoad
    raw: RawFile
    server: str
    path: Path
    rounds: int

    async def measure(self, name: str, workloads: int, each: int, senders: int, least: float) -> report.BenchResult:
        """Measure a rate. Baseline: placements per second of a plain file, in batches of the same size."""
        rounds = [await self._round(workloads, each, senders) for _ in range(self.rounds)]
        rates, plain = zip(*rounds, strict=True)
        return report.at_least(name, median(rates), "placements/s", median(plain), least, rates)

    async def _round(self, workloads: int, each: int, senders: int) -> tuple[float, float]:
        durable = self.load.ledger.durable
        envelopes = await self.load.open(each, workloads)
        self.path.write_bytes(msgspec.msgpack.encode([encode(one) for one in envelopes]))
        task = LoadTask(self.server, principals.format_token("scheduler", SECRET), str(self.path), senders)
        async with LoadProcess.running(LOAD_MODULE, task) as other:
            seq, before = durable.state.info.seq, durable.log_bytes
            other.tell()
            sent = msgspec.json.decode(await other.hear(), type=SendResult)
        report.require(sent.landed == len(envelopes), f"{sent.landed} of {len(envelopes)} committed")
        batches = durable.state.info.seq - seq
        plain = self.raw.times((durable.log_bytes - before) // batches, 50)
        placed = len(envelopes) * each
        return placed / (sent.ended - sent.began), placed / batches * 50 / sum(plain)


async def _watched(load: LedgerLoad, server: str, size: ApiSize) -> report.BenchResult:
    """Measure how long a commit takes to reach a thousand watchers: the 99th percentile of the commits.

    Baseline: the same for one watcher.
    """
    ledger, uids = load.ledger, load.region.node_uids
    others = [
        await ledger.watch(filter_for(("node", uids[number % len(uids)]))) for number in range(size.subscriptions)
    ]
    try:
        alone = await _reached(load, server, 1, size.changes)
        many = await _reached(load, server, size.watchers, size.changes)
    finally:
        for subscription in others:
            subscription.close()
    return report.at_most("api.watch1000", report.p99(many), "ms", report.p99(alone), 100, many)


async def _reached(load: LedgerLoad, server: str, watches: int, changes: int) -> list[float]:
    """Return for each change the milliseconds until the last watcher received it."""
    node = load.region.node_uids[0]
    name = load.ledger.durable.state.nodes[node].name
    path, note = f"/v1/nodes/{name}?watch=true", f"change {watches}"
    task = LoadTask(server, principals.format_token("operator", SECRET), watches=watches, path=path, note=note)
    took = []
    async with LoadProcess.running(LOAD_MODULE, task) as other:
        for number in range(1, changes + 1):
            command = c.AdministerNode(node, note=f"{note} {number}", cordoned=True)
            began = time.monotonic()
            await load.send(Envelope(OPERATOR, command, load.ledger.clock.wall(), key=f"{watches}-{number}"))
            heard = msgspec.json.decode(await other.hear(), type=ChangeSeen)
            report.require(heard.number == number, f"watchers received change {heard.number} instead of {number}")
            took.append((heard.last - began) * 1_000)
            await asyncio.sleep(0.05)
        other.tell()
    return took


async def _command_line(server: str, runs: int) -> report.BenchResult:
    """Measure `holdfast get` from process start to end, the median of several runs. Baseline: `python -c pass`."""

    async def seconds(*command: str) -> float:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, env=environment)
        code = await process.wait()
        report.require(code == 0, f"{' '.join(command[1:])} ended with {code}")
        return time.perf_counter() - began

    token = principals.format_token("operator", SECRET)
    environment = {**os.environ, "HOLDFAST_SERVER": server, "HOLDFAST_TOKEN": token}
    get = ("-m", "holdfast.cli.main", "get", "nodes", "node-00000")
    took = [await seconds(sys.executable, *get) for _ in range(runs)]
    plain = [await seconds(sys.executable, "-c", "pass") for _ in range(runs)]
    return report.at_most("cli.get", median(took), "s", median(plain), 0.25, took)
