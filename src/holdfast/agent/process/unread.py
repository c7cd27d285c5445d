"""What runs in a folder whose record cannot be read: nobody can say whose it is, so it is ended, and seen to end.

    its guard answers ──▶ asked to stop ──▶ it goes          nobody answers ──▶ the process has died with its guard
                      ──hangs──▶ killed ──▶ it goes

Only then may an agent say that nothing of the replica is on its node: whoever hears that starts another one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.agent import guard
from holdfast.agent.process.leftovers import LOOK_MS, end_exactly, in_session
from holdfast.agent.process.line import Line, call
from holdfast.agent.process.records import Identity, Said
from holdfast.host.clock import Clock
from holdfast.host.waiting import DeadlinePassed, within


async def end_unread(folder: Path, groups: Sequence[str], clock: Clock, patience_ms: int) -> None:
    """End all that can be found of it; returns when nothing is left. `OSError` when that cannot be found out."""
    await _Unread(folder, clock).end(patience_ms)
    while guard.members(list(groups)):
        guard.kill_members(list(groups))
        await clock.sleep(LOOK_MS)


class _Unread:
    """A guard that is known by its socket alone."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._gone = asyncio.Event()
        #: The process, once its guard has said which one it is; of a guard that says nothing, all that it has begun.
        self._family: list[Identity] = []

    async def end(self, patience_ms: int) -> None:
        line = call(self._folder, self._hear)
        if line is None:
            return
        try:
            line.stop(0)
            try:
                await within(self._clock, patience_ms, self._gone.wait())
            except DeadlinePassed:
                await self._kill_guard(line)
        finally:
            line.close()
        while sum(end_exactly(one) for one in self._left()):
            await self._clock.sleep(LOOK_MS)

    def _left(self) -> list[Identity]:
        return [*self._family, *(other for one in self._family for other in in_session(one))]

    async def _kill_guard(self, line: Line) -> None:
        """It hangs. While it is on the line its pid is its own: whoever is seen to be there after it was taken hold of
        is who is killed."""
        with suppress(ProcessLookupError):
            pid = line.peer()
            file = os.pidfd_open(pid)
            try:
                self._family += [found for one in guard.descendants(pid) if (found := _identity(one)) is not None]
                await self._clock.sleep(LOOK_MS)
                if not self._gone.is_set():
                    signal.pidfd_send_signal(file, signal.SIGKILL)
            finally:
                os.close(file)
        await self._gone.wait()

    def _hear(self, said: Said | None) -> None:
        if said is None:
            self._gone.set()
        elif not self._family and (found := _identity(said.pid)) is not None:
            self._family = [found]


def _identity(pid: int) -> Identity | None:
    seen = guard.seen(pid)
    return None if seen is None else Identity(pid, seen.start)
