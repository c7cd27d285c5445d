"""One run in the driver: found, connected, and ended for good.

    find ──result.json──────────────────────────────▶ ended
         ──its guard lives and answers──▶ connected ──the connection ends──▶ find
         ──its guard lives and is silent──▶ unchanged ──it answers──▶ connected
                                                      ──its end is overdue──▶ its guard is killed ──▶ find
         ──otherwise──▶ stopping ──clear: what is left is killed──▶ ended, guard-gone

A run that was just started and one of an earlier agent are found in the same way. A guard may be silent for as long as
its machine swaps: that shows nothing about its process, and only a fence has to pass in time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from holdfast.agent.drivers.driver import ExecNotRun, ExitReason, RunStatus
from holdfast.agent.drivers.process import guard_files as files
from holdfast.agent.drivers.process.launch import GuardConnection, connect
from holdfast.agent.drivers.process.leftovers import descended_from, kill_leftovers, kill_process
from holdfast.agent.guard import kernel
from holdfast.core.agent.processes import ProcessState
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.blocking_calls import BlockingCalls
from holdfast.host.runtime.deadlines import DeadlinePassed, within

NEVER = 2**62
#: The kind of blocking call used here: the disk of the agent's own folder.
FOLDER = "the agent's folder"


class GuardedRun:
    """A run and the connection to its guard. `tell` is called after each change; with True if the guard is gone."""

    def __init__(
        self,
        record: files.GuardRecord,
        folder: Path,
        clock: Clock,
        calls: BlockingCalls,
        tell: Callable[[GuardedRun, bool], None],
    ) -> None:
        self.record = record
        self.live = files.lost_status(record, ExitReason.NOT_YET, ProcessState.RUNNING)
        self._folder = folder
        self._clock = clock
        self._calls = calls
        self._tell = tell
        self._line: GuardConnection | None = None
        #: Whether the guard answered on the connection that was just opened.
        self._answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        #: Commands that run beside it, by the number of their request.
        self._commands: dict[int, asyncio.Future[files.ExecResult | None]] = {}
        self._numbers = count(1)
        #: When and why it is killed, if it was stopped; and the last deadline that its guard is known to have.
        self._due = 0
        self._why = ExitReason.STOPPED
        self._deadline = record.deadline
        #: Its guard lives, and has not answered the last connection.
        self.is_silent = False

    async def find(self, answer_ms: int) -> bool:
        """Find the state of the run. Whether it is connected or ended; otherwise it must be cleared."""
        if await self._has_result():
            return True
        if self.record.boot != files.boot_id():
            self._become(files.lost_status(self.record, ExitReason.REBOOTED))
            return True
        if await self._call(answer_ms) or await self._has_result():
            return True
        self._become(files.lost_status(self.record, ExitReason.GUARD_GONE, ProcessState.STOPPING))
        return False

    async def clear(self) -> None:
        """End what its guard has left; return when nothing is left, however long the kernel needs."""
        await kill_leftovers(self.record, self._clock)
        if not await self._has_result():  # it may have been written meanwhile
            self._become(files.lost_status(self.record, ExitReason.GUARD_GONE))

    def stop(self, grace_ms: int, why: ExitReason = ExitReason.STOPPED) -> None:
        """Begin to end it. The first reason counts."""
        due = self._clock.boot() + grace_ms
        self._why = self._why if self._due else why
        self._due = min(self._due, due) if self._due else due
        if self.live.state is ProcessState.RUNNING:
            self._become(replace(self.live, state=ProcessState.STOPPING, why=self._why))
        if self._line is not None:
            self._line.stop(grace_ms, self._why)

    async def run(self, command: tuple[str, ...], limit_ms: int, answer_ms: int) -> files.ExecResult:
        """Run a command under the guard, which ends it at the limit; a guard without an answer soon after is not
        responding. Cancelling the wait ends the command."""
        line, number = self._line, next(self._numbers)
        answer: asyncio.Future[files.ExecResult | None] = asyncio.get_running_loop().create_future()
        self._commands[number] = answer
        try:
            if line is None or not line.run(number, command, limit_ms):
                raise ExecNotRun("its guard is not connected, so no command can run beside it")
            ran = await within(self._clock, limit_ms + answer_ms, answer)
        except DeadlinePassed:
            raise ExecNotRun(f"its guard has not answered for {limit_ms + answer_ms} ms") from None
        finally:
            del self._commands[number]
            if line is not None and answer.cancelled():
                line.cancel(number)
        if ran is None:
            raise ExecNotRun("its guard has gone")
        return ran

    def extend(self, message: bytes, deadline: int, grace_ms: int, now: int) -> None:
        """Send the new deadline to the guard. The driver counts only deadlines that were sent."""
        live = self.live
        if self.record.leased and self._line is not None and self._line.extend(message) and now < live.deadline:
            self.live = replace(live, deadline=max(live.deadline, deadline))
            self.record = replace(self.record, grace_ms=min(self.record.grace_ms, grace_ms))

    def hasten(self, now: int, patience_ms: int) -> bool:
        """Kill the guard and its process if that lives after its end was due; whether so. Descendants that left the
        session are killed first, since only the guard identifies them."""
        if (self._line is None and not self.is_silent) or now < self._ends_at() + patience_ms:
            return False
        self._deadline = kernel.published_deadline(self.record.guard.pid) or self._deadline
        if now < self._ends_at() + patience_ms:
            return False
        ours = (self.record.process, self.record.first)
        lives = any(one.is_alive() for one in ours) or bool(kernel.members(list(self.record.groups)))
        if not lives:
            return False
        for one in descended_from(self.record.guard):
            kill_process(one)
        return kill_process(self.record.guard)

    def let_go(self) -> None:
        """Forget the run: a guard that could not write its result need not wait any longer."""
        if self._line is not None:
            self._line.go()
        self.hang_up()
        for one in (self.record.guard, self.record.process, self.record.first):
            with suppress(OSError):  # if the agent is the first process of a container, it inherits orphans
                if (left := kernel.seen(one.pid)) is not None and left.start == one.start:
                    os.waitpid(one.pid, os.WNOHANG)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether its guard lives and did not even accept a connection."""
        return self.is_silent and self._line is None

    def hang_up(self) -> None:
        """Disconnect from the guard."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._give_up_commands()

    def _ends_at(self) -> int:
        """Return when it must have ended, since it was stopped or its lease expired."""
        ends = [self._due] if self._due else []
        return min([*ends, self._deadline + self.record.grace_ms] if self.record.leased else ends, default=NEVER)

    async def _call(self, answer_ms: int) -> bool:
        """Whether its guard lives: it has answered, or it may yet."""
        self.is_silent = False
        if self.record.guard != files.NOBODY and not self.record.guard.is_alive():
            return False
        self._answered = asyncio.get_running_loop().create_future()
        try:
            found = await self._calls.wait(FOLDER, lambda: connect(self._folder))
            self._line = None if found is None else GuardConnection(found, self._hear)
            there = self._line is not None and await within(self._clock, answer_ms, self._answered)
        except (DeadlinePassed, BlockingIOError):
            there = self._is_kept_silently()
        if not there:
            self.hang_up()
        elif self._line is not None and self._due:
            self._line.stop(max(0, self._due - self._clock.boot()), self._why)
        return there

    def _is_kept_silently(self) -> bool:
        """Keep the last known state; whether the id of its guard is known, which this requires."""
        if self.record.guard == files.NOBODY:
            return False
        self.is_silent = True
        self._deadline = kernel.published_deadline(self.record.guard.pid) or self._deadline
        live = replace(self.live, deadline=self._deadline if self.record.leased else 0)
        if live.state is ProcessState.RUNNING and self._is_past(live):
            live = replace(live, state=ProcessState.STOPPING, why=ExitReason.DEADLINE)
        self._become(live)
        return True

    def _give_up_commands(self) -> None:
        for answer in self._commands.values():
            if not answer.done():
                answer.set_result(None)

    def _hear(self, said: files.GuardReport | files.ExecResult | None) -> None:
        if isinstance(said, files.ExecResult):
            answer = self._commands.get(said.ran)
            if answer is not None and not answer.done():
                answer.set_result(said)
            return
        self.is_silent = False
        was_waited_for = not self._answered.done()
        if was_waited_for:
            self._answered.set_result(said is not None)
        if said is None:
            self._line = None
            self._give_up_commands()
            if not was_waited_for and self.live.state is not ProcessState.ENDED:
                self._tell(self, True)
            return
        live = files.status_of(self.record, said)
        if live.state is ProcessState.RUNNING and (self._due or self._is_past(live)):
            live = replace(live, state=ProcessState.STOPPING, why=self._why if self._due else ExitReason.DEADLINE)
        self._become(live)

    def _is_past(self, live: RunStatus) -> bool:
        return live.leased and self._clock.boot() >= live.deadline

    async def _has_result(self) -> bool:
        try:
            result = await self._calls.wait(FOLDER, lambda: files.read_result(self._folder))
        except files.UnreadableGuardFile:
            return False
        if result is not None:
            self._become(files.status_of(self.record, result))
        return result is not None

    def _become(self, live: RunStatus) -> None:
        if live != self.live:
            self.live = live
            self._tell(self, False)
