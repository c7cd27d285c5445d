"""The README's commands, run as its reader would: `make run` in one terminal, the rest in another."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: What `make run` is, by the README.
RUN = re.findall(r"That is `(holdfast dev[^`]*)`", README)[0]


def _commands(heading: str) -> list[str]:
    """The `holdfast` lines in the blocks under a heading; what follows after several spaces is a remark."""
    part = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```\n(.*?)```", part, re.DOTALL)
    lines = [re.split(r" {3,}", line)[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("holdfast ")]


def _four_free_ports() -> int:
    """The first of four neighbouring ports that nobody listens on."""
    for first in range(21_000, 29_000, 4):
        try:
            for port in range(first, first + 4):
                with socket.socket() as taken:
                    taken.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def _run(command: str, environment: dict[str, str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "holdfast.cli.main", *shlex.split(command)[1:]]
    return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What `make run` starts, on other ports and in a folder of its own."""
    folder = tmp_path_factory.mktemp("readme")
    environment = {**os.environ, "HOLDFAST_CONFIG": str(folder / "config.yaml")}
    command = [sys.executable, "-m", "holdfast.cli.main", *RUN.split()[1:], "--data", str(folder / "data")]
    command += ["--port", str(_four_free_ports())]
    out = folder / "out"
    with out.open("w") as file:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while "Ctrl-C" not in out.read_text():
            assert process.poll() is None, out.read_text()
            assert time.monotonic() < deadline, out.read_text()
            time.sleep(0.1)
        yield environment
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def test_make_run_is_what_the_readme_says_that_it_is() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^run:.*\n\t.*/{RUN} \$\(ARGS\)$", makefile, re.MULTILINE)
    assert "make run" in README


def test_what_make_run_shows_is_bound(platform: dict[str, str]) -> None:
    deadline = time.monotonic() + 30
    while "unbound" in (said := _bound(platform)):
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def _bound(platform: dict[str, str]) -> str:
    """The replicas of the example in one region; `unbound` where one is not."""
    rows = _run("holdfast get replicas -A --region us-east", platform).stdout.splitlines()[1:]
    phases = [row.split()[2] for row in rows] or ["none"]
    return "\n".join("bound" if phase == "bound" else f"unbound: {phase}" for phase in phases)


def test_every_command_of_the_readme_is_run() -> None:
    assert len(_commands("Try it")) >= 8
    assert len(_commands("Develop")) >= 4


@pytest.mark.parametrize("command", _commands("Try it"))
def test_the_commands_that_the_readme_says_to_try_work(command: str, platform: dict[str, str]) -> None:
    found = _run(command, platform)
    differs = command.startswith("holdfast diff")
    assert found.returncode in ((0, 1) if differs else (0,)), (command, found.stdout, found.stderr)
    assert found.stdout.strip(), command


@pytest.mark.timeout(300)
def test_the_simulators_commands_work(tmp_path: Path) -> None:
    for command in _commands("Develop"):
        if "swarm" in command:
            command = command.replace("1..200", "1..4")
        command = command.replace("zone.hfr", str(tmp_path / "zone.hfr"))
        found = _run(command, dict(os.environ))
        assert found.returncode == 0, (command, found.stdout[-2000:], found.stderr[-2000:])
