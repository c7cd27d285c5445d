"""Servers that say what a test tells them to, for calls of the client that do no I/O themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from holdfast.client.config import ClientConfig, ClientRuntime
from holdfast.client.requester import (
    ClientEffect,
    EmitEvent,
    OpenStream,
    Operation,
    ReadMessage,
    Requester,
    SendRequest,
    Sleep,
    WatchEvent,
    resume,
)
from holdfast.host.ports.transport import NoAnswer, Pairs, Reply, Request, TransportError, Unreachable, first_value

T = TypeVar("T")

START = 1_000_000
UNREACHABLE = Unreachable("refused")
SILENCE = NoAnswer("nothing came")


class Stream:
    """What a stream brings, a line `every_ms`, and how it ends: None for an end, or an error."""

    def __init__(self, *lines: bytes, then: TransportError | None = None, every_ms: int = 0) -> None:
        self.lines = list(lines)
        self.then = then
        self.every_ms = every_ms


Outcome = Reply | TransportError | Stream


class Script:
    """Plays all servers: each attempt gets the next outcome, whoever it was meant for. The last one goes on for ever.

    Time moves by pauses, and by the whole limit where nothing comes.
    """

    def __init__(self, *outcomes: Outcome, took_ms: int = 0) -> None:
        self.outcomes = list(outcomes)
        self.took_ms = took_ms
        self.now = START
        self.steps: list[ClientEffect] = []
        self._stream = Stream()
        self._lines: Iterator[bytes] = iter(())
        self._idle_ms = 0
        self._keys = iter(f"key{number}" for number in range(10**6))

    def caller(self, *servers: str, jitter: float = 0.0, **access: Any) -> Requester:
        """A client of these servers whose time and chance are this script's."""
        means = ClientRuntime(lambda: self.now, lambda: self.now, lambda: next(self._keys), lambda: jitter)
        return Requester(ClientConfig(servers=servers or ("a",), **access), means)

    def play(self, call: Operation[T]) -> T:
        """Drive a call to its result."""
        try:
            step = next(call)
            while True:
                step = self._resume(call, step)
        except StopIteration as end:
            result: T = end.value
            return result

    def events(self, call: Operation[None], most: int) -> list[WatchEvent]:
        """The first events of a watch."""
        found: list[WatchEvent] = []
        step = next(call)
        while True:
            if isinstance(step, EmitEvent):
                found.append(step.event)
                if len(found) == most:
                    call.close()
                    return found
            step = self._resume(call, step)

    @property
    def sent(self) -> list[SendRequest]:
        return [step for step in self.steps if isinstance(step, SendRequest)]

    @property
    def requests(self) -> list[Request]:
        return [step.request for step in self.sent]

    @property
    def asked(self) -> list[str]:
        """Which server each attempt went to, streams too."""
        return [step.server for step in self.steps if isinstance(step, SendRequest | OpenStream)]

    @property
    def opened(self) -> list[OpenStream]:
        return [step for step in self.steps if isinstance(step, OpenStream)]

    @property
    def pauses(self) -> list[int]:
        return [step.ms for step in self.steps if isinstance(step, Sleep)]

    def headers(self, name: str) -> list[str]:
        """What each request says under this name."""
        return [first_value(request.headers, name) for request in self.requests]

    def _resume(self, call: Operation[Any], step: ClientEffect) -> ClientEffect:
        self.steps.append(step)
        try:
            came = self._do(step)
        except TransportError as error:
            came = error
        return resume(call, came)

    def _do(self, step: ClientEffect) -> Any:
        match step:
            case SendRequest(_, _, timeout_ms):
                outcome = self._next()
                assert not isinstance(outcome, Stream), "the script has a stream here, and a request came"
                self.now += timeout_ms if isinstance(outcome, NoAnswer) else min(self.took_ms, timeout_ms)
                if isinstance(outcome, TransportError):
                    raise outcome
                return outcome
            case Sleep(ms):
                self.now += ms
            case OpenStream(_, _, idle_ms):
                outcome = self._next()
                assert not isinstance(outcome, Reply), "the script has a reply here, and a stream was opened"
                self._stream = outcome if isinstance(outcome, Stream) else Stream(then=outcome)
                self._lines, self._idle_ms = iter(self._stream.lines), idle_ms
            case ReadMessage():
                return self._line()
        return None

    def _line(self) -> bytes | None:
        stream, line = self._stream, next(self._lines, None)
        if line is not None and stream.every_ms <= self._idle_ms:
            self.now += stream.every_ms
            return line
        end = stream.then if line is None else SILENCE
        if end is not None:
            self.now += self._idle_ms if isinstance(end, NoAnswer) else 0
            raise end
        return None

    def _next(self) -> Outcome:
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]


def ok(body: Any = None, **headers: str) -> Reply:
    """A success; `holdfast_token="t"` is the header `holdfast-token`."""
    return Reply(200, _pairs(headers), json.dumps({} if body is None else body).encode())


def says(status: int, code: str, *, facts: dict[str, Any] | None = None, **headers: str) -> Reply:
    """A problem."""
    body = {"type": f"urn:holdfast:problem:{code}", "status": status, "code": code, "detail": f"it is {code}"}
    return Reply(status, _pairs(headers), json.dumps({**body, "facts": facts or {}}).encode())


def line(type_: str, object_: dict[str, Any] | None = None, token: str = "") -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type_, "object": object_ or {}, "token": token}).encode()


def page(*items: dict[str, Any], token: str = "log:1:1:aa", going_on: str = "", **headers: str) -> Reply:
    """A page of a list."""
    return ok({"kind": "List", "items": list(items), "metadata": {"token": token, "continue": going_on}}, **headers)


def thing(name: str, revision: str = "1.0", *, uid: str = "", kind: str = "Tenant", **spec: Any) -> dict[str, Any]:
    """A document; its uid is its name unless it says otherwise."""
    metadata = {"name": name, "uid": uid or f"u-{name}", "revision": revision}
    return {"apiVersion": "holdfast/v1", "kind": kind, "metadata": metadata, "spec": spec}


def counting(values: Iterator[T]) -> Callable[[], T]:
    """A callable that gives one after the other."""
    return lambda: next(values)


def _pairs(headers: dict[str, str]) -> Pairs:
    return tuple((name.replace("_", "-"), value) for name, value in headers.items())
