"""The pages of docs/operate, typed as they stand: from an authority to a platform, a region, a node and a scheduler.

All of it runs over TLS on the loopback; hosts, ports and folders of the machine are others than the pages show.
"""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.ledger.levels import LEVEL
from tests.support.processes.page_commands import DOCS, Terminal, Typed, commands, page, until
from tests.support.processes.real_cluster import CHECKOUT, free_ports

#: In the order in which an operator comes by them.
PAGES = ("tokens-and-tls", "servers", "regions", "nodes-and-agents", "schedulers", "policies", "monitoring")
#: Pages without commands, or whose commands other tests run.
ELSEWHERE = {"install", "security", "scheduler-plugins"}
#: What is started, and goes on.
PROCESSES = ("holdfast server", "holdfast agent", "holdfast scheduler")

#: What each says once it works: a server, an agent, a scheduler.
READY = re.compile(r": (ready|registered|session) ")

pytestmark = pytest.mark.timeout(600)


class Machines(Terminal):
    """A terminal, and the processes that were started from it."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(4)
        super().__init__(
            folder,
            {
                "platform.example": "localhost",
                "eu-1.example": "localhost",
                **{f":{shown}": f":{port + at}" for at, shown in enumerate((7400, 7401, 7410, 7480))},
                "/etc/holdfast": str(folder / "etc"),
                "/var/lib/holdfast": str(folder / "var"),
            },
        )
        #: By what they are told: another one with the same settings or data takes the place of the first.
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, command: str) -> None:
        """Start a process; returns when it is ready."""
        command = self.here(command)
        if command.startswith("holdfast agent"):
            command += f" --tenant-map {self.folder / 'users.json'}"
        words = command.split()
        place = next(words[words.index(flag) + 1] for flag in ("--settings", "--data", "--name") if flag in words)
        if place in self.processes:
            self.stop(place)
        log = self.folder / f"{len(self.processes)}.log"
        with log.open("wb") as file:
            self.processes[place] = process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=file, stderr=file
            )
        until(lambda: READY.search(log.read_text()) or process.poll() is not None, f"{command}: {log}")
        assert process.poll() is None, f"{command}\n{log.read_text()}"

    def stop(self, place: str) -> None:
        process = self.processes[place]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, place

    def do(self, one: Typed) -> None:
        """Type a command of a page, or start what goes on."""
        if one.command.startswith(PROCESSES) and "--show-settings" not in one.command:
            self.start(one.command)
        else:
            self.run(one)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    found = Machines(tmp_path)
    yield found
    for place in reversed(found.processes):
        found.processes[place].kill()
        found.processes[place].wait(60)


def test_the_commands_of_the_pages_lead_from_an_authority_to_a_region_with_a_node_and_a_scheduler(
    machines: Machines,
) -> None:
    typed = 0
    for name in PAGES:
        text = page(f"operate/{name}.md")
        machines.write(text)
        for one in commands(text):
            machines.do(one)
            typed += 1
    assert typed > 60
    with urllib.request.urlopen(machines.here("http://127.0.0.1:7480/metrics")) as answer:
        assert b"holdfast_scheduler_sessions" in answer.read()
    for place in list(machines.processes):
        machines.stop(place)


def test_installing_is_what_the_makefile_does(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, {".venv/bin/holdfast": "holdfast"})
    lines = [one.command for one in commands(page("operate/install.md"))]
    assert lines == ["make setup", ".venv/bin/holdfast version --client", "holdfast dev"]
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert "\nsetup: $(READY)" in makefile
    assert "\nrun: $(READY)" in makefile
    assert terminal.type(lines[1]).code == 0


def test_an_upgrade_raises_a_log_to_the_newest_level() -> None:
    written = (DOCS / "operate" / "servers.md").read_text(encoding="utf-8")
    assert re.findall(r'command\("raise-level", level=(\d+)\)', written) == [str(LEVEL)]


def test_every_page_is_typed_here_or_elsewhere() -> None:
    assert {path.stem for path in (DOCS / "operate").glob("*.md")} == {*PAGES, *ELSEWHERE}
