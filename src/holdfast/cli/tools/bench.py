"""`holdfast bench`: figures of this machine, as a table or as JSON. Data goes to stdout, progress to stderr.

A missed target is a figure like any other, with exit code 0. A failed measurement is reported with its reason after all
figures, with exit code 1.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holdfast.bench.report import BenchReport, BenchResult, to_json
from holdfast.cli.options import print_note

app = typer.Typer(no_args_is_help=True, help="Measure Holdfast on this machine.")

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
#: Benchmarks that are packages.
_SUITES = ("limits", "sharing")
Small = Annotated[bool, typer.Option("--small", help="Small sizes: to check that it runs, not how fast.")]


def _benchmark(name: str, measures: str, progress: str) -> None:
    """Add the command of a benchmark: a module or a suite of `holdfast.bench` with this name."""

    @app.command(name, help=measures)
    def measure(as_json: AsJson = False, small: Small = False) -> None:
        module = import_module(f"holdfast.bench.{name}.suite" if name in _SUITES else f"holdfast.bench.{name}")
        _say(f"measuring {progress}")
        _show(module.run(small=small), as_json=as_json)


_benchmark(
    "core",
    "Measure the pure core: deciding, forking, memory.",
    "the core: 5,000 nodes, 1,000,000 slots; about a minute",
)
_benchmark(
    "ledger",
    "Measure a region's ledger on SQLite: commits, restart, memory, snapshots.",
    "a ledger on the disk of this folder: 5,000 nodes, 1,000,000 slots; about two minutes",
)
_benchmark(
    "store",
    "Measure the embedded store: commits alone and during a snapshot.",
    "the store on the disk of this folder; about ten seconds",
)
_benchmark(
    "api",
    "Measure a server over HTTP from another process: writes, watches, command line.",
    "a server over HTTP, on the disk of this folder; about a minute",
)
_benchmark(
    "road",
    "Measure from the platform to three regions: one change, a thousand workloads at once, a million replicas.",
    "`holdfast dev` on the disk of this folder; about five minutes",
)


@app.command()
def schedule(
    traces: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the cluster trace.")] = Path(
        "../shared/traces"
    ),
    as_json: AsJson = False,
    small: Small = False,
) -> None:
    """Measure the scheduler: many slots, many requests, spread, a million slots, many nodes, and from a write to
    `bound`.
    """
    from holdfast.bench.schedule import suite as benchmark

    _say("measuring the scheduler on the disk of this folder: 5,000 nodes; about five minutes")
    _show(benchmark.run(traces, small=small), as_json=as_json)


@app.command()
def openb(
    traces: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the cluster trace.")] = None,
    as_json: AsJson = False,
    small: Small = False,
) -> None:
    """Measure packing: devices that stay unallocated at full demand, on a published cluster and its pods."""
    from holdfast.bench.openb import suite as benchmark

    _say("measuring packing: 1,213 nodes, five lists of pods, ten seeds each; about an hour")
    _show(benchmark.run(traces, small=small), as_json=as_json)


_benchmark(
    "sharing",
    "Measure several schedulers of one region: conflicts, throughput, waits, and kinds of commits.",
    "four schedulers of one region on the disk of this folder; about three minutes",
)
_benchmark(
    "agent",
    "Measure agents: 2,000 sessions at one region's server, over sockets.",
    "2,000 agents at `holdfast dev` on the disk of this folder; about two minutes",
)
_benchmark(
    "sim",
    "Measure the simulator: a cluster without faults against real time, and runs of the standing scenarios.",
    "the simulator: 60 nodes, 300 replicas, and runs; about a minute",
)
_benchmark(
    "limits",
    "Measure limits: the largest accepted sizes, their time to complete, and how long they hold the leader's loop.",
    "limits on the disk of this folder; about five minutes",
)


def _say(text: str) -> None:
    Console(stderr=True).print(text)


def _show(report: BenchReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(report))
    elif report.results:
        _show_table(report)
    for failed in report.failures:
        print_note(f"{failed.name} could not be measured: {failed.why}")
    if report.failures:
        raise typer.Exit(1)


def _show_table(report: BenchReport) -> None:
    machine = report.machine
    title = f"{machine.processor}, {machine.cores} cores, {machine.memory_mib} MiB, Python {machine.python}"
    table = Table(title=title, title_justify="left")
    figures = ("value", "best", "worst", "of baseline")
    for column in ("name", "value", "unit", "best", "worst", "target", "met", "of baseline"):
        table.add_column(column, justify="right" if column in figures else "left", no_wrap=True)
    for one in report.results:
        table.add_row(*_row(one))
    # A truncated table is useless: piped output gets the full width.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _row(one: BenchResult) -> tuple[str, ...]:
    value, best, worst = (f"{figure:,.1f}" for figure in (one.value, one.best, one.worst))
    met = "yes" if one.met else "no"
    return one.name, value, one.unit, best, worst, f"{one.direction} {one.target:,g}", met, f"{one.ratio:.3f}"
