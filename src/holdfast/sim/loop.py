"""An event loop on virtual time.

Nothing ever waits: when no callback is ready, time jumps to the next one that is due. Two runs with the same inputs do
the same things in the same order. Whoever waits for something that nobody will do is told so instead of hanging.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.core.model.shapes import Instant

T = TypeVar("T")

#: When a simulated world begins, by the calendar.
BEGINNING: Instant = 1_800_000_000_000


class NothingLeftToDo(Exception):
    """Every task waits, and nothing is due: the run would hang for ever."""


class _Jumping(selectors.SelectSelector):
    """Where a real loop sleeps, this one moves its time on."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: VirtualLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingLeftToDo("all tasks wait and no timer is set")
        if timeout > 0 and self.loop is not None:
            self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks as asyncio does, in time of its own."""

    def __init__(self) -> None:
        selector = _Jumping()
        super().__init__(selector)
        selector.loop = self
        self.now = 0.0

    def time(self) -> float:
        return self.now


class VirtualClock:
    """The clocks of one machine in a virtual world. `wall` can be set wrong; `boot` starts anywhere."""

    def __init__(self, loop: VirtualLoop, *, booted: int = 1_000, wrong_by: int = 0) -> None:
        self._loop = loop
        self._booted = booted
        self.wrong_by = wrong_by

    def boot(self) -> int:
        return self._booted + round(self._loop.now * 1000)

    def wall(self) -> Instant:
        return BEGINNING + round(self._loop.now * 1000) + self.wrong_by

    async def sleep(self, duration: int) -> None:
        await asyncio.sleep(max(0, duration) / 1000)


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Run to the end on virtual time, like `asyncio.run`."""
    with asyncio.Runner(loop_factory=(lambda: loop) if loop is not None else VirtualLoop) as runner:
        return runner.run(main)
