"""Agents with real processes: what they start serves, what fails is told and started again, and what is exclusive runs
once, whoever is killed, stopped or cut off.

One platform, one region and four agents are shared by the claims, each of which goes on where the last one was.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.host.ports.clock import SystemClock
from holdfast.wiring.agent import stop_all
from holdfast.wiring.dev.agents import RunAs, choose_run_as
from holdfast.wiring.dev.data_folder import address, read_ready_file, token_file
from holdfast.wiring.process import ExitCode
from tests.support.api.api_cluster import a_workload
from tests.support.processes.cuttable_proxy import CuttableProxy
from tests.support.processes.process_table import ProcessTable, Sighted, pid_from_here
from tests.support.processes.real_cluster import PLACE, RealCluster, free_ports

NEED = {"cpu": "100m", "memory": "64Mi"}
READINESS = {"http": {"path": "/readyz"}, "period": "1s"}
#: How long after its session ended another process of an exclusive replica may begin, at the latest; RULES 4.
FENCE_SECONDS = 25

pytestmark = pytest.mark.timeout(300)


class Nodes(RealCluster):
    """A region with four nodes; the way of the third one to its region can be cut."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.whose: RunAs = choose_run_as()
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.first_port = free_ports(60)
        self.cut = CuttableProxy(self.port + 1)

    def agent(self, name: str) -> subprocess.Popen[bytes]:
        """One life of the agent of this node; returns when it is registered."""
        process = self.agents[name] = self.begin(name, self.folder / name)
        self.until(lambda: _is_ready(self.folder / name, process.pid), f"{name} is not registered")
        return process

    def begin(self, name: str, data: Path) -> subprocess.Popen[bytes]:
        """The process of an agent, which keeps what it has in this folder."""
        number = int(name[1:])
        server = f"http://127.0.0.1:{self.cut.port}" if name == "n3" else address(PLACE, self.port)
        ports = self.first_port + number * 10
        words = [
            f"--server={server}", f"--node={name}", f"--data={data}", "--pool=p", f"--zone={name}",
            "--cpu=4", "--memory=4Gi", "--disk=10Gi", f"--ports={ports}-{ports + 9}", f"--label=name={name}",
            f"--token-file={token_file(self.folder)}", f"--secret-folder={self.folder / 'secrets'}",
            f"--tenant-map={self.folder / 'users.json'}",
            *(f"--environment={key}={value}" for key, value in self.whose.environment),
        ]  # fmt: skip
        return self.start(name, "holdfast.cli.main", "agent", *words)

    def run(self, name: str, *words: str, replicas: int = 1, node: str = "", **fields: Any) -> None:
        """A workload of the example's service, on this node if one is named."""
        spec = {one: fields.pop(one) for one in ("exclusive", "failover", "onDisconnect", "batch") if one in fields}
        template = {
            "command": ["python3", "-m", "holdfast.examples.service", "--name", name, *words],
            "need": NEED, "ports": 1, "readiness": READINESS,
            **({"require": {"name": node}} if node else {}), **fields,
        }  # fmt: skip
        self.tell(a_workload(name, template=template, replicas=replicas, **spec))

    def of(self, name: str) -> list[dict[str, Any]]:
        """The replicas of a workload."""
        return [one for one in self.replicas() if one["metadata"]["name"].startswith(f"{name}/")]

    def until_serving(self, name: str, count: int = 1, seconds: float = 30) -> list[dict[str, Any]]:
        """Its replicas, once so many of them serve."""
        self.until(lambda: self.serving(name) == count, f"{name} does not serve {count} times", seconds)
        return self.of(name)

    def serving(self, name: str) -> int:
        return sum(one["status"]["phase"] == "serving" for one in self.of(name))

    def condition(self, name: str, type: str) -> dict[str, Any]:
        """A condition of a workload, at the platform; empty where it has none such."""
        with self.client() as client:
            found = client.get("workloads", name, tenant="shop")
        return next((one for one in found["status"]["conditions"] if one["type"] == type), {})

    def until_said(self, name: str, reason: str, words: str, type: str = "Healthy", seconds: float = 15) -> None:
        """Wait until a workload has this reason, with these words."""

        def holds() -> bool:
            said = self.condition(name, type)
            return bool(said.get("reason") == reason and words in said.get("message", ""))

        self.until(holds, f"{name} does not say {reason}: {words}, but {self.condition(name, type)}", seconds)

    def tries(self, node: str, name: str) -> int:
        """How often an agent has tried to start a replica of a workload."""
        words = ("started", "cannot-start")
        return sum(self.log(node).count(f"{word} actor=agent/{node} slot=shop/{name}/") for word in words)

    def end(self) -> None:
        """Leave nothing behind: what agents started outlives them."""
        super().end()
        for slots in self.folder.glob("*/slots"):
            settings = ProcessSettings(folder=str(slots.parent), tenant_map=str(self.folder / "users.json"))
            asyncio.run(stop_all(ProcessDriver(settings, SystemClock())))
        self.cut.close()


def _is_ready(folder: Path, pid: int) -> bool:
    found = read_ready_file(folder)
    return found is not None and found.pid == pid


def ask(one: dict[str, Any], path: str = "/", method: str = "GET") -> dict[str, Any]:
    """What a replica answers at its address; its pid is the one by which it is known outside its namespace."""
    port = one["status"]["ports"][0]
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    if "pid" in found:
        found["pid"] = pid_from_here(found["slot"], port, found["pid"])
    return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    one = Nodes(tmp_path_factory.mktemp("nodes"))
    try:
        one.open()
        for name in ("n1", "n2", "n3", "n4"):
            one.agent(name)
        yield one
    finally:
        one.end()


# What runs


def test_a_service_is_started_probed_asked_and_serves(nodes: Nodes) -> None:
    nodes.run("web", replicas=2, node="n1")
    found = nodes.until_serving("web", 2)
    answers = [ask(one) for one in found]
    assert [one["slot"] for one in answers] == [f"shop/web/{PLACE}/0", f"shop/web/{PLACE}/1"]
    assert len({one["token"] for one in answers} | {one["status"]["ports"][0] for one in found}) >= 3
    if nodes.whose.tenant_users is not None:
        assert {os.stat(f"/proc/{one['pid']}").st_uid for one in answers} == {nodes.whose.tenant_users[0]}
    with nodes.client() as client:
        listed = client.region(PLACE).list("endpoints", tenant="shop").items
    assert sorted(one["status"]["addresses"][0] for one in listed) == sorted(
        f"127.0.0.1:{one['status']['ports'][0]}" for one in found
    )


def test_one_that_crashes_is_started_again_where_it_was_and_says_why(nodes: Nodes) -> None:
    one = nodes.of("web")[0]
    before = ask(one)
    with pytest.raises(OSError, match=r"."):
        ask(one, "/switch/crash", "POST")
    nodes.until(lambda: nodes.of("web")[0]["status"]["restarts"] == 1, "it was not started again")
    nodes.until_said("web", "crashed", "70")
    (again, _) = nodes.until_serving("web", 2)
    after = ask(again)
    assert (after["slot"], after["token"]) == (before["slot"], before["token"])
    assert after["pid"] != before["pid"]


def test_one_whose_probe_fails_serves_no_more_and_again_when_it_passes(nodes: Nodes) -> None:
    one = nodes.of("web")[1]
    ask(one, "/switch/unready", "POST")
    nodes.until(lambda: nodes.serving("web") == 1, "it still serves")
    said = nodes.of("web")[1]["status"]
    assert (said["phase"], said["cause"]) == ("running", "probe-lost")
    assert "503" in said["detail"]
    ask(one, "/switch/ready", "POST")
    nodes.until_serving("web", 2)


def test_what_is_not_wanted_any_more_is_asked_to_stop_and_its_log_is_kept(nodes: Nodes) -> None:
    nodes.run("web", replicas=1, node="n1")
    nodes.until(lambda: len(nodes.of("web")) == 1, "two stand")
    kept = nodes.folder / "n1" / "logs"  # its agent puts it there once it hears that nobody binds it any more
    nodes.until(
        lambda: any("web was asked to stop" in file.read_text() for file in kept.rglob("stdout")), "no log tells of it"
    )


def test_what_takes_too_much_memory_is_killed_and_says_so(nodes: Nodes) -> None:
    command = ["python3", "-m", "holdfast.examples.worker", "--hold", "8", "--grow", "32", "--every", "100ms"]
    nodes.tell(a_workload("greedy", template={"command": command, "need": NEED}, replicas=1))
    nodes.until_said("greedy", "over-limit", "memory")


def test_what_takes_too_much_disk_is_killed_and_says_so(nodes: Nodes) -> None:
    command = ["sh", "-c", "head -c 20000000 /dev/zero > large; exec sleep 60"]
    nodes.tell(a_workload("sprawling", template={"command": command, "need": {**NEED, "disk": "8Mi"}}, replicas=1))
    nodes.until_said("sprawling", "over-limit", "8 MiB of disk", seconds=30)
    with nodes.client() as client:
        client.delete("workloads", "sprawling", tenant="shop")


@pytest.mark.parametrize(
    ("name", "fields", "reason", "words"),
    [
        ("absent", {"command": ["no-such-program"]}, "cannot-start", "no-such-program"),
        ("wrong", {"command": ["python3", "-c", "raise SystemExit(3)"]}, "crashed", "3"),
        ("stranger", {"user": "no-such-user"}, "cannot-start", "no-such-user"),
        ("never", {"readiness": {"http": {"path": "/nowhere"}, "period": "1s"}}, "probe-not-passed", "on n2"),
        ("secretive", {"secrets": {"KEY": "file:/no/such/secret"}}, "cannot-start", "KEY"),
    ],
)
def test_what_cannot_run_says_why_within_seconds_and_is_not_tried_in_a_tight_loop(
    nodes: Nodes, name: str, fields: dict[str, Any], reason: str, words: str
) -> None:
    nodes.run(name, node="n2", **fields)
    nodes.until_said(name, reason, words)
    began = nodes.tries("n2", name)
    time.sleep(2)
    assert nodes.tries("n2", name) - began <= 3
    with nodes.client() as client:
        client.delete("workloads", name, tenant="shop")


def test_a_secret_on_a_mount_that_hangs_fails_its_replica_with_a_reason_and_no_heartbeat(nodes: Nodes) -> None:
    (nodes.folder / "secrets").mkdir(mode=0o700)
    (nodes.folder / "secrets" / "shop").mkdir()
    os.mkfifo(nodes.folder / "secrets" / "shop" / "key")  # nobody writes: whoever opens it hangs
    nodes.run("hanging", node="n2", replicas=3, secrets={"KEY": "file:key"})
    nodes.until_said("hanging", "cannot-start", "no answer")
    nodes.run("beside", node="n2")
    nodes.until_serving("beside")
    assert "session-over" not in nodes.log("n2")
    with nodes.client() as client:
        for name in ("hanging", "beside"):
            client.delete("workloads", name, tenant="shop")


def test_a_port_that_another_process_of_the_machine_has_is_named_and_taken_once_it_is_free(nodes: Nodes) -> None:
    with ExitStack() as others:
        for port in range(nodes.first_port + 40, nodes.first_port + 50):
            other = others.enter_context(socket.socket())
            other.bind(("127.0.0.1", port))
            other.listen()
        nodes.run("crowded", node="n4")
        nodes.until_said("crowded", "cannot-start", "is in use by another process")
    nodes.until_serving("crowded")


def test_batch_work_is_done_once_and_counted(nodes: Nodes) -> None:
    command = ["python3", "-m", "holdfast.examples.batch", "--name", "sums", "--steps", "3", "--step", "50ms"]
    nodes.tell(a_workload("sums", template={"command": command, "need": NEED}, replicas=4, batch=True))

    def holds() -> bool:
        with nodes.client() as client:
            return bool(client.get("workloads", "sums", tenant="shop")["status"].get("succeeded") == 4)

    nodes.until(holds, "not all of it is done")
    assert nodes.condition("sums", "Complete")["status"] == "true"
    assert nodes.of("sums") == []


# Agents that are killed, stopped, cut off


def test_an_agent_that_is_killed_finds_what_it_started_and_goes_on(nodes: Nodes) -> None:
    (one,) = nodes.until_serving("web")
    before = ask(one)
    nodes.agents["n1"].kill()
    nodes.agents["n1"].wait(60)
    assert ask(one) == before, "it serves without its agent"
    nodes.agent("n1")
    (again,) = nodes.until_serving("web")
    assert (again["status"]["restarts"], ask(again)) == (one["status"]["restarts"], before)


def test_a_second_agent_in_the_folder_of_a_node_does_not_start(nodes: Nodes) -> None:
    assert nodes.begin("n1", nodes.folder / "n1").wait(30) == ExitCode.CANNOT_START
    assert f"n1: in use by process {nodes.agents['n1'].pid}" in nodes.log("n1")
    nodes.until_serving("web")


def test_an_exclusive_replica_ends_before_another_one_of_it_begins_whatever_became_of_its_agent(nodes: Nodes) -> None:
    """One agent is killed and one is stopped, each with the replica of an identity, at the same time."""
    names = ("killed", "stopped")
    for name in names:
        nodes.run(name, exclusive=True, failover="acknowledged", apart=[{"group": "pair", "key": "node", "most": 1}])
    with ProcessTable(nodes.folder) as table:
        for name in names:
            nodes.until_serving(name)
        hosts = {name: nodes.of(name)[0]["status"]["node"] for name in names}
        assert len(set(hosts.values())) == 2, hosts
        slots = {name: f"shop/{name}/{PLACE}/0" for name in names}
        began = time.monotonic()
        nodes.agents[hosts["killed"]].kill()
        nodes.agents[hosts["stopped"]].send_signal(signal.SIGSTOP)
        for slot in slots.values():
            nodes.until(lambda slot=slot: len(table.of(slot)) > 1, "no other one began", 90)  # type: ignore[misc]
        for name in names:
            nodes.until_serving(name)
        nodes.agents[hosts["stopped"]].send_signal(signal.SIGCONT)
        nodes.agents[hosts["killed"]].wait(60)
        nodes.agent(hosts["killed"])
        time.sleep(2)
    assert table.samples > 100
    for slot in slots.values():
        _apart(table.of(slot), began)


def _apart(seen: list[Sighted], began: float) -> None:
    """Never two at a time, and each later one under a higher token."""
    for earlier, later in pairwise(seen):
        assert earlier.last < later.first, (earlier, later)
        assert earlier.token < later.token
    assert seen[0].last - began < FENCE_SECONDS


def test_a_node_that_is_cut_off_keeps_what_may_go_on_and_ends_what_may_not(nodes: Nodes) -> None:
    nodes.run("kept", node="n3", onDisconnect="keep")
    nodes.run("ended", node="n3", onDisconnect="stop")
    (kept,), (ended,) = nodes.until_serving("kept"), nodes.until_serving("ended")
    before, gone = ask(kept), ask(ended)
    with ProcessTable(nodes.folder) as table:
        nodes.until(lambda: table.now(gone["slot"]), "it does not run")
        nodes.cut.cut()
        nodes.until(lambda: not table.now(gone["slot"]), "it goes on though nobody is heard", 40)
        assert ask(kept) == before
        nodes.cut.mend()
        nodes.until(lambda: nodes.of("ended")[0]["status"]["restarts"] == 1, "it was not started again", 60)
        (kept,), (ended,) = nodes.until_serving("kept", seconds=60), nodes.until_serving("ended", seconds=60)
    assert ask(kept) == before, "it was found again"
    assert ask(ended)["pid"] != gone["pid"]


def test_nothing_that_a_probe_started_is_left_when_its_workload_was_deleted(nodes: Nodes) -> None:
    """Its probe leaves a process in a session of its own each time."""
    nap = f"4711.{os.getpid()}"  # a time that no other process that runs tests on this machine has
    probe = {"exec": {"command": ["sh", "-c", f"setsid sleep {nap} & exit 0"]}, "period": "1s"}
    nodes.run("leaky", node="n2", readiness=probe)
    nodes.until_serving("leaky")
    with nodes.client() as client:
        client.delete("workloads", "leaky", tenant="shop")
    nodes.until(lambda: nodes.of("leaky") == [], "it is still there")
    assert asleep(nap) == []


def asleep(seconds: str) -> list[str]:
    """Those on this machine who sleep for so long."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if file.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(file.parent.name)
    return found


def test_of_two_agents_of_one_node_the_earlier_one_ends(nodes: Nodes) -> None:
    earlier = nodes.agent("n5")
    later = nodes.begin("n5", nodes.folder / "n5-elsewhere")
    assert earlier.wait(30) == ExitCode.SUPERSEDED
    assert "agent/n5 has another session" in nodes.log("n5")
    later.terminate()
    assert later.wait(30) == ExitCode.ASKED


def test_an_agent_that_another_one_takes_over_from_leaves_nothing_without_an_owner(nodes: Nodes) -> None:
    nodes.agent("n5")
    nodes.run("moved", node="n5", onDisconnect="keep")
    (one,) = nodes.until_serving("moved")
    before = ask(one)
    later = nodes.begin("n5", nodes.folder / "n5-elsewhere")
    assert nodes.agents["n5"].wait(30) == ExitCode.SUPERSEDED
    assert not Path(f"/proc/{before['pid']}").exists(), "nobody would ever have ended it"
    nodes.until(lambda: nodes.of("moved")[0]["status"]["restarts"] == 1, "it was not started again", 60)
    (again,) = nodes.until_serving("moved", seconds=60)
    assert ask(again)["token"] == before["token"]
    later.terminate()
    assert later.wait(30) == ExitCode.ASKED
