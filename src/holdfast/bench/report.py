"""What a benchmark reports: values in the unit of their target, and a ratio to a baseline of the same run.

Machines differ and are noisy; the ratio is what can be compared. The baseline says what it is.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct


class Result(Struct, frozen=True):
    """One figure. `met` is judged by `direction`: `>=` the target for rates, `<=` for costs."""

    name: str
    value: float
    unit: str
    baseline: float
    ratio: float
    target: float
    met: bool
    direction: str


class Machine(Struct, frozen=True):
    """What it was measured on."""

    cores: int
    memory_mib: int
    processor: str
    python: str
    system: str


class Report(Struct, frozen=True):
    """All figures of one run."""

    machine: Machine
    results: tuple[Result, ...]


def at_least(name: str, value: float, unit: str, baseline: float, least: float) -> Result:
    """A rate that should be high."""
    return Result(name, round(value, 3), unit, round(baseline, 3), _ratio(value, baseline), least, value >= least, ">=")


def at_most(name: str, value: float, unit: str, baseline: float, most: float) -> Result:
    """A cost that should be low."""
    return Result(name, round(value, 3), unit, round(baseline, 3), _ratio(value, baseline), most, value <= most, "<=")


def _ratio(value: float, baseline: float) -> float:
    return round(value / baseline, 4)


def p99(values: Sequence[float]) -> float:
    """Of a hundred values the second largest; of fewer the largest."""
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def machine() -> Machine:
    """This machine, as far as it tells."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return Machine(os.cpu_count() or 1, memory, _processor(), platform.python_version(), platform.system())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def resident_bytes() -> int:
    """How much memory this process has resident."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Probe(Struct, frozen=True):
    key: int
    name: str
    count: int


def stores_per_second() -> float:
    """The baseline of in-memory work: how many frozen structs are made, encoded and stored in a second."""
    encode = msgspec.msgpack.Encoder().encode

    def once() -> None:
        table: dict[int, _Probe] = {}
        for number in range(100_000):
            probe = _Probe(number, "probe", 1)
            encode(probe)
            table[number] = probe

    return 100_000 / best_of(3, once)


def best_of(times: int, work: Callable[[], None]) -> float:
    """The shortest of several runs, in seconds: the one least disturbed."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def to_json(report: Report) -> str:
    """The report as every benchmark prints it with `--json`."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
