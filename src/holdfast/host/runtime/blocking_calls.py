"""Calls that may hang, as on a mount that does not answer or a table of users that asks the network: each in a thread
of its own, so that the agent's loop, and with it its heartbeats, goes on.

A thread that hangs cannot be ended. It is given up: nobody hears its result, and the process does not wait for it at
its end. Of each kind only a few are under way at a time, so that what hangs takes nothing from others.
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

#: So many of one kind are under way at a time.
CALLS_PER_KIND_MAX = 4

T = TypeVar("T")


class Hangs(Exception):
    """It was given up: it gave no answer in time, or as many of its kind as may hang do so already."""


class BlockingCalls:
    """Those of one agent, on its loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def ask(self, kind: str, limit_ms: int, call: Callable[[], T]) -> T:
        """What it gives, or raises; `Hangs` when that takes too long, or so many hang already. Only for calls that
        leave nothing behind if they end later."""
        async with self._turn(kind):  # whoever has it waits no longer than the limit
            if self._under_way[kind] >= CALLS_PER_KIND_MAX:
                raise Hangs(f"{kind}: no answer, and {CALLS_PER_KIND_MAX} others wait for one already")
            try:
                return await within(self._clock, limit_ms, self._begin(kind, call))
            except DeadlinePassed:
                raise Hangs(f"{kind}: no answer within {limit_ms} ms") from None

    async def wait(self, kind: str, call: Callable[[], T]) -> T:
        """What it gives, or raises, however long it takes: what others believe depends on it."""
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
            if answer.done():  # nobody waits for it any more
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
