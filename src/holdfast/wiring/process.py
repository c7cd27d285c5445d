"""What all processes have in common: startup errors, exit codes, signals, status lines, the open-file limit."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import TypeVar

from holdfast.observe import log_output

T = TypeVar("T")

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


async def until_signalled(run: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Run until SIGTERM or SIGINT requests a stop."""
    return await run(stop_request(signal.SIGTERM, signal.SIGINT))


def stop_request(*signals: signal.Signals) -> asyncio.Event:
    """Return an event that each of these signals sets."""
    asked = asyncio.Event()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


def print_machine_status(kind: str, text: str) -> None:
    """Print a status line for the operator."""
    log_output.print_status(f"holdfast {kind}: {text}")


class StartupError(Exception):
    """Why a process cannot start, and what to do next."""
