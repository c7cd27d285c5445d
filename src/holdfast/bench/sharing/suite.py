"""Several schedulers of one region: conflicts, throughput, waits and kinds of commits; and what else shares a region:
preemption, gangs."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from holdfast.bench.report import BenchReport, ReportBuilder, temporary_folder
from holdfast.bench.sharing import commits, embedded, gangs, preempting, standalone


class SharingSize(NamedTuple):
    """Nodes, slots in each round, rounds of each side; rounds in memory; full nodes, slots that preempt; gangs."""

    nodes: int
    slots: int
    rounds: int
    commits: int
    full_nodes: int
    urgent: int
    gangs: int


WHOLE, SMALL = SharingSize(2_000, 20_000, 5, 40, 1_000, 5_000, 20), SharingSize(60, 400, 1, 5, 20, 60, 4)


def run(*, small: bool = False) -> BenchReport:
    """Measure all figures."""
    sheet, size = ReportBuilder(), SMALL if small else WHOLE
    with sheet.part(*embedded.ROWS, *standalone.ROWS), temporary_folder() as folder:
        with sheet.part(*embedded.ROWS):
            sheet.add(*asyncio.run(embedded.measure_embedded(folder / "embedded", size.nodes, size.slots, size.rounds)))
        with sheet.part(*standalone.ROWS):
            sheet.add(*asyncio.run(standalone.measure_standalone(folder / "standalone", size.nodes, size.slots)))
    with sheet.part(*commits.ROWS):
        sheet.add(*commits.measure_commits(min(size.nodes, 500), size.commits))
    with sheet.part(*preempting.ROWS), temporary_folder() as folder:
        sheet.add(*asyncio.run(preempting.measure_preempting(folder, size.full_nodes, size.urgent)))
    with sheet.part(*gangs.ROWS):
        sheet.add(*gangs.measure_gangs(min(size.nodes, 200), size.gangs))
    return sheet.report()
