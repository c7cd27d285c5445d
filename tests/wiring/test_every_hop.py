"""A platform, a region and an agent that show one another certificates on every hop, put together as in production."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.api.carriers.plain import PlainTransport
from holdfast.api.carriers.tls import Tls
from holdfast.api.client.access import Access
from holdfast.api.client.sync import HoldfastSync
from holdfast.host.clock import SystemClock
from holdfast.wiring.agent import NodeWish, be_agent
from holdfast.wiring.authority import AUTHORITY_LIFE, CertificateWish, issue, new_authority
from holdfast.wiring.first import Place, document, introduce
from holdfast.wiring.machine import MachineWish
from holdfast.wiring.server import serve
from holdfast.wiring.sources import gather
from tests.support.aio import in_a_loop
from tests.support.field import free_ports

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
        port = free_ports(2)
        self.platform, self.region = (f"https://127.0.0.1:{port + number}" for number in range(2))
        new_authority(folder / "ca", "ours", AUTHORITY_LIFE, NOW)
        for name in ("platform", "eu"):
            self.issued(name, CertificateWish(hosts=("127.0.0.1",)))

    def issued(self, name: str, wish: CertificateWish) -> Tls:
        files = issue(self.folder / "ca", self.folder, name, wish, NOW)
        return Tls(str(files.certificate), str(files.key), str(self.folder / "ca" / "authority.pem"))

    def server(self, name: str, url: str, **said: Any) -> asyncio.Task[Any]:
        files = {
            "tls_certificate": str(self.folder / f"{name}.pem"),
            "tls_key": str(self.folder / f"{name}.key"),
            "tls_trust": str(self.folder / "ca" / "authority.pem"),
        }
        listen = url.removeprefix("https://")
        said |= {"data": str(self.folder / "data" / name), "listen": listen, **files, "tls_require_clients": True}
        return asyncio.create_task(serve(gather("", {}, said).settings, SystemClock(), asyncio.Event()))


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
    operator = secured.issued("operator", CertificateWish(principal="person/operator"))
    agent = secured.issued("agent", CertificateWish(principal="agent/n1"))
    tasks = [secured.server("platform", secured.platform, role="platform")]
    with closing(PlainTransport(operator)) as transport, closing(PlainTransport(operator)) as other:
        client = HoldfastSync(transport, Access(servers=(secured.platform,), patience_ms=5_000))
        regional = HoldfastSync(other, Access(servers=(secured.region,), patience_ms=5_000))
        try:
            assert (await until(client.whoami))["principal"] == "person/operator"
            place = Place(secured.region, tmp_path / "eu.token")
            await asyncio.to_thread(introduce, client, {"eu": place}, NOW)
            await asyncio.to_thread(client.put, document("Principal", "agent/n1", {"scope": {"region": "eu"}}))
            said = {"role": "region", "region": "eu", "platform": [secured.platform], "token_file": "../../eu.token"}
            tasks.append(secured.server("eu", secured.region, **said))
            wish = MachineWish("agent", (secured.region,), "n1", "", agent.certificate, agent.key, agent.authorities)
            node = NodeWish(data=tmp_path / "n1", cgroups=False)
            tasks.append(asyncio.create_task(be_agent(wish, node, SystemClock(), asyncio.Event())))
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
