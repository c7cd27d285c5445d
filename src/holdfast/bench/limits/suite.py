"""Limits: the largest accepted sizes, the time to remove them, and how long they hold the leader's loop.

Each part has its own module; stalls of a loop are measured by `fixtures.loop_stalls`.
"""

from __future__ import annotations

import asyncio

from holdfast.bench.limits import exclusive_workload, silent_region
from holdfast.bench.limits.table import TABLE, measure_case, reduced, rows
from holdfast.bench.report import BenchReport, ReportBuilder, stores_per_second, temporary_folder


def run(*, small: bool = False) -> BenchReport:
    """Measure all figures of limits. With `small`, long cases stay below their limit."""
    sheet = ReportBuilder()
    everything = (*silent_region.ROWS, *(row for case in TABLE for row in rows(case)), *exclusive_workload.ROWS)
    with sheet.part(*everything), temporary_folder() as name:
        silence, table, exclusive = (name / part for part in ("silence", "table", "exclusive"))
        for folder in (silence, table, exclusive):
            folder.mkdir()
        rows_ms = 10_000_000 / stores_per_second()
        with sheet.part(*silent_region.ROWS):
            sheet.add(*asyncio.run(silent_region.measure_silence(silence, rows_ms, small=small)))
        for case in TABLE:
            with sheet.part(*rows(case)):
                sheet.add(*asyncio.run(measure_case(table, reduced(case) if small else case, rows_ms)))
        with sheet.part(*exclusive_workload.ROWS):
            sheet.add(*asyncio.run(exclusive_workload.measure_exclusive(exclusive, rows_ms, small=small)))
    return sheet.report()
