"""Whole worlds: servers, clients and faults from a seed, judged by the log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.draft import Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.ledger import Identity, Ledger, Role
from holdfast.host.reads import Level
from holdfast.host.transport import TransportError
from holdfast.sim import links, service
from holdfast.sim.audit import Audit
from holdfast.sim.loop import run_virtual
from holdfast.sim.world import Process, World
from tests.support.host import an_override, start_log
from tests.support.region import ROOT

SERVERS = ("s1", "s2", "s3")
CLIENTS = ("c1", "c2")
ROUGH = links.Weather(latency_ms=(1, 30), loss=0.02, duplication=0.02, answer_loss=0.02)
FOUL = service.Weather(latency_ms=(1, 10), lose_answer=0.02, land_late=0.02)

_encode = msgspec.msgpack.encode


class Play:
    """A small cluster: servers that answer commands and reads over the network, clients that retry, an observer."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, network=ROUGH, stores=FOUL)
        self.audit: Audit[RegionState] = Audit(REGION, self.world.store("log").disk)
        self.ledgers: dict[str, Ledger[RegionState]] = {}
        self.chance = self.world.chance.stream("faults")
        for name in SERVERS:
            self.world.machine(name, self.serve, wrong_by=self.chance.randrange(-2_000, 2_000))
        for name in CLIENTS:
            self.world.machine(name, self.use)

    async def serve(self, process: Process) -> None:
        ledger = Ledger(REGION, process.store("log"), process.clock, Identity(process.name, start_log()))
        self.ledgers[process.name.partition(".")[0]] = ledger

        async def submit(_peer: str, body: bytes) -> bytes:
            envelope = REGION.envelopes.read(body)
            assert isinstance(envelope, Envelope)
            try:
                answer = await ledger.submit(envelope)
            except Unavailable as error:
                return _encode([error.code, 0])
            return _encode(["refused", 0] if isinstance(answer, Refused) else ["landed", answer.revision])

        async def read(_peer: str, _body: bytes) -> bytes:
            try:
                view = await ledger.read(Level.LINEAR, timeout_ms=2_000)
            except Unavailable as error:
                return _encode([error.code, 0])
            return _encode(["read", view.token.seq])

        process.transport.serve("submit", answer=submit)
        process.transport.serve("read", answer=read)
        await ledger.run()

    async def use(self, process: Process) -> None:
        chance = process.chance("what")
        number = 0
        while True:
            number += 1
            if chance.random() < 0.5:
                await self.write(process, f"{process.name}-{number}", chance)
            else:
                await self.look(process, chance)
            await process.clock.sleep(chance.randrange(1, 200))

    async def write(self, process: Process, key: str, chance: Random) -> None:
        """One command, sent again and again under its key until it is answered."""
        now = process.clock.wall()
        envelope: Envelope[Any] = Envelope(ROOT, an_override(now, key), now, key=key)
        body = msgspec.msgpack.Encoder(order="deterministic").encode(envelope)
        while True:
            said, position = await self.ask(process, chance, "submit", body)
            if said == "landed":
                self.audit.acknowledged(envelope, Landed(position, b""))
            if said in ("landed", "refused"):
                return
            await process.clock.sleep(chance.randrange(20, 300))

    async def look(self, process: Process, chance: Random) -> None:
        asked = self.audit.asks()
        said, seq = await self.ask(process, chance, "read", b"")
        if said == "read":
            self.audit.reads(asked, seq)

    async def ask(self, process: Process, chance: Random, method: str, body: bytes) -> tuple[str, int]:
        try:
            raw = await process.transport.ask(chance.choice(SERVERS), method, body, 3_000)
        except TransportError as error:
            return type(error).__name__, 0
        said, number = msgspec.msgpack.decode(raw)
        return said, number

    async def trouble(self) -> None:
        """One fault, and after a while its end."""
        world, chance = self.world, self.chance
        name = chance.choice(SERVERS)
        lasting = chance.randrange(500, 20_000) / 1000
        match chance.choice(["crash", "pause", "partition", "cut", "step", "power"]):
            case "crash":
                await world.crash(name)
                await asyncio.sleep(lasting)
                world.restart(name)
            case "pause":
                world.pause(name)
                await asyncio.sleep(lasting)
                world.resume(name)
            case "partition":
                world.partition(name, chance.choice(CLIENTS), one_way=chance.random() < 0.5)
                await asyncio.sleep(lasting)
            case "cut":
                world.cut_store(name, "log")
                await asyncio.sleep(lasting)
            case "step":
                world.step_clock(name, chance.randrange(-100_000, 100_000))
            case _:
                world.store("log").power_cut()
        world.heal()
        await self.audit.catch_up(in_full=True)

    async def run(self, faults: int) -> None:
        await asyncio.sleep(5)
        for _ in range(faults):
            await self.trouble()
            await asyncio.sleep(self.chance.randrange(0, 5_000) / 1000)

    async def lives(self) -> bool:
        """Whether within three minutes of calm somebody leads and what is written is acknowledged."""
        self.world.network.weather = links.CALM
        self.world.store("log").set_weather(service.CALM)
        acknowledged = self.audit.counts["acknowledged"]
        for _ in range(180):
            await asyncio.sleep(1)
            leading = [ledger for ledger in self.ledgers.values() if ledger.role is Role.LEADING]
            if leading and self.audit.counts["acknowledged"] >= acknowledged + 5:
                return True
        return False


async def play(seed: int, faults: int = 6) -> Play:
    it = Play(seed)
    try:
        await it.run(faults)
        assert await it.lives(), f"seed {seed}: nobody came to lead after the faults: {it.world.timeline}"
    finally:
        await it.world.end()
    assert await it.audit.finish() == [], f"seed {seed}: {it.audit.findings} after {it.world.timeline}"
    return it


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_what_was_acknowledged_is_durable_and_the_servers_come_back(seed: int) -> None:
    it = run_virtual(play(seed))
    assert it.audit.counts["acknowledged"] >= 20
    assert it.audit.counts["linear"] >= 20


def test_a_seed_is_one_run_in_another_process_and_under_another_hash_seed() -> None:
    code = "from tests.sim.test_world import *; print(run_virtual(play(3)).world.digest())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for number in (1, 2)
    }
    assert found == {run_virtual(play(3)).world.digest() + "\n"}
    assert run_virtual(play(4)).world.digest() + "\n" not in found
