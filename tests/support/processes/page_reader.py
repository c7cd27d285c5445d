"""Who follows a page that starts a platform of its own: a shell that lasts, and a second terminal for `holdfast dev`.

What a page shows of an output is compared line by line, but for titles of columns and for what differs from run to run.
A command that only reads is typed again until it prints what is shown.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.page_commands import PATIENCE, SHELL, Ended, Terminal, Typed, commands, reads
from tests.support.processes.real_cluster import free_ports

#: What differs from run to run: times, ports, nodes, durations, digests, ordinals.
VARIES = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|\b(?:eu-central|us-east|us-west)-[\da-d]\b|\b\d+(?:ms|s|m|h|d)\b"
    r"|\b[\da-f]{12}\b|(?<=/)\d+\b|\.\.\."
)
#: Commands that end with another code than 0 as they should: a difference, a mistake, no answer to a crash.
FAILS = re.compile(r"holdfast diff|holdfast validate -f mistake|/crash")
FILE = re.compile(r"^```(?:yaml|python)\n(# ([\w.-]+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
END = re.compile(r"\n<<<(\d+)>>>\n$")
#: What says why a page's output does not come: amounts by region, slots, and what has not completed.
STATE = ("holdfast quota", "holdfast get replicas -A", "holdfast queue", "holdfast repair list")


def is_printed(line: str, output: str) -> bool:
    """Whether the output has the line, but for what differs from run to run."""
    line = " ".join(line.split())
    places = [".*" if mark == "..." else r"\S+" for mark in VARIES.findall(line)]
    first, *others = map(re.escape, VARIES.split(line))
    pattern = first + "".join(place + other for place, other in zip(places, others, strict=True))
    return any(re.search(pattern, " ".join(one.split())) for one in output.splitlines())


def missing(shown: str, output: str) -> list[str]:
    """The lines of a page that the output has not, titles of columns apart."""
    lines = [line for line in shown.splitlines() if line.strip() and line != line.upper()]
    return [line for line in lines if not is_printed(line, output)]


class Reader(Terminal):
    """A shell in a folder, which keeps what was set in it; and `holdfast dev` in another terminal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"~/hello": str(folder)})
        self.environment |= {"XDG_DATA_HOME": str(folder / "share")}
        self._script, self._out = folder / ".command", folder / ".dev"
        self._shell = subprocess.Popen(
            ["bash"], cwd=folder, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._dev: subprocess.Popen[bytes] | None = None

    def follow(self, text: str) -> None:
        """Save the files of a page, type its commands, and compare what it shows."""
        for content, name in FILE.findall(text):
            (self.folder / name).write_text(content, encoding="utf-8")
        for one in commands(text):
            if one.command.startswith(("holdfast dev", "make run")):  # that they are the same, the README's test holds
                self.start(one.command.replace("make run", "holdfast dev"))
            elif one.command != "source .venv/bin/activate":
                self._follow(one)

    def _follow(self, one: Typed) -> None:
        deadline = time.monotonic() + PATIENCE
        if one.command.startswith("rm -r"):
            self.press_ctrl_c()
        while True:
            code, output = self.type(one.command)
            lines = missing(one.shown, output)
            if not lines and (code == 0 or FAILS.search(one.command)):
                return
            where = (
                f"line {one.line}: {one.command}\nnot printed: {lines}\nended with {code}:\n{output}{self.printed()}"
            )
            assert one.shown, where
            assert reads(one.command) or one.command.startswith(("curl", "grep")), where
            assert time.monotonic() < deadline, where + "".join(self.type(command).out for command in STATE)
            time.sleep(0.3)

    def type(self, command: str) -> Ended:
        """Type a command; what needs no shell is run at once."""
        if command.startswith("holdfast ") and not SHELL.search(command):
            return super().type(command)
        self._script.write_text(self.here(command) + "\n", encoding="utf-8")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f""". {self._script} < /dev/null; echo; echo "<<<$?>>>"\n""")
        self._shell.stdin.flush()
        output = ""
        for line in self._shell.stdout:
            output += line
            if end := END.search(output):
                return Ended(int(end[1]), output[: end.start()])
        raise AssertionError(f"the shell has ended: {command}\n{output}")

    def start(self, command: str) -> None:
        """Run `holdfast dev` in the other terminal, on ports of its own; returns once it is ready."""
        with self._out.open("wb") as out:
            words = [*command.split(), "--port", str(free_ports(4))]
            self._dev = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while "Ctrl-C" not in self.printed():
            assert self._dev.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.1)

    def printed(self) -> str:
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
    """A reader in a new folder that tenants' users can read: as root not below `/tmp`, where they have their own."""
    writable = (path for path in ("/srv", "/opt", "/var/lib") if os.access(path, os.W_OK))
    with tempfile.TemporaryDirectory(
        prefix="holdfast-start-", dir=next(writable, None) if os.geteuid() == 0 else None
    ) as name:
        Path(name).chmod(0o755)
        reader = Reader(Path(name))
        try:
            yield reader
        finally:
            reader.close()
