"""The other end of `schedule.latency_busy_p99`: one process that asks servers for other things, at an even pace.

It is told what to ask, and how often, by one line of JSON on its standard input; after the next line it begins, and
after one more it says what it saw. Requests are spread over connections; one that is due while all of them wait is sent
when the first is free, and counts as asked when it was due: what a server owes is not forgotten.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from functools import partial

import msgspec
from msgspec import Struct

from holdfast.bench.load.http_connection import SingleRequestConnection, open_connections
from holdfast.bench.load.load_process import run_load, write_line

#: Where a question has this, its number is put: no two writes are alike.
NUMBER = "NUMBER"
#: To each server.
CONNECTIONS = 8
TICK_SECONDS = 0.01


class LoadRequest(Struct, frozen=True):
    """A server, and what it is asked by whom: a read, or with a body a write."""

    server: str
    path: str
    token: str
    body: str = ""

    def request(self, number: int) -> bytes:
        """The bytes of it."""
        host = self.server.removeprefix("http://")
        head = f"{self.path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {self.token}\r\n"
        if not self.body:
            return f"GET {head}\r\n".encode()
        body = self.body.replace(NUMBER, str(number)).encode()
        more = f"idempotency-key: other-{number}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"PUT {head}{more}\r\n".encode() + body


class RequestMix(Struct, frozen=True):
    """So many requests in a second: these questions, by turns."""

    per_second: int
    questions: tuple[LoadRequest, ...]


class RequestCounts(Struct, frozen=True):
    """For how long requests were sent, how many of them were answered by the end, and how many were not as they should
    be, with the first of those."""

    seconds: float
    answered: int
    failed: int = 0
    why: str = ""


class LoadTarget:
    """Everything that one server is asked: what is due, and the connections that wait for nothing."""

    def __init__(self) -> None:
        self.due: deque[bytes] = deque()
        #: The one that has waited longest is next: a server closes what is not used for a while.
        self.free: deque[LoadConnection] = deque()
        self.answered = self.failed = 0
        self.why = ""

    def ask(self, request: bytes) -> None:
        """Send it as soon as there is a connection for it."""
        self.due.append(request)
        self.go_on()

    def go_on(self) -> None:
        """Send what is due, as far as there are connections."""
        while self.due and self.free:
            self.free.popleft().send(self.due.popleft())


class LoadConnection(SingleRequestConnection):
    """One connection, with one request at a time."""

    def __init__(self, server: LoadTarget) -> None:
        self._server = server

    def opened(self) -> None:
        self._server.free.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.failed += 1
        self._server.why = self._server.why or f"a connection was lost: {exc}"

    def answered(self, head: bytes, body: bytes) -> None:
        self._server.answered += 1
        if head[9:10] != b"2":
            self._server.failed += 1
            self._server.why = self._server.why or f"{head[9:12].decode()} {body[:300].decode(errors='replace')}"
        self._server.free.append(self)
        self._server.go_on()


async def send_requests(others: RequestMix) -> None:
    """Ask at that pace until a line comes, and say what became of it."""
    servers = {one.server: LoadTarget() for one in others.questions}
    for address, server in servers.items():
        await open_connections(address, partial(LoadConnection, server), CONNECTIONS)
    write_line("ready")
    await asyncio.to_thread(sys.stdin.readline)
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    began, number = time.monotonic(), 0
    while not over.done():
        while number < (time.monotonic() - began) * others.per_second:
            question = others.questions[number % len(others.questions)]
            servers[question.server].ask(question.request(number))
            number += 1
        await asyncio.sleep(TICK_SECONDS)
    answered, failed = sum(one.answered for one in servers.values()), sum(one.failed for one in servers.values())
    why = next((one.why for one in servers.values() if one.why), "")
    write_line(RequestCounts(time.monotonic() - began, answered, failed, why))


def main() -> None:
    """Do what the first line says."""
    run_load(send_requests(msgspec.json.decode(sys.stdin.readline(), type=RequestMix)))


if __name__ == "__main__":
    main()
