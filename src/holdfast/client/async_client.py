"""The asynchronous client: the operations over any `Transport`, on any `Clock`.

    client = AsyncClient(transport, clock, ClientConfig(servers=("http://127.0.0.1:7400",), token=token))
    workload = await client.get("Workload", "web", tenant="shop")

The transport belongs to the caller: the client does not close it.

Size: one method for each call, spelled out so that editors and type checkers see them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from copy import copy
from typing import Any, TypeVar

from holdfast.client import commands, machine_session, objects, reports, watch
from holdfast.client.commands import CommandResult
from holdfast.client.config import ClientConfig, ClientRuntime, random_fraction
from holdfast.client.effects import (
    ClientEffect,
    Document,
    EmitEvent,
    OpenStream,
    Operation,
    ReadMessage,
    SendRequest,
    Sleep,
    WatchEvent,
    resume,
)
from holdfast.client.machine_session import LeaseRenewal, Reopen
from holdfast.client.objects import PAGE, BatchItemResult, ListResult, WriteResult
from holdfast.client.reports import AccessReview
from holdfast.client.requester import Requester
from holdfast.client.watch import Predicate, WatchStream
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import StreamDeclined, Transport, TransportError

T = TypeVar("T")


class AsyncClient:
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
        self._transport = transport
        self._clock = clock
        self._caller = Requester(access, ClientRuntime(clock.boot, clock.wall, keys, jitter))

    def region(self, name: str) -> AsyncClient:
        """Return the same client at a region, through the platform."""
        other = copy(self)
        other._caller = self._caller.through(name)
        return other

    # Objects

    async def get(self, kind: str, name: str, tenant: str = "", *, read: str = "") -> Document:
        """Return one object. Raises `NotFoundError` if there is none."""
        return await self.run(objects.get(self._caller, kind, name, tenant, read=read))

    async def list(
        self, kind: str, *, tenant: str = "", selector: str = "", limit: int = PAGE, read: str = ""
    ) -> ListResult:
        """Return all objects of a kind at one log position; `limit` is the page size."""
        return await self.run(
            objects.list_all(self._caller, kind, tenant=tenant, selector=selector, limit=limit, read=read)
        )

    async def put(
        self,
        document: Document,
        *,
        if_match: str | None = None,
        create_only: bool = False,
        dry_run: bool = False,
        idempotency_key: str = "",
    ) -> WriteResult:
        """Create or change an object to match the document."""
        call = objects.put(
            self._caller,
            document,
            if_match=if_match,
            create_only=create_only,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
        )
        return await self.run(call)

    async def delete(
        self,
        kind: str,
        name: str,
        tenant: str = "",
        *,
        if_match: str | None = None,
        dry_run: bool = False,
        idempotency_key: str = "",
    ) -> WriteResult:
        """Delete an object. Raises `NotFoundError` if there is none."""
        call = objects.delete(
            self._caller, kind, name, tenant, if_match=if_match, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return await self.run(call)

    async def batch(
        self, documents: Iterable[Document], *, dry_run: bool = False, idempotency_key: str = ""
    ) -> tuple[BatchItemResult, ...]:
        """Put many documents in order, each decided by itself."""
        return await self.run(objects.batch(self._caller, documents, dry_run=dry_run, idempotency_key=idempotency_key))

    async def edit(
        self, kind: str, name: str, change: Callable[[Document], Document | None], tenant: str = ""
    ) -> WriteResult:
        """Get, change and put an object; retry with the newest revision after a conflict."""
        return await self.run(objects.edit(self._caller, kind, name, change, tenant))

    # Watching

    def watch(
        self,
        kind: str,
        *,
        tenant: str = "",
        selector: str = "",
        name: str | None = None,
        since: str | None = None,
        initial: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch changes from now, from the current objects on (`initial`), or from a token. Close it: it never ends."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    async def wait_for(
        self, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
    ) -> Document | None:
        """Wait until the predicate holds and return the object. Raises `WaitTimeoutError` otherwise. The predicate gets
        None while there is no object.
        """
        return await self.run(watch.wait_for(self._caller, kind, name, predicate, timeout_ms, tenant))

    # Commands and reports

    async def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return await self.run(sent)

    async def status(self) -> Document:
        """Return the status of the server that answers."""
        return await self.run(reports.status(self._caller))

    async def whoami(self) -> Document:
        """Return the principal that this client acts as."""
        return await self.run(reports.whoami(self._caller))

    async def quota(self, tenant: str = "") -> Document:
        """Return quota, grants and usage, of one tenant or of all that this client may see."""
        return await self.run(reports.quota(self._caller, tenant))

    async def can_i(
        self, command: str = "", *, right: str = "", tenant: str = "", region: str = "", node: str = ""
    ) -> AccessReview:
        """Check whether this client may send a command, or has a permission."""
        return await self.run(
            reports.can_i(self._caller, command, right=right, tenant=tenant, region=region, node=node)
        )

    async def audit(
        self, *, since: str = "", actor: str = "", command: str = "", limit: int = 100
    ) -> tuple[Document, ...]:
        """Return audit entries, newest first."""
        return await self.run(reports.audit(self._caller, since=since, actor=actor, command=command, limit=limit))

    async def repairs(self, *, tenant: str = "", limit: int = 0) -> Document:
        """Return stuck operations and breaches, most urgent first."""
        return await self.run(reports.repairs(self._caller, tenant=tenant, limit=limit))

    async def queue(self, *, workload: str = "", tenant: str = "", limit: int = 0) -> Document:
        """Return the scheduling requests of a region in queue order."""
        return await self.run(reports.queue(self._caller, workload=workload, tenant=tenant, limit=limit))

    async def decisions(self, *, limit: int = 50, **asked: str) -> Document:
        """Return a region's decisions, newest first; filters: workload, slot, node, since, until, outcome."""
        return await self.run(reports.decisions(self._caller, limit=limit, **asked))

    async def schema(self, kind: str) -> Document:
        """Return the JSON Schema of a kind."""
        return await self.run(reports.schema(self._caller, kind))

    # Machines

    async def open_session(self, actor: str) -> str:
        """Open a session of a machine at the ledger."""
        return await self.run(machine_session.open_session(self._caller, actor))

    async def renew(self, session: str) -> LeaseRenewal:
        """Renew a machine's session."""
        return await self.run(machine_session.renew(self._caller, session))

    async def send(self, envelope: bytes) -> CommandResult:
        """Send an encoded envelope."""
        return await self.run(machine_session.send(self._caller, envelope))

    def speaker(self, actor: str, reopen: Reopen | None = None) -> AsyncMachineSession:
        """Return a machine session over this client."""
        return AsyncMachineSession(self, machine_session.MachineSession(self._caller, actor, reopen))

    # Running operations

    async def run(self, call: Operation[T]) -> T:
        """Run an operation to its result."""
        hands = _EffectRunner(self._transport, self._clock)
        try:
            step = next(call)
            while True:
                step = resume(call, await hands.do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()
            await hands.let_go()

    async def _events(self, watching: Operation[None]) -> AsyncGenerator[WatchEvent, None]:
        hands = _EffectRunner(self._transport, self._clock)
        try:
            step = next(watching)
            while True:
                if isinstance(step, EmitEvent):
                    yield step.event
                step = resume(watching, await hands.do(step))
        finally:
            watching.close()
            await hands.let_go()


class AsyncMachineSession:
    """A machine that sends commands in sessions (`client.machine_session`)."""

    def __init__(self, client: AsyncClient, inner: machine_session.MachineSession) -> None:
        self._client = client
        self._inner = inner

    @property
    def session(self) -> str:
        """The open session; empty without one."""
        return self._inner.session

    async def open(self) -> str:
        """Open a session."""
        return await self._client.run(self._inner.open())

    async def renew(self) -> LeaseRenewal:
        """Renew this session."""
        return await self._client.run(self._inner.renew())

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """Encode a command under the next number. Send and retry it with the client's `send`."""
        return self._inner.envelope(command, **fields)

    async def send(self, command: Any, **fields: Any) -> CommandResult:
        """Send a command under the next number of this session."""
        return await self._client.run(self._inner.send(command, **fields))


class _EffectRunner:
    """Executes the effects of one operation."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._stream: AsyncIterator[bytes] | None = None

    async def do(self, step: ClientEffect) -> Any:
        """Return the effect's result. A transport error is returned as well: the operation handles it."""
        try:
            return await self._do(step)
        except TransportError as error:
            # A reply instead of a stream is a valid answer to a plain request.
            return error.reply if isinstance(error, StreamDeclined) and isinstance(step, SendRequest) else error

    async def _do(self, step: ClientEffect) -> Any:
        match step:
            case SendRequest(server, request, timeout_ms):
                return await self._transport.call(server, request, timeout_ms)
            case Sleep(ms):
                await self._clock.sleep(ms)
            case OpenStream(server, request, idle_ms):
                await self.let_go()
                self._stream = self._transport.stream(server, request, idle_ms)
            case ReadMessage():
                assert self._stream is not None, "no stream is open to read from"
                return await anext(self._stream, None)
        return None

    async def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
