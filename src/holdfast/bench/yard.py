"""A region with a scheduler beside its leader, on SQLite with every commit synced: what scheduling is measured on.

Its decisions are read from the log and kept meanwhile, as on every server of a region.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.bench.ledger import leading
from holdfast.bench.region import MACHINE, TENANTS, BenchRegion, Machine
from holdfast.bench.report import Unmeasured, must
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.draft import Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.allotment import Assignment, Purpose, Share, Stage
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.workload import Template
from holdfast.core.region import commands as c
from holdfast.core.region.state import RegionState
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.host.decisions import Decisions
from holdfast.host.ledger import Ledger
from holdfast.host.scheduling_beside import SchedulerBeside
from holdfast.stores.decisions import DecisionsInFile

#: So many commands are under way at a time while slots are opened.
WRITERS = 16


class Yard:
    """A running region. Slots wait until `schedule` is asked to place them."""

    def __init__(self, ledger: Ledger[RegionState], region: BenchRegion, decisions: Decisions) -> None:
        self.ledger = ledger
        self.region = region
        self.decisions = decisions
        self._number = 0
        self._opened = 0

    @property
    def state(self) -> RegionState:
        """What is durable."""
        return self.ledger.durable.state

    async def open(self, wanted: Sequence[tuple[Template, int]]) -> None:
        """Workloads of so many slots of a template each, all waiting: shipped one after another, then opened."""
        known: dict[str, Template] = {}
        self._opened += sum(count for _, count in wanted)
        assignments = [self._assignment(template, count, known) for template, count in wanted]
        puts: list[c.Shipped] = [c.TemplateShipped(*one) for one in known.items() if one[0] not in self.state.templates]
        puts += [c.AssignmentShipped(one) for one in assignments]
        for first in range(0, len(puts), 500):
            await self.ship(*puts[first : first + 500])
        commands = [
            c.OpenSlots(one.uid, one.shares[0].template, tuple(range(first, min(first + 1_000, one.shares[0].count))))
            for one in assignments
            for first in range(0, one.shares[0].count, 1_000)
        ]
        waiting = iter(commands)

        async def writer() -> None:
            for command in waiting:
                await self._send("controller/replica", command)

        await asyncio.gather(*(writer() for _ in range(WRITERS)))

    async def ship(self, *puts: c.Shipped) -> None:
        """One step of the platform."""
        cursor = self.state.place.cursor
        await self._send("controller/link", c.Ship("platform", 1, cursor, cursor + 1, puts))

    def _assignment(self, template: Template, count: int, known: dict[str, Template]) -> Assignment:
        self._number += 1
        number, tenant, digest = self._number, TENANTS[self._number % len(TENANTS)], template_digest(template)
        known[digest] = template
        return Assignment(
            10_000_000 + number, 1, number, f"w{number}", tenant, "bench", Purpose.SERVING, Stage.ACTIVE, 1,
            (Share(digest, count),), (f"quota/{tenant}",), "normal",
        )  # fmt: skip

    async def _send(self, actor: str, command: object) -> None:
        answer = await self.ledger.submit(Envelope(actor, command, self.region.at))
        must(isinstance(answer, Landed), answer)

    async def schedule(self, within_s: float = 120) -> float:
        """Let a scheduler place everything that waits; the seconds until the last slot is durably bound."""
        if self.ledger.leader is None:
            raise Unmeasured("the ledger does not lead any more")
        start = time.perf_counter()
        scheduler = asyncio.create_task(SchedulerBeside(self.ledger, BUILT_IN).run(self.ledger.leader))
        try:
            await self.placed(within_s, scheduler)
        finally:
            scheduler.cancel()
            await asyncio.wait({scheduler})
        return time.perf_counter() - start

    def must_be_bound(self) -> None:
        """All that was opened is bound, or what was measured is no binding: what is reserved waits no more, either. To
        be asked once the time is taken, for it looks at all slots."""
        bound = sum(slot.phase is Phase.BOUND for _, slot in self.state.slots.unordered())
        must(bound == self._opened, f"{bound:,} of {self._opened:,} slots are bound")

    async def placed(self, within_s: float, scheduler: asyncio.Task[None]) -> None:
        """Return when nothing waits."""
        until = time.perf_counter() + within_s
        while not self.state.requests.is_empty():
            must(not scheduler.done(), "the scheduler ended")
            must(time.perf_counter() < until, f"{len(self.state.requests)} requests wait after {within_s:g} s")
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(folder: Path, nodes: int, machines: Sequence[Machine] = (MACHINE,)) -> AsyncIterator[Yard]:
    """A region of so many nodes that leads itself, with the heartbeats of its agents."""
    async with leading(folder, nodes, machines) as load:
        kept = DecisionsInFile(folder / "decisions.db")
        decisions = Decisions(load.ledger, kept)
        keeping = asyncio.create_task(decisions.run())
        try:
            yield Yard(load.ledger, load.region, decisions)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
            await kept.close()
