"""The async face: the calls over any `Transport`, on any `Clock`.

    client = Holdfast(transport, clock, Access(servers=("http://127.0.0.1:7400",), token=token))
    workload = await client.get("Workload", "web", tenant="shop")

The transport belongs to whoever made it: the client does not close it.

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
    """A client of one ledger's servers."""

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
        """The same client, at a region, through the platform."""
        other = copy(self)
        other._caller = self._caller.through(name)
        return other

    # Objects

    async def get(self, kind: str, name: str, tenant: str = "", *, read: str = "") -> Document:
        """One object. `NotFoundError` when there is none."""
        return await self.run(objects.get(self._caller, kind, name, tenant, read=read))

    async def list(
        self, kind: str, *, tenant: str = "", selector: str = "", limit: int = PAGE, read: str = ""
    ) -> ListResult:
        """All objects of a kind, at one point of the log; `limit` is the size of a page."""
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
        """Make the object what the document says."""
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
        """Delete an object. `NotFoundError` when there is none."""
        call = objects.delete(
            self._caller, kind, name, tenant, if_match=if_match, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return await self.run(call)

    async def batch(
        self, documents: Iterable[Document], *, dry_run: bool = False, idempotency_key: str = ""
    ) -> tuple[BatchItemResult, ...]:
        """Put many documents, each judged by itself, in order."""
        return await self.run(objects.batch(self._caller, documents, dry_run=dry_run, idempotency_key=idempotency_key))

    async def edit(
        self, kind: str, name: str, change: Callable[[Document], Document | None], tenant: str = ""
    ) -> WriteResult:
        """Get, change, put: again with the newest when somebody else was faster."""
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
        """Changes, from now, from what there is (`initial`), or from a token. It never ends by itself: close it."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    async def wait_for(
        self, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
    ) -> Document | None:
        """The object when the predicate first holds; `WaitTimeoutError` otherwise. The predicate sees None for no
        object."""
        return await self.run(watch.wait_for(self._caller, kind, name, predicate, timeout_ms, tenant))

    # Commands and questions

    async def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return await self.run(sent)

    async def status(self) -> Document:
        """What the server that is asked says of itself."""
        return await self.run(reports.status(self._caller))

    async def whoami(self) -> Document:
        """The principal that this client acts as."""
        return await self.run(reports.whoami(self._caller))

    async def quota(self, tenant: str = "") -> Document:
        """How quotas stand: of one tenant, or of all that this client may see."""
        return await self.run(reports.quota(self._caller, tenant))

    async def can_i(
        self, command: str = "", *, right: str = "", tenant: str = "", region: str = "", node: str = ""
    ) -> AccessReview:
        """Whether this client may send a command, or has a right."""
        return await self.run(
            reports.can_i(self._caller, command, right=right, tenant=tenant, region=region, node=node)
        )

    async def audit(
        self, *, since: str = "", actor: str = "", command: str = "", limit: int = 100
    ) -> tuple[Document, ...]:
        """What was done lately and by whom, newest first."""
        return await self.run(reports.audit(self._caller, since=since, actor=actor, command=command, limit=limit))

    async def repairs(self, *, tenant: str = "", limit: int = 0) -> Document:
        """What waits to be ended or put right, the most urgent first."""
        return await self.run(reports.repairs(self._caller, tenant=tenant, limit=limit))

    async def queue(self, *, workload: str = "", tenant: str = "", limit: int = 0) -> Document:
        """What waits to be placed in a region, first what is looked at first."""
        return await self.run(reports.queue(self._caller, workload=workload, tenant=tenant, limit=limit))

    async def decisions(self, *, limit: int = 50, **asked: str) -> Document:
        """What a region's schedulers decided, newest first; by workload, slot, node, since, until or outcome."""
        return await self.run(reports.decisions(self._caller, limit=limit, **asked))

    async def schema(self, kind: str) -> Document:
        """The JSON Schema of a kind."""
        return await self.run(reports.schema(self._caller, kind))

    # Machines

    async def open_session(self, actor: str) -> str:
        """Begin a machine's life at the ledger."""
        return await self.run(machine_session.open_session(self._caller, actor))

    async def renew(self, session: str) -> LeaseRenewal:
        """A machine's heartbeat."""
        return await self.run(machine_session.renew(self._caller, session))

    async def send(self, envelope: bytes) -> CommandResult:
        """Send an envelope that is encoded already."""
        return await self.run(machine_session.send(self._caller, envelope))

    def speaker(self, actor: str, reopen: Reopen | None = None) -> AsyncMachineSession:
        """A machine that speaks through this client."""
        return AsyncMachineSession(self, machine_session.MachineSession(self._caller, actor, reopen))

    # Driving

    async def run(self, call: Operation[T]) -> T:
        """Drive a call to its result."""
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
    """A machine that speaks in sessions (`client.machine_session`)."""

    def __init__(self, client: AsyncClient, inner: machine_session.MachineSession) -> None:
        self._client = client
        self._inner = inner

    @property
    def session(self) -> str:
        """The session of this life; empty without one."""
        return self._inner.session

    async def open(self) -> str:
        """Begin a life."""
        return await self._client.run(self._inner.open())

    async def renew(self) -> LeaseRenewal:
        """A heartbeat of this life."""
        return await self._client.run(self._inner.renew())

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """A command under the next number, to be sent and repeated by the client's `send`."""
        return self._inner.envelope(command, **fields)

    async def send(self, command: Any, **fields: Any) -> CommandResult:
        """Send a command under the next number of this life."""
        return await self._client.run(self._inner.send(command, **fields))


class _EffectRunner:
    """Does what one call wants done."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._stream: AsyncIterator[bytes] | None = None

    async def do(self, step: ClientEffect) -> Any:
        """What came of it; an error of the transport is handed back, since it is for the call to know."""
        try:
            return await self._do(step)
        except TransportError as error:
            # That a request was answered with something else than was expected is an answer, too.
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
                assert self._stream is not None, "a line was wanted, and no stream is open"
                return await anext(self._stream, None)
        return None

    async def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
