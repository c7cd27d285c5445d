"""Agents, between processes: from a workload to a serving process, and the cost of 2,000 sessions for a region."""

from __future__ import annotations

import asyncio

from holdfast.bench import agent_serving, agent_sessions
from holdfast.bench.report import BenchReport, ReportBuilder, temporary_folder


def run(*, small: bool = False) -> BenchReport:
    """Measure all figures of agents."""
    sheet = ReportBuilder()
    with sheet.part(*agent_serving.ROWS, *agent_sessions.ROWS), temporary_folder() as folder:
        with sheet.part(*agent_serving.ROWS):
            sheet.add(*asyncio.run(agent_serving.measure_serving(folder / "serving", small=small)))
        with sheet.part(*agent_sessions.ROWS):
            sheet.add(*asyncio.run(agent_sessions.measure_sessions(folder / "sessions", small=small)))
    return sheet.report()
