"""Streams that take a place for as long as they last: how many one server serves at a time, and of one principal.

People's watches and machines' streams have places of their own: however many watch, an agent is told what to run. What
a stream took it gives back however it ends, also if nobody reads a word of it, as after a HEAD.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TypeVar

from holdfast.api.server.call import Call, Trouble
from holdfast.api.server.limits import Places
from holdfast.host.streams import close
from holdfast.host.transport import Flow, Reply

F = TypeVar("F", bound=Reply | Flow)


async def in_place(places: Places, call: Call, answering: Awaitable[F]) -> F:
    """The answer. If it is a stream it has a place until it ends; the problem when there is none."""
    actor = call.caller.actor
    full = places.take(actor)
    if full is not None:
        if hasattr(answering, "close"):
            answering.close()  # never begun
        raise Trouble(full)
    try:
        found = await answering
    except BaseException:
        places.leave(actor)
        raise
    if isinstance(found, Reply):
        places.leave(actor)
        return found
    messages = _held(places, actor, found.messages)
    await anext(messages)  # begun: whoever closes it unread gives its place back, too
    return Flow(messages, found.framing, found.headers)  # type: ignore[return-value]


async def _held(places: Places, actor: str, messages: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """What is sent, after a first word that is not: it is taken by whoever makes the stream."""
    try:
        yield b""
        async for message in messages:
            yield message
    finally:
        try:
            await close(messages)
        finally:
            places.leave(actor)
