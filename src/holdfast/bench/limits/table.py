"""Every limit of admission: reached on a server's ledger, then ended.

    first records in the store ──▶ a ledger leads ──▶ fill ──▶ the clock starts ──▶ end ──▶ the clock stops

Figures per case: the time of its end, and the longest callback of the leader's loop in processor time, from the first
command of `fill` to the last of `end`. The sender is on the same loop and sends a few commands at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.bench.fixtures.ledger_load import run_leading, write_batches
from holdfast.bench.fixtures.loop_stalls import longest, measure_stalls
from holdfast.bench.limits import platform_cases, region_cases, server_cases
from holdfast.bench.limits.case import CaseSender, InMemoryLedger, LimitCase, Step, Story, TimePasses
from holdfast.bench.report import BenchResult, at_most, require
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.ledger.ledger import Ledger, ServerIdentity
from holdfast.host.ports.clock import SystemClock
from holdfast.stores.sqlite.store import SqliteStore

#: Targets: the longest time of an end, and the longest callback.
END_SECONDS = 60
STALL_MS = 100
#: Per ledger: its definition and its first records.
FOUNDED: dict[str, tuple[LedgerDefinition[Any], Callable[[], Story]]] = {
    "platform": (PLATFORM, platform_cases.founded),
    "region": (REGION, region_cases.founded),
}
TABLE: tuple[LimitCase, ...] = (*platform_cases.CASES, *region_cases.CASES, *server_cases.CASES)


def rows(case: LimitCase) -> tuple[str, ...]:
    """Return the names of a case's figures."""
    return (f"limits.{case.name}_end_s", f"limits.{case.name}_stall_ms") if case.is_timed else ()


def reduced(case: LimitCase) -> LimitCase:
    """Return the smaller form of a long case."""
    return case if case.less is None else case._replace(fill=case.less[0], end=case.less[1])


async def measure_case(folder: Path, case: LimitCase, baseline_ms: float) -> list[BenchResult]:
    """Measure both figures of a case. Baseline: storing 10,000 rows."""
    if not case.is_timed:
        return []
    ended, stall_ms = await _measured(folder / case.name, case)
    of_end, of_stall = rows(case)
    return [
        at_most(of_end, ended, "s", baseline_ms / 1_000, END_SECONDS),
        at_most(of_stall, stall_ms, "ms", baseline_ms, STALL_MS),
    ]


async def _measured(folder: Path, case: LimitCase) -> tuple[float, float]:
    definition, founded = FOUNDED[case.ledger]
    clock = SystemClock()
    store = await SqliteStore.open(folder)
    try:
        await _prepare(store, definition, founded(), clock.wall())
        ledger = Ledger(definition, store, clock, ServerIdentity("bench"))
        async with run_leading(ledger, lambda: _renew(ledger)):
            return await _taken(ledger, case)
    finally:
        await store.close()


async def _taken(ledger: Ledger[Any], case: LimitCase) -> tuple[float, float]:
    """Return the time of the end, and the longest callback of the case."""
    sender = CaseSender()
    with measure_stalls(asyncio.get_running_loop()) as stalls:
        for step in case.fill(ledger.durable.state):
            await _send(ledger, sender, step)
        began = time.monotonic()
        for step in case.end(ledger.durable.state):
            await _send(ledger, sender, step)
        ended = time.monotonic() - began
    return ended, longest(stalls).ms


async def _prepare(store: SqliteStore, definition: LedgerDefinition[Any], founding: Story, at: int) -> None:
    memory = InMemoryLedger(definition, at)
    memory.tell(founding)
    await write_batches(store, memory.state.info.log_id, memory.batches)


async def _send(ledger: Ledger[Any], sender: CaseSender, step: Step) -> None:
    """Commit a step. Commands of one actor keep their order, because sequence numbers must arrive in order."""
    assert not isinstance(step, TimePasses), "a server's clock cannot be moved"
    at, state = ledger.clock.wall(), ledger.durable.state
    sent = [ledger.submit(sender.envelope(state, actor, command, at)) for actor, command in step]
    for (_, command), answer in zip(step, await asyncio.gather(*sent), strict=True):
        is_taken = isinstance(answer, Committed) and not answer.answer
        require(is_taken, f"{type(command).__name__} was refused: {answer}")


async def _renew(ledger: Ledger[Any]) -> None:
    """Renew all sessions, as streams would."""
    while True:
        for number, (uid, session) in enumerate(ledger.durable.state.sessions.items(), 1):
            if uid in ledger.durable.state.sessions:
                ledger.renew(session.principal, uid)
            if number % 100 == 0:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
