"""An event loop on virtual time.

Nothing ever waits: when no callback is ready, time jumps to the next one that is due. Two runs with the same inputs do
the same things in the same order: what is due at the same time runs in the order in which it was asked for. Whoever
waits for something that nobody will do is told so instead of hanging.

There is no I/O, and so no selector: a turn is a walk over what is ready, and timers compare as plain tuples.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Struct

from holdfast.core.model.values.structs import Instant

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: When a simulated world begins, by the calendar.
BEGINNING: Instant = 1_800_000_000_000


class SimulationStalled(Exception):
    """Every task waits, and nothing is due: the run would hang for ever."""


class _Call(Struct, eq=False):
    """A callback that is to run, and what asyncio asks of a handle: most are never asked for anything."""

    context: Context
    callback: Any
    args: tuple[Any, ...]
    at: float = 0.0
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Pass it over when its time comes."""
        self.is_cancelled = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether it will be passed over."""
        return self.is_cancelled

    def when(self) -> float:
        """When it is due."""
        return self.at


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks as asyncio does, in time of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._ready: deque[_Call] = deque()
        self._stopping = False
        #: What is due later: when, a number that keeps the order, the callback.
        self._due: list[tuple[float, int, _Call]] = []
        self._numbered = 0

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        call = _Call(copy_context() if context is None else context, callback, args)
        self._ready.append(call)
        return call  # type: ignore[return-value]

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)  # to put it in line is one step, whoever does it

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        when = self.now + delay
        call = _Call(copy_context() if context is None else context, callback, args, when)
        self._numbered = number = self._numbered + 1
        heappush(self._due, (when, number, call))
        return call  # type: ignore[return-value]

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        call = _Call(copy_context() if context is None else context, callback, args, when)
        self._numbered = number = self._numbered + 1
        heappush(self._due, (when, number, call))
        return call  # type: ignore[return-value]

    def _run_once(self) -> None:
        """Turn after turn until somebody stops it. In one turn runs what is ready, and not what becomes so by that."""
        ready, due = self._ready, self._due
        take = ready.popleft
        while True:
            while due and due[0][2].is_cancelled:
                heappop(due)
            if not ready and not self._stopping:
                if not due:
                    raise SimulationStalled("all tasks wait and no timer is set")
                if due[0][0] > self.now:
                    self.now = due[0][0]
            while due and due[0][0] <= self.now:
                ready.append(heappop(due)[2])
            for _ in range(len(ready)):
                call = take()
                if call.is_cancelled:
                    continue
                try:
                    call.context.run(call.callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": "a callback failed", "exception": error})
            if self._stopping:
                return

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _write_to_self(self) -> None:
        """Nothing has to be woken up: this loop never sleeps."""

    def _process_events(self, _event_list: Any) -> None:
        """There are none."""


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

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0, duration) / 1000, ring)


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Run to the end on virtual time, like `asyncio.run`."""
    with asyncio.Runner(loop_factory=(lambda: loop) if loop is not None else VirtualLoop) as runner:
        return runner.run(main)
