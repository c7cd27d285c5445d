"""The tour's example is run, and both logs hold the records that the page lists."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from tests.support.processes.real_cluster import free_ports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contribute" / "tour.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ([PR]\d+) \| \d+ \| `(.+?)` \| `([\w-]+)`(?: to `(\w+)`)? \| (.+?) \|$", re.MULTILINE)


class Listed(NamedTuple):
    """One row of the page: a record that the log must hold."""

    name: str
    actor: str
    command: str
    target: str
    events: frozenset[str]


ROWS = [
    Listed(name, actor, command, target, frozenset(re.findall(r"`(\w+)`", events)))
    for name, actor, command, target, events in ROW.findall(PAGE)
]


def _run(command: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "holdfast.cli.main", *shlex.split(command)[1:]]
    return subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def _tag(command: Any) -> str:
    return str(command.__struct_config__.tag)


def _commands() -> list[str]:
    lines = [line for language, block in BLOCKS if not language for line in block.splitlines()]
    return [line for line in lines if line.startswith("holdfast ") and "─" not in line]


def _records(folder: Path, book: LedgerDefinition[Any]) -> list[tuple[str, str, set[str], set[str]]]:
    """Actor, command, targets of moves and events of every record, in the order of the log."""
    database = apsw.Connection(str(folder / "ledger" / "log.db"))
    found, previous = [], b""
    for raw, digest in database.execute("SELECT raw, digest FROM batches ORDER BY seq"):
        for one in book.batches.read(raw, previous, digest).records:
            moves = [move for event in one.events for move in getattr(event, "moves", ())]
            events = {type(event).__name__ for event in one.events}
            found.append((one.actor, one.command, {move.phase.value for move in moves}, events))
        previous = digest
    database.close()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a platform on which the tour's commands were run until the workload served."""
    folder = tmp_path_factory.mktemp("tour")
    [document] = [block for language, block in BLOCKS if language == "yaml"]
    (folder / "tour.yaml").write_text(document, encoding="utf-8")
    environment = {**os.environ, "HOLDFAST_CONFIG": str(folder / "config.yaml")}
    start, apply, endpoints, *rest = _commands()
    words = [sys.executable, "-m", "holdfast.cli.main", *shlex.split(start)[1:]]
    words += ["--data", str(folder / "data"), "--port", str(free_ports(4))]
    out = folder / "out"
    with out.open("w") as file:
        process = subprocess.Popen(words, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 90
        while "Ctrl-C" not in out.read_text():
            assert process.poll() is None, out.read_text()
            assert time.monotonic() < deadline, out.read_text()
            time.sleep(0.1)
        found = _run(apply, environment, folder)
        assert "workload/shop/web created" in found.stdout, found
        while (found := _run(endpoints, environment, folder)).stdout.count("serving") < 2:
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        for command in rest:
            found = _run(command, environment, folder)
            assert found.returncode == 0, (command, found)
            assert found.stdout.strip(), command
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    return folder / "data"


def test_the_page_lists_records_of_both_logs() -> None:
    assert [row.name for row in ROWS] == [*(f"P{n}" for n in range(1, 7)), *(f"R{n}" for n in range(1, 8))]


@pytest.mark.timeout(240)
def test_both_logs_hold_the_records_of_the_tour_in_their_order(folder: Path) -> None:
    for ledger, book, letter in (("platform", PLATFORM, "P"), ("eu-central", REGION, "R")):
        records = _records(folder / ledger, book)
        first: dict[str, int] = {}
        reports: list[int] = []
        for row in (row for row in ROWS if row.name.startswith(letter)):
            same = [
                number
                for number, (actor, command, targets, events) in enumerate(records)
                if (actor, command) == (row.actor, row.command)
                and (not row.target or row.target in targets)
                and row.events <= events
            ]
            assert same, (row, [record for record in records if record[0] == row.actor])
            # What a controller does again and again is compared by its last time, all else by its first.
            first[row.name] = same[-1] if row.command in ("report", "report-status") else same[0]
            reports = same if row.command == "report" else reports
        if (
            letter == "P"
        ):  # a region reports after the last change of the status, too: the report that the change is from
            first["P5"] = max(number for number in reports if number < first["P6"])
        order = [name for name in first if name not in ("P2", "P3")]  # two controllers, in any order
        assert sorted(order, key=first.__getitem__) == order, first
        assert letter == "R" or first["P1"] < min(first["P2"], first["P3"]), first


def test_every_row_names_events_of_its_ledger() -> None:
    for row in ROWS:
        book = PLATFORM if row.name.startswith("P") else REGION
        assert row.events <= {event.__name__ for event in book.apply}, row
        assert row.command in {_tag(command) for command in book.rules}, row
