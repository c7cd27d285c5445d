"""Logs to whoever does not read them: nobody waits, what is missing is counted, and what matters is said."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys

import pytest

from holdfast.observe import log_output
from holdfast.observe.log_output import JsonFormatter, TextFormatter
from holdfast.observe.log_writer import LogOutputHandler, to_descriptor
from tests.support.pipes import Reader, full_pipe
from tests.support.processes.real_cluster import CHECKOUT

#: How a program of its own begins to log.
LOGS = "from holdfast.observe import log_output; log_output.configure_logging('info', 'text')"


def a_logger(handler: LogOutputHandler, name: str) -> logging.Logger:
    logger = logging.Logger(name, logging.INFO)
    logger.addHandler(handler)
    return logger


@pytest.mark.parametrize("form", [TextFormatter, JsonFormatter])
def test_nobody_waits_for_a_reader_and_what_is_missing_is_counted(form: type[logging.Formatter]) -> None:
    with full_pipe() as (end, begin):
        writer = LogOutputHandler(to_descriptor(begin), first_rank="holdfast.server", room_bytes=10_000)
        writer.setFormatter(form())
        loud, server = a_logger(writer, "holdfast.ledger"), a_logger(writer, "holdfast.server")
        for number in range(1_000):  # nobody reads: whoever waited here would wait for ever
            loud.info(f"number {number} {'x' * 50}")
        server.info("stopping")
        loud.info("after")
        reader = Reader(end)
        reader.until("stopping")
        writer.flush()
        loud.info("again")
        lines = reader.until("again").lstrip(".").splitlines()
        seen = [line for line in lines if "number " in line]
        if form is JsonFormatter:
            missing = [json.loads(line)["count"] for line in lines if "lines-dropped" in line]
        else:
            missing = [int(found[1]) for line in lines if (found := re.search(r"lines-dropped count=(\d+)", line))]
        assert 0 < len(seen) < 1_000
        assert len(seen) + sum(missing) == 1_000 + 1, "all of them were written or counted, and the one after them"
        assert "number 0 " in seen[0], "what came first is kept"


def test_a_descriptor_that_does_not_wait_is_waited_for() -> None:
    with full_pipe() as (end, begin):
        os.set_blocking(begin, False)
        writer = LogOutputHandler(to_descriptor(begin))
        a_logger(writer, "holdfast").info("said")
        Reader(end).until("said")


def test_a_value_that_cannot_be_shown_stops_nobody() -> None:
    class Unshowable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    said: list[bytes] = []
    writer = LogOutputHandler(said.append)
    a_logger(writer, "holdfast").info("it is %s", Unshowable())
    writer.flush()
    assert b"".join(said) == b"a line of holdfast cannot be shown: RuntimeError\n"


def test_a_process_that_dies_of_an_error_does_not_wait_for_whoever_should_read_of_it() -> None:
    script = f"{LOGS}; raise RuntimeError('hear me')"
    environment = {"PYTHONPATH": str(CHECKOUT / "src")}
    with full_pipe() as (end, begin):
        dying = [sys.executable, "-c", script]
        assert subprocess.run(dying, stderr=begin, timeout=60, env=environment).returncode == 1
        reader = Reader(end)
        assert subprocess.run(dying, stderr=begin, timeout=60, env=environment).returncode == 1
        assert "Traceback" in reader.until("RuntimeError: hear me")


def test_where_there_is_no_standard_error_nothing_is_said() -> None:
    script = f"{LOGS}; log_output.print_status('hear me'); print('done')"
    closed = ["sh", "-c", 'exec 2>&-; exec "$0" -c "$1"', sys.executable, script]
    said = subprocess.run(closed, capture_output=True, timeout=60, env={"PYTHONPATH": str(CHECKOUT / "src")})
    assert (said.returncode, said.stdout) == (0, b"done\n")


def test_whoever_has_closed_the_other_end_stops_nobody() -> None:
    end, begin = os.pipe()
    writer = LogOutputHandler(to_descriptor(begin))
    os.close(end)
    for _ in range(3):
        a_logger(writer, "holdfast").info("said")
    writer.flush()
    os.close(begin)


HOSTILE = "x\n2026-01-01T00:00:00.000Z INFO    holdfast.server: ready\x1b[2K\r\u2028\x9b1m\u202e"


def _formatted(error: BaseException | None = None) -> list[str]:
    record = logging.LogRecord("holdfast.x", logging.WARNING, "", 0, f"heard name={HOSTILE}", (), None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    return TextFormatter().format(record).split("\n")


def test_what_others_said_begins_no_line_of_its_own_and_commands_no_terminal() -> None:
    (line,) = _formatted()
    assert line.isprintable(), line
    assert r"x\n2026-01-01" in line
    assert r"\x1b[2K\r\u2028\x9b1m\u202e" in line


def test_neither_does_what_an_exception_says() -> None:
    _, *below = _formatted(ValueError(HOSTILE))
    assert below
    assert all(line.startswith("    ") and line.isprintable() for line in below), below


def test_an_object_a_line_stays_one_line_whatever_others_said() -> None:
    record = logging.LogRecord("holdfast.x", logging.WARNING, "", 0, HOSTILE, (), None)
    assert "\n" not in JsonFormatter().format(record)


def test_neither_does_what_a_stack_shows() -> None:
    record = logging.LogRecord("holdfast.x", logging.WARNING, "", 0, "here", (), None, sinfo=HOSTILE)
    _, *below = TextFormatter().format(record).split("\n")
    assert below
    assert all(line.startswith("    ") and line.isprintable() for line in below), below
    assert json.loads(JsonFormatter().format(record))["stack"] == HOSTILE


def test_neither_does_a_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    log_output.print_status(f"holdfast server: stopped: {HOSTILE}", "hint: start it again")
    first, *below, hint = capsys.readouterr().err.split("\n")[:-1]
    assert (first, hint) == ("holdfast server: stopped: x", "hint: start it again")
    assert below
    assert all(line.startswith("    ") and line.isprintable() for line in below), below


def test_an_object_a_line_commands_no_terminal_either() -> None:
    record = logging.LogRecord("holdfast.x", logging.WARNING, "", 0, HOSTILE, (), None)
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert json.loads(line)["event"] == HOSTILE


DYING = {
    "process": "raise RuntimeError(HOSTILE)",
    "thread": "one = threading.Thread(target=fail); one.start(); one.join()",
    "object": "Dying(); gc.collect()",
    "loop": "asyncio.run(failing())",
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("how", sorted(DYING))
def test_whatever_dies_of_what_others_said_is_a_record_like_any_other(how: str, form: str) -> None:
    script = f"""
import asyncio, gc, threading
from holdfast.observe import log_output
HOSTILE = {HOSTILE!r} + " hf_operator-1_{"s" * 43} https://me:password@eu.example"
def fail():
    raise RuntimeError(HOSTILE)
class Dying:
    def __del__(self):
        fail()
async def failing():
    async def soon():
        fail()
    asyncio.create_task(soon())
    await asyncio.sleep(0.01)
    gc.collect()
log_output.configure_logging("info", "{form}")
{DYING[how]}
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, env={"PYTHONPATH": str(CHECKOUT / "src")}
    )
    said = ran.stderr.decode()
    assert "password" not in said
    assert "s" * 43 not in said
    first, *below = said.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in (first, *below)), said
    if form == "json":
        assert "RuntimeError" in json.loads(first)["trace"]
        assert below == []
    else:
        assert re.match(r"\d{4}-\d\d-\d\dT\S+Z (ERROR  |CRITICAL) ", first), first
        assert all(line.startswith("    ") for line in below), below
        assert "RuntimeError: x" in said
