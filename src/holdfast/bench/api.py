"""A server as its callers meet it: over HTTP on loopback, from another process, durable on SQLite.

One region of 1,000 nodes whose leader serves its API: proposals of a hundred, single placements over 32 connections,
and a thousand watchers, with ten thousand other subscriptions in the index. Then the command line, as people run it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api.carriers.http import HttpTransport
from holdfast.api.server import Api, Limits
from holdfast.bench.api_load import Heard, Sent, Task
from holdfast.bench.ledger import BY_HAND, Load, RawLoop, prepared
from holdfast.bench.other import Other
from holdfast.bench.region import SCHEDULER
from holdfast.bench.report import Report, Result, at_least, at_most, machine
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.meta import Meta
from holdfast.core.model.secrets import hashed, spoken
from holdfast.core.model.tenancy import Principal, PrincipalSpec, Right, Token, TokenSpec
from holdfast.core.region import commands as c
from holdfast.core.region.book import REGION
from holdfast.host.changes import about
from holdfast.host.clock import SystemClock
from holdfast.host.ledger import Identity, Ledger, Role
from holdfast.stores.sqlite import SqliteStore

NODES = 1_000
SECRET = "b" * 43
OPERATOR = "person/bench"
BATCH_WORKLOADS = 100
SINGLE_WORKLOADS = 10
ROUNDS = 5
WATCHERS = 1_000
SUBSCRIPTIONS = 10_000
CHANGES = 20
CLI_RUNS = 15
OTHER = "holdfast.bench.api_load"


def run(*, nodes: int = NODES) -> Report:
    """All figures of a server's API."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        return Report(machine(), tuple(asyncio.run(_measure(Path(folder), nodes))))


async def _measure(folder: Path, nodes: int) -> list[Result]:
    clock = SystemClock()
    store = await SqliteStore.open(folder / "ledger")
    try:
        region = await prepared(store, nodes, clock)
        transport = HttpTransport(clock, listen="127.0.0.1:0")
        await transport.start()
        ledger = Ledger(REGION, store, clock, Identity(transport.address), keeping=BY_HAND)
        api = Api(ledger, transport, limits=Limits())
        transport.serve(api.serve)
        tasks = [asyncio.create_task(work) for work in (ledger.run(), api.run())]
        while ledger.role is not Role.LEADING:
            assert not tasks[0].done(), tasks[0].exception()
            await asyncio.sleep(0.01)
        load = Load(ledger, region)
        tasks.append(asyncio.create_task(load.heartbeats()))
        await _tokens(load)
        raw = RawLoop(folder / "raw")
        found = [
            await _rate(load, raw, transport.address, folder, "api.batch100", (BATCH_WORKLOADS, 100, 8), 35_000),
            await _rate(load, raw, transport.address, folder, "api.single", (SINGLE_WORKLOADS, 1, 32), 4_000),
            await _watched(load, transport.address),
            await _command_line(transport.address),
        ]
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        await transport.close()
        return found
    finally:
        await store.close()


async def _tokens(load: Load) -> None:
    """The scheduler and an operator can prove who they are."""
    now, cursor = load.region.at, load.ledger.durable.state.place.cursor
    rights = tuple(Right)
    puts: list[Any] = [
        c.PrincipalShipped(Principal(meta=Meta(name=SCHEDULER), spec=PrincipalSpec())),
        c.PrincipalShipped(Principal(meta=Meta(name=OPERATOR), spec=PrincipalSpec(rights=rights))),
    ]
    for name, principal in (("scheduler", SCHEDULER), ("operator", OPERATOR)):
        spec = TokenSpec(principal=principal, hash=hashed(SECRET), expires=now + 10**9)
        puts.append(c.TokenShipped(Token(meta=Meta(name=name), spec=spec)))
    await load.send(Envelope("controller/link", c.Ship("platform", 1, cursor, cursor + 1, tuple(puts)), now))


async def _rate(
    load: Load, raw: RawLoop, server: str, folder: Path, name: str, shape: tuple[int, int, int], least: float
) -> Result:
    """Durable placements per second over HTTP, in the round that was disturbed least.

    The baseline is how many placements a second a plain file takes, in batches of the same size.
    """
    workloads, each, senders = shape
    rates: list[tuple[float, float]] = []
    durable, token = load.ledger.durable, spoken("scheduler", SECRET)
    for _ in range(ROUNDS):
        envelopes = await load.open(each, max(1, workloads // ROUNDS))
        path = folder / "envelopes"
        path.write_bytes(msgspec.msgpack.encode([encode(one) for one in envelopes]))
        other = await Other.start(OTHER, Task(server, token, str(path), senders))
        seq, before = durable.state.facts.seq, durable.log_bytes
        other.tell()
        sent = msgspec.json.decode(await other.hear(), type=Sent)
        assert sent.landed == len(envelopes), sent
        await other.end()
        batches = durable.state.facts.seq - seq
        plain = raw.times((durable.log_bytes - before) // batches, 50)
        placed = len(envelopes) * each
        rates.append((placed / (sent.ended - sent.began), placed / batches * 50 / sum(plain)))
    rate, baseline = max(rates)
    return at_least(name, rate, "placements/s", baseline, least)


async def _watched(load: Load, server: str) -> Result:
    """How long a commit takes to reach a thousand watchers, the slowest of twenty commits.

    The baseline is the same for one watcher.
    """
    ledger = load.ledger
    uids = load.region.node_uids
    others = [await ledger.watch(about(("node", uids[number % len(uids)]))) for number in range(SUBSCRIPTIONS)]
    alone = await _reached(load, server, 1)
    many = await _reached(load, server, WATCHERS)
    for subscription in others:
        subscription.close()
    return at_most("api.watch1000", max(many) * 1000, "ms", max(alone) * 1000, 100)


async def _reached(load: Load, server: str, watches: int) -> list[float]:
    node = load.region.node_uids[0]
    name = load.ledger.durable.state.nodes[node].name
    path, note = f"/v1/nodes/{name}?watch=true", f"change {watches}"
    task = Task(server, spoken("operator", SECRET), watches=watches, path=path, note=note)
    other = await Other.start(OTHER, task)
    took = []
    for number in range(1, CHANGES + 1):
        command = c.AdministerNode(node, note=f"{note} {number}", cordoned=True)
        began = time.monotonic()
        await load.send(Envelope(OPERATOR, command, load.ledger.clock.wall(), key=f"{watches}-{number}"))
        heard = msgspec.json.decode(await other.hear(), type=Heard)
        assert heard.number == number, heard
        took.append(heard.last - began)
        await asyncio.sleep(0.05)
    other.tell()
    await other.end()
    return took


async def _command_line(server: str) -> Result:
    """`holdfast get`, from starting the interpreter to its end, the median of several; baseline: `python -c pass`."""

    async def seconds(*command: str) -> float:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, env=environment)
        assert await process.wait() == 0, command
        return time.perf_counter() - began

    token = spoken("operator", SECRET)
    environment = {**os.environ, "HOLDFAST_SERVER": server, "HOLDFAST_TOKEN": token}
    get = ("-m", "holdfast.cli.main", "get", "nodes", "node-00000")
    took = [await seconds(sys.executable, *get) for _ in range(CLI_RUNS)]
    plain = [await seconds(sys.executable, "-c", "pass") for _ in range(CLI_RUNS)]
    return at_most("cli.get", statistics.median(took), "s", statistics.median(plain), 0.25)
