"""`holdfast dev` with real processes on loopback: it starts, serves, brings back what is killed, stops, and goes on.

One story in one test after the other would start four processes for each claim; so one run is shared by the claims that
do not end it, and the last ones end it and start it again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.wiring.dev.cluster import TRY, TRY_WITH_EXAMPLE
from holdfast.wiring.dev.data_folder import NODES, REGIONS, ReadyFile, read_ready_file, token_file
from tests.support.processes.real_cluster import CHECKOUT, free_ports

#: From the command to the first answered request. Two seconds on an idle machine; a busy one is given more.
FIRST_ANSWER_SECONDS = 60
PARTS = ("platform", *REGIONS)

pytestmark = pytest.mark.timeout(300)


class Dev:
    """`holdfast dev` as a process, in a folder and on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.port = free_ports(len(PARTS))
        source = str(CHECKOUT / "src")
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": source,
            "HOME": str(folder),
            "HOLDFAST_CONFIG": str(folder / "config.yaml"),
            # Of somebody's own server and command line: must not reach the parts.
            "HOLDFAST_SERVER_ROLE": "nonsense",
            "HOLDFAST_REGION": "nowhere",
        }
        self.said = folder / "said"
        self.began = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        command = [sys.executable, "-m", "holdfast.cli.main", "dev", "--data", str(self.data), "--port", str(self.port)]
        self.began = time.monotonic()
        with open(self.said, "wb") as out:
            self.process = subprocess.Popen([*command, *flags], env=self.environment, stdout=out, stderr=out)

    def url(self, path: str, part: str = "platform") -> str:
        return f"http://127.0.0.1:{self.port + PARTS.index(part)}{path}"

    def token(self) -> str:
        return (self.data / "platform" / "operator.token").read_text(encoding="utf-8").strip()

    def get(self, path: str, part: str = "platform") -> dict[str, Any]:
        request = urllib.request.Request(self.url(path, part), headers={"authorization": f"Bearer {self.token()}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def until_answered(
        self, path: str, part: str = "platform", seconds: float = FIRST_ANSWER_SECONDS
    ) -> dict[str, Any]:
        """The first answer to this question."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(OSError, urllib.error.URLError):
                return self.get(path, part)
            time.sleep(0.05)
        raise AssertionError(f"{part} did not answer {path}\n{self.all_logs()}")

    def until_said(self, words: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.text():
            assert time.monotonic() < deadline, f"it does not say {words!r}:\n{self.all_logs()}"
            time.sleep(0.02)

    def text(self) -> str:
        return self.said.read_text(encoding="utf-8")

    def all_logs(self) -> str:
        logs = sorted((self.data / "logs").glob("*.log")) if (self.data / "logs").exists() else []
        return "\n".join([self.text(), *(f"{log.name}:\n{log.read_text(encoding='utf-8')[-3_000:]}" for log in logs)])

    def ready(self, part: str) -> ReadyFile:
        deadline = time.monotonic() + 60
        while True:
            found = read_ready_file(self.data / part)
            if found is not None and _is_alive(found.pid):
                return found
            assert time.monotonic() < deadline, self.all_logs()
            time.sleep(0.02)

    def holdfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in self.environment.items() if k != "HOLDFAST_REGION"}
        command = [sys.executable, "-m", "holdfast.cli.main", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def stop(self, by: signal.Signals = signal.SIGINT) -> int:
        """Ask it to stop; its exit code."""
        assert self.process is not None
        self.process.send_signal(by)
        return self.process.wait(timeout=60)

    def end(self) -> None:
        """Leave nothing behind, whatever happened. Its parts end with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=60)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    one = Dev(tmp_path_factory.mktemp("dev"))
    one.start("--declared-nodes", "2")
    try:
        yield one
    finally:
        one.end()


def test_the_first_request_is_answered_within_seconds_of_the_command(dev: Dev) -> None:
    while not (dev.data / "platform" / "operator.token").exists():
        assert time.monotonic() - dev.began < FIRST_ANSWER_SECONDS, dev.all_logs()
        time.sleep(0.02)
    assert dev.until_answered("/v1/whoami")["principal"] == "person/operator"
    assert time.monotonic() - dev.began < FIRST_ANSWER_SECONDS


def test_it_says_where_it_listens_and_what_to_try_and_all_of_that_works(dev: Dev) -> None:
    dev.until_said("Ctrl-C stops all of it.")
    text = dev.text()
    assert [dev.url("", part) in text for part in PARTS] == [True] * 4
    for words in (*TRY, *TRY_WITH_EXAMPLE):
        assert words in text
        done = dev.holdfast(*words.split())
        assert done.returncode == 0, f"{words}: {done.stderr}\n{dev.all_logs()}"


def test_the_example_is_applied_and_its_regions_are_heard(dev: Dev) -> None:
    names = [item["metadata"]["name"] for item in dev.get("/v1/workloads")["items"]]
    assert sorted(names) == ["billing-api", "detection", "indexing", "reports", "risk-api"]
    deadline = time.monotonic() + 60
    while not all(item["status"].get("heardAt") for item in dev.get("/v1/regions")["items"]):
        assert time.monotonic() < deadline, dev.all_logs()
        time.sleep(0.1)


def bound(dev: Dev, region: str) -> list[tuple[str, str]]:
    """The replicas of one of the example's workloads that are ready there, each with its node."""
    found = [one for one in dev.get("/v1/replicas", region)["items"] if one["metadata"]["name"].startswith("risk-api/")]
    return sorted(
        (one["metadata"]["name"], one["status"]["node"]) for one in found if one["status"]["phase"] == "ready"
    )


def until_bound(dev: Dev) -> list[tuple[str, str]]:
    deadline = time.monotonic() + 60
    while len(found := [one for region in REGIONS for one in bound(dev, region)]) < 12:
        assert time.monotonic() < deadline, f"{found}\n{dev.all_logs()}"
        time.sleep(0.1)
    return found


def test_declared_nodes_take_the_replicas_of_the_example(dev: Dev) -> None:
    assert "2 in each region, declared" in dev.text()
    names = sorted(one["metadata"]["name"] for one in dev.get("/v1/nodes", "us-east")["items"])
    assert names == ["us-east-1", "us-east-2"]
    assert {node for _, node in until_bound(dev)} <= {f"{region}-{number}" for region in REGIONS for number in (1, 2)}


def test_declared_nodes_that_are_killed_come_back_as_the_same_nodes_and_play_the_same_replicas(dev: Dev) -> None:
    before, placed = dev.ready(NODES), until_bound(dev)
    nodes = [one["metadata"]["uid"] for one in dev.get("/v1/nodes", "us-east")["items"]]
    os.kill(before.pid, signal.SIGKILL)
    dev.until_said("nodes was ended by SIGKILL; it restarts")
    while dev.ready(NODES).pid == before.pid:
        time.sleep(0.02)
    assert [one["metadata"]["uid"] for one in dev.get("/v1/nodes", "us-east")["items"]] == nodes
    assert until_bound(dev) == placed


def test_secrets_are_in_files_of_their_owner_alone_and_in_no_log(dev: Dev) -> None:
    files = [dev.data / "platform" / "operator.token", *(dev.data / region / "platform.token" for region in REGIONS)]
    files.append(token_file(dev.data))  # its nodes are declared, and one process is the agent of all of them
    assert {file.stat().st_mode & 0o777 for file in [*files, dev.said.parent / "config.yaml"]} == {0o600}
    secrets = [file.read_text(encoding="utf-8").strip()[-43:] for file in files]
    logs = dev.all_logs()
    assert [secret for secret in secrets if secret in logs] == []


def test_a_second_one_on_the_same_folder_is_refused(dev: Dev) -> None:
    done = dev.holdfast("dev", "--data", str(dev.data), "--port", str(dev.port))
    assert done.returncode == 1
    assert "another `holdfast dev`" in done.stderr


@pytest.mark.parametrize("part", ["platform", "us-east"])
def test_a_part_that_is_killed_comes_back_and_serves_the_same_log(dev: Dev, part: str) -> None:
    before = dev.ready(part)
    os.kill(before.pid, signal.SIGKILL)
    dev.until_said(f"{part} was ended by SIGKILL; it restarts")
    while (after := dev.ready(part)).pid == before.pid:
        time.sleep(0.02)
    assert after.log_id == before.log_id
    dev.until_answered("/readyz", part)
    assert len(dev.until_answered("/v1/workloads")["items"]) == 5


def test_ctrl_c_stops_all_of_it_and_the_next_start_goes_on_where_it_was(dev: Dev) -> None:
    before = {part: dev.ready(part) for part in PARTS}
    assert dev.holdfast("scale", "workload/risk/risk-api", "--replicas", "14").returncode == 0
    revisions = _revisions(dev)
    assert dev.stop(signal.SIGINT) == 0
    assert [part for part, one in before.items() if _is_alive(one.pid)] == []
    assert [part for part in PARTS if (dev.data / part / "ready.json").exists()] == []

    dev.start()
    dev.until_said("ready after")
    assert "2 in each region, declared" in dev.text(), "as many as at the start before"
    assert {part: dev.ready(part).log_id for part in PARTS} == {part: one.log_id for part, one in before.items()}
    assert _revisions(dev) == revisions, "the example was not applied over what people changed since"


def test_when_it_is_killed_its_parts_end_and_the_next_start_finds_them_gone(dev: Dev) -> None:
    pids = [dev.ready(part).pid for part in PARTS]
    assert dev.stop(signal.SIGKILL) == -signal.SIGKILL
    deadline = time.monotonic() + 40
    while any(map(_is_alive, pids)):
        assert time.monotonic() < deadline, "parts live on without their supervisor"
        time.sleep(0.02)
    dev.start("--fresh", "--no-apply", "--agents", "0")
    dev.until_said("ready after")
    assert "declared" not in dev.text()
    assert dev.get("/v1/workloads")["items"] == []
    assert dev.stop(signal.SIGTERM) == 0


def _revisions(dev: Dev) -> dict[str, str]:
    items = dev.until_answered("/v1/workloads")["items"]
    return {item["metadata"]["name"]: item["metadata"]["revision"] for item in items}
