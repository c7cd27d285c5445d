"""Calls that may block, such as on an unresponsive mount or a user lookup over the network.

Each runs in a thread of its own, so that the agent's loop continues to send heartbeats. A blocked thread cannot be
ended: it is abandoned, also at exit, and its result discarded. At most
`CALLS_PER_KIND_MAX` of a kind run at a time, so that blocked calls do not slow down other kinds.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import DeadlinePassed, within

#: Largest number of calls of one kind at a time.
CALLS_PER_KIND_MAX = 4

T = TypeVar("T")


class Hangs(Exception):
    """The call was abandoned: it timed out, or too many of its kind are blocked."""


class BlockingCalls:
    """The blocking calls of one agent, on its loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def ask(self, kind: str, limit_ms: int, call: Callable[[], T]) -> T:
        """Return the call's result, or raise its error; raise `Hangs` at the limit, or if too many are blocked already.

        Only for calls without an effect if they end later.
        """
        async with self._turn(kind):  # a holder of this turn waits at most for the limit
            if self._under_way[kind] >= CALLS_PER_KIND_MAX:
                raise Hangs(f"{kind}: no answer, and {CALLS_PER_KIND_MAX} others wait for one already")
            try:
                return await within(self._clock, limit_ms, self._begin(kind, call))
            except DeadlinePassed:
                raise Hangs(f"{kind}: no answer within {limit_ms} ms") from None

    async def wait(self, kind: str, call: Callable[[], T]) -> T:
        """Return the call's result, or raise its error, however long it takes."""
        async with self._turn(kind):
            return await self._begin(kind, call)

    def _turn(self, kind: str) -> asyncio.Semaphore:
        return self._turns.setdefault(kind, asyncio.Semaphore(CALLS_PER_KIND_MAX))

    def _begin(self, kind: str, call: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._under_way[kind] += 1

        def take(result: T | None, error: BaseException | None) -> None:
            self._under_way[kind] -= 1
            if answer.done():  # the caller stopped waiting
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(take, result, error)

        threading.Thread(target=run, name=f"call: {kind}", daemon=True).start()
        return answer
