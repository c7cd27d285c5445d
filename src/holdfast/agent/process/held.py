"""One replica as the driver has it: found, listened to, and ended for good.

    find ──result.json──────────────────────────────▶ ended
         ──its guard lives and answers──▶ on the line ──the line ends──▶ find
         ──otherwise──▶ stopping ──clear: what is left is killed──▶ ended, guard-gone

A replica that was just started and one that an earlier agent left are found in the same way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from holdfast.agent.driver import CannotStart, Live, StartFault, State, Why
from holdfast.agent.guard import kernel
from holdfast.agent.process.leftovers import clear, end_exactly
from holdfast.agent.process.line import Line, call
from holdfast.agent.process.records import NOBODY, Ran, Record, Said, Unreadable, boot_id, live_of, lost_of, read_result
from holdfast.host.clock import Clock
from holdfast.host.waiting import DeadlinePassed, within


class Held:
    """A replica and the line to its guard. `tell` is called when something has changed; with True, when its guard is
    gone and it is to be found again."""

    def __init__(self, record: Record, folder: Path, clock: Clock, tell: Callable[[Held, bool], None]) -> None:
        self.record = record
        self.live = lost_of(record, Why.NOT_YET, State.RUNNING)
        self._folder = folder
        self._clock = clock
        self._tell = tell
        self._line: Line | None = None
        #: Whether its guard answered, of a line that was just called.
        self._answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        #: Commands that run beside it, by the number under which its guard was asked.
        self._commands: dict[int, asyncio.Future[Ran | None]] = {}
        self._numbers = count(1)
        #: When it is to be killed, if it was asked to end.
        self._due = 0

    async def find(self, answer_ms: int) -> bool:
        """See what has become of it. Whether it is on the line, or has ended; otherwise it is to be cleared."""
        if self._has_result():
            return True
        if self.record.boot != boot_id():
            self._become(lost_of(self.record, Why.REBOOTED))
            return True
        if await self._call(answer_ms) or self._has_result():
            return True
        self._become(lost_of(self.record, Why.GUARD_GONE, State.STOPPING))
        return False

    async def clear(self) -> None:
        """End what its guard has left; returns when nothing is, which may take as long as the kernel likes."""
        await clear(self.record, self._clock)
        if not self._has_result():  # it may have been written while we looked
            self._become(lost_of(self.record, Why.GUARD_GONE))

    def stop(self, grace_ms: int) -> None:
        """Begin to end it."""
        due = self._clock.boot() + grace_ms
        self._due = min(self._due, due) if self._due else due
        if self.live.state is State.RUNNING:
            self._become(replace(self.live, state=State.STOPPING, why=Why.STOPPED))
        if self._line is not None:
            self._line.stop(grace_ms)

    async def run(self, command: tuple[str, ...], limit_ms: int) -> Ran:
        """Run a command beside it, under its guard. Whoever stops waiting ends it."""
        line, number = self._line, next(self._numbers)
        answer: asyncio.Future[Ran | None] = asyncio.get_running_loop().create_future()
        self._commands[number] = answer
        try:
            ran = await answer if line is not None and line.run(number, command, limit_ms) else None
        finally:
            del self._commands[number]
            if line is not None and answer.cancelled():
                line.cancel(number)
        if ran is None:
            raise CannotStart(StartFault.DRIVER, "its guard does not hear, and nothing runs for it but by that")
        return ran

    def extend(self, message: bytes, deadline: int, now: int) -> None:
        """Hand on how long it may live. What we think of its deadline is what its guard must have heard."""
        live = self.live
        if self.record.leased and self._line is not None and self._line.extend(message) and now < live.deadline:
            self.live = replace(live, deadline=max(live.deadline, deadline))

    def hasten(self, now: int, patience_ms: int) -> bool:
        """Kill its guard, and so its process, if what should have been killed still lives; whether that was so."""
        ends = [self._due] if self._due else []
        if self.record.leased:
            ends.append(self.live.deadline + self.record.grace_ms)
        if self._line is None or not ends or now < min(ends) + patience_ms:
            return False
        lives = self.record.process.is_alive() or bool(kernel.members(list(self.record.groups)))
        return lives and end_exactly(self.record.guard)

    def let_go(self) -> None:
        """It is forgotten: a guard that could not write its result need not wait any longer."""
        if self._line is not None:
            self._line.go()
        self.hang_up()
        if self.record.guard != NOBODY:
            with suppress(
                ChildProcessError
            ):  # where the agent is the first process of a container, orphans are its own
                os.waitpid(self.record.guard.pid, os.WNOHANG)

    def hang_up(self) -> None:
        """Hear nothing of it any more."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._give_up_commands()

    async def _call(self, answer_ms: int) -> bool:
        """Whether its guard lives and answers. One that does not answer is no fence."""
        if self.record.guard != NOBODY and not self.record.guard.is_alive():
            return False
        self._answered = asyncio.get_running_loop().create_future()
        line = self._line = call(self._folder, self._hear)
        if line is None:
            return False
        try:
            answered = await within(self._clock, answer_ms, self._answered)
        except DeadlinePassed:
            answered = False
        if not answered:
            self.hang_up()
        elif self._due:
            line.stop(max(0, self._due - self._clock.boot()))
        return answered

    def _give_up_commands(self) -> None:
        for answer in self._commands.values():
            if not answer.done():
                answer.set_result(None)

    def _hear(self, said: Said | Ran | None) -> None:
        if isinstance(said, Ran):
            answer = self._commands.get(said.ran)
            if answer is not None and not answer.done():
                answer.set_result(said)
            return
        was_waited_for = not self._answered.done()
        if was_waited_for:
            self._answered.set_result(said is not None)
        if said is None:
            self._line = None
            self._give_up_commands()
            if not was_waited_for and self.live.state is not State.ENDED:
                self._tell(self, True)
            return
        live = live_of(self.record, said)
        if live.state is State.RUNNING and (self._due or self._is_past(live)):
            live = replace(live, state=State.STOPPING, why=Why.STOPPED if self._due else Why.DEADLINE)
        self._become(live)

    def _is_past(self, live: Live) -> bool:
        return live.leased and self._clock.boot() >= live.deadline

    def _has_result(self) -> bool:
        try:
            result = read_result(self._folder)
        except Unreadable:
            return False
        if result is not None:
            self._become(live_of(self.record, result))
        return result is not None

    def _become(self, live: Live) -> None:
        if live != self.live:
            self.live = live
            self._tell(self, False)
