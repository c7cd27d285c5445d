"""A platform and one region as real processes on loopback, and whatever else a test starts beside them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from holdfast.client.blocking_client import Client
from holdfast.wiring.config.private_files import read_or_create_token, read_private
from holdfast.wiring.dev import documents as dev_documents
from holdfast.wiring.dev.data_folder import address, read_ready_file, token_file
from tests.support.api.api_cluster import a_class, a_tenant
from tests.support.processes.process_world import end_work

CHECKOUT = Path(__file__).parents[3]
#: One of those whose nodes can be declared.
PLACE = "eu-central"
QUOTA = {"hard": {"cpu": 400, "memory": "400Gi", "disk": "400Gi"}}


#: Below those that the system gives out by itself; each process has a thousand of them.
PORTS, STRETCH = range(21_000, 32_000), 1_000


@cache
def _stretch() -> tuple[socket.socket, Iterator[int]]:
    """A thousand ports that this process has to itself while it lives, and the next ones to try.

    The first port of a thousand is bound and is the lock: any two processes exclude each other by it, whatever folder
    each of them keeps temporary files in.
    """
    for first in PORTS[::STRETCH]:
        lock = socket.socket()
        try:
            lock.bind(("127.0.0.1", first))
        except OSError:
            lock.close()
            continue
        return lock, cycle(range(first + 1, first + STRETCH))
    raise AssertionError("too many processes run tests at a time")


def free_ports(count: int) -> int:
    """The first of `count` ports in a row on which nobody listens."""
    _, nexts = _stretch()
    found: list[int] = []
    for port in islice(nexts, 2 * STRETCH):
        if found and port != found[-1] + 1:
            found = []
        try:
            with socket.socket() as trial:
                trial.bind(("127.0.0.1", port))
        except OSError:
            found = []
            continue
        found.append(port)
        if len(found) == count:
            return found[0]
    raise AssertionError("no ports are free")


class RealCluster:
    """What was started in a folder, on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(4)
        self.processes: list[subprocess.Popen[bytes]] = []
        #: Where some of them speak, instead of in a log.
        self.ears: dict[str, int] = {}

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A module of ours, with words for it. What it says goes to the log of this name, or to a pipe of `ears`."""
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT / "src"), "HOME": str(self.folder)}
        with open(self.folder / f"{name}.log", "ab") as out:
            ear = self.ears.get(name, out)
            process = subprocess.Popen([sys.executable, "-m", *words], env=environment, stdout=out, stderr=ear)
        self.processes.append(process)
        return process

    def server(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        """A server; returns when it is ready."""
        listen = address(name, self.port).removeprefix("http://")
        words = ("holdfast.cli.main", "server", "--data", str(self.folder / name), "--listen", listen, *flags)
        process = self.start(name, *words)
        self.until(lambda: read_ready_file(self.folder / name) is not None, f"{name} is not ready")
        return process

    def log(self, name: str) -> str:
        """What one of them has said."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def until(self, holds: Callable[[], Any], why: str, seconds: float = 90) -> None:
        """Wait for something to be so."""
        deadline = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(f"{file.name}:\n{file.read_text()[-2_000:]}" for file in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{why}\n{logs}"
            time.sleep(0.05)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """The operator's."""
        token = read_private(self.folder / "platform" / "operator.token") or ""
        with dev_documents.operator(address("platform", self.port), token) as client:
            yield client

    def tell(self, *documents: dev_documents.Document) -> None:
        """Apply these."""
        with self.client() as client:
            dev_documents.apply_documents(client, documents)

    def replicas(self) -> list[dict[str, Any]]:
        """All of them, as the region has them."""
        with self.client() as client:
            return list(client.region(PLACE).list("replicas", tenant="*").items)

    def open(self, *flags: str, platform: tuple[str, ...] = ()) -> None:
        """Start platform and region, let machines speak, and make a tenant with much quota."""
        self.server("platform", "--role", "platform", *platform)
        read_or_create_token(f"region-{PLACE}", self.folder / "region.token")
        now = datetime.now(UTC)
        with self.client() as client:
            dev_documents.apply_regions(
                client, {PLACE: dev_documents.RegionEntry(address(PLACE, self.port), self.folder / "region.token")}, now
            )
            agents = dev_documents.MachineEntry("agent/*", "", "agents", token_file(self.folder))
            schedulers = dev_documents.MachineEntry("scheduler/*", "", "schedulers", self.folder / "schedulers.token")
            dev_documents.apply_machines(client, [agents, schedulers], now)
        where = ("--platform", address("platform", self.port), "--token-file", str(self.folder / "region.token"))
        self.server(PLACE, "--role", "region", "--region", PLACE, *where, *flags)
        self.tell(a_class(), a_tenant(), dev_documents.document("Quota", "shop", QUOTA))

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self.processes:
            process.kill()
            process.wait(20)
        for data in self.folder.iterdir():
            end_work(data)
