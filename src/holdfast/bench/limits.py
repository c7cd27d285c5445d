"""Limits: what is the largest that may come in, how long it takes to leave, and how long it holds the leader's loop.

Each part is a module of its own; the stalls of a loop are measured by `stalls`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.bench.limits_exclusive import measure_exclusive
from holdfast.bench.limits_silence import measure_silence
from holdfast.bench.limits_table import measure_table
from holdfast.bench.report import Report, Result, machine

#: What measures a part, in a folder of its own.
Part = Callable[[Path], Awaitable[list[Result]]]

PARTS: dict[str, Part] = {"silence": measure_silence, "table": measure_table, "exclusive": measure_exclusive}


def run(parts: dict[str, Part] | None = None) -> Report:
    """All figures of limits."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        for part, measure in (PARTS if parts is None else parts).items():
            results += asyncio.run(_measured(measure, Path(name) / part))
    return Report(machine(), tuple(results))


async def _measured(measure: Part, folder: Path) -> list[Result]:
    folder.mkdir()
    return await measure(folder)
