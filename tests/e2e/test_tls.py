"""TLS with client certificates, end to end: a server's process, and the command line as its users run it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.transports.tls import TlsConfig
from tests.support.certificates import Authority

HOLDFAST = (sys.executable, "-m", "holdfast.cli.main")
DENIED, UNREACHABLE = 3, 4


class Secured:
    """A platform that wants a certificate of whoever asks."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._at = f"127.0.0.1:{free.getsockname()[1]}"
        own = self.authority.server(require_client=True)
        self.process = subprocess.Popen(
            [
                *HOLDFAST, "server", "--role", "platform", "--data", str(folder / "data"), "--listen", self._at,
                "--advertise", f"https://{self._at}", "--operator", "person/operator",
                "--tls-certificate", own.certificate, "--tls-key", own.key, "--tls-trust", own.authorities,
                "--tls-require-clients",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while not (self._folder / "data" / "ready.json").exists():
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server is not ready"
            time.sleep(0.05)

    def run(self, shows: TlsConfig, *words: str, read: str = "") -> subprocess.CompletedProcess[str]:
        """A command of somebody who shows this certificate."""
        context = {"servers": [f"https://{self._at}"], "authorities": shows.authorities}
        context |= {"certificate": shows.certificate, "key": shows.key} if shows.certificate else {}
        config = self._folder / "config.yaml"
        config.write_text(json.dumps({"current": "secured", "contexts": {"secured": context}}))
        config.chmod(0o600)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        environment["HOLDFAST_CONFIG"] = str(config)
        return subprocess.run(
            [*HOLDFAST, *words], env=environment, input=read, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("tls"))
    try:
        found.wait_until_ready()
        yield found
    finally:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(20)


def test_a_certificate_says_who_asks_and_what_is_written_is_its_principals(secured: Secured) -> None:
    operator = secured.authority.client("holdfast:person/operator")
    who = secured.run(operator, "whoami", "-o", "json")
    assert who.returncode == 0, who.stderr
    assert json.loads(who.stdout)["principal"] == "person/operator"
    document = {
        "apiVersion": "holdfast/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "x"},
        "spec": {"priority": 1},
    }
    applied = secured.run(operator, "apply", "-f", "-", read=json.dumps(document))
    assert (applied.returncode, applied.stdout) == (0, "priorityclass/x created\n"), applied.stderr
    read = secured.run(operator, "get", "priorityclasses", "x", "-o", "json")
    assert json.loads(read.stdout)["metadata"]["createdBy"] == "person/operator"


def test_a_principal_that_nobody_knows_is_denied(secured: Secured) -> None:
    found = secured.run(secured.authority.client("holdfast:person/stranger"), "get", "tenants", "--timeout", "2s")
    assert found.returncode == DENIED, found.stderr
    assert "person/stranger" in found.stderr


def test_a_certificate_that_names_nobody_is_denied(secured: Secured) -> None:
    found = secured.run(secured.authority.client("https://elsewhere.example/x"), "get", "tenants", "--timeout", "2s")
    assert found.returncode == DENIED, found.stderr


def test_without_a_certificate_nothing_is_said(secured: Secured) -> None:
    found = secured.run(secured.authority.client(), "get", "tenants", "--timeout", "2s")
    assert found.returncode == UNREACHABLE, (found.stdout, found.stderr)


def test_a_certificate_of_another_authority_opens_nothing(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").client("holdfast:person/operator", believes=secured.authority.authorities)
    found = secured.run(other, "get", "tenants", "--timeout", "2s")
    assert found.returncode == UNREACHABLE, (found.stdout, found.stderr)


def test_a_client_does_not_speak_to_a_server_of_another_authority(secured: Secured, tmp_path: Path) -> None:
    believes = Authority(tmp_path / "other").authorities
    wary = secured.authority.client("holdfast:person/operator", believes=believes)
    found = secured.run(wary, "get", "tenants", "--timeout", "2s")
    assert found.returncode == UNREACHABLE, (found.stdout, found.stderr)
