"""Child processes that come back: each is started again when it ends, after a pause that grows while it keeps failing.

    started ──▶ ended ──pause──▶ started        lived for a minute: the next pause is the shortest again
    stop: SIGTERM to all, a bounded wait, then SIGKILL

None outlives its supervisor: on Linux the kernel kills a child whose parent has ended, however that ended. What a child
writes goes to a file of its own, which is cut when it has grown: a child whose reader is gone must not fail for that.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_PR_SET_PDEATHSIG = 1


class ChildRestartOptions(Struct, frozen=True):
    """How long to wait, in seconds: before a part is started again, for it to count as steady, for it to stop."""

    first: float = 0.2
    most: float = 10.0
    steady: float = 60.0
    stop: float = 10.0
    look: float = 5.0


class ChildProcess(Struct, frozen=True):
    """One child process: what it is called, how it is started, and where what it writes goes."""

    name: str
    command: Sequence[str]
    log: Path


class ChildSupervisor:
    """The children of one process. When `stop` has returned, none of them is left."""

    def __init__(
        self, say: Callable[[str], None], environment: Mapping[str, str], options: ChildRestartOptions | None = None
    ) -> None:
        self._say = say
        self._environment = dict(environment)
        self._patience = options or ChildRestartOptions()
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._kept: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._die_with_us = dying_with(os.getpid())

    def start(self, parts: Sequence[ChildProcess]) -> None:
        """Keep these going until `stop`."""
        for part in parts:
            part.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._kept.append(asyncio.create_task(self._keep(part), name=part.name))
        self._kept.append(asyncio.create_task(self._cut([part.log for part in parts]), name="logs"))

    def pid(self, name: str) -> int | None:
        """The process that a part is now; None between two of them."""
        process = self._running.get(name)
        return process.pid if process is not None else None

    async def stop(self) -> None:
        """End all of them: asked first, killed when that takes too long."""
        self._is_stopping = True
        for task in self._kept:
            if task.get_name() == "logs" or task.get_name() not in self._running:
                task.cancel()
        self._signal(signal.SIGTERM)
        if self._kept:
            await asyncio.wait(self._kept, timeout=self._patience.stop)
        for name in list(self._running):
            self._say(f"{name} did not stop within {self._patience.stop:g} s, and is killed")
        self._signal(signal.SIGKILL)
        await asyncio.gather(*self._kept, return_exceptions=True)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, part: ChildProcess) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            code = await self._live(part)
            if self._is_stopping:
                return
            failures = 0 if loop.time() - began >= self._patience.steady else failures + 1
            pause = min(self._patience.first * 2 ** max(failures - 1, 0), self._patience.most)
            self._say(f"{part.name} {describe_exit(code)}; it comes back in {pause:g} s (log: {part.log})")
            await asyncio.sleep(pause)

    async def _live(self, part: ChildProcess) -> int:
        """One life, to its end; its exit code."""
        with open(part.log, "ab", buffering=0) as log:
            process = await asyncio.create_subprocess_exec(
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the supervisor, which then decides what happens when
                preexec_fn=self._die_with_us,
            )
        self._running[part.name] = process
        try:
            if self._is_stopping:  # asked to while it was being started
                process.terminate()
            return await process.wait()
        finally:
            del self._running[part.name]

    async def _cut(self, logs: Sequence[Path]) -> None:
        while True:
            for log in logs:
                truncate_log(log)
            await asyncio.sleep(self._patience.look)


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def truncate_log(log: Path, most_bytes: int = 8 << 20) -> None:
    """Move what a log holds aside once it has grown: at most twice that much is kept. What is written while it is
    copied is lost; writers append, so they go on at the new end."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > most_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def dying_with(parent: int) -> Callable[[], None] | None:
    """What a new child runs before its program, so that the kernel kills it when its parent ends; None where no kernel
    does that. SIGKILL, since nobody is left who would wait for it, and a store survives being killed at any instant."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)  # loaded here: after the fork nothing may be imported

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return ask
