"""Supervised side tasks of a server's part in a ledger, which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.host.errors import Stopped
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.supervisor import Supervisor
from holdfast.host.runtime.telemetry import Logger, Metrics

SideTask = Callable[[], Coroutine[Any, Any, None]]


async def run_with_side_tasks(
    main: Coroutine[Any, Any, None], work: dict[str, SideTask], clock: Clock, metrics: Metrics, logger: Logger
) -> None:
    """Run `main` to its end, with side tasks. Raise `Stopped` if one of them is given up."""
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    supervisor = Supervisor(clock, metrics, logger, on_give_up=lambda name, error: _fail(failed, name, error))
    task = asyncio.create_task(main)
    try:
        for name, factory in work.items():
            supervisor.start(name, _guarded(name, factory, failed))
        either: set[asyncio.Future[Any]] = {task, failed}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            raise failed.result()
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        failed.cancel()
        await supervisor.stop()


def _fail(failed: asyncio.Future[BaseException], name: str, error: BaseException) -> None:
    if not failed.done():
        known = isinstance(error, Stopped | UpgradeNeeded)
        failed.set_result(error if known else Stopped(f"{name} failed repeatedly: {error!r}"))


def _guarded(name: str, work: SideTask, failed: asyncio.Future[BaseException]) -> SideTask:
    """Return the work, not restarted after it raised `Stopped` or `UpgradeNeeded`."""

    async def run() -> None:
        try:
            await work()
        except (Stopped, UpgradeNeeded) as error:
            _fail(failed, name, error)
            await asyncio.Event().wait()

    return run
