"""Reports of benchmarks: values in the unit of their target, each with a ratio to a baseline of the same run.

Machines differ and are noisy; ratios are comparable. Each benchmark documents its baseline. A value is the median of
its measurements, shown with the best and the worst; a percentile is shown with the fastest and the slowest. A failed
measurement is reported with its reason, and does not prevent the others.

    with sheet.part("api.batch100", "api.single"):      # rows of the report, each measured or failed at the end
        sheet.add(at_least(...))
        require(answer == 200, f"the server answered {answer}")
"""

from __future__ import annotations

import asyncio
import os
import platform
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec
from msgspec import Struct

_T = TypeVar("_T")


class BenchResult(Struct, frozen=True):
    """One figure, with the best and the worst of its measurements. `met` follows `direction`: `>=` the target for
    rates, `<=` for costs."""

    name: str
    value: float
    unit: str
    baseline: float
    ratio: float
    target: float
    met: bool
    direction: str
    best: float
    worst: float


class FailedFigure(Struct, frozen=True):
    """A figure that could not be measured, and why."""

    name: str
    why: str


class HostInfo(Struct, frozen=True):
    """The machine of the measurement."""

    cores: int
    memory_mib: int
    processor: str
    python: str
    system: str


class BenchReport(Struct, frozen=True):
    """All figures of one run, and those that could not be measured."""

    machine: HostInfo
    results: tuple[BenchResult, ...]
    failures: tuple[FailedFigure, ...] = ()


class Unmeasured(Exception):
    """A condition of a measurement does not hold, so that its figure would mean nothing."""


def require(holds: object, why: object) -> None:
    """Check a condition of a measurement. If it does not hold, the figure is reported as failed and the next one
    follows."""
    if not holds:
        raise Unmeasured(str(why))


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raise `Unmeasured` if the block takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unmeasured(f"not finished within {seconds:g} s") from error


class ReportBuilder:
    """Collects the figures of a run."""

    def __init__(self) -> None:
        self._results: dict[str, BenchResult] = {}
        self._failures: dict[str, FailedFigure] = {}

    def add(self, *results: BenchResult) -> None:
        """Add measured figures."""
        self._results |= {one.name: one for one in results}

    @contextmanager
    def part(self, *names: str) -> Iterator[None]:
        """Measure these figures within the block. An error in it becomes the reason for those that are missing."""
        why = "not measured"
        try:
            yield
        except Exception as error:
            why = describe_error(error)
        for name in names:
            if name not in self._results and name not in self._failures:
                self._failures[name] = FailedFigure(name, why)

    def report(self) -> BenchReport:
        """Return the report, in the order of measurement."""
        return BenchReport(host_info(), tuple(self._results.values()), tuple(self._failures.values()))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder on the measured disk (that of the current folder), deleted afterwards. Use it within the `part` of
    all figures that need it, so that a failure to create it becomes their reason."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        yield Path(name)


def describe_error(error: Exception) -> str:
    """Describe an error, with its source line unless the benchmark raised it itself."""
    if isinstance(error, Unmeasured):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}: {error}{where}"


def at_least(
    name: str, value: float, unit: str, baseline: float, least: float, among: Sequence[float] = ()
) -> BenchResult:
    """Return a rate with a lower bound: a single value, or one that represents the values `among`."""
    best, worst = (max(among), min(among)) if among else (value, value)
    return _result(name, value, unit, baseline, least, value >= least, ">=", best, worst)


def at_most(
    name: str, value: float, unit: str, baseline: float, most: float, among: Sequence[float] = ()
) -> BenchResult:
    """Return a cost with an upper bound: a single value, or one that represents the values `among`."""
    best, worst = (min(among), max(among)) if among else (value, value)
    return _result(name, value, unit, baseline, most, value <= most, "<=", best, worst)


def _result(
    name: str, value: float, unit: str, baseline: float, target: float, met: bool, direction: str, best: float,
    worst: float,
) -> BenchResult:  # fmt: skip
    value, best, worst = (round(one, 3) for one in (value, best, worst))
    baseline = round(baseline, 6)  # A plain file takes less than a thousandth for the sizes of --small.
    ratio = round(value / baseline, 4) if baseline else 0.0
    return BenchResult(name, value, unit, baseline, ratio, target, met, direction, best, worst)


def later_half(values: Sequence[_T]) -> Sequence[_T]:
    """Return the later half of the parts of a run: the earlier half is warm-up."""
    return values[len(values) // 2 :]


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile: the second largest of a hundred values, the largest of fewer. All reports use it."""
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def host_info() -> HostInfo:
    """Return facts about this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return HostInfo(os.cpu_count() or 1, memory, _processor(), platform.python_version(), platform.system())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Probe(Struct, frozen=True):
    key: int
    name: str
    count: int


def stores_per_second() -> float:
    """Return the baseline of in-memory work: frozen structs made, encoded and stored per second."""
    encode = msgspec.msgpack.Encoder().encode

    def once() -> None:
        table: dict[int, _Probe] = {}
        for number in range(100_000):
            probe = _Probe(number, "probe", 1)
            encode(probe)
            table[number] = probe

    return 100_000 / median_of(5, once)


def median_of(times: int, work: Callable[[], None]) -> float:
    """Return the median seconds of several runs of the work."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return median(took)


def to_json(report: BenchReport) -> str:
    """Return the report as JSON, as every benchmark prints it with `--json`."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
