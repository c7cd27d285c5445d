"""A machine that runs a program, crashes, and restarts it: memory is lost, its disk is not; and its clocks.

    start ──▶ incarnation 1 ──crash──▶ (nothing) ──restart──▶ incarnation 2 ──▶ ...
                └─pause─▶ sleeps ─resume─┘

An incarnation is one process: its tasks and its ports. In a crash the ports die first. While its tasks are cancelled,
the process can neither send nor receive. So cleanup code, which a killed process would not run, changes nothing in the
world.

All chance of a run comes from its seed, in one stream per name, so that no stream changes the draws of another.

Its clocks may be wrong, run fast or slow, be set, and pause.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop

_INCARNATION: ContextVar[Incarnation | None] = ContextVar("life", default=None)

#: How often a task is cancelled at most: each time ends one await in it.
CANCELLED_MOST = 50
#: Tasks of a process before the first sweep of ended ones.
SWEPT_AT_LEAST = 64


class Incarnation:
    """One process, from start to crash."""

    def __init__(self, machine: SimMachine, number: int) -> None:
        self.machine = machine
        self.number = number
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._most = SWEPT_AT_LEAST
        self._deaths: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """`server-1.2`: the machine and the number of this incarnation."""
        return f"{self.machine.name}.{self.number}"

    def on_death(self, die: Callable[[], None]) -> None:
        """Call `die` when the process dies. It closes a port."""
        self._deaths.append(die)

    def belongs(self, task: asyncio.Task[Any]) -> None:
        """Record a task that this process started."""
        self._tasks[task] = None
        if len(self._tasks) > self._most:
            self._sweep()
            self._most = 2 * len(self._tasks) + SWEPT_AT_LEAST

    def _sweep(self) -> None:
        """Forget ended tasks. A callback on each would cost one turn of the loop per task."""
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            if not task.cancelled():
                task.exception()  # mark as retrieved: a program checks its own tasks

    async def end(self) -> None:
        """Cancel all tasks of the process. They have ended when this returns."""
        for die in self._deaths:
            die()
        for _ in range(CANCELLED_MOST):
            self._sweep()
            if not self._tasks:
                return
            for task in list(self._tasks):
                task.cancel()
            await asyncio.sleep(0)
        self._sweep()
        left = [task.get_name() for task in self._tasks]
        assert not left, f"tasks of {self.name} that will not end: {left}"


Program = Callable[[Incarnation], Coroutine[Any, Any, None]]


class SimMachine:
    """A machine that runs one program. Its clock outlives the program."""

    def __init__(
        self, loop: VirtualLoop, name: str, clock: SimClock, program: Program, broke: Callable[[str], None] = print
    ) -> None:
        self._broke = broke
        self.name = name
        self.clock = clock
        self.incarnation: Incarnation | None = None
        self.lives = 0
        self._loop = loop
        self._program = program

    def start(self) -> Incarnation:
        assert self.incarnation is None, f"{self.name} is running"
        assert self._loop.get_task_factory() is _owned, (
            "the loop must know whose its tasks are: `track_incarnations` first"
        )
        self.lives += 1
        self.incarnation = life = Incarnation(self, self.lives)
        context = copy_context()
        context.run(_INCARNATION.set, life)
        main = self._loop.create_task(self._program(life), name=life.name, context=context)
        main.add_done_callback(self._ended)
        return life

    def _ended(self, main: asyncio.Task[None]) -> None:
        """Record the error of a program that ended by itself: only a crash may end it."""
        if not main.cancelled() and (error := main.exception()) is not None:
            self._broke(f"{main.get_name()} ended: {type(error).__name__}: {error}")

    async def crash(self) -> None:
        """Kill the program, if it runs."""
        life, self.incarnation = self.incarnation, None
        if life is not None:
            self.clock.resume()
            await life.end()

    def pause(self) -> None:
        """Hold all timers of this machine until `resume`. The caller also pauses its ports."""
        self.clock.pause()

    def resume(self) -> None:
        """End the pause."""
        self.clock.resume()


def track_incarnations(loop: VirtualLoop) -> None:
    """Make the loop record for each task the process that it belongs to."""
    loop.set_task_factory(_owned)


def _owned(loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    life = context.get(_INCARNATION) if context is not None else _INCARNATION.get()
    if life is not None:
        life.belongs(task)
    return task


class SeedStreams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *names: str | int) -> Random:
        """Return the stream of these names: the same in every run of this seed."""
        text = "\0".join(str(name) for name in (self.seed, *names))
        return Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))


class SimClock(VirtualClock):
    """The clocks of one machine. Its boot clock counts time in which the machine is paused; sleepers wake after the
    pause."""

    def __init__(self, loop: VirtualLoop, *, fast_per_million: int = 0, booted: int = 1_000, wrong_by: int = 0) -> None:
        super().__init__(loop, booted=booted, wrong_by=wrong_by)
        self._fast = fast_per_million
        self._awake = asyncio.Event()
        self._awake.set()
        #: Timers that fired while the machine was paused.
        self._late: list[Callable[[], object]] = []
        #: Boot clock at the virtual time of the last read: many reads happen at the same time.
        self._said, self._asked = self._booted, 0.0

    def boot(self) -> int:
        now = self._loop.now
        if now != self._asked:
            self._asked = now
            self._said = self._booted + round(now * 1000 * (1_000_000 + self._fast) / 1_000_000)
        return self._said

    async def sleep(self, duration: int) -> None:
        true_ms = self._true_ms(duration)
        if not true_ms:
            await asyncio.sleep(0)
        else:
            over: asyncio.Future[None] = self._loop.create_future()
            alarm = self._loop.call_later(true_ms / 1000, _end, over)
            try:
                await over
            except BaseException:  # on success the alarm has fired already
                alarm.cancel()
                raise
        if not self._awake.is_set():
            await self._awake.wait()

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(self._true_ms(duration) / 1000, self._ring, ring)

    def _ring(self, ring: Callable[[], object]) -> None:
        if self._awake.is_set():
            ring()
        else:
            self._late.append(ring)

    def _true_ms(self, duration: int) -> int:
        """Return true milliseconds, rounded up: no sleeper wakes early by its own clock."""
        return max(0, -(-duration * 1_000_000 // (1_000_000 + self._fast)))

    def step(self, by_ms: int) -> None:
        """Set the wall clock."""
        self.wrong_by += by_ms

    def pause(self) -> None:
        """Hold all sleepers and timers until `resume`."""
        self._awake.clear()

    def resume(self) -> None:
        """Wake the sleepers and run the timers that came due during the pause."""
        self._awake.set()
        late, self._late = self._late, []
        for ring in late:
            self._loop.call_soon(ring)


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)
