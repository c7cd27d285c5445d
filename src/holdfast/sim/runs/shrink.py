"""Shrink the plan of a failing run: leave out faults, actions and variants while it fails in the same way.

Halves are tried first, then smaller pieces, then single ones, until no piece can be left out or time is up. The result
need not be the smallest plan, but each of its pieces is necessary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.replay.recording import PlannedAction, PlannedFault, PlannedVariant, RunPlan
from holdfast.sim.runs.run import RunReport, run
from holdfast.sim.scenario import Scenario

SECONDS = 60.0

Piece = PlannedFault | PlannedAction | PlannedVariant


class ShrinkResult(Struct, frozen=True):
    """A smaller plan that fails in the same way, the number of runs, and whether each piece was tried alone."""

    plan: RunPlan
    fails: str
    runs: int
    finished: bool


class ShrinkTimeout(Exception):
    """The time limit has passed."""


def failure_kind(report: RunReport) -> str:
    """Return how a run fails: the property of its first finding, or `liveness`; empty: it does not fail."""
    if report.findings:
        return report.findings[0].promise
    return "liveness" if report.unsettled else ""


def shrink(
    scenario: Scenario,
    seed: int,
    report: RunReport,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> ShrinkResult:
    """Return the smallest plan found within the time with which the seed fails as in the report.

    An inconclusive run cannot shrink: it has too little in it already.
    """
    wanted = failure_kind(report)
    assert wanted, f"seed {seed} of {scenario.name} has no failure"
    attempts = _Attempts(scenario, seed, report.plan.length, wanted, clock, clock() + seconds)
    pieces: list[Piece] = [*report.plan.faults, *report.plan.acts, *report.plan.fittings]
    finished = True
    try:
        for kept in _smaller(pieces, attempts.fails):
            pieces = kept
    except ShrinkTimeout:
        finished = False
    return ShrinkResult(plan_of(report.plan.length, pieces), wanted, attempts.runs, finished)


def plan_of(length: int, pieces: list[Piece]) -> RunPlan:
    faults = tuple(piece for piece in pieces if isinstance(piece, PlannedFault))
    acts = tuple(piece for piece in pieces if isinstance(piece, PlannedAction))
    return RunPlan(length, faults, acts, tuple(piece for piece in pieces if isinstance(piece, PlannedVariant)))


def _smaller(pieces: list[Piece], fails: Callable[[list[Piece]], bool]) -> Iterator[list[Piece]]:
    """Yield ever smaller lists that fail. After a single piece is left out, those before it are tried again."""
    size = max(1, len(pieces) // 2)
    while pieces:
        before, at = len(pieces), 0
        while at < len(pieces):
            less = pieces[:at] + pieces[at + size :]
            if fails(less):
                pieces = less
                yield pieces
            else:
                at += size
        if size == 1 and len(pieces) == before:
            return
        size = max(1, size // 2)


class _Attempts:
    """Runs of smaller plans, counted and limited in time."""

    def __init__(
        self, scenario: Scenario, seed: int, length: int, wanted: str, clock: Callable[[], float], until: float
    ) -> None:
        self.runs = 0
        self._scenario = scenario
        self._seed = seed
        self._length = length
        self._wanted = wanted
        self._clock = clock
        self._until = until

    def fails(self, pieces: list[Piece]) -> bool:
        """Return whether a run with only these pieces fails as wanted. One without a report does not."""
        if self._clock() >= self._until:
            raise ShrinkTimeout
        self.runs += 1
        try:
            report = run(self._scenario, self._seed, plan_of(self._length, pieces))
        except Exception:
            return False  # a run that cannot finish fails in another way
        # A smaller run may have other findings before the wanted one.
        return self._wanted == failure_kind(report) or self._wanted in {finding.promise for finding in report.findings}
