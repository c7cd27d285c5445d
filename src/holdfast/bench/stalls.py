"""How long a loop is held by one callback, in processor time of its thread: what everybody else on that loop waits for.

    a callback runs ──▶ its thread used 5 ms or more ──▶ a stall: when, how long, whose

Processor time, since a wait for a core or for the disk says nothing about the code. In this process: `watched`. In the
servers of `holdfast dev`: started with `is_measured`, each writes its stalls beside its data; `stalls_of` reads them.
A step of a task is a callback; so is what a timer or a socket starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

#: A server whose environment has this writes its stalls; the command line looks for it.
VARIABLE = "HOLDFAST_BENCH_STALLS"
FILE = "stalls.jsonl"
LEAST_MS = 5.0


class Stall(Struct, frozen=True):
    """One callback that took long: when it ended on the system's monotonic clock, in seconds, and what it ran."""

    at: float
    ms: float
    callback: str


NONE = Stall(0.0, 0.0, "")

Keep = Callable[[Stall], None]


@contextmanager
def watched(loop: asyncio.AbstractEventLoop | None = None, least_ms: float = LEAST_MS) -> Iterator[list[Stall]]:
    """The stalls of one loop, or of every loop of this process, as they happen."""
    found: list[Stall] = []
    with _measuring(found.append, loop, least_ms):
        yield found


@contextmanager
def written(folder: Path, least_ms: float = LEAST_MS) -> Iterator[None]:
    """Write the stalls of this process into a folder, meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / FILE, "ab", buffering=0) as file, _measuring(_writer(file), None, least_ms):
        yield


def stalls_of(folder: Path) -> list[Stall]:
    """What a server has written, in its folder, until now."""
    try:
        lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Stall) for line in lines if line.endswith(b"\n")]


def longest(stalls: Iterable[Stall], since: float = 0.0) -> Stall:
    """The longest of those that ended after a moment; one of no time when there was none worth noting."""
    return max((one for one in stalls if one.at >= since), key=lambda one: one.ms, default=NONE)


def _writer(file: Any) -> Keep:
    encode = msgspec.json.encode
    return lambda stall: file.write(encode(stall) + b"\n")


@contextmanager
def _measuring(keep: Keep, loop: asyncio.AbstractEventLoop | None, least_ms: float) -> Iterator[None]:
    """Take the time around everything that loops run. The loop offers no place for that: what it calls is replaced."""
    plain, clock, least = asyncio.Handle._run, time.thread_time, least_ms / 1_000

    def run(handle: Any) -> None:
        start = clock()
        plain(handle)
        took = clock() - start
        if took >= least and (loop is None or handle._loop is loop):
            keep(Stall(time.monotonic(), round(took * 1_000, 3), _name(handle)))

    asyncio.Handle._run = run  # type: ignore[assignment]
    try:
        yield
    finally:
        asyncio.Handle._run = plain  # type: ignore[method-assign]


def _name(handle: Any) -> str:
    """What ran: a task by its name and by the coroutine it began with, anything else by its own name."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"{owner.get_name()}: {getattr(owner.get_coro(), '__qualname__', '?')}"
    return str(getattr(callback, "__qualname__", callback))
