"""A load process of a benchmark: it receives its task as a line of JSON, and prints lines of JSON.

Its HTTP connection is a plain socket with one request at a time: Holdfast's own client costs more than the server, and
would use its cores.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast.bench.report import describe_error, require

#: Seconds in which it must end by itself.
END_SECONDS = 10
#: First characters of the line that reports a failure.
BROKEN = b'"the load process: '
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
P = TypeVar("P", bound=asyncio.Protocol)


class LoadProcess:
    """A module that runs as its own process. It prints `ready`, and then its results."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, task: Struct) -> LoadProcess:
        """Start the process with its task, and wait until it is ready."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", module)
        other = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        other.tell(msgspec.json.encode(task))
        said = await other.hear()
        require(said == b'"ready"', f"{module} sent {said!r} instead of ready")
        return other

    @classmethod
    @asynccontextmanager
    async def running(cls, module: str, task: Struct) -> AsyncIterator[LoadProcess]:
        """Run the process with its task within the block."""
        other = await cls.start(module, task)
        try:
            yield other
        finally:
            await other.end()

    def tell(self, line: bytes = b"go") -> None:
        """Send one line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    async def hear(self) -> bytes:
        """Return the next line of the process."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        require(line, "the load process has ended")
        require(not line.startswith(BROKEN), line.decode().strip())
        return line.strip()

    async def end(self) -> None:
        """Close its input, and wait until it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def run_load(work: Coroutine[Any, Any, None]) -> None:
    """Run the work of this process, and report a failure to the benchmark."""
    try:
        asyncio.run(work)
    except Exception as error:
        write_line(f"{BROKEN.decode()[1:]}{describe_error(error)}")


def write_line(found: object) -> None:
    """Print one line for the benchmark."""
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()


class SingleRequestConnection(asyncio.Protocol):
    """Sends requests, and passes on head and body of each answer."""

    _transport: asyncio.Transport
    _came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.opened()

    def opened(self) -> None:
        """Called when requests can be sent."""

    def answered(self, head: bytes, body: bytes) -> None:
        """Called with the answer to the last request."""

    def send(self, request: bytes) -> None:
        """Send a request; `answered` is called with the answer."""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, blank, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if blank and length is not None and len(body) >= int(length[1]):
            self._came = b""
            self.answered(head, body)


async def open_connections(server: str, make: Callable[[], P], count: int) -> list[tuple[asyncio.Transport, P]]:
    loop = asyncio.get_running_loop()
    host, _, port = server.removeprefix("http://").partition(":")
    return [await loop.create_connection(make, host, int(port)) for _ in range(count)]
