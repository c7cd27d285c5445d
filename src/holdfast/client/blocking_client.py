"""The blocking client: the same operations over a blocking transport. Importing it imports no event loop.

    client = Client(transport, ClientConfig(servers=("http://127.0.0.1:7400",), token=token))
    workload = client.get("Workload", "web", tenant="shop")

The transport belongs to the caller: the client does not close it.

Size: one method for each call, spelled out so that editors and type checkers see them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy
from typing import Any, Protocol, TypeVar

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
from holdfast.host.ports.transport import Reply, Request, StreamDeclined, TransportError

T = TypeVar("T")


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


class Client:
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
        self._transport = transport
        self._sleep = sleep
        self._caller = Requester(access, ClientRuntime(now, wall, keys, jitter))

    def region(self, name: str) -> Client:
        """Return the same client at a region, through the platform."""
        other = copy(self)
        other._caller = self._caller.through(name)
        return other

    # Objects

    def get(self, kind: str, name: str, tenant: str = "", *, read: str = "") -> Document:
        """Return one object. Raises `NotFoundError` if there is none."""
        return self.run(objects.get(self._caller, kind, name, tenant, read=read))

    def list(self, kind: str, *, tenant: str = "", selector: str = "", limit: int = PAGE, read: str = "") -> ListResult:
        """Return all objects of a kind at one log position; `limit` is the page size."""
        return self.run(objects.list_all(self._caller, kind, tenant=tenant, selector=selector, limit=limit, read=read))

    def put(
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
        return self.run(call)

    def delete(
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
        return self.run(call)

    def batch(
        self, documents: Iterable[Document], *, dry_run: bool = False, idempotency_key: str = ""
    ) -> tuple[BatchItemResult, ...]:
        """Put many documents in order, each decided by itself."""
        return self.run(objects.batch(self._caller, documents, dry_run=dry_run, idempotency_key=idempotency_key))

    def edit(
        self, kind: str, name: str, change: Callable[[Document], Document | None], tenant: str = ""
    ) -> WriteResult:
        """Get, change and put an object; retry with the newest revision after a conflict."""
        return self.run(objects.edit(self._caller, kind, name, change, tenant))

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
    ) -> Generator[WatchEvent, None, None]:
        """Watch changes from now, from the current objects on (`initial`), or from a token. Close it: it never ends."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    def wait_for(
        self, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
    ) -> Document | None:
        """Wait until the predicate holds and return the object. Raises `WaitTimeoutError` otherwise. The predicate gets
        None while there is no object.
        """
        return self.run(watch.wait_for(self._caller, kind, name, predicate, timeout_ms, tenant))

    # Commands and reports

    def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return self.run(sent)

    def status(self) -> Document:
        """Return the status of the server that answers."""
        return self.run(reports.status(self._caller))

    def whoami(self) -> Document:
        """Return the principal that this client acts as."""
        return self.run(reports.whoami(self._caller))

    def quota(self, tenant: str = "") -> Document:
        """Return quota, grants and usage, of one tenant or of all that this client may see."""
        return self.run(reports.quota(self._caller, tenant))

    def can_i(
        self, command: str = "", *, right: str = "", tenant: str = "", region: str = "", node: str = ""
    ) -> AccessReview:
        """Check whether this client may send a command, or has a permission."""
        return self.run(reports.can_i(self._caller, command, right=right, tenant=tenant, region=region, node=node))

    def audit(self, *, since: str = "", actor: str = "", command: str = "", limit: int = 100) -> tuple[Document, ...]:
        """Return audit entries, newest first."""
        return self.run(reports.audit(self._caller, since=since, actor=actor, command=command, limit=limit))

    def repairs(self, *, tenant: str = "", limit: int = 0) -> Document:
        """Return stuck operations and breaches, most urgent first."""
        return self.run(reports.repairs(self._caller, tenant=tenant, limit=limit))

    def queue(self, *, workload: str = "", tenant: str = "", limit: int = 0) -> Document:
        """Return the scheduling requests of a region in queue order."""
        return self.run(reports.queue(self._caller, workload=workload, tenant=tenant, limit=limit))

    def decisions(self, *, limit: int = 50, **asked: str) -> Document:
        """Return a region's decisions, newest first; filters: workload, slot, node, since, until, outcome."""
        return self.run(reports.decisions(self._caller, limit=limit, **asked))

    def schema(self, kind: str) -> Document:
        """Return the JSON Schema of a kind."""
        return self.run(reports.schema(self._caller, kind))

    # Machines

    def open_session(self, actor: str) -> str:
        """Open a session of a machine at the ledger."""
        return self.run(machine_session.open_session(self._caller, actor))

    def renew(self, session: str) -> LeaseRenewal:
        """Renew a machine's session."""
        return self.run(machine_session.renew(self._caller, session))

    def send(self, envelope: bytes) -> CommandResult:
        """Send an encoded envelope."""
        return self.run(machine_session.send(self._caller, envelope))

    def speaker(self, actor: str, reopen: Reopen | None = None) -> BlockingMachineSession:
        """Return a machine session over this client."""
        return BlockingMachineSession(self, machine_session.MachineSession(self._caller, actor, reopen))

    # Running operations

    def run(self, call: Operation[T]) -> T:
        """Run an operation to its result."""
        hands = _EffectRunner(self._transport, self._sleep)
        try:
            step = next(call)
            while True:
                step = resume(call, hands.do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()
            hands.let_go()

    def _events(self, watching: Operation[None]) -> Generator[WatchEvent, None, None]:
        hands = _EffectRunner(self._transport, self._sleep)
        try:
            step = next(watching)
            while True:
                if isinstance(step, EmitEvent):
                    yield step.event
                step = resume(watching, hands.do(step))
        finally:
            watching.close()
            hands.let_go()


class BlockingMachineSession:
    """A machine that sends commands in sessions (`client.machine_session`)."""

    def __init__(self, client: Client, inner: machine_session.MachineSession) -> None:
        self._client = client
        self._inner = inner

    @property
    def session(self) -> str:
        """The open session; empty without one."""
        return self._inner.session

    def open(self) -> str:
        """Open a session."""
        return self._client.run(self._inner.open())

    def renew(self) -> LeaseRenewal:
        """Renew this session."""
        return self._client.run(self._inner.renew())

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """Encode a command under the next number. Send and retry it with the client's `send`."""
        return self._inner.envelope(command, **fields)

    def send(self, command: Any, **fields: Any) -> CommandResult:
        """Send a command under the next number of this session."""
        return self._client.run(self._inner.send(command, **fields))


class _EffectRunner:
    """Executes the effects of one operation."""

    def __init__(self, transport: BlockingTransport, sleep: Callable[[float], None]) -> None:
        self._transport = transport
        self._sleep = sleep
        self._stream: Iterator[bytes] | None = None

    def do(self, step: ClientEffect) -> Any:
        """Return the effect's result. A transport error is returned as well: the operation handles it."""
        try:
            return self._do(step)
        except TransportError as error:
            # A reply instead of a stream is a valid answer to a plain request.
            return error.reply if isinstance(error, StreamDeclined) and isinstance(step, SendRequest) else error

    def _do(self, step: ClientEffect) -> Any:
        match step:
            case SendRequest(server, request, timeout_ms):
                return self._transport.call(server, request, timeout_ms)
            case Sleep(ms):
                self._sleep(ms / 1000)
            case OpenStream(server, request, idle_ms):
                self.let_go()
                self._stream = self._transport.stream(server, request, idle_ms)
            case ReadMessage():
                assert self._stream is not None, "no stream is open to read from"
                return next(self._stream, None)
        return None

    def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, Generator):
            stream.close()
