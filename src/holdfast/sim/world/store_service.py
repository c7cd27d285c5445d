"""The simulated store service: a disk, the paths to it, and work under way, independent of the servers.

- `StoreConditions`  rates and spans of faults on a path
- `StorePath`        how one host reaches the service: open, cut or hung
- `StoreService`     the disk, and the work on it for all hosts
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.host.ports.store import StoreError, WriteOk
from holdfast.sim.world.disk import SimDisk

T = TypeVar("T")


class StoreConditions(Struct, frozen=True):
    """Faults on the path to a store. Rates are shares of all calls, from 0 to 1; spans are (lowest, highest), drawn
    evenly.

    The default has no faults: a call takes no time, and the store also works on an ordinary loop.
    """

    #: Latency of a request, and again of its answer.
    latency_ms: tuple[int, int] = (0, 0)
    #: Rates of requests that never arrive, and of answers that are lost after the work is done.
    lose_request: float = 0.0
    lose_answer: float = 0.0
    #: Rate of appends, touches and trims that are applied late; their callers get `WriteUnknown`.
    land_late: float = 0.0
    late_ms: tuple[int, int] = (50, 2_000)
    #: How long a caller waits for a lost answer before its client times out.
    unheard_ms: tuple[int, int] = (0, 1_000)
    #: Rate of appends, chunks and manifests that are rejected for lack of space.
    full: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.lose_request, self.lose_answer, self.land_late, self.full)
        assert all(0 <= share <= 1 for share in shares), f"shares lie between 0 and 1: {self}"
        spans = (self.latency_ms, self.late_ms, self.unheard_ms)
        assert all(0 <= least <= most for least, most in spans), f"spans are (least, most): {self}"


CALM = StoreConditions()


class StorePath:
    """The path of one host to the store, through all its incarnations."""

    def __init__(self, host: str, weather: StoreConditions) -> None:
        self.host = host
        self.weather = weather
        self.mode = "open"
        self._changed = asyncio.Event()

    def become(self, mode: str) -> None:
        """Set the mode: open, cut or hung."""
        self.mode = mode
        self._changed.set()
        self._changed = asyncio.Event()

    async def while_hung(self) -> None:
        """Wait until the path is not hung."""
        while self.mode == "hung":
            await self._changed.wait()


class StoreService:
    """Executes requests, even after their callers ended, and counts events."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.happened: dict[str, int] = {}
        #: How often the service restarted. A restart loses the work under way.
        self.boots = 0
        #: Errors in the simulated service that no store returns.
        self.failures: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def start_anew(self, why: str) -> None:
        """Restart: every connection breaks and the work under way is lost."""
        self.boots += 1
        self.count(why)

    def count(self, what: str, times: int = 1) -> None:
        """Add to the count of an event."""
        if times:
            self.happened[what] = self.happened.get(what, 0) + times

    def on_its_own(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Start work that outlives its caller: the empty context keeps it out of every incarnation. The future gets its
        result."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[T] = loop.create_future()
        self._tasks.add(loop.create_task(self._see_through(work, told), context=Context()))
        return told

    async def _see_through(self, work: Coroutine[Any, Any, T], told: asyncio.Future[T]) -> None:
        try:
            result = await work
        except Exception as error:
            if not isinstance(error, StoreError):
                self.failures.append(f"{self.disk.name}: {type(error).__name__}: {error}")
            if not told.done():
                told.set_exception(error)
                told.exception()  # mark as retrieved: the caller may have ended
        except asyncio.CancelledError:
            told.cancel()
            raise
        else:
            if not told.done():
                told.set_result(result)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    def land_later(self, after_ms: int, work: Callable[[], Awaitable[Any]]) -> None:
        """Run the work after a delay, unless the service restarts before. No caller gets the result."""

        async def land(boot: int) -> None:
            await asyncio.sleep(after_ms / 1000)
            if boot == self.boots:
                self.count("landed_late" if isinstance(await work(), WriteOk) else "came_too_late")

        self.on_its_own(land(self.boots))
