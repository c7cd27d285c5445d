"""The effects that an operation yields; one request until it is answered; and reads that include own writes.

SendRequest -> the `Reply`; a `TransportError` is thrown into the operation
    Sleep       -> None, after the given time
    OpenStream  -> None; a stream that was open before is closed
    ReadMessage -> the next message of the open stream, or None at its end; a `TransportError` is thrown
    EmitEvent   -> None, after the reader of the watch has taken the event
"""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast.client.config import ClientConfig, ClientRuntime, key_created_at, new_key
from holdfast.client.errors import DETAIL_MAX, OutcomeUnknownError, ProblemReport, RevisionGoneError, UnavailableError
from holdfast.client.paths import through
from holdfast.client.retry import ReadYourWrites, RetryState, ServerPool
from holdfast.host.ports.transport import Pairs, Reply, Request, TransportError, first_value

T = TypeVar("T")

LINEAR = "linear"
KEY = "idempotency-key"
SENT = "holdfast-sent"
#: A key older than this belongs to an earlier call; its write is a late retry.
LATER_MS = 600_000


class Requester:
    """State that the operations of one client share. A copy for a region shares servers and settings; each region's
    ledger has its own revision token."""

    def __init__(self, access: ClientConfig, means: ClientRuntime) -> None:
        self.access = access
        self.means = means
        self.region = ""
        self.servers = ServerPool(access.servers)
        self.tokens = ReadYourWrites()

    def through(self, region: str) -> Requester:
        """Return the same client at that region."""
        if not region or "/" in region or region in (".", ".."):
            raise ValueError(f"not the name of a region: {region!r}")
        other = copy(self)
        other.region = region
        return other

    def hurried(self, patience_ms: int) -> Requester:
        """Return the same client with at most this time for retries."""
        other = copy(self)
        patience, timeout = min(self.access.retry_for_ms, patience_ms), min(self.access.timeout_ms, patience_ms)
        other.access = msgspec.structs.replace(self.access, retry_for_ms=patience, timeout_ms=max(1, timeout))
        return other

    def key(self, given: str) -> str:
        """Return the idempotency key of a write: the given one or a new one. Retries keep it."""
        keys = self.means.keys
        return given or (keys() if keys is not None else new_key(self.means.wall()))

    def request(self, verb: str, path: str, query: Pairs = (), headers: Pairs = (), body: bytes = b"") -> Request:
        """Build a request with a time limit."""
        # The server's limit is shorter than the client's, so that its timeout arrives as an answer.
        limit = ("holdfast-timeout-ms", str(max(1, self.access.timeout_ms * 9 // 10)))
        return self.endless(verb, path, query, (limit, *headers), body)

    def endless(self, verb: str, path: str, query: Pairs = (), headers: Pairs = (), body: bytes = b"") -> Request:
        """Build a request whose answer is a stream."""
        ours = [("user-agent", self.access.agent)]
        if self.access.token:
            ours.append(("authorization", f"Bearer {self.access.token}"))
        if body and not any(name == "content-type" for name, _ in headers):
            ours.append(("content-type", "application/json"))
        return Request(verb, through(self.region, path), query, (*ours, *headers), body)

    def tries(self, *, forever: bool = False, writes: bool = False, key: str = "") -> RetryState:
        """Return the retry state of a new request."""
        patience = None if forever else self.access.retry_for_ms
        return RetryState(self.means, self.servers, self.region, patience, writes=writes, key=key)

    def call(self, request: Request, *, writes: bool = False, key: str = "") -> Operation[Reply]:
        """Send a request until it is answered, identical in every attempt. Raises the final error otherwise.

        The last attempt of a read ends with the retry time. The last attempt of a write gets its full timeout: a
        shortened one would end with an unknown outcome more often.
        """
        tries = self.tries(writes=writes, key=key)
        while True:
            limit = self.access.timeout_ms if writes else min(self.access.timeout_ms, tries.left_ms())
            try:
                reply: Reply = yield SendRequest(tries.server, request, limit)
            except TransportError as error:
                tries.failed(error, was_hurried=limit < self.access.timeout_ms)
            else:
                if reply.status < 300:
                    tries.worked()
                    return reply
                tries.answered(reply)
            wait = tries.pause_ms()
            if wait:
                yield Sleep(wait)

    def write(self, request: Request, key: str, *, changes: bool = True) -> Operation[Reply]:
        """Send a write under this key. Later reads include its effect; a dry run has `changes=False`."""
        keyed = msgspec.structs.replace(request, headers=(*request.headers, (KEY, key), *self._first_sent(key)))
        reply = yield from self.call(keyed, writes=changes, key=key)
        if changes:
            self.tokens.wrote(self.region, reply)
        return reply

    def _first_sent(self, key: str) -> Pairs:
        """Return the first-sent header for a late retry; the server forgets keys after a window and must not execute an
        old write as new. A recent key gets no header, because this client's clock may be wrong."""
        at = key_created_at(key)
        if not at or self.means.wall() - at < LATER_MS:
            return ()
        from datetime import UTC, datetime

        said = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
        return ((SENT, said.replace("+00:00", "Z")),)

    def read(self, verb: str, path: str, query: Pairs = (), *, level: str = "", body: bytes = b"") -> Operation[Reply]:
        """Send a read that includes this client's own writes, or reads at the caller's `level`.

        If the log no longer contains those writes (restored or trimmed), the token is dropped and one linearizable read
        follows.
        """
        token = self.tokens.of(self.region)
        chosen = level or (f"at-least={token}" if token else "")
        try:
            return (yield from self.call(self._reading(verb, path, query, chosen, body)))
        except RevisionGoneError:
            if level or not token:
                raise
        self.tokens.forget(self.region, token)
        return (yield from self.call(self._reading(verb, path, query, LINEAR, body)))

    def _reading(self, verb: str, path: str, query: Pairs, level: str, body: bytes) -> Request:
        headers = (("holdfast-read", level),) if level else ()
        return self.request(verb, path, query, headers, body)


def query_of(*asked: tuple[str, str]) -> Pairs:
    """Return the query of these parameters, without the empty ones."""
    return tuple(one for one in asked if one[1])


def if_match_header(if_match: str | None) -> Pairs:
    """Return the header that requires this revision of the object, or any revision (`*`)."""
    if if_match is None:
        return ()
    return (("if-match", if_match if if_match == "*" else f'"{if_match}"'),)


def decode_reply(reply: Reply, shape: type[T], *, wrote: str | None = None) -> T:
    """Decode a successful reply, JSON or msgpack. `wrote` is the idempotency key of the answered write: if the reply
    cannot be decoded, that write has an unknown outcome."""
    decode = msgspec.msgpack.decode if "msgpack" in first_value(reply.headers, "content-type") else msgspec.json.decode
    try:
        return decode(reply.body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        shown = reply.body[:DETAIL_MAX].decode(errors="replace")
        detail = f"the answer cannot be read ({error}): {shown}"
        problem = ProblemReport("not-understood", reply.status, detail=detail, hint="is this a Holdfast server?")
        raise (UnavailableError(problem) if wrote is None else OutcomeUnknownError(problem, wrote)) from None


def decode_document(reply: Reply, *, wrote: str | None = None) -> Document:
    return decode_reply(reply, dict, wrote=wrote)


#: A document: `apiVersion`, `kind`, `metadata`, `spec`, `status`.
Document = dict[str, Any]


class WatchEvent(Struct, frozen=True):
    """A change that a watch received. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; resume it after `token`.

    A BOOKMARK carries no object: all events up to its token have been emitted.
    """

    type: str
    object: Document
    token: str


class SendRequest(Struct, frozen=True):
    """Send one request to one server."""

    server: str
    request: Request
    timeout_ms: int


class Sleep(Struct, frozen=True):
    """Wait."""

    ms: int


class OpenStream(Struct, frozen=True):
    """Open a stream from one server."""

    server: str
    request: Request
    idle_ms: int


class ReadMessage(Struct, frozen=True):
    """Read the next message of the open stream."""


class EmitEvent(Struct, frozen=True):
    """Emit an event to the reader of the watch."""

    event: WatchEvent


ClientEffect = SendRequest | Sleep | OpenStream | ReadMessage | EmitEvent
#: A running operation: it yields effects and returns a result. Each effect's result resumes it.
Operation = Generator[ClientEffect, Any, T]


def resume(call: Operation[Any], came: Any) -> ClientEffect:
    """Resume an operation with the result of its effect (an error is thrown) and return its next effect. At the end it
    raises `StopIteration` with the operation's result."""
    return call.throw(came) if isinstance(came, TransportError) else call.send(came)
