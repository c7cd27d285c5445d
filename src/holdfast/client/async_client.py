"""The asynchronous client: the operations over any `Transport`, on any `Clock`.

    client = AsyncClient(transport, clock, ClientConfig(servers=("http://127.0.0.1:7400",), token=token))
    workload = await client.get("Workload", "web", tenant="shop")

The transport belongs to the caller: the client does not close it.

Most methods are operations with the client in place of the `Requester`: their parameters and documentation are those of
the operation, for editors and type checkers too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from copy import copy
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from holdfast.client import commands, objects, reports, requester, watch
from holdfast.client.commands import CommandResult, Reopen
from holdfast.client.config import ClientConfig, ClientRuntime, random_fraction
from holdfast.client.watch import WatchStream
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import StreamDeclined, Transport, TransportError

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")


class _OperationRunner(Generic[C]):
    """Runs operations of `C`, such as a `Requester`, on a transport."""

    def __init__(self, transport: Transport, clock: Clock, caller: C) -> None:
        self._transport = transport
        self._clock = clock
        self._caller = caller

    async def run(self, call: requester.Operation[T]) -> T:
        """Run an operation to its result."""
        hands = _EffectRunner(self._transport, self._clock)
        try:
            step = next(call)
            while True:
                step = requester.resume(call, await hands.do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()
            await hands.let_go()


def _call(
    operation: Callable[Concatenate[C, P], requester.Operation[T]],
) -> Callable[Concatenate[_OperationRunner[C], P], Coroutine[Any, Any, T]]:
    """Return the method that runs this operation."""

    @wraps(operation)
    async def method(self: _OperationRunner[C], /, *args: P.args, **fields: P.kwargs) -> T:
        return await self.run(operation(self._caller, *args, **fields))

    return method


class AsyncClient(_OperationRunner[requester.Requester]):
    """An asynchronous client of one ledger's servers."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        access: ClientConfig,
        *,
        keys: Callable[[], str] | None = None,
        jitter: Callable[[], float] = random_fraction,
    ) -> None:
        super().__init__(
            transport, clock, requester.Requester(access, ClientRuntime(clock.boot, clock.wall, keys, jitter))
        )

    def region(self, name: str) -> AsyncClient:
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
    ) -> AsyncGenerator[requester.WatchEvent, None]:
        """Watch changes from now, from the current objects on (`initial`), or from a token. Close it: it never ends."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    # Commands and reports

    async def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return await self.run(sent)

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

    def speaker(self, actor: str, reopen: Reopen | None = None) -> AsyncMachineSession:
        """Return a machine session over this client."""
        one = commands.MachineSession(self._caller, actor, reopen)
        return AsyncMachineSession(self._transport, self._clock, one)

    async def _events(self, watching: requester.Operation[None]) -> AsyncGenerator[requester.WatchEvent, None]:
        hands = _EffectRunner(self._transport, self._clock)
        try:
            step = next(watching)
            while True:
                if isinstance(step, requester.EmitEvent):
                    yield step.event
                step = requester.resume(watching, await hands.do(step))
        finally:
            watching.close()
            await hands.let_go()


class AsyncMachineSession(_OperationRunner[commands.MachineSession]):
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

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._stream: AsyncIterator[bytes] | None = None

    async def do(self, step: requester.ClientEffect) -> Any:
        """Return the effect's result. A transport error is returned as well: the operation handles it."""
        try:
            return await self._do(step)
        except TransportError as error:
            # A reply instead of a stream is a valid answer to a plain request.
            return (
                error.reply if isinstance(error, StreamDeclined) and isinstance(step, requester.SendRequest) else error
            )

    async def _do(self, step: requester.ClientEffect) -> Any:
        match step:
            case requester.SendRequest(server, request, timeout_ms):
                return await self._transport.call(server, request, timeout_ms)
            case requester.Sleep(ms):
                await self._clock.sleep(ms)
            case requester.OpenStream(server, request, idle_ms):
                await self.let_go()
                self._stream = self._transport.stream(server, request, idle_ms)
            case requester.ReadMessage():
                assert self._stream is not None, "no stream is open to read from"
                return await anext(self._stream, None)
        return None

    async def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
