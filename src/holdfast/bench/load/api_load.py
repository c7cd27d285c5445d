"""Load process of `bench api`: sends commands over HTTP, or watches.

Its first input line, JSON, is its task. It prints `ready` and then its results, as lines of JSON. Times are of the
machine's monotonic clock, which both processes read.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.bench.load.load_process import SingleRequestConnection, open_connections, run_load, write_line
from holdfast.bench.report import require
from holdfast.host.ports.transport import Reply
from holdfast.host.protocol.commands import ENVELOPES, MSGPACK, CommandOutcome, read_command_reply


class LoadTask(Struct, frozen=True):
    """The task: send the envelopes of a file over `connections`, or open `watches`."""

    server: str
    token: str
    envelopes: str = ""
    connections: int = 32
    watches: int = 0
    path: str = ""
    #: The text that precedes the number of each measured change.
    note: str = ""


class SendResult(Struct, frozen=True):
    """Start and end of the sending, and the number of accepted commands."""

    began: float
    ended: float
    landed: int


class ChangeSeen(Struct, frozen=True):
    """One change: its number, and when the last watcher received it."""

    number: int
    last: float


async def send(task: LoadTask) -> None:
    """Send every envelope as fast as the connections allow."""
    bodies = iter(msgspec.msgpack.decode(Path(task.envelopes).read_bytes(), type=list[bytes]))
    opened = await open_connections(task.server, lambda: LoadSender(task, bodies), task.connections)
    senders = [sender for _, sender in opened]
    write_line("ready")
    await asyncio.to_thread(sys.stdin.readline)
    began = time.monotonic()
    for sender in senders:
        sender.go_on()
    await asyncio.gather(*(sender.done for sender in senders))
    write_line(SendResult(began, time.monotonic(), sum(sender.landed for sender in senders)))


class LoadSender(SingleRequestConnection):
    """One connection that sends one request after the other."""

    def __init__(self, task: LoadTask, bodies: Iterator[bytes]) -> None:
        host = task.server.removeprefix("http://")
        self._head = (
            f"POST {ENVELOPES} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {task.token}\r\n"
            f"content-type: {MSGPACK[1]}\r\ncontent-length: "
        ).encode()
        self._bodies = bodies
        self.landed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))

    def go_on(self) -> None:
        """Send the next request; after the last one, finish."""
        body = next(self._bodies, None)
        if body is None:
            self.done.set_result(None)
            return
        self.send(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))

    def answered(self, head: bytes, body: bytes) -> None:
        try:
            _must_land(head, body)
        except Exception as error:
            self.done.set_exception(error)
            return
        self.landed += 1
        self.go_on()


def _must_land(head: bytes, body: bytes) -> None:
    answered = read_command_reply(Reply(int(head[9:12]), (MSGPACK,), body))
    require(answered.said is CommandOutcome.LANDED and not answered.answer, f"a placement was refused: {answered}")


class LoadWatcher(asyncio.Protocol):
    """One watch over a plain socket. It searches numbers in lines, so that the server dominates the measurement.

    Counting lines is not enough: bookmarks arrive too, and other senders may change the object.
    """

    def __init__(self, task: LoadTask, count: WatchCount) -> None:
        self._task = task
        self._count = count
        self._note = re.compile(task.note.encode() + rb" (\d+)\"")
        self._begun = b""
        self._number = 0
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        host = self._task.server.removeprefix("http://")
        head = f"GET {self._task.path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {self._task.token}\r\n\r\n"
        transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        lines, _, self._begun = (self._begun + data).rpartition(b"\n")
        if b'"type":"BOOKMARK"' in lines and not self._is_open:
            self._is_open = True
            self._count.opened += 1
            self._count.look()
        for told in self._note.finditer(lines):
            if (number := int(told[1])) > self._number:
                self._number = number
                self._count.hear(number)


class WatchCount:
    """Counts the open watches, and the watches that have received each change."""

    def __init__(self, watches: int) -> None:
        self._watches = watches
        self.opened = 0
        self._heard: dict[int, int] = {}
        self.all_open = asyncio.Event()

    def look(self) -> None:
        if self.opened >= self._watches:
            self.all_open.set()

    def hear(self, number: int) -> None:
        self._heard[number] = self._heard.get(number, 0) + 1
        if self._heard[number] == self._watches:
            write_line(ChangeSeen(number, time.monotonic()))


async def watch(task: LoadTask) -> None:
    """Open the watches, print `ready`, and print each change when the last watch has received it."""
    count = WatchCount(task.watches)
    opened = await open_connections(task.server, lambda: LoadWatcher(task, count), task.watches)
    await count.all_open.wait()
    write_line("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for transport, _ in opened:
        transport.abort()


def main() -> None:
    """Run the task of the first input line."""
    task = msgspec.json.decode(sys.stdin.readline(), type=LoadTask)
    run_load(watch(task) if task.watches else send(task))


if __name__ == "__main__":
    main()
