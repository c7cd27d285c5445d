"""`holdfast bench`: figures of this machine, as a table or as JSON. Data goes to stdout, progress to stderr.

A missed target is a figure like any other, with exit code 0. A failed measurement is reported with its reason after all
figures, with exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holdfast.bench.report import BenchReport, BenchResult, to_json
from holdfast.cli.options import print_note

app = typer.Typer(no_args_is_help=True, help="Measure Holdfast on this machine.")

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Small = Annotated[bool, typer.Option("--small", help="Small sizes: to check that it runs, not how fast.")]


@app.command()
def core(as_json: AsJson = False, small: Small = False) -> None:
    """Measure the pure core: deciding, forking, memory."""
    from holdfast.bench import core as benchmark

    _say("measuring the core: 5,000 nodes, 1,000,000 slots; about a minute")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def ledger(as_json: AsJson = False, small: Small = False) -> None:
    """Measure a region's ledger on SQLite: commits, restart, memory, snapshots."""
    from holdfast.bench import ledger as benchmark

    _say("measuring a ledger on the disk of this folder: 5,000 nodes, 1,000,000 slots; about two minutes")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def store(as_json: AsJson = False, small: Small = False) -> None:
    """Measure the embedded store: commits alone and during a snapshot."""
    from holdfast.bench import store as benchmark

    _say("measuring the store on the disk of this folder; about ten seconds")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def api(as_json: AsJson = False, small: Small = False) -> None:
    """Measure a server over HTTP from another process: writes, watches, command line."""
    from holdfast.bench import api as benchmark

    _say("measuring a server over HTTP, on the disk of this folder; about a minute")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def road(as_json: AsJson = False, small: Small = False) -> None:
    """Measure from the platform to three regions: one change, a thousand workloads at once, a million replicas."""
    from holdfast.bench import road as benchmark

    _say("measuring `holdfast dev` on the disk of this folder; about five minutes")
    _show(benchmark.run(small=small), as_json=as_json)


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
def sharing(as_json: AsJson = False, small: Small = False) -> None:
    """Measure several schedulers of one region: conflicts, throughput, waits, and kinds of commits."""
    from holdfast.bench.sharing import suite as benchmark

    _say("measuring four schedulers of one region on the disk of this folder; about three minutes")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def agent(as_json: AsJson = False, small: Small = False) -> None:
    """Measure agents: 2,000 sessions at one region's server, over sockets."""
    from holdfast.bench import agent as benchmark

    _say("measuring 2,000 agents at `holdfast dev` on the disk of this folder; about two minutes")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def sim(as_json: AsJson = False, small: Small = False) -> None:
    """Measure the simulator: a cluster without faults against real time, and runs of the standing scenarios."""
    from holdfast.bench import sim as benchmark

    _say("measuring the simulator: 60 nodes, 300 replicas, and runs; about a minute")
    _show(benchmark.run(small=small), as_json=as_json)


@app.command()
def limits(as_json: AsJson = False, small: Small = False) -> None:
    """Measure limits: the largest accepted sizes, their time to complete, and how long they hold the leader's loop."""
    from holdfast.bench.limits import suite as benchmark

    _say("measuring limits on the disk of this folder; about five minutes")
    _show(benchmark.run(small=small), as_json=as_json)


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
