"""`holdfast bench`: figures of this machine, as a table or as JSON. Data goes to stdout, progress to stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holdfast.bench.report import Report, to_json
from holdfast.cli.options import note

app = typer.Typer(no_args_is_help=True, help="Measure Holdfast on this machine.")

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


@app.command()
def core(as_json: AsJson = False) -> None:
    """The pure core: deciding, forking, memory."""
    from holdfast.bench import core as benchmark

    Console(stderr=True).print("measuring the core: 5,000 nodes, 1,000,000 slots; about a minute")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def ledger(as_json: AsJson = False) -> None:
    """A region's ledger on SQLite: commits, restart, memory, snapshots."""
    from holdfast.bench import ledger as benchmark

    note = "measuring a ledger on the disk of this folder: 5,000 nodes, 1,000,000 slots; about two minutes"
    Console(stderr=True).print(note)
    _show(benchmark.run(), as_json=as_json)


@app.command()
def store(as_json: AsJson = False) -> None:
    """The embedded store: commits, alone and beside a snapshot."""
    from holdfast.bench import store as benchmark

    Console(stderr=True).print("measuring the store on the disk of this folder; about ten seconds")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def api(as_json: AsJson = False) -> None:
    """A server over HTTP from another process: writes, watches, and the command line."""
    from holdfast.bench import api as benchmark

    Console(stderr=True).print("measuring a server over HTTP, on the disk of this folder; about a minute")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def road(as_json: AsJson = False) -> None:
    """The road from the platform to three regions: shipping one change, and a thousand workloads at once."""
    from holdfast.bench import road as benchmark

    Console(stderr=True).print("measuring `holdfast dev` on the disk of this folder; about two minutes")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def schedule(
    traces: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the cluster trace lies.")] = Path(
        "../shared/traces"
    ),
    as_json: AsJson = False,
) -> None:
    """The scheduler: many slots, many requests, spread, a million slots, many nodes, and from a write to `bound`."""
    from holdfast.bench import schedule as benchmark
    from holdfast.bench.openb import NotThere

    Console(stderr=True).print("measuring the scheduler on the disk of this folder: 5,000 nodes; about three minutes")
    try:
        report = benchmark.run(traces)
    except NotThere as error:
        note(str(error))
        raise typer.Exit(1) from error
    _show(report, as_json=as_json)


@app.command()
def agent(as_json: AsJson = False) -> None:
    """Agents: 2,000 sessions at one region's server, over sockets."""
    from holdfast.bench import agent as benchmark

    Console(stderr=True).print("measuring 2,000 agents at `holdfast dev` on the disk of this folder; about two minutes")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def sim(as_json: AsJson = False) -> None:
    """The simulator: a quiet world against real time, and what a run of the standing scenarios costs."""
    from holdfast.bench import sim as benchmark

    Console(stderr=True).print("measuring the simulator: 60 nodes, 300 replicas, and runs; about a minute")
    _show(benchmark.run(), as_json=as_json)


@app.command()
def limits(as_json: AsJson = False) -> None:
    """Limits: the largest that may come in, how long it takes to leave, and how long it holds the leader's loop."""
    from holdfast.bench import limits as benchmark

    Console(stderr=True).print("measuring limits on the disk of this folder; about five minutes")
    _show(benchmark.run(), as_json=as_json)


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(report))
        return
    machine = report.machine
    title = f"{machine.processor}, {machine.cores} cores, {machine.memory_mib} MiB, Python {machine.python}"
    table = Table(title=title, title_justify="left")
    for column in ("name", "value", "unit", "target", "met", "of baseline"):
        table.add_column(column, justify="right" if column in ("value", "of baseline") else "left", no_wrap=True)
    for r in report.results:
        met = "yes" if r.met else "no"
        table.add_row(r.name, f"{r.value:,.1f}", r.unit, f"{r.direction} {r.target:,g}", met, f"{r.ratio:.3f}")
    # A table that is cut off says nothing: piped output has all the width it needs.
    Console(width=None if sys.stdout.isatty() else 120).print(table)
