"""Many seeds of many scenarios, on all cores, with their verdicts and coverage.

    seeds ──▶ scenario of each seed ──▶ workers, one run at a time ──▶ summaries ──▶ result
                                        a worker that dies, or takes too long, is a failure of its seed

The scenario of a seed follows from the seed and the names alone, so every run can be repeated by itself.

Size: the workers, their deaths and what is summed up of them.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.observe.log_output import log_to_stderr
from holdfast.sim.runs.coverage import Coverage, assess_coverage, sum_counts
from holdfast.sim.runs.run import RunReport, run
from holdfast.sim.scenario import Scenario

#: Time limit of a run, in real seconds. A run takes a second or two; without a limit a stuck one would block the swarm.
RUN_SECONDS_MAX = 240

#: Loggers of a run: workers take over the log levels of the process that starts the swarm.
LOGGERS = ("holdfast", "asyncio")
Job = tuple[str, int]


class RunSummary(Struct, frozen=True):
    """The summary of one run in a swarm."""

    scenario: str
    seed: int
    #: `held`, `safety` or `liveness` for a violated property, `inconclusive`, or `died` without a report.
    verdict: str
    #: The first failure, and the traceback of a run that died.
    why: str = ""
    trace: str = ""
    command: str = ""
    length: int = 0
    counts: dict[str, int] = {}


class SwarmResult(Struct, frozen=True):
    """The outcome of a swarm."""

    runs: int
    simulated_ms: int
    seconds: float
    #: By scenario: the number of runs with each verdict.
    verdicts: dict[str, dict[str, int]]
    #: In order of seeds, without counters.
    failures: tuple[RunSummary, ...]
    coverage: Coverage
    counts: dict[str, int]
    #: Whether an operator ended it before its last seed.
    interrupted: bool

    @property
    def failed(self) -> bool:
        """Whether it does not show that everything holds."""
        return bool(self.failures or self.coverage.missed or self.interrupted or not self.runs)


class _Gathered:
    """The summaries of a swarm so far."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        self._began = time.monotonic()
        self._scenarios = scenarios
        self._verdicts: dict[str, dict[str, int]] = {name: {} for name in sorted(scenarios)}
        self._counts: dict[str, dict[str, int]] = {name: {} for name in self._verdicts}
        self._failures: list[RunSummary] = []
        self._simulated_ms = 0

    def add(self, played: RunSummary) -> None:
        verdicts = self._verdicts[played.scenario]
        verdicts[played.verdict] = verdicts.get(played.verdict, 0) + 1
        self._counts[played.scenario] = sum_counts([self._counts[played.scenario], played.counts])
        self._simulated_ms += played.length
        if played.verdict != "held":
            self._failures.append(replace(played, counts={}))

    def result(self, *, interrupted: bool) -> SwarmResult:
        """Return the result so far."""
        runs = {name: sum(verdicts.values()) for name, verdicts in self._verdicts.items()}
        return SwarmResult(
            sum(runs.values()),
            self._simulated_ms,
            time.monotonic() - self._began,
            self._verdicts,
            tuple(sorted(self._failures, key=lambda failure: failure.seed)),
            assess_coverage(self._scenarios, runs, self._counts),
            sum_counts(self._counts.values()),
            interrupted,
        )


def scenario_of(seed: int, names: Iterable[str]) -> str:
    """Return the scenario of a seed: each gets an equal share of consecutive seeds."""
    ordered = sorted(names)
    return ordered[seed % len(ordered)]


def command(scenario: str, seed: int) -> str:
    """Return the command that repeats a run."""
    return f"holdfast sim run {scenario} --seed {seed}"


def swarm(
    scenarios: Mapping[str, Scenario],
    seeds: range,
    *,
    jobs: int = 1,
    tell: Callable[[RunSummary], None] = lambda _played: None,
    again: Callable[[str, int], str] = command,
) -> SwarmResult:
    """Run every seed. `tell` is called after each run, in the order of their ends; `again` returns the command that
    repeats one.

    A single job runs in this process.
    """
    gathered = _Gathered(scenarios)
    todo = ((scenario_of(seed, scenarios), seed) for seed in seeds)
    playing = _here(scenarios, todo) if jobs == 1 else _in_workers(scenarios, todo, min(jobs, len(seeds)))
    interrupted = False
    try:
        for played in playing:
            told = replace(played, command=again(played.scenario, played.seed))
            gathered.add(told)
            tell(told)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        playing.close()
    return gathered.result(interrupted=interrupted)


def play(scenario: Scenario, seed: int) -> RunSummary:
    """Run one seed; an exception becomes a summary, too."""
    try:
        report = run(scenario, seed)
    except Exception as error:
        return RunSummary(scenario.name, seed, "died", f"{type(error).__name__}: {error}", traceback.format_exc())
    verdict, why = verdict_of(report)
    return RunSummary(scenario.name, seed, verdict, why, length=report.length, counts=report.counts)


def verdict_of(report: RunReport) -> tuple[str, str]:
    """Return the verdict of a report, and its first failure."""
    if report.findings:
        return "safety", f"{report.findings[0].promise}: {report.findings[0].detail}"
    if report.unsettled:
        return "liveness", report.unsettled[0]
    if report.failed:
        return "inconclusive", "; ".join(report.lacking[:1])
    return "held", ""


def _here(scenarios: Mapping[str, Scenario], todo: Iterator[Job]) -> Generator[RunSummary, None, None]:
    return (play(scenarios[name], seed) for name, seed in todo)


class _Worker:
    """A worker process that executes one run after the other."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        # Spawned, not forked: a run must not depend on the state of this process.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in LOGGERS}
        self.process = context.Process(target=_work, args=(theirs, dict(scenarios), levels), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job = ("", 0)
        self.latest = 0.0

    def give(self, job: Job) -> None:
        """Send a job to the worker."""
        self.job, self.latest = job, time.monotonic() + RUN_SECONDS_MAX
        with suppress(OSError):  # the process has ended: `answer` reports it
            self.pipe.send(job)

    def answer(self) -> RunSummary:
        """Return the summary of the worker's job, or of its death."""
        name, seed = self.job
        try:
            if self.pipe.poll():
                found: RunSummary = self.pipe.recv()
                return found
        except (EOFError, OSError):
            self.process.join()
            return RunSummary(name, seed, "died", f"its worker process ended with {self.process.exitcode}")
        self.end()
        return RunSummary(name, seed, "died", f"it took more than {RUN_SECONDS_MAX} s of real time")

    def end(self) -> None:
        """Kill the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _work(pipe: Connection[Any, Any], scenarios: dict[str, Scenario], levels: dict[str, int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started the swarm ends it
    logging.basicConfig(handlers=[log_to_stderr()])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    while True:
        try:
            name, seed = pipe.recv()
        except EOFError:
            return
        pipe.send(play(scenarios[name], seed))


def _in_workers(
    scenarios: Mapping[str, Scenario], todo: Iterator[Job], count: int
) -> Generator[RunSummary, None, None]:
    crew: list[_Worker] = []
    try:
        for job in islice(todo, count):
            crew.append(_Worker(scenarios))
            crew[-1].give(job)
        while crew:
            soonest = min(worker.latest for worker in crew)
            ready = wait([worker.pipe for worker in crew], max(0.0, soonest - time.monotonic()))
            for worker in [one for one in crew if one.pipe in ready or one.latest <= time.monotonic()]:
                yield worker.answer()
                following = next(todo, None)
                if following is not None and worker.process.is_alive():
                    worker.give(following)
                    continue
                crew.remove(worker)
                worker.end()
                if following is not None:
                    crew.append(_Worker(scenarios))
                    crew[-1].give(following)
    finally:
        for worker in crew:
            worker.end()
