"""The pages of docs/start, followed step by step as a reader would: in a shell, in a folder, against `holdfast dev`.

    ```bash     commands, run in order in one shell; `holdfast dev` runs in another terminal
    ```text     after commands: lines that the last command prints, at once or soon; titles of columns are not compared
    `NAME`:     before a ```python or ```yaml block: the file to save

Nothing depends on speed: a command that only reads is repeated until it prints what the page shows.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes.real_cluster import free_ports

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start"
BLOCK = re.compile(r"(?:^[^\n]*`([\w.-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Commands that only read, and may be repeated until they print something.
READS = re.compile(r"holdfast (get|describe|explain|decisions|queue|quota|status|endpoints|repair|audit)\b|curl|grep")
#: Commands that end with another code than 0 as they should: a difference, a mistake, no answer to a crash.
FAILS = re.compile(r"holdfast diff|holdfast validate -f mistake|/crash|/switch/")
#: What differs from run to run: times, ports, nodes, durations, digests.
VARIES = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|\b(?:eu-central|us-east|us-west)-[\da-d]\b|\b\d+(?:ms|s|m|h|d)\b"
    r"|\b[\da-f]{12}\b|\.\.\."
)
#: How long anything may take on a machine that is busy.
SECONDS = 120.0
END_OF_OUTPUT = re.compile(r"<<<(\d+)>>>\n")


class Block(NamedTuple):
    """One block of a page: the file that it is to be saved as, its language, and what it holds."""

    file: str
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [Block(*found) for found in BLOCK.findall((START / page).read_text(encoding="utf-8"))]


def commands(text: str) -> list[str]:
    """The commands of a block; continued lines, and documents that are part of a command, belong to it."""
    found: list[str] = []
    end = ""
    for line in text.splitlines():
        if end or (found and found[-1].endswith("\\")):
            found[-1] += f"\n{line}"
            end = "" if line == end else end
        elif line.strip() and not line.startswith("#"):
            found.append(line)
            end = next(iter(re.findall(r"<< '?(\w+)'?$", line)), "")
    return found


def is_printed(line: str, output: str) -> bool:
    """Whether the output has the line, but for what differs from run to run."""
    line = " ".join(line.split())
    places = [".*" if mark == "..." else r"\S+" for mark in VARIES.findall(line)]
    first, *others = map(re.escape, VARIES.split(line))
    pattern = first + "".join(place + other for place, other in zip(places, others, strict=True))
    return any(re.search(pattern, " ".join(one.split())) for one in output.splitlines())


def missing(expected: str, output: str) -> list[str]:
    """The lines of a page that the output has not, titles of columns apart."""
    lines = [line for line in expected.splitlines() if line.strip() and line != line.upper()]
    return [line for line in lines if not is_printed(line, output)]


class Reader:
    """A shell in a folder, in which `holdfast` is this checkout's, and another terminal for `holdfast dev`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._environment = {**own, "PATH": path, "HOLDFAST_CONFIG": str(folder / "config.yaml")}
        self._script, self._out = folder / ".command", folder / ".dev"
        self._shell = subprocess.Popen(
            ["bash"], cwd=folder, env=self._environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._dev: subprocess.Popen[bytes] | None = None

    def run(self, command: str) -> str:
        """What a command prints. It ends as it should."""
        self._script.write_text(command.replace("~/hello", str(self.folder)) + "\n", encoding="utf-8")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f". {self._script} < /dev/null; echo \"<<<$?>>>\"\n")
        self._shell.stdin.flush()
        output = ""
        for line in self._shell.stdout:
            output += line
            if end := END_OF_OUTPUT.search(output):
                assert end[1] == "0" or FAILS.search(command), (command, output, self.dev_output())
                return output[: end.start()]
        raise AssertionError(f"the shell has ended at: {command}\n{output}")

    def follow(self, page: str) -> None:
        """Save the files of a page, run its commands, and compare what it shows."""
        last = output = ""
        for block in blocks(page):
            if block.file:
                (self.folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "bash":
                for last in commands(block.text):
                    if last.startswith("rm -r "):
                        self.press_ctrl_c()
                    output = self.start(last) if last.startswith("holdfast dev") else self.run(last)
            elif block.language == "text" and last:
                self._until_printed(block.text, last, output)
                last = ""

    def _until_printed(self, expected: str, command: str, output: str) -> None:
        deadline = time.monotonic() + SECONDS
        while lines := missing(expected, output):
            assert READS.match(command) and time.monotonic() < deadline, (command, lines, output, self.dev_output())
            time.sleep(0.2)
            output = self.run(command)

    def start(self, command: str) -> str:
        """Run `holdfast dev` on other ports until the end; returns once it is ready."""
        with self._out.open("wb") as out:
            words = [*command.split(), "--port", str(free_ports(4))]
            self._dev = subprocess.Popen(
                words, cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while "Ctrl-C" not in self.dev_output():
            assert self._dev.poll() is None and time.monotonic() < deadline, self.dev_output()
            time.sleep(0.1)
        return self.dev_output()

    def dev_output(self) -> str:
        """What the other terminal shows."""
        return self._out.read_text(encoding="utf-8") if self._out.exists() else ""

    def press_ctrl_c(self) -> None:
        """In the other terminal; returns when `holdfast dev` has ended."""
        if self._dev is not None and self._dev.poll() is None:
            self._dev.send_signal(signal.SIGINT)
            self._dev.wait(60)

    def close(self) -> None:
        """Close both terminals."""
        self.press_ctrl_c()
        self._shell.kill()
        self._shell.communicate()


@contextmanager
def reading() -> Iterator[Reader]:
    """A reader in a new folder, which the users of tenants can read: not below `/tmp` where those have their own."""
    place = next((path for path in ("/srv", "/opt") if os.access(path, os.W_OK)), None) if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="holdfast-start-", dir=place) as name:
        Path(name).chmod(0o755)
        reader = Reader(Path(name))
        try:
            yield reader
        finally:
            reader.close()


@pytest.mark.timeout(600)
def test_the_tutorial_leads_from_a_file_to_three_regions() -> None:
    with reading() as reader:
        reader.follow("tutorial.md")
