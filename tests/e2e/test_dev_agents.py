"""`holdfast dev` with agents: whatever is killed is told and comes back, and nothing is left when it stops.

One run with a node in each region is shared by the claims; the last ones end it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.agent.drivers.process.guard_files import read_record
from holdfast.wiring.dev import documents
from holdfast.wiring.dev.agents import choose_run_as, end_left_behind
from holdfast.wiring.dev.data_folder import NODES, REGIONS, read_ready_file
from tests.e2e.test_dev import PARTS, Dev
from tests.support.api.api_cluster import a_class, a_tenant, a_workload

SERVICE = {
    "command": ["python3", "-m", "holdfast.examples.service", "--name", "web"],
    "need": {"cpu": "100m", "memory": "64Mi"},
    "ports": 1,
    "readiness": {"http": {"path": "/readyz"}, "period": "1s"},
}
QUOTA = documents.document("Quota", "shop", {"hard": {"cpu": 4, "memory": "4Gi"}})

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("dev-agents")
    one = Dev(folder)
    wanted = [a_class(), a_tenant(), QUOTA, a_workload("web", template=SERVICE, replicas=3)]
    (folder / "shop.yaml").write_text(yaml.safe_dump_all(wanted), encoding="utf-8")
    one.start("--agents", "1", "-f", str(folder / "shop.yaml"))
    try:
        yield one
    finally:
        one.end()
        asyncio.run(end_left_behind(one.data))


def until(holds: Callable[[], Any], dev: Dev, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, dev.all_logs()
        time.sleep(0.1)


def serving(dev: Dev) -> int:
    found: int = dev.until_answered("/v1/workloads/shop/web")["status"].get("serving", 0)
    return found


def processes(dev: Dev) -> dict[str, tuple[int, int]]:
    """By the folder of its binding: each replica's process and its guard, as they are on record."""
    folders = (dev.data / NODES).glob("*/slots/*")
    records = {str(folder): read_record(folder) for folder in folders}
    return {name: (one.process.pid, one.guard.pid) for name, one in records.items() if one is not None}


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_agents_of_each_region_run_what_is_applied_and_it_serves(dev: Dev) -> None:
    dev.until_said("ready after", 60)
    assert "1 in each region, each with an agent" in dev.text()
    assert choose_run_as().last_error == "" or "will not run" in dev.text()
    until(lambda: serving(dev) == 3, dev)
    assert len(processes(dev)) == 3
    if os.geteuid() == 0:
        owners = {os.stat(f"/proc/{pid}").st_uid for pid, _ in processes(dev).values()}
        first, last = choose_run_as().tenant_users or (0, 0)
        assert len(owners) == 1
        assert first <= min(owners) <= last


@pytest.mark.parametrize("victim", ["process", "guard"])
def test_a_process_or_a_guard_that_is_killed_is_told_and_started_again(dev: Dev, victim: str) -> None:
    folder, pids = sorted(processes(dev).items())[0]
    os.kill(pids[victim == "guard"], signal.SIGKILL)
    until(lambda: not lives(pids[0]), dev)
    until(lambda: processes(dev).get(folder, pids)[0] != pids[0] and serving(dev) == 3, dev)
    conditions = dev.get("/v1/workloads/shop/web")["status"]["conditions"]
    assert [one["reason"] for one in conditions if one["type"] == "Healthy"] == ["crashed"]


def test_an_agent_that_is_killed_comes_back_and_what_it_runs_goes_on(dev: Dev) -> None:
    before, agent = processes(dev), read_ready_file(dev.data / NODES / "us-east-1")
    assert agent is not None
    os.kill(agent.pid, signal.SIGKILL)
    dev.until_said("us-east-1 was ended by SIGKILL; it restarts")
    until(
        lambda: (found := read_ready_file(dev.data / NODES / "us-east-1")) is not None and found.pid != agent.pid, dev
    )
    until(lambda: serving(dev) == 3, dev)
    assert processes(dev) == before


def test_a_server_that_is_killed_comes_back_and_what_runs_goes_on(dev: Dev) -> None:
    before = processes(dev)
    for part in ("platform", REGIONS[0]):
        found = dev.ready(part)
        os.kill(found.pid, signal.SIGKILL)
        until(lambda part=part, pid=found.pid: dev.ready(part).pid != pid, dev)  # type: ignore[misc]
    time.sleep(2)
    until(lambda: serving(dev) == 3, dev)
    assert processes(dev) == before


def test_ctrl_c_ends_all_that_runs_and_the_next_start_runs_it_again(dev: Dev) -> None:
    before = [pid for pids in processes(dev).values() for pid in pids]
    assert dev.stop(signal.SIGINT) == 0
    assert [pid for pid in before if lives(pid)] == []
    dev.start("--no-apply")
    dev.until_said("ready after", 60)
    # At first the ledger still says what was so before: what serves has to run, too.
    until(lambda: serving(dev) == 3 and [lives(pid) for pid, _ in processes(dev).values()] == [True] * 3, dev, 60)


def test_what_was_left_by_one_that_was_killed_ends_when_everything_is_forgotten(dev: Dev) -> None:
    before = [pid for pids in processes(dev).values() for pid in pids]
    servers = [dev.ready(part).pid for part in PARTS]
    assert dev.stop(signal.SIGKILL) == -signal.SIGKILL
    time.sleep(1)
    until(lambda: not any(lives(pid) for pid in servers), dev)
    assert [pid for pid in before if not lives(pid)] == [], "what runs outlives its agents"
    dev.start("--fresh", "--no-apply", "--agents", "0")
    dev.until_said("ready after", 60)
    assert [pid for pid in before if lives(pid)] == []
    assert dev.stop(signal.SIGTERM) == 0
