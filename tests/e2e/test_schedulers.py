"""Schedulers in processes of their own: a region that has none beside it, one that binds, is killed, and is replaced.

One platform, one region and its declared nodes are shared by the claims, each of which goes on where the last one was;
the last one reads the region's log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.core.ledger.draft import fold
from holdfast.core.ledger.invariants import check
from holdfast.core.region.book import REGION
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state import RegionState
from holdfast.stores.sqlite import SqliteStore
from holdfast.wiring import first
from holdfast.wiring.dev_folder import address, ready_in, token_file
from holdfast.wiring.private import read_private
from holdfast.wiring.scheduler import Ending
from holdfast.wiring.tokens import token_in
from tests.e2e.test_dev import free_ports
from tests.support.served import a_class, a_tenant, a_workload

CHECKOUT = Path(__file__).parents[2]
#: One of those whose nodes can be declared.
PLACE = "eu-central"
QUOTA = {"hard": {"cpu": 400, "memory": "400Gi"}}
TINY = {"command": ["serve"], "need": {"cpu": "10m", "memory": "10Mi"}}

pytestmark = pytest.mark.timeout(90)


class Field:
    """A platform and a region without a scheduler, each a process, and whatever else is started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(4)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT / "src"), "HOME": str(self.folder)}
        with open(self.folder / f"{name}.log", "ab") as out:
            process = subprocess.Popen([sys.executable, "-m", *words], env=environment, stdout=out, stderr=out)
        self.processes.append(process)
        return process

    def server(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        listen = address(name, self.port).removeprefix("http://")
        words = ("holdfast.cli.main", "server", "--data", str(self.folder / name), "--listen", listen, *flags)
        process = self.start(name, *words)
        self.until(lambda: ready_in(self.folder / name) is not None, f"{name} is not ready")
        return process

    def scheduler(self, log: str) -> subprocess.Popen[bytes]:
        where = ("--server", address(PLACE, self.port), "--token-file", str(self.folder / "schedulers.token"))
        process = self.start(log, "holdfast.cli.main", "scheduler", "--name", "far", *where)
        self.until(lambda: " session=" in self.log(log), "it has no session")
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def until(self, holds: Callable[[], bool], why: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(f"{file.name}:\n{file.read_text()[-2_000:]}" for file in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{why}\n{logs}"
            time.sleep(0.05)

    def tell(self, *documents: first.Document) -> None:
        token = read_private(self.folder / "platform" / "operator.token") or ""
        with first.operator(address("platform", self.port), token) as client:
            first.tell(client, documents)

    def admit(self) -> None:
        """Let the region, its agents and its schedulers speak."""
        token, now = read_private(self.folder / "platform" / "operator.token") or "", datetime.now(UTC)
        with first.operator(address("platform", self.port), token) as client:
            first.introduce(client, {PLACE: self.folder / "region.token"}, now)
            first.admit(client, "agent/*", "agents", token_file(self.folder), now)
            first.admit(client, "scheduler/*", "schedulers", self.folder / "schedulers.token", now)

    def bound(self) -> int:
        """How many replicas have a node, as the region has it."""
        token = read_private(self.folder / "platform" / "operator.token") or ""
        with first.operator(address("platform", self.port), token) as client:
            items = client.region(PLACE).list("replicas", tenant="*").items
        return sum(one["status"]["phase"] == "bound" for one in items)

    def bind(self, count: int) -> None:
        """Want so many replicas."""
        self.tell(a_workload(template=TINY, replicas=count))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(20)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    one = Field(tmp_path_factory.mktemp("field"))
    try:
        one.server("platform", "--role", "platform")
        token_in(f"region-{PLACE}", one.folder / "region.token")
        one.admit()
        where = ("--platform", address("platform", one.port), "--token-file", str(one.folder / "region.token"))
        one.server(PLACE, "--role", "region", "--region", PLACE, *where, "--scheduler", "none")
        one.start("nodes", "holdfast.wiring.declared", str(one.folder), str(one.port), "3")
        one.tell(a_class(), a_tenant(), first.document("Quota", "shop", QUOTA))
        yield one
    finally:
        one.end()


def test_a_region_without_a_scheduler_binds_nothing_and_one_apart_from_it_does(field: Field) -> None:
    field.bind(40)
    time.sleep(2)
    assert field.bound() == 0
    field.scheduler("first")
    field.until(lambda: field.bound() == 40, "not everything was bound")


@pytest.mark.parametrize(("count", "seconds"), [(400, 0.02), (800, 0.1), (1_200, 0.3)])
def test_one_that_is_killed_is_followed_by_another_life_that_goes_on(field: Field, count: int, seconds: float) -> None:
    field.bind(count)
    time.sleep(seconds)
    victim = field.processes[-1]
    victim.send_signal(signal.SIGKILL)
    assert victim.wait(20) == -signal.SIGKILL
    field.scheduler(f"after-{count}")
    field.until(lambda: field.bound() == count, "not everything was bound")


def test_of_two_with_one_name_the_earlier_one_ends_and_says_why(field: Field) -> None:
    earlier = field.processes[-1]
    later = field.scheduler("later")
    assert earlier.wait(30) == Ending.SUPERSEDED
    assert "scheduler/far has another session" in field.log("after-1200")
    field.bind(1_220)
    field.until(lambda: field.bound() == 1_220, "the later one does not bind")
    assert later.poll() is None
    later.send_signal(signal.SIGTERM)
    assert later.wait(20) == Ending.ASKED


def test_nothing_was_bound_twice(field: Field) -> None:
    region = field.processes[1]
    region.send_signal(signal.SIGTERM)
    assert region.wait(20) == 0
    placed, state = asyncio.run(_read(field.folder / PLACE / "ledger"))
    assert sorted(placed) == list(range(1_220))
    assert check(state, REGION.invariants) == []


async def _read(folder: Path) -> tuple[list[int], RegionState]:
    """The ordinal of every placement in the log, and the state that the log is folded to."""
    store, state, placed = await SqliteStore.open(folder), RegionState(), list[int]()
    try:
        head = await store.head()
        while state.facts.seq < head.seq:
            for stored in await store.read(state.facts.seq + 1):
                batch = REGION.batches.read(stored.raw, state.facts.digest, stored.digest)
                events = [event for record in batch.records for event in record.events]
                placed += [
                    one.ordinal for event in events if isinstance(event, SlotsPlaced) for one in event.placements
                ]
                fold(REGION, state, batch)
    finally:
        await store.close()
    return placed, state
