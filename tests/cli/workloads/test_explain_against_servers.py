"""`holdfast queue`, `decisions` and `explain` against real servers, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from holdfast.cli import connect
from holdfast.cli.context import CliContext
from holdfast.cli.main import app
from holdfast.client.blocking_client import Client
from holdfast.client.config import ClientConfig
from holdfast.core.model.objects.principals import format_token
from holdfast.transports.blocking_http import BlockingHttpTransport
from tests.support.api.api_cluster import secret_of
from tests.support.api.cluster_over_transport import ClusterOverTransport
from tests.support.api.loopback_cluster import both, serving
from tests.support.ledgers.deciding_region import NEAREST, DecidingRegion


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options that lead to a platform and its region eu, where a scheduler has decided."""

    async def decided(world: ClusterOverTransport) -> dict[str, str]:
        urls = await both(world)
        region = next(one for one in world.servers if one.name == urls["region"])
        deciding = DecidingRegion(region, world.clock.wall)
        ((_, web),) = region.state.assignments.items()
        await deciding.place(web, (0, "n1"))
        await deciding.wait(web)
        return urls

    token = tmp_path_factory.mktemp("real") / "token"
    token.write_text(format_token("operator", secret_of("operator")))
    token.chmod(0o600)
    with serving(decided) as urls:
        yield ["--server", urls["platform"], "--token-file", str(token)]


def run(real: list[str], *words: str) -> Result:
    return CliRunner().invoke(app, [*real, *words])


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that ends closes its connections; here the test does."""
    transport = BlockingHttpTransport()

    def opened(access: ClientConfig, context: CliContext, verbose: int = 0) -> Client:
        return Client(transport, access)

    monkeypatch.setattr(connect, "open_client", opened)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.yaml"))
    yield
    transport.close()


@pytest.mark.usefixtures("closing")
def test_a_real_region_says_what_waits_and_what_was_decided(real: list[str]) -> None:
    queue = run(real, "queue")
    assert queue.exit_code == 0, queue.stderr
    assert NEAREST in queue.stdout
    decisions = run(real, "decisions", "--workload", "shop/web", "-o", "json")
    assert [one["outcome"] for one in msgspec.json.decode(decisions.stdout)["items"]] == ["waiting", "placed"]
    waiting = run(real, "explain", "shop/web")
    assert "Waiting in eu: 2 replicas" in waiting.stdout, waiting.stderr
    slot = run(real, "explain", "shop/web/eu/0")
    assert "placed, on n1" in slot.stdout, slot.stderr
    assert "Best candidates" in slot.stdout
