"""Limits: what is the largest that may come in, how long it takes to leave, and how long it holds the leader's loop.

Each part is a module of its own; the stalls of a loop are measured by `stalls`.
"""

from __future__ import annotations

import asyncio

from holdfast.bench.limits import exclusive_workload, silent_region
from holdfast.bench.limits.table import TABLE, measure_case, reduced, rows
from holdfast.bench.report import BenchReport, ReportBuilder, stores_per_second, temporary_folder


def run(*, small: bool = False) -> BenchReport:
    """All figures of limits. In the small form what takes long is not taken to its limit."""
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
