"""What every process has in common: startup errors, exit codes, signals, status lines, the open-file limit."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from enum import IntEnum

from holdfast.observe import log_output

#: Enough for every agent of a large region, and for all watches that a server takes.
WANTED = 65_536


def allow_many_files() -> int:
    """Raise what this process may have open as far as it is wanted and allowed; how many that is at least."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY:
        return WANTED
    if soft >= most:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


class Ending(IntEnum):
    """How a process of ours ends; only a machine is ever superseded."""

    ASKED = 0
    CANNOT_START = 1
    STOPPED = 3
    SUPERSEDED = 4


async def until_signalled(run: Callable[[asyncio.Event], Awaitable[Ending]]) -> Ending:
    """Run until SIGTERM or SIGINT asks to stop."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return await run(asked)


def say(kind: str, text: str) -> None:
    """Tell whoever started it."""
    log_output.say(f"holdfast {kind}: {text}")


class CannotStart(Exception):
    """What keeps the server from starting, and what to do next."""
