"""Output of `holdfast sim`: one run, a swarm's progress and result, recordings. The verbs are in `tools.sim`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from holdfast.replay.recording import Recording
from holdfast.sim.runs import swarm as swarms
from holdfast.sim.runs.run import RunReport
from holdfast.sim.runs.shrink import ShrinkResult

#: Seconds between progress lines of a swarm if stderr is no terminal.
TELL_SECONDS = 5.0


def terminal(*, err: bool = False) -> Console:
    """Return a console for data, or for everything else (`err`)."""
    # A truncated table is useless: piped output gets the full width.
    return Console(stderr=err, width=None if sys.stdout.isatty() else 120)


def print_json(built: Any) -> None:
    """Print data for programs."""
    typer.echo(msgspec.json.format(msgspec.json.encode(built), indent=2).decode())


def seconds(ms: int) -> str:
    """Format a time within a run."""
    return f"{ms / 1000:,.1f} s"


def say(text: str, *, err: bool = False) -> None:
    """Print a line without wrapping it."""
    terminal(err=err).print(text, markup=False, highlight=False, soft_wrap=True)


def show(report: RunReport, took: float, *, timeline: bool) -> None:
    """Print one run: verdicts, findings, the six answers."""
    verdicts = report.verdicts
    say(f"{report.scenario}, seed {report.seed}: safety {verdicts.safety}, liveness {verdicts.liveness}")
    speed = report.length / 1000 / took
    say(f"{seconds(report.length)} simulated in {took:.2f} s, {speed:,.0f} times as fast as real time")
    settled = "did not converge" if report.unsettled else f"converged {seconds(report.settled)} after the faults ended"
    say(f"{settled}; digest {report.digest}")
    for finding in report.findings:
        say(f"violated: {finding.promise}: {finding.detail}")
    for left in report.unsettled:
        say(f"not converged: {left}")
    for lacking in report.lacking:
        say(f"inconclusive: minimum not reached: {lacking}")
    for workload, ms in report.recovered.items():
        say(f"recovered: {workload} in {seconds(ms)}")
    for answer in report.answers.values():
        say(f"\n{answer.question}\n  {answer.answer}\n  at {', '.join(answer.revisions) or 'no revision'}")
    for at, what in report.timeline if timeline else ():
        say(f"{seconds(at):>10}  {what}")


@contextmanager
def progress(total: int) -> Iterator[Callable[[swarms.RunSummary], None]]:
    """Report each run: on a progress bar on a terminal, otherwise in a line every few seconds."""
    console = Console(stderr=True)
    began, told, done, simulated, failed = time.monotonic(), time.monotonic(), 0, 0, 0
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=total)

        def tell(played: swarms.RunSummary) -> None:
            nonlocal told, done, simulated, failed
            now = time.monotonic()
            done, simulated = done + 1, simulated + played.length
            if played.verdict != "held":
                failed += 1
                console.print(f"{played.verdict}: {played.command}", markup=False, soft_wrap=True)
            took = max(now - began, 1e-9)
            said = f"{done / took:.1f} runs/s, {simulated / 1000 / took:,.0f} times real time, {failed} failed"
            bar.update(task, advance=1, description=said)
            if bar.disable and now - told >= TELL_SECONDS:
                told = now
                console.print(f"{done:,} of {total:,} runs, {said}", markup=False, highlight=False)

        yield tell


def show_swarm(result: swarms.SwarmResult) -> None:
    """Print the result of a swarm: verdicts by scenario, figures, failures, missing coverage."""
    verdicts = ("held", "safety", "liveness", "inconclusive", "died")
    table = Table("scenario", "runs", *verdicts)
    for name, found in result.verdicts.items():
        table.add_row(name, f"{sum(found.values()):,}", *(f"{found.get(verdict, 0):,}" for verdict in verdicts))
    terminal().print(table)
    figures = _figures(result)
    say(
        f"{result.runs:,} runs, {figures['simulated_hours']:,.2f} simulated hours in {result.seconds:,.1f} s: "
        f"{figures['runs_per_second']:,.2f} runs/s, {figures['simulated_speed']:,.0f} times as fast as real time"
    )
    for failure in result.failures:
        say(f"{failure.verdict}: {failure.why}\n  {failure.command}")
    for trace in dict.fromkeys(failure.trace for failure in result.failures if failure.trace):
        say(trace)
    for missed in result.coverage.missed:
        say(f"never happened: {missed.counter} in {missed.scenario} ({missed.stands_for})")
    if result.coverage.unjudged:
        say("coverage not judged: " + "; ".join(f"{name}: {why}" for name, why in result.coverage.unjudged.items()))
    if result.interrupted:
        say("interrupted before the last seed")


def _figures(result: swarms.SwarmResult) -> dict[str, float]:
    took = max(result.seconds, 1e-9)
    return {
        "simulated_hours": round(result.simulated_ms / 3_600_000, 4),
        "runs_per_second": round(result.runs / took, 3),
        "simulated_speed": round(result.simulated_ms / 1000 / took, 1),
    }


def swarm_as_json(result: swarms.SwarmResult) -> dict[str, Any]:
    """Return the result for programs."""
    built: dict[str, Any] = msgspec.to_builtins(result)
    for failure in built["failures"]:
        del failure["counts"]
    return {"failed": result.failed} | _figures(result) | built


def show_shrunk(report: RunReport, found: ShrinkResult, *, err: bool) -> None:
    """Print the rest of a failing run."""
    had, has = len(report.plan.faults) + len(report.plan.acts), len(found.plan.faults) + len(found.plan.acts)
    rest = "all are necessary" if found.finished else "time limit reached; more may be removable"
    say(
        f"{report.scenario}, seed {report.seed}: {found.fails} fails with {has} of {had} faults and acts ({rest}); "
        f"this took {found.runs} runs",
        err=err,
    )
    for fault in found.plan.faults:
        say(f"{seconds(fault.at):>10}  {fault.what} {fault.where}, for {seconds(fault.lasts)}", err=err)
    for act in found.plan.acts:
        say(f"{seconds(act.at):>10}  user: {act.kind}", err=err)


def show_same(recorded: Recording, said: str = "the same") -> None:
    """Print a recording's digests."""
    made = recorded.run
    what = "" if made is None else f": seed {made.seed} of {made.scenario}, digest {made.digest}"
    typer.echo(said + what)
    for ledger in recorded.ledgers:
        digest = ledger.state.hex() or "none: the log could not be folded to its end"
        typer.echo(f"  {ledger.name}: {len(ledger.entries):,} batches, state digest {digest}")
