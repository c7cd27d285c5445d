"""Schedulers in processes of their own: a region that has none beside it, one that binds, is killed, and is replaced.

One platform, one region and its declared nodes are shared by the claims, each of which goes on where the last one was;
the last one reads the region's log.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.state.invariants import check
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.wiring.dev.data_folder import address
from holdfast.wiring.process import ExitCode
from tests.support.api.api_cluster import a_workload
from tests.support.processes.real_cluster import PLACE, RealCluster

TINY = {"command": ["serve"], "need": {"cpu": "10m", "memory": "10Mi"}}

pytestmark = pytest.mark.timeout(300)


class Schedulers(RealCluster):
    """A platform and a region without a scheduler, each a process, and whatever else is started there."""

    def scheduler(self, log: str) -> subprocess.Popen[bytes]:
        where = ("--server", address(PLACE, self.port), "--token-file", str(self.folder / "schedulers.token"))
        process = self.start(log, "holdfast.cli.main", "scheduler", "--name", "far", *where)
        self.until(lambda: " session=" in self.log(log), "it has no session")
        return process

    def bound(self) -> int:
        """How many replicas have a node, as the region has it."""
        return sum(one["status"]["phase"] != "pending" for one in self.replicas())

    def bind(self, count: int) -> None:
        """Want so many replicas."""
        self.tell(a_workload(template=TINY, replicas=count))


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schedulers]:
    one = Schedulers(tmp_path_factory.mktemp("field"))
    try:
        one.open("--scheduler", "none")
        one.start("nodes", "holdfast.wiring.dev.simulated_nodes", str(one.folder), str(one.port), "3")
        yield one
    finally:
        one.end()


def test_a_region_without_a_scheduler_binds_nothing_and_one_apart_from_it_does(field: Schedulers) -> None:
    field.bind(40)
    time.sleep(2)
    assert field.bound() == 0
    field.scheduler("first")
    field.until(lambda: field.bound() == 40, "not everything was bound")


@pytest.mark.parametrize(("count", "seconds"), [(400, 0.02), (800, 0.1), (1_200, 0.3)])
def test_one_that_is_killed_is_followed_by_another_that_goes_on(field: Schedulers, count: int, seconds: float) -> None:
    field.bind(count)
    time.sleep(seconds)
    victim = field.processes[-1]
    victim.send_signal(signal.SIGKILL)
    assert victim.wait(60) == -signal.SIGKILL
    field.scheduler(f"after-{count}")
    field.until(lambda: field.bound() == count, "not everything was bound")


def test_of_two_with_one_name_the_earlier_one_ends_and_says_why(field: Schedulers) -> None:
    earlier = field.processes[-1]
    later = field.scheduler("later")
    assert earlier.wait(30) == ExitCode.SUPERSEDED
    assert "scheduler/far has another session" in field.log("after-1200")
    field.bind(1_220)
    field.until(lambda: field.bound() == 1_220, "the later one does not bind")
    assert later.poll() is None
    later.send_signal(signal.SIGTERM)
    assert later.wait(60) == ExitCode.ASKED


def test_nothing_was_bound_twice(field: Schedulers) -> None:
    region = field.processes[1]
    region.send_signal(signal.SIGTERM)
    assert region.wait(60) == 0
    placed, state = asyncio.run(_read(field.folder / PLACE / "ledger"))
    assert sorted(placed) == list(range(1_220))
    assert check(state, REGION.invariants) == []


async def _read(folder: Path) -> tuple[list[int], RegionState]:
    """The ordinal of every placement in the log, and the state that the log is folded to."""
    store, state, placed = await SqliteStore.open(folder), RegionState(), list[int]()
    try:
        head = await store.head()
        while state.info.seq < head.seq:
            for stored in await store.read(state.info.seq + 1):
                batch = REGION.batches.read(stored.raw, state.info.digest, stored.digest)
                events = [event for record in batch.records for event in record.events]
                placed += [
                    one.ordinal for event in events if isinstance(event, SlotsPlaced) for one in event.placements
                ]
                fold(REGION, state, batch)
    finally:
        await store.close()
    return placed, state
