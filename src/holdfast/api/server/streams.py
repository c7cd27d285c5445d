"""Streams that take a place for as long as they last: how many one server serves at a time, and of one principal.

    a watch of a person    its part of all watches is taken: told to come again
    a stream of a machine  all places are taken: told to come again; its own are: its oldest stream ends

People's watches and machines' streams have places of their own: however many watch, an agent is told what to run. A
machine that comes again may have lost its last connection without this server having seen that: the new one counts.
What a stream took it gives back however it ends, also if nobody reads a word of it, as after a HEAD.

Before each word it is judged anew whether its caller may still be told: a token may be revoked or over, a principal
disabled. Every stream says something every five seconds, so it ends within that, also when there is nothing to tell,
and no stream needs a timer of its own.
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
#: Why the stream that a call has opened has to end now; None: it may go on.
StreamEndCheck = Callable[[ApiRequest], Problem | None]


class StreamSlot:
    """The place of one stream. Over: another one has it, and this one ends with its next word."""

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
        """A place for one more stream; the problem when there is none. Its oldest ends when a machine has too many."""
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
        """Give its place back, if it still has one."""
        if not stream.is_over:
            stream.is_over = True
            self.taken -= 1
            self._of[stream.actor].remove(stream)
            if not self._of[stream.actor]:
                del self._of[stream.actor]


async def machine_stream(
    streams: StreamSlots, call: ApiRequest, no_longer: StreamEndCheck, answering: Awaitable[F]
) -> F:
    """The answer to a machine. If it is a stream it has a place until it ends, or until a later one of it has that. One
    that may be told no more is not told why: its session may go on, with another token for one."""
    stream = streams.open(call.caller.actor)
    if isinstance(stream, Problem):
        raise _reject_stream(answering, stream)

    def last() -> Sequence[bytes] | None:
        return () if stream.is_over or no_longer(call) is not None else None

    return await _with_slot(answering, last, lambda: streams.leave(stream))


async def person_stream(
    watches: ConcurrencyLimiter, call: ApiRequest, no_longer: StreamEndCheck, answering: Awaitable[F]
) -> F:
    """The answer to a person. If it is a stream it has a place until it ends; the problem when there is none."""
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
    await anext(messages)  # begun: whoever closes it unread gives its place back, too
    return StreamReply(messages, found.framing, found.headers)  # type: ignore[return-value]


async def _guarded(
    messages: AsyncIterator[bytes], last: Callable[[], Sequence[bytes] | None], leave: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """What is sent, after a first word that is not: it is taken by whoever makes the stream. `last` is what is still
    said when it has to end; None: it may go on."""
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
    """Why the stream ends."""
    return encode({"type": "ERROR", "object": found})
