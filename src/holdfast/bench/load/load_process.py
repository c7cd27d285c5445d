"""The process at the other end of a benchmark: told what to do by a line of JSON, it answers in lines of JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.bench.report import describe_error, require

#: So long it may take to end by itself.
END_SECONDS = 10
#: How the line begins that says why there will be no other.
BROKEN = b'"the process at the other end: '


class LoadProcess:
    """A module that runs as a process of its own. It says `ready`, and then what it found."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, task: Struct) -> LoadProcess:
        """Start it with its task, and wait until it is ready."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", module)
        other = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        other.tell(msgspec.json.encode(task))
        said = await other.hear()
        require(said == b'"ready"', f"{module} said {said!r}, not that it is ready")
        return other

    @classmethod
    @asynccontextmanager
    async def running(cls, module: str, task: Struct) -> AsyncIterator[LoadProcess]:
        """Start it with its task; it ends with what is done here, however that ends."""
        other = await cls.start(module, task)
        try:
            yield other
        finally:
            await other.end()

    def tell(self, line: bytes = b"go") -> None:
        """One line for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    async def hear(self) -> bytes:
        """Its next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        require(line, "the process at the other end is gone")
        require(not line.startswith(BROKEN), line.decode().strip())
        return line.strip()

    async def end(self) -> None:
        """Tell it nothing more, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def run_load(work: Coroutine[Any, Any, None]) -> None:
    """Do what this process is there for. If that fails, the benchmark is told why."""
    try:
        asyncio.run(work)
    except Exception as error:
        write_line(f"{BROKEN.decode()[1:]}{describe_error(error)}")


def write_line(found: object) -> None:
    """One line for the benchmark."""
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()
