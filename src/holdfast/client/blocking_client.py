"""The blocking face: the same calls over a blocking transport. Importing it imports no event loop.

    client = HoldfastSync(transport, Access(servers=("http://127.0.0.1:7400",), token=token))
    workload = client.get("Workload", "web", tenant="shop")

The transport belongs to whoever made it: the client does not close it.

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
    """A `Transport` for whoever has no event loop: the same promises and errors, and the caller waits."""

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """One request, one answer, within the time. Raises a `TransportError` otherwise."""

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        """What the peer sends, until it ends. `StreamDeclined`, `NoAnswer` as in `Transport.stream`."""


def monotonic_ms() -> int:
    """This machine's even clock."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """This machine's calendar clock."""
    return time.time_ns() // 1_000_000


class Client:
    """A client of one ledger's servers."""

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
        """The same client, at a region, through the platform."""
        other = copy(self)
        other._caller = self._caller.through(name)
        return other

    # Objects

    def get(self, kind: str, name: str, tenant: str = "", *, read: str = "") -> Document:
        """One object. `NotFoundError` when there is none."""
        return self.run(objects.get(self._caller, kind, name, tenant, read=read))

    def list(self, kind: str, *, tenant: str = "", selector: str = "", limit: int = PAGE, read: str = "") -> ListResult:
        """All objects of a kind, at one point of the log; `limit` is the size of a page."""
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
        """Make the object what the document says."""
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
        """Delete an object. `NotFoundError` when there is none."""
        call = objects.delete(
            self._caller, kind, name, tenant, if_match=if_match, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return self.run(call)

    def batch(
        self, documents: Iterable[Document], *, dry_run: bool = False, idempotency_key: str = ""
    ) -> tuple[BatchItemResult, ...]:
        """Put many documents, each judged by itself, in order."""
        return self.run(objects.batch(self._caller, documents, dry_run=dry_run, idempotency_key=idempotency_key))

    def edit(
        self, kind: str, name: str, change: Callable[[Document], Document | None], tenant: str = ""
    ) -> WriteResult:
        """Get, change, put: again with the newest when somebody else was faster."""
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
        """Changes, from now, from what there is (`initial`), or from a token. It never ends by itself: close it."""
        watching = WatchStream(
            self._caller, kind, tenant=tenant, selector=selector, name=name, since=since, initial=initial
        )
        return self._events(watching.run())

    def wait_for(
        self, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
    ) -> Document | None:
        """The object when the predicate first holds; `WaitTimeoutError` otherwise. The predicate sees None for no
        object."""
        return self.run(watch.wait_for(self._caller, kind, name, predicate, timeout_ms, tenant))

    # Commands and questions

    def command(
        self, tag: str, /, *, if_match: str | None = None, idempotency_key: str = "", **fields: Any
    ) -> CommandResult:
        """Send a command by its tag, if the object that it changes is at `if_match`."""
        sent = commands.command(self._caller, tag, fields, if_match=if_match, idempotency_key=idempotency_key)
        return self.run(sent)

    def status(self) -> Document:
        """What the server that is asked says of itself."""
        return self.run(reports.status(self._caller))

    def whoami(self) -> Document:
        """The principal that this client acts as."""
        return self.run(reports.whoami(self._caller))

    def quota(self, tenant: str = "") -> Document:
        """How quotas stand: of one tenant, or of all that this client may see."""
        return self.run(reports.quota(self._caller, tenant))

    def can_i(
        self, command: str = "", *, right: str = "", tenant: str = "", region: str = "", node: str = ""
    ) -> AccessReview:
        """Whether this client may send a command, or has a right."""
        return self.run(reports.can_i(self._caller, command, right=right, tenant=tenant, region=region, node=node))

    def audit(self, *, since: str = "", actor: str = "", command: str = "", limit: int = 100) -> tuple[Document, ...]:
        """What was done lately and by whom, newest first."""
        return self.run(reports.audit(self._caller, since=since, actor=actor, command=command, limit=limit))

    def repairs(self, *, tenant: str = "", limit: int = 0) -> Document:
        """What waits to be ended or put right, the most urgent first."""
        return self.run(reports.repairs(self._caller, tenant=tenant, limit=limit))

    def queue(self, *, workload: str = "", tenant: str = "", limit: int = 0) -> Document:
        """What waits to be placed in a region, first what is looked at first."""
        return self.run(reports.queue(self._caller, workload=workload, tenant=tenant, limit=limit))

    def decisions(self, *, limit: int = 50, **asked: str) -> Document:
        """What a region's schedulers decided, newest first; by workload, slot, node, since, until or outcome."""
        return self.run(reports.decisions(self._caller, limit=limit, **asked))

    def schema(self, kind: str) -> Document:
        """The JSON Schema of a kind."""
        return self.run(reports.schema(self._caller, kind))

    # Machines

    def open_session(self, actor: str) -> str:
        """Begin a machine's life at the ledger."""
        return self.run(machine_session.open_session(self._caller, actor))

    def renew(self, session: str) -> LeaseRenewal:
        """A machine's heartbeat."""
        return self.run(machine_session.renew(self._caller, session))

    def send(self, envelope: bytes) -> CommandResult:
        """Send an envelope that is encoded already."""
        return self.run(machine_session.send(self._caller, envelope))

    def speaker(self, actor: str, reopen: Reopen | None = None) -> BlockingMachineSession:
        """A machine that speaks through this client."""
        return BlockingMachineSession(self, machine_session.MachineSession(self._caller, actor, reopen))

    # Driving

    def run(self, call: Operation[T]) -> T:
        """Drive a call to its result."""
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
    """A machine that speaks in sessions (`client.machine_session`)."""

    def __init__(self, client: Client, inner: machine_session.MachineSession) -> None:
        self._client = client
        self._inner = inner

    @property
    def session(self) -> str:
        """The session of this life; empty without one."""
        return self._inner.session

    def open(self) -> str:
        """Begin a life."""
        return self._client.run(self._inner.open())

    def renew(self) -> LeaseRenewal:
        """A heartbeat of this life."""
        return self._client.run(self._inner.renew())

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """A command under the next number, to be sent and repeated by the client's `send`."""
        return self._inner.envelope(command, **fields)

    def send(self, command: Any, **fields: Any) -> CommandResult:
        """Send a command under the next number of this life."""
        return self._client.run(self._inner.send(command, **fields))


class _EffectRunner:
    """Does what one call wants done."""

    def __init__(self, transport: BlockingTransport, sleep: Callable[[float], None]) -> None:
        self._transport = transport
        self._sleep = sleep
        self._stream: Iterator[bytes] | None = None

    def do(self, step: ClientEffect) -> Any:
        """What came of it; an error of the transport is handed back, since it is for the call to know."""
        try:
            return self._do(step)
        except TransportError as error:
            # That a request was answered with something else than was expected is an answer, too.
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
                assert self._stream is not None, "a line was wanted, and no stream is open"
                return next(self._stream, None)
        return None

    def let_go(self) -> None:
        stream, self._stream = self._stream, None
        if isinstance(stream, Generator):
            stream.close()
