"""`holdfast sim`: run seeds of scenarios, shrink failing ones, record and replay. Data goes to stdout.

Exit codes: 0 all checks held, 1 a check failed or the run was inconclusive, 2 usage error.

Size: one module for each noun of the command line, and this one has six verbs.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.cli.options import print_note
from holdfast.cli.output import simulation as shown
from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.host.errors import Stopped
from holdfast.host.ports.store import StoreError, StoreInUse
from holdfast.observe.log_output import log_to_stderr
from holdfast.replay import recording as recordings
from holdfast.replay.compare import compare
from holdfast.replay.recording import Recording, RecordingError, RunPlan
from holdfast.replay.refold import refold
from holdfast.sim import scenario as scenarios
from holdfast.sim.runs import swarm as swarms
from holdfast.sim.runs.run import RunReport, record_run
from holdfast.sim.runs.run import as_json as report_as_json
from holdfast.sim.runs.run import run as play
from holdfast.sim.runs.shrink import SECONDS, failure_kind
from holdfast.sim.runs.shrink import shrink as make_smaller
from holdfast.sim.scenario import InvalidScenario, Scenario
from holdfast.wiring.storage import record_folder

app = typer.Typer(no_args_is_help=True, help="Run scenarios in the simulator.")

INTERRUPTED = 130


@contextmanager
def _logging(*, verbose: bool) -> Iterator[None]:
    """Hide the log lines of simulated hosts, which step down all the time, unless `verbose`.

    The event loop's lines about tasks of killed machines are hidden too.
    """
    hosts, loop, handler = logging.getLogger("holdfast"), logging.getLogger("asyncio"), log_to_stderr()
    before = hosts.level, loop.level
    hosts.setLevel(logging.INFO if verbose else logging.CRITICAL)
    loop.setLevel(logging.WARNING if verbose else logging.CRITICAL)
    if verbose:
        hosts.addHandler(handler)
    try:
        yield
    finally:
        hosts.setLevel(before[0])
        loop.setLevel(before[1])
        hosts.removeHandler(handler)


def _set_logging(context: typer.Context, verbose: bool) -> bool:
    context.with_resource(_logging(verbose=verbose))
    return verbose


Name = Annotated[str, typer.Argument(metavar="SCENARIO", help="Scenario: a name, or the path of its file.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same run, to the byte.")]
Folder = Annotated[Path, typer.Option("--scenarios", metavar="DIR", help="Folder of the scenarios.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Record = Annotated[Path | None, typer.Option("--record", metavar="FILE.hfr", help="Write a recording of the run.")]
Verbose = Annotated[bool, typer.Option("--verbose", callback=_set_logging, help="Show the log lines of the hosts.")]
FOLDER = scenarios.FOLDER


@app.command("list")
def list_(folder: Folder = FOLDER, verbose: Verbose = False) -> None:
    """List the scenarios, and those that cannot run yet."""
    table = Table.grid(padding=(0, 2))
    for one in _all(folder).values():
        table.add_row(one.name, escape(one.says + (f"\nabsent: {one.absent}" if one.absent else "")))
    shown.terminal().print(table)


@app.command()
def run(
    name: Name,
    seed: Seed = 1,
    folder: Folder = FOLDER,
    as_json: AsJson = False,
    record: Record = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show injected faults and acts with their times.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run one seed of a scenario and check it."""
    scenario, text = _chosen(name, folder)
    began = time.monotonic()
    report = _played(scenario, text, seed, None, record)
    if as_json:
        shown.print_json(report_as_json(report))
    else:
        shown.show(report, time.monotonic() - began, timeline=timeline)
    raise typer.Exit(int(report.failed))


@app.command()
def swarm(
    seeds: Annotated[str, typer.Option("--seeds", metavar="A..B", help="First and last seed, inclusive.")],
    name: Annotated[str | None, typer.Option("--scenario", metavar="S", help="Run only this scenario.")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="K", min=1, help="Number of processes; default: one per core.")
    ] = None,
    folder: Folder = FOLDER,
    shrink: Annotated[bool, typer.Option("--shrink", help="Shrink the first failing run.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run many seeds, each with the scenario that it draws. Fails if a run fails or an expected fault never occurs."""
    numbers = _seeds(seeds)
    chosen = _playable(folder) if name is None else {one.name: one for one in _chosen(name, folder)[:1]}
    with shown.progress(len(numbers)) as tell:
        result = swarms.swarm(chosen, numbers, jobs=jobs or os.cpu_count() or 1, tell=tell, again=_again(name, folder))
    if as_json:
        shown.print_json(shown.swarm_as_json(result))
    else:
        shown.show_swarm(result)
    broken = next((one for one in result.failures if one.verdict in ("safety", "liveness")), None)
    if shrink and broken is not None and not result.interrupted:
        _shrink(chosen[broken.scenario], "", broken.seed, SECONDS, None, err=as_json)
    raise typer.Exit(INTERRUPTED if result.interrupted else int(result.failed))


@app.command()
def shrink(
    name: Name,
    seed: Seed = 1,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="Time limit.")] = SECONDS,
    folder: Folder = FOLDER,
    record: Record = None,
    verbose: Verbose = False,
) -> None:
    """Remove faults and acts of a failing run as long as it fails in the same way."""
    scenario, text = _chosen(name, folder)
    raise typer.Exit(int(_shrink(scenario, text, seed, seconds, record)))


@app.command()
def replay(file: Annotated[Path, typer.Argument(metavar="FILE.hfr")], verbose: Verbose = False) -> None:
    """Refold a recording with today's code; a recording of a simulation also runs again and is compared."""
    try:
        recorded = recordings.read(file)
    except RecordingError as error:
        _cannot(str(error))
    except OSError as error:
        _cannot(f"{file}: {error.strerror}")
    found = refold(recorded)
    made = recorded.run
    if found is None and made is not None:
        try:
            scenario = scenarios.parse(made.text, f"the scenario in {file}")
        except InvalidScenario as error:
            _cannot(f"{error}. hint: this version cannot run it any more; use the one that recorded it")
        report, now = record_run(scenario, made.text, made.seed, made.plan)
        found = compare(recorded, now)
        if found is None and made.digest != report.digest:
            print_note(f"the logs are equal, but the run's digests differ: {made.digest} then, {report.digest} now")
    if found is not None:
        typer.echo(f"first difference: {found}")
        raise typer.Exit(1)
    shown.show_same(recorded)


@app.command()
def record(
    out: Annotated[Path, typer.Argument(metavar="OUT.hfr")],
    store: Annotated[Path, typer.Option("--store", metavar="FOLDER", help="The folder of an embedded store.")],
    verbose: Verbose = False,
) -> None:
    """Record a real ledger from its folder, for replay elsewhere."""
    if not (store / "log.db").is_file():
        _cannot(f"{store}: no ledger there: log.db is missing. hint: use the data folder of a server")
    try:
        found = asyncio.run(record_folder(store))
    except StoreInUse as error:
        _cannot(
            f"{str(error).splitlines()[0]}. hint: stop that server first: a log cannot be recorded while it is written"
        )
    except (StoreError, Stopped, Corrupt, UpgradeNeeded) as error:
        print_note(str(error))
        raise typer.Exit(1) from None
    _write(found, out)
    shown.show_same(found, "recorded")


# Arguments


def _cannot(message: str) -> NoReturn:
    print_note(message)
    raise typer.Exit(2)


def _all(folder: Path) -> dict[str, Scenario]:
    try:
        return scenarios.read_folder(folder)
    except InvalidScenario as error:
        _cannot(str(error))


def _playable(folder: Path) -> dict[str, Scenario]:
    found = {name: one for name, one in _all(folder).items() if not one.absent}
    return found or _cannot(f"{folder}: no scenario there can run")


def _chosen(name: str, folder: Path) -> tuple[Scenario, str]:
    """Return a scenario and its text. One that cannot run is an error and never counts as held."""
    if _is_path(name):
        path = Path(name)
    else:
        known = _all(folder)
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            _cannot(f"there is no scenario {name!r} in {folder}.{hint} Known: {', '.join(known)}")
        path = next(path for path in sorted(folder.glob("*.yaml")) if scenarios.read(path).name == name)
    try:
        text = path.read_text(encoding="utf-8")
        scenario = scenarios.parse(text, str(path))
    except OSError as error:
        _cannot(f"{path}: {error.strerror}")
    except InvalidScenario as error:
        _cannot(str(error))
    if scenario.absent:
        _cannot(f"{scenario.name} cannot run: {scenario.absent}")
    return scenario, text


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        _cannot(f"--seeds {text}: not a range of seeds. hint: first and last, for example 1..2000")
    return range(int(first), int(last) + 1)


def _again(name: str | None, folder: Path) -> Callable[[str, int], str]:
    where = "" if folder == FOLDER else f" --scenarios {shlex.quote(str(folder))}"

    def command(scenario: str, seed: int) -> str:
        if name is not None and _is_path(name):
            return swarms.command(shlex.quote(name), seed)
        return swarms.command(scenario, seed) + where

    return command


def _played(scenario: Scenario, text: str, seed: int, plan: RunPlan | None, file: Path | None) -> RunReport:
    if file is None:
        return play(scenario, seed, plan)
    report, found = record_run(scenario, text, seed, plan)
    _write(found, file)
    return report


def _write(found: Recording, file: Path) -> None:
    try:
        recordings.write(found, file)
    except OSError as error:
        _cannot(f"{file}: {error.strerror}")
    print_note(f"recorded in {file}; `holdfast sim replay {file}` runs it again")


def _shrink(scenario: Scenario, text: str, seed: int, seconds: float, file: Path | None, *, err: bool = False) -> bool:
    """Return whether the seed fails; print the rest of its plan."""
    report = play(scenario, seed)
    if not failure_kind(report):
        verdict, why = swarms.verdict_of(report)
        reason = f"{verdict}, {why}: no violated property" if report.failed else "it holds"
        shown.say(f"{scenario.name}, seed {seed}: nothing to shrink: {reason}", err=err)
        return report.failed
    found = make_smaller(scenario, seed, report, seconds)
    shown.show_shrunk(report, found, err=err)
    if file is not None:
        _played(scenario, text, seed, found.plan, file)
    return True
