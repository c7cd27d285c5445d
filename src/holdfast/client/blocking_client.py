"""The blocking client: the same operations over a blocking transport. Importing it imports no event loop.

    client = Client(transport, ClientConfig(servers=("http://127.0.0.1:7400",), token=token))
    workload = client.get("Workload", "web", tenant="shop")

The transport belongs to the caller: the client does not close it.

Most methods are operations with the client in place of the `Requester`: their parameters and documentation are those of
the operation, for editors and type checkers too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from holdfast.client import commands, objects, reports, requester, watch
from holdfast.client.commands import CommandResult, Reopen
from holdfast.client.config import ClientConfig, ClientRuntime, random_fraction
from holdfast.client.watch import WatchStream
from holdfast.host.ports.transport import Reply, Request, StreamDeclined, TransportError

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")


class BlockingTransport(Protocol):
    """A `Transport` without an event loop: the same guarantees and errors, with blocking calls."""

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """Send one request and return its reply within the time. Raises a `TransportError` otherwise."""

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        """Yield the peer's messages until it ends. Raises `StreamDeclined`, `NoAnswer` as in `Transport.stream`."""


def monotonic_ms() -> int:
    """Read this machine's monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Read this machine's calendar clock."""
    return time.time_ns() // 1_000_000


class _OperationRunner(Generic[C]):
    """Runs operations of `C`, such as a `Requester`, on a transport."""

    def __init__(self, transport: BlockingTransport, sleep: Callable[[float], None], caller: C) -> None:
        self._transport = transport
        self._sleep = sleep
        self._caller = caller

    def run(self, call: requester.Operation[T]) -> T:
        """Run an operation to its result."""
        hands = _EffectRunner(self._transport, self._sleep)
        try:
            step = next(call)
            while True:
                step = requester.resume(call, hands.do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()
            hands.let_go()


def _call(
    operation: Callable[Concatenate[C, P], requester.Operation[T]],
) -> Callable[Concatenate[_OperationRunner[C], P], T]:
    """Return the method that runs this operation."""

    @wraps(operation)
    def method(self: _OperationRunner[C], /, *args: P.args, **fields: P.kwargs) -> T:
        return self.run(operation(self._caller, *args, **fields))

    return method


class Client(_OperationRunner[requester.Requester]):
    """A blocking client of one ledger's servers."""

    def __init__(
        self,
        transport: BlockingTransport,
        access: ClientConfig,
        *,
        now: Callable[[], int] = monotonic_ms,
        wall: Callable[[], int] = wall_ms,
        sleep: Callable[[float], None] = time.sleep,
        keys: Callable[[], str] | None = None,
        jitter: Callable[[], float] = random_fraction,
    ) -> None:
        super().__init__(transport, sleep, requester.Requester(access, ClientRuntime(now, wall, keys, jitter)))

    def region(self, name: str) -> Client:
        """Return the same client at a region, through the platform."""
        other = copy(self)
        other._caller = self._caller.through(name)
        return other

    # Objects

    get = _call(objects.get)
    list = _call(objects.list_all)
    put = _call(objects.put)
    delete = _call(objects.delete)
    batch = _call(objects.batch)
    edit = _call(objects.edit)

    # Watching

    wait_for = _call(watch.wait_for)

    def watch(
        self,
        kind: str,
        *,
        tenant: str = "",
        selector: str = "",
        name: str | None = None,
        since: str | None = None,
        initial: bool = False,
    ) -> Generator[requester.WatchEvent, None, None]:
        """Watch changes from now, from the current objects on (`initial`), or from a token. Close it: it never ends."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    # Commands and reports

    def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return self.run(sent)

    status = _call(reports.status)
    whoami = _call(reports.whoami)
    quota = _call(reports.quota)
    can_i = _call(reports.can_i)
    audit = _call(reports.audit)
    repairs = _call(reports.repairs)
    queue = _call(reports.queue)
    fairness = _call(reports.fairness)
    decisions = _call(reports.decisions)
    schema = _call(reports.schema)

    # Machines

    open_session = _call(commands.open_session)
    renew = _call(commands.renew)
    send = _call(commands.send)

    def speaker(self, actor: str, reopen: Reopen | None = None) -> BlockingMachineSession:
        """Return a machine session over this client."""
        one = commands.MachineSession(self._caller, actor, reopen)
        return BlockingMachineSession(self._transport, self._sleep, one)

    def _events(self, watching: requester.Operation[None]) -> Generator[requester.WatchEvent, None, None]:
        hands = _EffectRunner(self._transport, self._sleep)
        try:
            step = next(watching)
            while True:
                if isinstance(step, requester.EmitEvent):
                    yield step.event
                step = requester.resume(watching, hands.do(step))
        finally:
            watching.close()
            hands.let_go()


class BlockingMachineSession(_OperationRunner[commands.MachineSession]):
    """A machine that sends commands in sessions (`client.commands`)."""

    open = _call(commands.MachineSession.open)
    renew = _call(commands.MachineSession.renew)
    send = _call(commands.MachineSession.send)

    @property
    def session(self) -> str:
        """The open session; empty without one."""
        return self._caller.session

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """Encode a command under the next number. Send and retry it with the client's `send`."""
        return self._caller.envelope(command, **fields)


class _EffectRunner:
    """Executes the effects of one operation."""

    def __init__(self, transport: BlockingTransport, sleep: Callable[[float], None]) -> None:
        self._transport = transport
        self._sleep = sleep
        self._stream: Iterator[bytes] | None = None

    def do(self, step: requester.ClientEffect) -> Any:
        """Return the effect's result. A transport error is returned as well: the operation handles it."""
        try:
            return self._do(step)
        except TransportError as error:
            # A reply instead of a stream is a valid answer to a plain request.
            return (
                error.reply if isinstance(error, StreamDeclined) and isinstance(step, requester.SendRequest) else error
            )

    def _do(self, step: requester.ClientEffect) -> Any:
        match step:
            case requester.SendRequest(server, request, timeout_ms):
                return self._transport.call(server, request, timeout_ms)
            case requester.Sleep(ms):
                self._sleep(ms / 1000)
            case requester.OpenStream(server, request, idle_ms):
                self.let_go()
                self._stream = self._transport.stream(server, request, idle_ms)
            case requester.ReadMessage():
                assert self._stream is not None, "no stream is open to read from"
                return next(self._stream, None)
        return None

    def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, Generator):
            stream.close()
