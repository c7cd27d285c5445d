"""A machine that runs a program, crashes, and starts it again: memory is gone, what was on its disk is not.

    start ──▶ life 1 ──crash──▶ (nothing) ──restart──▶ life 2 ──▶ ...
                └─pause─▶ sleeps ─resume─┘

A life is everything that a process is: its tasks, and its ports to the outside. In a crash the ports die first:
whatever the process still does while its tasks are taken apart reaches nobody, and no answer reaches it. So code that
tidies up when it is cancelled, as a real process does not when it is killed, changes nothing in the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

from holdfast.sim.world.clocks import SimClock
from holdfast.sim.world.virtual_loop import VirtualLoop

_INCARNATION: ContextVar[Incarnation | None] = ContextVar("life", default=None)

#: How often a task that is taken apart is cancelled: each time ends one thing that it waits for.
CANCELLED_MOST = 50
#: How many tasks of a process are kept at least before those that have ended are looked for.
SWEPT_AT_LEAST = 64


class Incarnation:
    """One life of a process."""

    def __init__(self, machine: SimMachine, number: int) -> None:
        self.machine = machine
        self.number = number
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._most = SWEPT_AT_LEAST
        self._deaths: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """`server-1.2`: the machine, and which of its lives this is."""
        return f"{self.machine.name}.{self.number}"

    def on_death(self, die: Callable[[], None]) -> None:
        """Call this when the process dies: a port goes silent."""
        self._deaths.append(die)

    def belongs(self, task: asyncio.Task[Any]) -> None:
        """A task was started by this process."""
        self._tasks[task] = None
        if len(self._tasks) > self._most:
            self._sweep()
            self._most = 2 * len(self._tasks) + SWEPT_AT_LEAST

    def _sweep(self) -> None:
        """Forget tasks that have ended. A callback on each would cost a turn of the loop for every one of them."""
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            if not task.cancelled():
                task.exception()  # what a program does not look at itself is nobody else's business

    async def end(self) -> None:
        """Take the process apart. When this returns, nothing of it is left."""
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
    """A place where one program runs. Its clock outlives the program."""

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
        """Begin the next life."""
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
        """A program runs until it is killed: one that ends by itself has failed."""
        if not main.cancelled() and (error := main.exception()) is not None:
            self._broke(f"{main.get_name()} ended: {type(error).__name__}: {error}")

    async def crash(self) -> None:
        """Kill the program. Nothing happens if it does not run."""
        life, self.incarnation = self.incarnation, None
        if life is not None:
            self.clock.resume()
            await life.end()

    def pause(self) -> None:
        """Nothing that this machine waits for happens until `resume`. Pause its ports with it."""
        self.clock.pause()

    def resume(self) -> None:
        """Go on."""
        self.clock.resume()


def track_incarnations(loop: VirtualLoop) -> None:
    """From now on the loop notes for each task which process it belongs to."""
    loop.set_task_factory(_owned)


def _owned(loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    life = context.get(_INCARNATION) if context is not None else _INCARNATION.get()
    if life is not None:
        life.belongs(task)
    return task
