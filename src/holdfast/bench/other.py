"""The process at the other end of a benchmark: told what to do by a line of JSON, it answers in lines of JSON."""

from __future__ import annotations

import asyncio
import sys

import msgspec
from msgspec import Struct


class Other:
    """A module that runs as a process of its own. It says `ready`, and then what it found."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, task: Struct) -> Other:
        """Start it with its task, and wait until it is ready."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", module)
        other = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        other.tell(msgspec.json.encode(task))
        assert await other.hear() == b'"ready"'
        return other

    def tell(self, line: bytes = b"go") -> None:
        """One line for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    async def hear(self) -> bytes:
        """Its next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the other process ended early"
        return line.strip()

    async def end(self) -> None:
        """Tell it nothing more, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


def say(found: object) -> None:
    """One line for the benchmark."""
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()
