"""Files of TLS are read again when they change: by those who serve and by those who ask, without a restart."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Reply, Request, TransportError
from holdfast.host.runtime.telemetry import Logger
from holdfast.transports import tls_reloader
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.transports.tls_reloader import DAY_MS, TlsReloader
from holdfast.wiring.certificate_authority import AUTHORITY_LIFE, CertificateOptions, issue, new_authority
from tests.support.event_loop import in_a_loop

NOW = datetime.now(UTC).replace(microsecond=0)
HELLO = Request("GET", "/hello")


class Made:
    """Two authorities, and the files of one process, which are copied from what they sign."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("ours", "theirs"):
            new_authority(folder / name, name, AUTHORITY_LIFE, NOW)

    def files(self, name: str, options: CertificateOptions, by: str = "ours", believes: str = "ours") -> TlsConfig:
        """Files by this name, new or in the place of those that are there."""
        made = issue(self._folder / by, self._folder, name, options, NOW, force=True)
        trust = self._folder / f"{name}.trust"
        shutil.copy(self._folder / believes / "authority.pem", trust.with_suffix(".new"))
        trust.with_suffix(".new").replace(trust)
        return TlsConfig(str(made.certificate), str(made.key), str(trust))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(tls_reloader, "POLL_INTERVAL_S", 0.02)
    return Made(tmp_path)


SERVER = CertificateOptions(hosts=("127.0.0.1",))


@asynccontextmanager
async def running(tls: TlsConfig, listen: str = "") -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(SystemClock(), listen=listen, tls=tls)

    async def serve(request: Request) -> Reply:
        return Reply(body=request.proven.encode())

    transport.serve(serve)
    await transport.start()
    try:
        yield transport
    finally:
        await transport.close()
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 30
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "it did not come true"
        await asyncio.sleep(0.01)


async def asked(client: HttpTransport, server: HttpTransport) -> str:
    """The principal that the server knows the client by; `none` when they do not believe each other."""
    try:
        return (await client.call(server.address, HELLO, 10_000)).body.decode()
    except TransportError:
        return "none"


def used(transport: HttpTransport) -> object:
    assert transport._files is not None
    return transport._files.contexts


@in_a_loop
async def test_a_server_takes_new_connections_with_its_new_certificate_and_keeps_the_old_ones(made: Made) -> None:
    server_tls = made.files("server", SERVER, by="theirs")
    client_tls = made.files("client", CertificateOptions(principal="agent/n1"))
    old_tls = made.files("old", CertificateOptions(principal="agent/old"), believes="theirs")
    async with running(server_tls, "127.0.0.1:0") as server, running(client_tls) as client, running(old_tls) as old:
        assert await asked(client, server) == "none"
        assert await asked(old, server) == "agent/old"
        before = used(server)
        made.files("server", SERVER)
        await until(lambda: used(server) is not before)
        assert await asked(client, server) == "agent/n1"
        assert await asked(old, server) == "agent/old"  # on the connection that it has


@in_a_loop
async def test_a_changed_trust_file_counts_for_new_handshakes(made: Made) -> None:
    server_tls = made.files("server", SERVER)
    client_tls = made.files("client", CertificateOptions(principal="agent/n1"))
    async with running(server_tls, "127.0.0.1:0") as server:
        async with running(client_tls) as client:
            assert await asked(client, server) == "agent/n1"
        before = used(server)
        shutil.copy(Path(server_tls.authorities).parent / "theirs" / "authority.pem", server_tls.authorities)
        await until(lambda: used(server) is not before)
        async with running(client_tls) as client:
            assert await asked(client, server) == "none"


@in_a_loop
async def test_one_that_asks_shows_its_new_certificate_in_its_next_request(made: Made) -> None:
    server_tls = made.files("server", SERVER)
    client_tls = made.files("client", CertificateOptions(principal="agent/n1"))
    async with running(server_tls, "127.0.0.1:0") as server, running(client_tls) as client:
        assert await asked(client, server) == "agent/n1"
        before = used(client)
        made.files("client", CertificateOptions(principal="agent/n2"))
        await until(lambda: used(client) is not before)
        assert await asked(client, server) == "agent/n2"


@in_a_loop
async def test_a_file_that_hangs_holds_up_nobody_and_is_read_when_it_answers(made: Made) -> None:
    server_tls = made.files("server", SERVER)
    client_tls = made.files("client", CertificateOptions(principal="agent/n1"))
    async with running(server_tls, "127.0.0.1:0") as server:
        before, pipe = used(server), Path(server_tls.authorities).with_suffix(".pipe")
        os.mkfifo(pipe)
        pipe.replace(server_tls.authorities)  # nobody writes: whoever opens it hangs
        hanging = os.open(server_tls.authorities, os.O_RDWR | os.O_NONBLOCK)
        for _ in range(3):
            async with running(client_tls) as client:
                assert await asked(client, server) == "agent/n1"
            await asyncio.sleep(0.1)
        assert used(server) is before
        made.files("server", SERVER)  # into another file: the one that hangs is still being read
        os.write(hanging, b"no certificate")
        os.close(hanging)
        await until(lambda: used(server) is not before)


class Looked:
    """Files that are looked at when a test says so, at a time that it sets."""

    def __init__(self, tls: TlsConfig) -> None:
        self.now = int(NOW.timestamp() * 1000)
        self.files = TlsReloader(tls, lambda: self.now, Logger("transport"))
        self.first = self.files.contexts

    def look(self, times: int = 2) -> bool:
        """Whether what is used is still what was read at first."""
        for _ in range(times):
            self.files.look()
        return self.files.contexts is self.first


def truncated(tls: TlsConfig) -> None:
    Path(tls.certificate).write_bytes(Path(tls.certificate).read_bytes()[:200])


def emptied(tls: TlsConfig) -> None:
    Path(tls.authorities).write_bytes(b"")


def removed(tls: TlsConfig) -> None:
    Path(tls.key).unlink()


def of_another(tls: TlsConfig) -> None:
    shutil.copy(Path(tls.key).parent / "theirs" / "authority.key", tls.key)


@pytest.mark.parametrize("harm", [truncated, emptied, removed, of_another])
def test_bad_files_leave_the_last_good_ones_and_are_warned_of_once(
    made: Made, harm: Callable[[TlsConfig], None], caplog: pytest.LogCaptureFixture
) -> None:
    tls = made.files("server", SERVER)
    looked = Looked(tls)
    harm(tls)
    with caplog.at_level(logging.WARNING):
        assert looked.look(5)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["certificates-not-read"]
    assert "are not valid" in looked.files.last_error()
    made.files("server", SERVER)
    assert not looked.look()
    assert looked.files.last_error() == ""


def test_a_certificate_that_has_ended_does_not_take_the_place_of_one_that_has_not(made: Made) -> None:
    tls = made.files("server", SERVER)
    looked = Looked(tls)
    looked.now += 10 * DAY_MS
    made.files("server", CertificateOptions(hosts=("127.0.0.1",), life=timedelta(days=5)))
    assert looked.look(5)
    assert "are not valid" in looked.files.last_error()


def test_a_key_and_its_certificate_may_be_replaced_one_after_the_other(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    tls = made.files("server", SERVER)
    other = made.files("other", SERVER)
    looked = Looked(tls)
    with caplog.at_level(logging.WARNING):
        os.replace(other.key, tls.key)
        assert looked.look(1)
        os.replace(other.certificate, tls.certificate)
        assert looked.look(1)
        assert not looked.look(1)
    assert caplog.records == []


def test_that_a_certificate_ends_is_said_two_weeks_before_and_once_a_day(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    looked = Looked(made.files("server", SERVER))
    with caplog.at_level(logging.WARNING):
        looked.now += 75 * DAY_MS
        looked.look()
        assert (caplog.records, looked.files.last_error()) == ([], "")
        looked.now += 2 * DAY_MS
        looked.look(10)
        assert looked.files.last_error() == "the certificate expires in 13 days"
        looked.now += DAY_MS
        looked.look(10)
        looked.now += 13 * DAY_MS
        looked.look(10)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split()[0] for line in said] == ["certificate-ends"] * 3
    assert "days=13" in said[0]
    assert looked.files.last_error() == "the certificate has expired"


def test_a_key_that_every_user_can_read_is_warned_of_until_it_is_closed(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    tls = made.files("server", SERVER)
    Path(tls.key).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        looked = Looked(tls)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["key-open"]
    assert looked.files.last_error() == "every user of its machine can read its key"
    Path(tls.key).chmod(0o600)
    assert not looked.look()
    assert looked.files.last_error() == ""


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(made: Made) -> None:
    from cryptography.hazmat.primitives import serialization

    tls = made.files("server", SERVER)
    key = serialization.load_pem_private_key(Path(tls.key).read_bytes(), None)
    lock = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    Path(tls.key).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))
    with pytest.raises(ssl.SSLError):
        Looked(tls)
