"""Load process of `schedule.latency_busy_p99`: sends other requests to the servers at a constant rate.

Its first input line, JSON, is its task; it starts at the second line, and prints its counts at the third. Requests are
spread over connections. A request that is due while all connections are busy is sent when the first one is free;
delayed requests are not dropped.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from functools import partial

import msgspec
from msgspec import Struct

from holdfast.bench.load.load_process import SingleRequestConnection, open_connections, run_load, write_line

#: Replaced by the request's number, so that all writes differ.
NUMBER = "NUMBER"
#: Connections per server.
CONNECTIONS = 8
TICK_SECONDS = 0.01


class LoadRequest(Struct, frozen=True):
    """A request to a server with a token: a read, or with a body a write."""

    server: str
    path: str
    token: str
    body: str = ""

    def request(self, number: int) -> bytes:
        host = self.server.removeprefix("http://")
        head = f"{self.path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {self.token}\r\n"
        if not self.body:
            return f"GET {head}\r\n".encode()
        body = self.body.replace(NUMBER, str(number)).encode()
        more = f"idempotency-key: other-{number}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"PUT {head}{more}\r\n".encode() + body


class RequestMix(Struct, frozen=True):
    """The rate, and the requests that are sent in turn."""

    per_second: int
    questions: tuple[LoadRequest, ...]


class RequestCounts(Struct, frozen=True):
    """Duration of the sending, answered requests, failed requests, and the first failure."""

    seconds: float
    answered: int
    failed: int = 0
    why: str = ""


class LoadTarget:
    """The requests that are due at one server, and its idle connections."""

    def __init__(self) -> None:
        self.due: deque[bytes] = deque()
        #: Longest idle first: a server closes idle connections after a while.
        self.free: deque[LoadConnection] = deque()
        self.answered = self.failed = 0
        self.why = ""

    def ask(self, request: bytes) -> None:
        """Send a request as soon as a connection is free."""
        self.due.append(request)
        self.go_on()

    def go_on(self) -> None:
        """Send due requests while connections are free."""
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
    """Send requests at the rate until an input line arrives, and print the counts."""
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
    """Run the task of the first input line."""
    run_load(send_requests(msgspec.json.decode(sys.stdin.readline(), type=RequestMix)))


if __name__ == "__main__":
    main()
