"""Several schedulers of one region: conflicts per placement, throughput against one, waits, and kinds of commits; and
preemption, by which work of different priorities shares one."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from holdfast.bench.report import BenchReport, ReportBuilder, temporary_folder
from holdfast.bench.sharing import commits, embedded, preempting, standalone


class SharingSize(NamedTuple):
    """Nodes, slots in each round, rounds of each side; rounds in memory; full nodes, and slots that preempt there."""

    nodes: int
    slots: int
    rounds: int
    commits: int
    full_nodes: int
    urgent: int


WHOLE, SMALL = SharingSize(2_000, 20_000, 5, 40, 1_000, 5_000), SharingSize(60, 400, 1, 5, 20, 60)


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
    return sheet.report()
