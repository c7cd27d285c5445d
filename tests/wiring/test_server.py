"""One server in this process: its exit codes, its ready file, and whose store it takes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
from collections.abc import Coroutine, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from msgspec.structs import replace

from holdfast.api.server.limits import ServerLimits
from holdfast.core.model.objects.principals import parse_token
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Request, TransportError
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.stores.memory import MemoryStore
from holdfast.transports.blocking_http import BlockingHttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.wiring.certificate_authority import AUTHORITY_LIFE, CertificateOptions, issue, new_authority
from holdfast.wiring.config.private_files import read_private, write_private
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.config.sources import load_settings
from holdfast.wiring.config.validation import invalid_settings
from holdfast.wiring.process import ExitCode
from holdfast.wiring.server import INSECURE, Server, serve
from holdfast.wiring.server_ports import limits, machine_ports

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """What a leader asks of the collector is about its process, and this one goes on."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def a_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def settings(folder: Path, **said: Any) -> ServerSettings:
    flags = {"role": "platform", "data": str(folder), "listen": f"127.0.0.1:{a_port()}", **said}
    found = load_settings("", {}, flags).settings
    assert invalid_settings(found) == []
    return found


async def ready(folder: Path, serving: asyncio.Task[ExitCode]) -> dict[str, Any]:
    while not (folder / "ready.json").exists():
        assert not serving.done(), serving.result()
        await asyncio.sleep(0.01)
    found: dict[str, Any] = json.loads((folder / "ready.json").read_text(encoding="utf-8"))
    return found


def lived(one: ServerSettings, story: Coroutine[Any, Any, None] | None = None) -> tuple[ExitCode, dict[str, Any]]:
    """A life of a server: until it is ready and the story is told, then it is asked to stop."""

    async def run() -> tuple[ExitCode, dict[str, Any]]:
        asked = asyncio.Event()
        serving = asyncio.create_task(serve(one, machine_ports(one, SystemClock()), asked))
        found = await ready(Path(one.data), serving)
        if story is not None:
            await story
        asked.set()
        return await serving, found

    return asyncio.run(run())


async def served(one: ServerSettings) -> ExitCode:
    """How a server ends that nobody asks to."""
    return await serve(one, machine_ports(one, SystemClock()), asyncio.Event())


def ended(one: ServerSettings) -> ExitCode:
    """How a server ends that nobody asks to, in a loop of its own."""
    return asyncio.run(served(one))


def refused(one: ServerSettings, capsys: pytest.CaptureFixture[str]) -> str:
    """What a server says that cannot start."""
    assert ended(one) is ExitCode.CANNOT_START
    return capsys.readouterr().err


def test_asked_to_stop_it_ends_with_zero_and_takes_its_ready_file_away(tmp_path: Path) -> None:
    one = settings(tmp_path)
    ending, found = lived(one)
    assert ending is ExitCode.ASKED
    assert (found["pid"], found["address"], found["ledger"]) == (os.getpid(), one.advertise, "platform")
    assert not (tmp_path / "ready.json").exists()


def test_a_new_log_has_an_id_of_its_own_and_a_restart_goes_on_with_it(tmp_path: Path) -> None:
    first, again = lived(settings(tmp_path / "a"))[1], lived(settings(tmp_path / "a"))[1]
    other = lived(settings(tmp_path / "b"))[1]
    assert first["logId"] == again["logId"] != other["logId"]


def test_a_platform_has_its_operators_token_when_it_is_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = settings(tmp_path)

    async def story() -> None:
        assert (Path(one.bootstrap_file).stat().st_mode & 0o777) == 0o600

    lived(one, story())
    secret = Path(one.bootstrap_file).read_text(encoding="utf-8").strip()[-43:]
    said = capsys.readouterr()
    assert secret not in said.err + said.out


def test_a_port_that_is_taken_is_named_and_nothing_is_left_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(settings(tmp_path, listen=listen), capsys)
    assert f"listening on {listen}" in said
    assert "hint:" in said
    assert lived(settings(tmp_path))[0] is ExitCode.ASKED


def test_a_store_that_is_in_use_is_named_with_who_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def second() -> None:
        assert await served(settings(tmp_path)) is ExitCode.CANNOT_START
        assert (tmp_path / "ready.json").exists(), "that of the first one"

    lived(settings(tmp_path), second())
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_store_with_the_log_of_another_ledger_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lived(settings(tmp_path))
    write_private(tmp_path / "token", f"hf_region-eu_{'x' * 43}\n")
    said = {"role": "region", "region": "eu", "platform": ["http://127.0.0.1:1"], "token_file": "token"}
    text = refused(settings(tmp_path, **said), capsys)
    assert "holds the log of platform, and this server is set up for region/eu" in text
    assert lived(settings(tmp_path))[0] is ExitCode.ASKED


def test_a_region_without_its_token_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"role": "region", "region": "eu", "platform": ["http://127.0.0.1:1"], "token_file": "token"}
    assert "holdfast token create --principal region/eu" in refused(settings(tmp_path, **said), capsys)


def test_a_region_serves_while_its_platform_is_not_there(tmp_path: Path) -> None:
    write_private(tmp_path / "token", f"hf_region-eu_{'x' * 43}\n")
    said = {"role": "region", "region": "eu", "platform": ["http://127.0.0.1:1"], "token_file": "token"}
    ending, found = lived(settings(tmp_path, **said))
    assert (ending, found["ledger"]) == (ExitCode.ASKED, "region/eu")


def test_a_damaged_store_ends_the_server_with_three_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lived(settings(tmp_path))
    log = tmp_path / "ledger" / "log.db"
    log.write_bytes(b"no database " * 1_000)
    assert ended(settings(tmp_path)) is ExitCode.STOPPED
    assert str(tmp_path / "ledger") in capsys.readouterr().err


def test_a_server_with_certificates_answers_those_who_trust_them_and_show_their_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "trust.pem")
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    files = {"tls_certificate": "certificate.pem", "tls_key": "key.pem", "tls_trust": "trust.pem"}
    one = settings(tmp_path, **files, tls_require_clients=True)
    trusting = TlsConfig(authorities=one.tls_trust)
    shown = replace(trusting, certificate=one.tls_certificate, key=one.tls_key)

    def asked(tls: TlsConfig) -> int:
        with closing(BlockingHttpTransport(tls)) as transport:
            return transport.call(one.advertise, Request("GET", "/readyz"), 3_000).status

    async def story() -> None:
        assert await asyncio.to_thread(asked, shown) == 200
        with pytest.raises(TransportError):
            await asyncio.to_thread(asked, trusting)

    assert one.advertise.startswith("https://")
    assert lived(one, story())[0] is ExitCode.ASKED


def test_a_server_that_is_told_to_be_insecure_says_so_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        lived(settings(tmp_path))
        assert "insecure" not in caplog.text
        lived(settings(tmp_path, insecure=True))
    assert "insecure" in caplog.text


def warnings_in_status(one: ServerSettings, tls: TlsConfig | None = None) -> list[str]:
    token = read_private(Path(one.bootstrap_file))
    with closing(BlockingHttpTransport(tls)) as transport:
        asked = Request("GET", "/v1/status", headers=(("authorization", f"Bearer {token}"),))
        found: list[str] = json.loads(transport.call(one.advertise, asked, 10_000).body)["warnings"]
        return found


def test_a_store_in_memory_is_warned_of_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        lived(settings(tmp_path))
        assert "store-in-memory" not in caplog.text
        lived(settings(tmp_path, store="memory:"))
    assert "store-in-memory" in caplog.text
    assert "why=all data is lost when this process ends" in caplog.text


@pytest.mark.parametrize("insecure", [False, True])
def test_status_tells_that_a_server_is_insecure(tmp_path: Path, insecure: bool) -> None:
    one = settings(tmp_path, insecure=insecure)

    async def story() -> None:
        found = await asyncio.to_thread(warnings_in_status, one)
        assert [line for line in found if "insecure" in line] == [
            f"{one.name} runs with --insecure: {INSECURE}" for _ in range(insecure)
        ]

    assert lived(one, story())[0] is ExitCode.ASKED


def test_status_tells_that_the_certificate_ends_soon(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    new_authority(tmp_path / "ca", "ours", AUTHORITY_LIFE, now)
    wish = CertificateOptions(hosts=("127.0.0.1",), life=timedelta(days=5))
    issue(tmp_path / "ca", tmp_path, "own", wish, now)
    one = settings(tmp_path, tls_certificate="own.pem", tls_key="own.key", tls_trust="ca/authority.pem")

    async def story() -> None:
        found = await asyncio.to_thread(warnings_in_status, one, TlsConfig(authorities=one.tls_trust))
        assert found == [f"{one.name}: the certificate expires in 4 days"]

    assert lived(one, story())[0] is ExitCode.ASKED


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(settings(tmp_path, tls_certificate="none.pem", tls_key="none.key"), capsys)
    assert f"{tmp_path}/none.pem cannot be read" in said


def test_a_certificate_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.pem").write_text("no certificate", encoding="utf-8")
    said = refused(settings(tmp_path, tls_certificate="none.pem", tls_key="none.pem"), capsys)
    assert "the certificates are not valid" in said


def test_the_limits_of_the_settings_are_those_of_the_api(tmp_path: Path) -> None:
    assert limits(settings(tmp_path)) == ServerLimits()
    assert limits(settings(tmp_path, watches="7", timeout="3s")) == replace(ServerLimits(), watches=7, timeout_ms=3_000)


def test_a_snapshot_is_due_when_the_settings_say_so(tmp_path: Path) -> None:
    one = settings(tmp_path, snapshot_bytes="3Mi", snapshot_batches="700", retention="2h")
    assert kept(one) == SnapshotPolicy(3 << 20, 700, 7_200_000)
    assert kept(settings(tmp_path)) == SnapshotPolicy()


def kept(one: ServerSettings) -> SnapshotPolicy:
    server = Server(one, machine_ports(one, SystemClock()), MemoryStore())
    return server.ledger.snapshots._policy


def test_a_server_makes_a_token_of_its_own_shows_it_after_a_restart_too_and_never_writes_it_to_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = settings(tmp_path)
    file = tmp_path / "server-token.json"
    caplog.set_level(logging.DEBUG)

    async def told(event: str) -> None:
        async with asyncio.timeout(120):
            while not any(getattr(record, "event", "") == event for record in caplog.records):
                await asyncio.sleep(0.01)

    lived(one, told("server-admitted"))
    first = json.loads(file.read_text(encoding="utf-8"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert first["principal"] == f"platform/127-0-0-1-{one.listen.rpartition(':')[2]}"
    name, secret = parse_token(first["current"]["token"]) or ("", "")
    assert any(name in record.getMessage() for record in caplog.records)
    assert not any(secret in record.getMessage() for record in caplog.records)
    caplog.clear()
    lived(one)
    assert json.loads(file.read_text(encoding="utf-8")) == first
    assert not any(getattr(record, "event", "") == "server-token-minted" for record in caplog.records)
