"""Agents, between processes: from a workload to a process that serves, and what 2,000 sessions cost a region."""

from __future__ import annotations

import asyncio

from holdfast.bench import serving, sessions
from holdfast.bench.report import Report, Sheet, scratch


def run(*, small: bool = False) -> Report:
    """All figures of agents."""
    sheet = Sheet()
    with sheet.part(*serving.ROWS, *sessions.ROWS), scratch() as folder:
        with sheet.part(*serving.ROWS):
            sheet.add(*asyncio.run(serving.measure_serving(folder / "serving", small=small)))
        with sheet.part(*sessions.ROWS):
            sheet.add(*asyncio.run(sessions.measure_sessions(folder / "sessions", small=small)))
    return sheet.report()
