"""Pages whose commands are typed, from the top to the bottom, and must answer as they show.

A page's blocks of `console` hold commands, behind a dollar, and some of what they print: `...` stands for anything
and spaces for spaces. A block of `yaml` that begins with a comment like `# web.yaml` is a file of that name. What only
reads is typed again until it prints what is shown.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.transports import blocking_http
from holdfast.transports.blocking_http import BlockingHttpTransport

DOCS = Path(__file__).parents[3] / "docs"
#: Commands that change nothing, and are typed again while they do not print what is shown yet.
READING = ("get", "describe", "status", "queue", "explain", "decisions", "quota", "endpoints", "repair", "audit")
#: Only a shell reads a line that has one of these.
SHELL = re.compile(r"[|<>$;&*]")
#: How long what is shown may take, however slow the machine is.
PATIENCE = 120.0


class Typed(NamedTuple):
    """A command of a page, where it is, the heading that it is under, and what the page shows of its output."""

    line: int
    heading: str
    command: str
    shown: str


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / name).read_text(encoding="utf-8")


def files(text: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    return dict(re.findall(r"^```(?:yaml|python)\n# ([\w./-]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def commands(text: str) -> list[Typed]:
    """The commands of a page, in order."""
    found, heading, inside = [], "", False
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if line.startswith("```"):
            inside = line == "```console"
        elif line.startswith("#") and not inside:
            heading = line.lstrip("# ")
        elif inside and line.startswith("$ "):
            found.append(Typed(number, heading, _whole(line[2:], lines), ""))
        elif inside:
            assert found, f"line {number}: output of no command"
            found[-1] = found[-1]._replace(shown=f"{found[-1].shown}{line}\n")
    return found


def _whole(line: str, lines: Iterator[tuple[int, str]]) -> str:
    """A command with the lines that belong to it: after a backslash, or up to the end of a document."""
    while line.endswith("\\"):
        line = line[:-1] + next(lines)[1].strip()
    if "<< 'END'" in line:
        for _, more in lines:
            line += f"\n{more}"
            if more == "END":
                break
    return line


def answers(shown: str, out: str) -> bool:
    """Whether a command printed what a page shows, whatever the widths of columns are."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in shown.split("..."))
    pattern = r"[\s\S]*?".join(parts)
    return re.search(pattern, out) is not None


class Terminal:
    """Where commands are typed: a folder, a configuration of its own, and what stands for names that are only shown."""

    def __init__(self, folder: Path, stands_for: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.stands_for = dict(stands_for or {})
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOLDFAST_CONFIG": str(folder / "config.yaml"), "COLUMNS": "400", "PATH": path}
        self.environment = {**kept, **own}

    def here(self, text: str) -> str:
        """The text with what stands for the names in it."""
        for name, value in self.stands_for.items():
            text = text.replace(name, value)
        return text

    def write(self, text: str) -> None:
        """The files that a page shows."""
        for name, content in files(text).items():
            (self.folder / name).write_text(self.here(content), encoding="utf-8")

    def type(self, command: str) -> Ended:
        """Type a command; what it printed on both outputs."""
        command = self.here(command)
        words = shlex.split(command) if not SHELL.search(command) else []
        if words[:1] == ["holdfast"]:
            return self._at_once(words[1:])
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout + done.stderr)

    def _at_once(self, words: Sequence[str]) -> Ended:
        """A command of ours without a shell and without a process of its own: much is typed."""
        with ExitStack() as stack:

            def opened(*args: Any, **more: Any) -> BlockingHttpTransport:
                return stack.enter_context(closing(BlockingHttpTransport(*args, **more)))

            stack.enter_context(chdir(self.folder))
            stack.enter_context(mock.patch.dict(os.environ, self.environment, clear=True))
            stack.enter_context(mock.patch.object(blocking_http, "BlockingHttpTransport", opened))
            result = CliRunner().invoke(app, list(words))
        return Ended(result.exit_code, result.stdout + result.stderr)

    def run(self, one: Typed, codes: tuple[int, ...] = (0,), patience: float = PATIENCE) -> Ended:
        """Type a command of a page, and find what the page shows."""
        deadline = time.monotonic() + patience
        again = one.command.startswith("holdfast ") and reads(one.command)
        while True:
            found = self.type(one.command)
            if found.code in codes and answers(self.here(one.shown), found.out):
                return found
            where = f"line {one.line}: {one.command}\nshown:\n{one.shown}\nended with {found.code}:\n{found.out}"
            assert again, where
            assert time.monotonic() < deadline, where
            time.sleep(0.3)


def reads(command: str) -> bool:
    """Whether a command only reads."""
    words = [word for word in command.split()[1:] if not word.startswith("-")]
    return any(word in READING for word in words[:2])


def until(holds: Callable[[], object], why: str, patience: float = PATIENCE) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)
