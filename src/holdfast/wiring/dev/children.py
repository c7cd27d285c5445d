"""Child processes that are restarted when they end, after a back-off that grows while they keep failing.

    started ──▶ ended ──back-off──▶ started    ran for a minute: the next back-off is the shortest again
    stop: SIGTERM to all, a bounded wait, then SIGKILL

None outlives its supervisor: on Linux the kernel kills a child when its parent ends. A child's output goes to a file,
which is truncated when it has grown, so a child does not fail because a reader has gone.
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
    """Seconds: the first and longest back-off, the running time that counts as steady, the wait for a stop."""

    first: float = 0.2
    most: float = 10.0
    steady: float = 60.0
    stop: float = 10.0
    look: float = 5.0


class ChildProcess(Struct, frozen=True):
    """One child process: its name, its command, and the file of its output."""

    name: str
    command: Sequence[str]
    log: Path


class ChildSupervisor:
    """The children of one process. When `stop` has returned, none of them runs."""

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
        """Run these until `stop`."""
        for part in parts:
            part.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._kept.append(asyncio.create_task(self._keep(part), name=part.name))
        self._kept.append(asyncio.create_task(self._cut([part.log for part in parts]), name="logs"))

    def pid(self, name: str) -> int | None:
        """Return the current process of a child; None during a back-off."""
        process = self._running.get(name)
        return process.pid if process is not None else None

    async def stop(self) -> None:
        """End all of them: SIGTERM first, SIGKILL after `stop` seconds."""
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
            self._say(f"{part.name} {describe_exit(code)}; it restarts in {pause:g} s (the reason is in {part.log})")
            await asyncio.sleep(pause)

    async def _live(self, part: ChildProcess) -> int:
        """Run the child once, to its end; return its exit code."""
        with open(part.log, "ab", buffering=0) as log:
            process = await asyncio.create_subprocess_exec(
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the supervisor, which then decides the order of the stop
                preexec_fn=self._die_with_us,
            )
        self._running[part.name] = process
        try:
            if self._is_stopping:  # the stop came during the start
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
    """Return how a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def truncate_log(log: Path, most_bytes: int = 8 << 20) -> None:
    """Move a log's content aside once it has grown: at most twice that much is retained. Output during the copy is
    lost; writers append, so they continue at the new end."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > most_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def dying_with(parent: int) -> Callable[[], None] | None:
    """Return a function that a new child runs before its program, so that the kernel kills it with its parent; None if
    the kernel cannot. A store survives SIGKILL at any instant."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)  # loaded here: after the fork nothing may be imported

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended in between
            os._exit(1)

    return ask
