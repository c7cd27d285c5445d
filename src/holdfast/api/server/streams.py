"""Streams: how many one server serves in total and for each principal, and when a stream must end.

    a watch of a user      above its part of all watches: rejected, to be retried
    a stream of a machine  above the total: rejected, to be retried; above its own limit: its oldest stream ends

Watches of users and streams of machines have separate slots, so watches never keep an agent from its bindings. A
machine that reconnects may have lost its last connection unnoticed by this server: the new stream counts. A stream
releases its slot however it ends, also if it is never read, as after a HEAD.

Before each message the server checks that the caller still has access: its token may be revoked or expired, its
principal disabled. Every stream sends something every five seconds, so it ends within that time, and no stream needs a
timer of its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.api.problems import Problem
from holdfast.api.server.limits import ConcurrencyLimiter, overloaded
from holdfast.api.server.request import ApiError, ApiRequest, encode
from holdfast.host.ports.transport import Reply, StreamReply
from holdfast.host.streams.resume import close_frames

F = TypeVar("F", bound=Reply | StreamReply)
#: Return why the stream that a request opened must end now; None: it may continue.
StreamEndCheck = Callable[[ApiRequest], Problem | None]


class StreamSlot:
    """The slot of one stream. `is_over`: another stream has the slot, and this one ends before its next message."""

    def __init__(self, actor: str) -> None:
        self.actor = actor
        self.is_over = False


class StreamSlots:
    """The streams of machines that one server serves."""

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        #: By principal, oldest first.
        self._of: dict[str, list[StreamSlot]] = {}
        self.taken = 0

    def open(self, actor: str) -> StreamSlot | Problem:
        """Return a slot for one more stream, or the problem. A machine above its own limit loses its oldest stream."""
        own = self._of.get(actor, [])
        if len(own) >= self._each:
            self.leave(own[0])
        if self.taken >= self._most:
            return overloaded(f"{self.taken} streams")
        stream = StreamSlot(actor)
        self._of.setdefault(actor, []).append(stream)
        self.taken += 1
        return stream

    def leave(self, stream: StreamSlot) -> None:
        """Release the slot, if the stream still has one."""
        if not stream.is_over:
            stream.is_over = True
            self.taken -= 1
            self._of[stream.actor].remove(stream)
            if not self._of[stream.actor]:
                del self._of[stream.actor]


async def machine_stream(
    streams: StreamSlots, call: ApiRequest, no_longer: StreamEndCheck, answering: Awaitable[F]
) -> F:
    """Return the reply to a machine. A stream has a slot until it ends or a later one of the machine takes it. A stream
    that loses its access ends without a reason: the machine's session may continue, for example with another token."""
    stream = streams.open(call.caller.actor)
    if isinstance(stream, Problem):
        raise _reject_stream(answering, stream)

    def last() -> Sequence[bytes] | None:
        return () if stream.is_over or no_longer(call) is not None else None

    return await _with_slot(answering, last, lambda: streams.leave(stream))


async def person_stream(
    watches: ConcurrencyLimiter, call: ApiRequest, no_longer: StreamEndCheck, answering: Awaitable[F]
) -> F:
    """Return the reply to a user. A stream has a slot until it ends; raise the problem if none is free."""
    actor = call.caller.actor
    full = watches.acquire(actor)
    if full is not None:
        raise _reject_stream(answering, full)

    def last() -> Sequence[bytes] | None:
        refused = no_longer(call)
        return None if refused is None else (error_event(refused),)

    return await _with_slot(answering, last, lambda: watches.release(actor))


def _reject_stream(answering: Awaitable[F], full: Problem) -> ApiError:
    if hasattr(answering, "close"):
        answering.close()
    return ApiError(full)


async def _with_slot(
    answering: Awaitable[F], last: Callable[[], Sequence[bytes] | None], leave: Callable[[], None]
) -> F:
    try:
        found = await answering
    except BaseException:
        leave()
        raise
    if isinstance(found, Reply):
        leave()
        return found
    messages = _guarded(found.messages, last, leave)
    await anext(messages)  # started: closing an unread stream also releases its slot
    return StreamReply(messages, found.framing, found.headers)  # type: ignore[return-value]


async def _guarded(
    messages: AsyncIterator[bytes], last: Callable[[], Sequence[bytes] | None], leave: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the messages, after an empty first one that the creator of the stream takes. `last` returns the final
    messages if the stream must end; None: it may continue."""
    try:
        yield b""
        async for message in messages:
            words = last()
            if words is not None:
                for word in words:
                    yield word
                return
            yield message
    finally:
        try:
            await close_frames(messages)
        finally:
            leave()


def error_event(found: Problem) -> bytes:
    """Return the event with the reason for which a stream ends."""
    return encode({"type": "ERROR", "object": found})
