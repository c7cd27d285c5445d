"""The first commands of docs/operate/tokens-and-tls.md, typed as they stand: only the port is another."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.page_commands import commands, page
from tests.support.processes.real_cluster import free_ports

SECTION = page("operate/tokens-and-tls.md").split("## First trust\n")[1].split("\n## The operator")[0]


class Shell:
    """A shell in a folder, in which `holdfast` is this checkout's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = str(free_ports(1))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**kept, "HOLDFAST_CONFIG": str(folder / "config.yaml"), "PATH": path}
        self.server: subprocess.Popen[bytes] | None = None

    def type(self, line: str) -> str:
        """What the command prints. A server goes on; it is ready when this returns."""
        line = line.replace("7400", self.port)
        if line.startswith("holdfast server"):
            self.server = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=self.folder, env=self._environment)
            deadline = time.monotonic() + 60
            while not (self.folder / "platform" / "ready.json").exists():
                assert self.server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server is not ready"
                time.sleep(0.05)
            return ""
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    found = Shell(tmp_path)
    yield found
    if found.server is not None:
        found.server.send_signal(signal.SIGTERM)
        found.server.wait(30)


def test_the_commands_of_first_trust_lead_to_a_server_that_knows_its_operator_by_a_certificate(shell: Shell) -> None:
    printed = {one.command: shell.type(one.command) for one in commands(SECTION)}
    assert len([line for line in printed if line.startswith("holdfast certificate")]) == 5
    (who,) = (text for line, text in printed.items() if line.endswith("whoami"))
    assert "person/operator" in who
    (shown,) = (text for line, text in printed.items() if "certificate show" in line)
    assert "localhost, 127.0.0.1" in shown
    for path in re.findall(r"`([a-z]+/[a-z-]+\.(?:pem|key))`", SECTION):
        assert (shell.folder / path).is_file()
    # The last of them has renewed the server's certificate, which is shown without a restart.
    renewed, deadline = (shell.folder / "platform" / "localhost.pem").read_text(encoding="utf-8"), time.monotonic() + 60
    while ssl.get_server_certificate(("127.0.0.1", int(shell.port)), timeout=30).strip() != renewed.strip():
        assert time.monotonic() < deadline, "the server still shows its old certificate"
        time.sleep(0.1)
