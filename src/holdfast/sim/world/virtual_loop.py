"""An event loop on virtual time.

Nothing waits: when no callback is ready, time jumps to the next timer. Two runs with the same inputs do the same things
in the same order; callbacks due at the same time run in the order of their requests. If all tasks wait for nothing, the
loop raises an error instead of blocking.

There is no I/O and no selector: a turn is a walk over the ready callbacks, and timers compare as plain tuples.
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

#: Calendar time at the start of a simulated world.
BEGINNING: Instant = 1_800_000_000_000


class SimulationStalled(Exception):
    """Every task waits and no timer is set: the run would block forever."""


class _Call(Struct, eq=False):
    """A callback with the parts of a handle that asyncio uses; most handles are never used."""

    context: Context
    callback: Any
    args: tuple[Any, ...]
    at: float = 0.0
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Skip the callback when it is due."""
        self.is_cancelled = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Whether the callback will be skipped."""
        return self.is_cancelled

    def when(self) -> float:
        """When the callback is due."""
        return self.at


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks as asyncio does, on virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._ready: deque[_Call] = deque()
        self._stopping = False
        #: Timers: due time, a number that keeps the order, the callback.
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
        return self.call_soon(callback, *args, context=context)  # one append, safe from any thread

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
        """Run turns until the loop is stopped. A turn runs the callbacks that were ready at its start."""
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
        """Do nothing: a cancelled timer is skipped when it is due."""

    def _write_to_self(self) -> None:
        """Do nothing: this loop never sleeps."""

    def _process_events(self, _event_list: Any) -> None:
        """Do nothing: there are no I/O events."""


class VirtualClock:
    """The clocks of one machine in a virtual world. `wall` can be set wrong; `boot` starts at any value."""

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
    """Run a coroutine on virtual time, like `asyncio.run`."""
    with asyncio.Runner(loop_factory=(lambda: loop) if loop is not None else VirtualLoop) as runner:
        return runner.run(main)
