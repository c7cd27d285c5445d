"""The README's commands, run as its reader would: `make run` in one terminal, the rest in another."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.real_cluster import free_ports

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


def _run(command: str, environment: dict[str, str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "holdfast.cli.main", *shlex.split(command)[1:]]
    return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What `make run` starts, on other ports and in a folder of its own."""
    folder = tmp_path_factory.mktemp("readme")
    environment = {**os.environ, "HOLDFAST_CONFIG": str(folder / "config.yaml")}
    command = [sys.executable, "-m", "holdfast.cli.main", *RUN.split()[1:], "--data", str(folder / "data")]
    command += ["--port", str(free_ports(4))]
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


def test_what_make_run_starts_serves_and_completes(platform: dict[str, str]) -> None:
    """Within 20 seconds of the command where nobody else uses the machine; batch work takes as long again."""
    deadline = time.monotonic() + 90
    while _left(platform):
        assert time.monotonic() < deadline, _left(platform)
        time.sleep(0.5)


def _left(platform: dict[str, str]) -> list[str]:
    """The workloads of which something neither serves nor is done."""
    rows = _run("holdfast get workloads -A", platform).stdout.splitlines()
    places = {name: rows[0].split().index(name) for name in ("REPLICAS", "SERVING", "SUCCEEDED")}
    found = [(row, [int(row.split()[place]) for place in places.values()]) for row in rows[1:]]
    assert len(found) == 5, rows
    return [row for row, (wanted, serving, succeeded) in found if wanted not in (serving, succeeded)]


def test_every_command_of_the_readme_is_run() -> None:
    assert len(_commands("Try it")) >= 8
    assert len(_commands("Develop")) >= 4


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len(README.splitlines()) < 150


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
