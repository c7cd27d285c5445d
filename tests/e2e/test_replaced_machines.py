"""Another machine takes a node's name while a process of an exclusive identity lives on the first: never two at a time.

The agents of nodes are stopped, not killed, so that nobody there ends anything but the guards; second agents register
the same nodes from other folders, find nothing, and say so. All ledgers have shorter times than the defaults: guards
keep to what the region told their agents, or the first process would outlive its fence.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.agent.lease_times import lease_times_on_disk
from holdfast.core.model.values.settings import DEFAULT_TIMES
from holdfast.host.ports.clock import SystemClock
from holdfast.wiring.agent import stop_all
from holdfast.wiring.dev.agents import RunAs, choose_run_as
from holdfast.wiring.dev.data_folder import address, read_ready_file, token_file
from tests.support.api.api_cluster import a_workload
from tests.support.processes.process_table import ProcessTable
from tests.support.processes.real_cluster import PLACE, RealCluster

#: A safe set; with it a guard on the defaults would end its process seconds after the fence.
TIMES = ("--ledger=sessionLease=4s", "--ledger=grace=1500ms", "--ledger=killMargin=1500ms", "--ledger=fenceTime=7100ms")
#: One process that does not end when it is asked to.
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"

pytestmark = pytest.mark.timeout(300)


class Nodes(RealCluster):
    """A region of short times, and nodes that each have room for one replica."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.whose: RunAs = choose_run_as()

    def agent(self, name: str, folder: str = "") -> subprocess.Popen[bytes]:
        """An agent of this node, which keeps what it has in a folder of its own; returns when it is registered."""
        data = self.folder / (folder or name)
        words = [
            f"--server={address(PLACE, self.port)}", f"--node={name}", f"--data={data}", "--pool=p", "--zone=z",
            "--cpu=1", "--memory=1Gi", "--disk=1Gi", f"--token-file={token_file(self.folder)}",
            f"--tenant-map={self.folder / 'users.json'}",
            *(f"--environment={key}={value}" for key, value in self.whose.environment),
        ]  # fmt: skip
        process = self.start(data.name, "holdfast.cli.main", "agent", *words)
        self.until(lambda: _is_ready(data, process.pid), f"{name} is not registered", 60)
        return process

    def are_up(self, count: int) -> bool:
        """Whether so many replicas are there, and all of them run for their ledger, too."""
        phases = [one["status"]["phase"] for one in self.replicas()]
        return len(phases) == count and {*phases} <= {"ready", "serving"}

    def conditions(self, name: str) -> dict[str, dict[str, Any]]:
        with self.client() as client:
            found = client.region(PLACE).get("nodes", name)
        return {one["type"]: one for one in found["status"]["conditions"]}

    def end(self) -> None:
        """Leave nothing behind: what agents started outlives them."""
        super().end()
        for slots in self.folder.glob("*/slots"):
            settings = ProcessSettings(folder=str(slots.parent), tenant_map=str(self.folder / "users.json"))
            asyncio.run(stop_all(ProcessDriver(settings, SystemClock())))


def _is_ready(folder: Path, pid: int) -> bool:
    found = read_ready_file(folder)
    return found is not None and found.pid == pid


def _has_begun_again(table: ProcessTable, slot: str) -> bool:
    return len(table.of(slot)) > 1


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    one = Nodes(tmp_path)
    try:
        one.open(*TIMES, platform=TIMES)
        yield one
    finally:
        one.end()


def taken_over(nodes: Nodes, count: int) -> None:
    """So many nodes, each with one replica, are taken over at once: each identity is looked for all the time."""
    names = [f"n{number}" for number in range(1, count + 1)]
    agents = {name: nodes.agent(name) for name in names}
    template = {"command": ["python3", "-c", STUBBORN], "need": {"cpu": "600m", "memory": "64Mi"}, "grace": "1s"}
    nodes.tell(a_workload("db", template=template, replicas=count, exclusive=True, failover="acknowledged"))
    slots = [f"shop/db/{PLACE}/{number}" for number in range(count)]
    with ProcessTable(nodes.folder) as table:
        nodes.until(lambda: all(table.now(slot) for slot in slots), "not all of them run", 120)
        nodes.until(lambda: nodes.are_up(count), "not all of them are ready", 60)
        for process in agents.values():
            process.send_signal(signal.SIGSTOP)
        for name in names:
            nodes.agent(name, f"{name}-elsewhere")
        for slot in slots:
            nodes.until(partial(_has_begun_again, table, slot), f"{slot} did not begin again", 120)
        nodes.until(lambda: nodes.are_up(count), f"not all of them are ready again: {nodes.replicas()}", 60)
        for process in agents.values():
            process.send_signal(signal.SIGCONT)
    assert table.samples > 100
    for slot in slots:
        for earlier, later in pairwise(table.of(slot)):
            assert earlier.last < later.first, (earlier, later)
            assert earlier.token < later.token, "what a storage tells them apart by"


def test_two_machines_of_one_name_never_run_one_identity_at_a_time(nodes: Nodes) -> None:
    taken_over(nodes, 1)
    said = nodes.conditions("n1")
    assert (said["SameMachine"]["status"], said["SameMachine"]["reason"]) == ("false", "machine-replaced")
    assert said["TimesKept"]["status"] == "true"
    assert (
        lease_times_on_disk(nodes.folder / "n1").now
        == lease_times_on_disk(nodes.folder / "n1-elsewhere").now
        != DEFAULT_TIMES
    )
    assert "code=fence" in nodes.log("n1-elsewhere"), "it said that nothing is there, and was not believed"


@pytest.mark.soak
def test_twenty_machines_that_are_taken_over_at_once_never_run_an_identity_twice(nodes: Nodes) -> None:
    taken_over(nodes, 20)
