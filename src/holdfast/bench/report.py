"""What a benchmark reports: values in the unit of their target, and a ratio to a baseline of the same run.

Machines differ and are noisy; the ratio is what can be compared. The baseline says what it is. A value is the median of
what was measured, with the best and the worst of it beside; a percentile has the fastest and the slowest. What could
not be measured says why, and everything else is reported all the same.

    with sheet.part("api.batch100", "api.single"):      # rows of the report, each found or failed at the end
        sheet.add(at_least(...))
        must(answer == 200, f"the server said {answer}")
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
    """One figure, and the best and worst of those that it stands for. `met` is judged by `direction`: `>=` the target
    for rates, `<=` for costs."""

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
    """A figure that there is not, and why."""

    name: str
    why: str


class HostInfo(Struct, frozen=True):
    """What it was measured on."""

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
    """Something is not as it has to be for a figure to mean anything."""


def require(holds: object, why: object) -> None:
    """What has to be so, or the figure cannot be measured; a benchmark says why and goes on with the next."""
    if not holds:
        raise Unmeasured(str(why))


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Wait for no longer than that: what then is not there never comes."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unmeasured(f"it did not end within {seconds:g} s") from error


class ReportBuilder:
    """The figures of a run, as they come."""

    def __init__(self) -> None:
        self._results: dict[str, BenchResult] = {}
        self._failures: dict[str, FailedFigure] = {}

    def add(self, *results: BenchResult) -> None:
        """Figures that were measured."""
        self._results |= {one.name: one for one in results}

    @contextmanager
    def part(self, *names: str) -> Iterator[None]:
        """What measures these. Whatever goes wrong in it is why those of them are missing that it has not found."""
        why = "it was not measured"
        try:
            yield
        except Exception as error:
            why = describe_error(error)
        for name in names:
            if name not in self._results and name not in self._failures:
                self._failures[name] = FailedFigure(name, why)

    def report(self) -> BenchReport:
        """All of it, in the order in which it came."""
        return BenchReport(host_info(), tuple(self._results.values()), tuple(self._failures.values()))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder on the disk that is measured, which is the current one; it is gone afterwards. To be made within the
    part of all that needs it: where there can be none, that is why these are missing."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        yield Path(name)


def describe_error(error: Exception) -> str:
    """What went wrong, in words; and where, unless the benchmark itself said so."""
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
    """A rate that should be high: one value, or one that stands for those `among` which it was found."""
    best, worst = (max(among), min(among)) if among else (value, value)
    return _result(name, value, unit, baseline, least, value >= least, ">=", best, worst)


def at_most(
    name: str, value: float, unit: str, baseline: float, most: float, among: Sequence[float] = ()
) -> BenchResult:
    """A cost that should be low: one value, or one that stands for those `among` which it was found."""
    best, worst = (min(among), max(among)) if among else (value, value)
    return _result(name, value, unit, baseline, most, value <= most, "<=", best, worst)


def _result(
    name: str, value: float, unit: str, baseline: float, target: float, met: bool, direction: str, best: float,
    worst: float,
) -> BenchResult:  # fmt: skip
    value, best, worst = (round(one, 3) for one in (value, best, worst))
    baseline = round(baseline, 6)  # a plain file takes the little of a small form in less than a thousandth
    ratio = round(value / baseline, 4) if baseline else 0.0
    return BenchResult(name, value, unit, baseline, ratio, target, met, direction, best, worst)


def later_half(values: Sequence[_T]) -> Sequence[_T]:
    """What is measured of a run that is cut into parts: the first of them are its warm-up."""
    return values[len(values) // 2 :]


def p99(values: Sequence[float]) -> float:
    """Of a hundred values the second largest; of fewer the largest. Every 99th percentile of a report is this one."""
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def host_info() -> HostInfo:
    """This machine, as far as it tells."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return HostInfo(os.cpu_count() or 1, memory, _processor(), platform.python_version(), platform.system())


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

    return 100_000 / median_of(5, once)


def median_of(times: int, work: Callable[[], None]) -> float:
    """How many seconds it takes: the median of several runs."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return median(took)


def to_json(report: BenchReport) -> str:
    """The report as every benchmark prints it with `--json`."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
