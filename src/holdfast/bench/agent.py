"""Agents, between processes: from a workload to a process that serves, and what 2,000 sessions cost a region."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast.bench import serving, sessions
from holdfast.bench.report import Report, Sheet


def run(*, small: bool = False) -> Report:
    """All figures of agents."""
    sheet = Sheet()
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        with sheet.part(*serving.ROWS):
            sheet.add(*asyncio.run(serving.measure_serving(Path(name) / "serving", small=small)))
        with sheet.part(*sessions.ROWS):
            sheet.add(*asyncio.run(sessions.measure_sessions(Path(name) / "sessions", small=small)))
    return sheet.report()
