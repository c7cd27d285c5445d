"""Servers of a platform, a region, an agent and a scheduler that show one another certificates on every hop, put
together as in production.

Two servers of one ledger need a store that both can open. SQLite's is one server's, and a store in memory is one
process's: so both servers of the platform run in this process, with a socket and a certificate of their own each, over
one store in memory. The scheduler is a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.client.blocking_client import Client
from holdfast.client.config import ClientConfig
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Reply, Request, first_value
from holdfast.stores.memory import MemoryStore
from holdfast.transports.blocking_http import BlockingHttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.wiring import storage
from holdfast.wiring.agent import NodeOptions, run_agent
from holdfast.wiring.certificate_authority import AUTHORITY_LIFE, CertificateOptions, issue, new_authority
from holdfast.wiring.config.sources import load_settings
from holdfast.wiring.dev.documents import RegionEntry, apply_regions, document
from holdfast.wiring.machine import MachineOptions
from holdfast.wiring.server import serve
from holdfast.wiring.server_ports import machine_ports
from tests.support.api.api_cluster import a_class, a_tenant, a_workload
from tests.support.event_loop import in_a_loop
from tests.support.processes.real_cluster import CHECKOUT, QUOTA, free_ports

T = TypeVar("T")
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """What a leader asks of the collector is about its process, and this one goes on."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class Secured:
    """Everybody has a certificate of one authority, and turns away who has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_ports(3)
        self.platform, self.region, self.second = (f"https://127.0.0.1:{port + number}" for number in range(3))
        new_authority(folder / "ca", "ours", AUTHORITY_LIFE, NOW)
        for name in ("platform", "eu", "second"):
            self.issued(name, CertificateOptions(hosts=("127.0.0.1",)))

    def issued(self, name: str, options: CertificateOptions) -> TlsConfig:
        files = issue(self.folder / "ca", self.folder, name, options, NOW)
        return TlsConfig(str(files.certificate), str(files.key), str(self.folder / "ca" / "authority.pem"))

    def server(self, name: str, url: str, **said: Any) -> asyncio.Task[Any]:
        files = {
            "tls_certificate": str(self.folder / f"{name}.pem"),
            "tls_key": str(self.folder / f"{name}.key"),
            "tls_trust": str(self.folder / "ca" / "authority.pem"),
        }
        listen = url.removeprefix("https://")
        said |= {"data": str(self.folder / "data" / name), "listen": listen, **files, "tls_require_clients": True}
        settings = load_settings("", {}, said).settings
        return asyncio.create_task(serve(settings, machine_ports(settings, SystemClock()), asyncio.Event()))


async def until(holds: Callable[[], T]) -> T:
    """What it gives, once it gives something. It may block, and it may fail meanwhile."""
    deadline, why = asyncio.get_running_loop().time() + 60, ""
    while asyncio.get_running_loop().time() < deadline:
        try:
            if found := await asyncio.to_thread(holds):
                return found
        except Exception as error:
            why = str(error)
        await asyncio.sleep(0.1)
    raise AssertionError(f"it did not come true: {why}")


@in_a_loop
async def test_an_agent_a_region_and_a_platform_find_one_another_with_certificates_on_every_hop(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    operator = secured.issued("operator", CertificateOptions(principal="person/operator"))
    agent = secured.issued("agent", CertificateOptions(principal="agent/n1"))
    tasks = [secured.server("platform", secured.platform, role="platform")]
    with closing(BlockingHttpTransport(operator)) as transport, closing(BlockingHttpTransport(operator)) as other:
        client = Client(transport, ClientConfig(servers=(secured.platform,), retry_for_ms=5_000))
        regional = Client(other, ClientConfig(servers=(secured.region,), retry_for_ms=5_000))
        try:
            assert (await until(client.whoami))["principal"] == "person/operator"
            place = RegionEntry(secured.region, tmp_path / "eu.token")
            await asyncio.to_thread(apply_regions, client, {"eu": place}, NOW)
            await asyncio.to_thread(client.put, document("Principal", "agent/n1", {"scope": {"region": "eu"}}))
            said = {"role": "region", "region": "eu", "platform": [secured.platform], "token_file": "../../eu.token"}
            tasks.append(secured.server("eu", secured.region, **said))
            wish = MachineOptions("agent", (secured.region,), "n1", "", agent.certificate, agent.key, agent.authorities)
            node = NodeOptions(data=tmp_path / "n1", cgroups=False)
            tasks.append(asyncio.create_task(run_agent(wish, node, SystemClock(), asyncio.Event())))
            nodes = await until(lambda: regional.list("nodes").items)
            assert [one["metadata"]["name"] for one in nodes] == ["n1"]
            assert (await until(lambda: client.status()["regions"][0]["joined"])) is True
            # Through the platform, which shows the region its own certificate and token, and says for whom it asks.
            through = await until(lambda: client.region("eu").list("nodes").items)
            assert [one["metadata"]["name"] for one in through] == ["n1"]
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def asked(tls: TlsConfig, server: str, verb: str, path: str, body: Any = None) -> Reply:
    """What one server answers, itself or by another one."""
    with closing(BlockingHttpTransport(tls)) as transport:
        headers = (("content-type", "application/json"), ("idempotency-key", f"{verb}-{path}-{server}"))
        return transport.call(
            server, Request(verb, path, (), headers, json.dumps(body).encode() if body else b""), 10_000
        )


def is_done(reply: Reply) -> Reply:
    assert reply.status < 300, reply
    return reply


@in_a_loop
async def test_a_follower_hands_on_to_its_leader_and_to_a_region_with_certificates_on_every_hop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured, store, opened = Secured(tmp_path), MemoryStore("platform"), storage.open_server_store

    async def one_store(settings: Any) -> Any:
        return store if settings.role == "platform" else await opened(settings)

    monkeypatch.setattr(storage, "open_server_store", one_store)
    operator = secured.issued("operator", CertificateOptions(principal="person/operator"))
    both = (secured.platform, secured.second)
    tasks = []
    try:
        for name, url in zip(("platform", "second"), both, strict=True):
            (tmp_path / "data" / name).mkdir(parents=True)
            tasks.append(secured.server(name, url, role="platform", store="memory:"))
        with closing(BlockingHttpTransport(operator)) as transport:
            client = Client(transport, ClientConfig(servers=both, retry_for_ms=5_000))
            await until(client.whoami)
            await asyncio.to_thread(
                apply_regions, client, {"eu": RegionEntry(secured.region, tmp_path / "eu.token")}, NOW
            )
        said = {"role": "region", "region": "eu", "platform": list(both), "token_file": "../../eu.token"}
        tasks.append(secured.server("eu", secured.region, **said))
        told = []
        for number, server in enumerate(both):
            written = {"kind": "Tenant", "metadata": {"name": f"tenant-{number}"}, "spec": {}}
            path = f"/v1/tenants/tenant-{number}"
            reply = await until(lambda at=server, to=path, it=written: is_done(asked(operator, at, "PUT", to, it)))  # type: ignore[misc]
            told.append(first_value(reply.headers, "holdfast-server"))
        assert told[0] == told[1], "whoever is asked, the one that leads has written it"
        assert told[0] in both
        for server in both:  # each signs with its own key, which the region knows by the link
            path = "/v1/in/eu/whoami"
            reply = await until(lambda at=server, to=path: is_done(asked(operator, at, "GET", to)))  # type: ignore[misc]
            assert json.loads(reply.body)["principal"] == "person/operator"
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@in_a_loop
async def test_a_scheduler_in_a_process_of_its_own_places_with_certificates_on_every_hop(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    operator = secured.issued("operator", CertificateOptions(principal="person/operator"))
    agent = secured.issued("agent", CertificateOptions(principal="agent/n1"))
    scheduler = secured.issued("scheduler", CertificateOptions(principal="scheduler/main"))
    tasks, over, processes = [secured.server("platform", secured.platform, role="platform")], asyncio.Event(), []
    with closing(BlockingHttpTransport(operator)) as transport, closing(BlockingHttpTransport(operator)) as other:
        client = Client(transport, ClientConfig(servers=(secured.platform,), retry_for_ms=5_000))
        regional = Client(other, ClientConfig(servers=(secured.region,), retry_for_ms=5_000))
        try:
            await until(client.whoami)
            await asyncio.to_thread(
                apply_regions, client, {"eu": RegionEntry(secured.region, tmp_path / "eu.token")}, NOW
            )
            for name in ("agent/n1", "scheduler/main"):
                await asyncio.to_thread(client.put, document("Principal", name, {"scope": {"region": "eu"}}))
            for one in (a_class(), a_tenant(), document("Quota", "shop", QUOTA), a_workload(replicas=1)):
                await asyncio.to_thread(client.put, one)
            said = {"role": "region", "region": "eu", "platform": [secured.platform], "token_file": "../../eu.token"}
            tasks.append(secured.server("eu", secured.region, scheduler="none", **said))
            wish = MachineOptions("agent", (secured.region,), "n1", "", agent.certificate, agent.key, agent.authorities)
            node = NodeOptions(data=tmp_path / "n1", cgroups=False, tenant_map=tmp_path / "users.json", stop_work=True)
            tasks.append(asyncio.create_task(run_agent(wish, node, SystemClock(), over)))
            await until(lambda: regional.list("nodes").items)
            words = ["--server", secured.region, "--name", "main", "--tls-certificate", scheduler.certificate]
            words += ["--tls-key", scheduler.key, "--tls-trust", scheduler.authorities]
            environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT / "src"), "HOME": str(tmp_path)}
            command = [sys.executable, "-m", "holdfast.cli.main", "scheduler", *words]
            processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

            def placed() -> list[dict[str, Any]]:
                items = regional.list("replicas", tenant="*").items
                return [one["status"] for one in items if one["status"].get("node")]

            (found,) = await until(placed)
            assert found["node"] == "n1"
            sessions = await until(lambda: regional.list("sessions").items)
            assert "scheduler/main" in {one["spec"]["principal"] for one in sessions}
        finally:
            for process in processes:
                process.terminate()
                process.wait(20)
            over.set()
            if len(tasks) > 2:
                await asyncio.wait(tasks[2:], timeout=30)
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
