"""What a simulated store service is apart from its servers: a disk, the ways to it, and work that is under way.

Weather   how bad a way is, in shares and spans
Way       how one host reaches the service: open, cut or hung
Service   the disk, and what goes on there whoever sent it
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
    """How bad the way to the store is. Shares are between 0 and 1, of all calls; spans are (least, most), drawn evenly.

    Without any of it a call takes no time, and a store works on an ordinary loop too.
    """

    #: How long a request takes to the store, and again its answer back.
    latency_ms: tuple[int, int] = (0, 0)
    #: Requests that never arrive, and answers that never come back though it was done.
    lose_request: float = 0.0
    lose_answer: float = 0.0
    #: Appends, touches and trims that are tried only after their caller was, or will be, told `WriteUnknown`.
    land_late: float = 0.0
    late_ms: tuple[int, int] = (50, 2_000)
    #: How long a caller waits for an answer that does not come before its client gives up.
    unheard_ms: tuple[int, int] = (0, 1_000)
    #: Appends, chunks and manifests for which there is said to be no room.
    full: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.lose_request, self.lose_answer, self.land_late, self.full)
        assert all(0 <= share <= 1 for share in shares), f"shares lie between 0 and 1: {self}"
        spans = (self.latency_ms, self.late_ms, self.unheard_ms)
        assert all(0 <= least <= most for least, most in spans), f"spans are (least, most): {self}"


CALM = StoreConditions()


class StorePath:
    """How one host reaches the store, through all its lives."""

    def __init__(self, host: str, weather: StoreConditions) -> None:
        self.host = host
        self.weather = weather
        self.mode = "open"
        self._changed = asyncio.Event()

    def become(self, mode: str) -> None:
        """Open, cut or hung from now on."""
        self.mode = mode
        self._changed.set()
        self._changed = asyncio.Event()

    async def while_hung(self) -> None:
        """Return when it does not hang any more."""
        while self.mode == "hung":
            await self._changed.wait()


class StoreService:
    """Does what arrives, also when nobody waits for it any more, and counts what happened."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        #: What happened how often.
        self.happened: dict[str, int] = {}
        #: How often the service started anew. What was on its way when it did is lost.
        self.boots = 0
        #: What went wrong in here and is no answer that a store gives.
        self.failures: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def start_anew(self, why: str) -> None:
        """Every connection breaks, and what was under way is gone."""
        self.boots += 1
        self.count(why)

    def count(self, what: str, times: int = 1) -> None:
        """It happened so many times more."""
        if times:
            self.happened[what] = self.happened.get(what, 0) + times

    def on_its_own(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Begin what no end of its caller ends: it belongs to nobody's life, hence the empty context. What comes of it
        is told to whoever waits then."""
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
                told.exception()  # whoever waited for it may be gone
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
        """Do it then, unless the service starts anew before. Nobody hears what became of it."""

        async def land(boot: int) -> None:
            await asyncio.sleep(after_ms / 1000)
            if boot == self.boots:
                self.count("landed_late" if isinstance(await work(), WriteOk) else "came_too_late")

        self.on_its_own(land(self.boots))
