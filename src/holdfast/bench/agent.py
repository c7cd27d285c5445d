"""Agents, between processes: from a workload to a process that serves, and what 2,000 sessions cost a region."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast.bench.report import Report, machine
from holdfast.bench.serving import WORKLOADS, measure_serving
from holdfast.bench.sessions import AGENTS, measure_sessions


def run(*, agents: int = AGENTS, workloads: int = WORKLOADS) -> Report:
    """All figures of agents."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        results = asyncio.run(measure_serving(Path(name) / "serving", workloads))
        results += asyncio.run(measure_sessions(Path(name) / "sessions", agents))
    return Report(machine(), tuple(results))
