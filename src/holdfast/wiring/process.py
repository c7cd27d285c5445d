"""What all processes have in common: startup errors, exit codes, signals, status lines, the open-file limit."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from enum import IntEnum

from holdfast.observe import log_output

#: Enough for every agent of a large region, and for all watches of a server.
OPEN_FILES_WANTED = 65_536


def raise_open_file_limit() -> int:
    """Raise the open-file limit up to `OPEN_FILES_WANTED` or the hard limit; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES_WANTED
    if soft >= most:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


class ExitCode(IntEnum):
    """How a process ends; only agents and schedulers are ever superseded."""

    ASKED = 0
    CANNOT_START = 1
    STOPPED = 3
    SUPERSEDED = 4


async def until_signalled(run: Callable[[asyncio.Event], Awaitable[ExitCode]]) -> ExitCode:
    """Run until SIGTERM or SIGINT requests a stop."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return await run(asked)


def print_machine_status(kind: str, text: str) -> None:
    """Print a status line for the operator."""
    log_output.print_status(f"holdfast {kind}: {text}")


class StartupError(Exception):
    """Why a process cannot start, and what to do next."""
