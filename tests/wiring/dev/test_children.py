"""Child processes that come back, and that none outlives its supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.wiring.dev.children import ChildProcess, ChildRestartOptions, ChildSupervisor, describe_exit, truncate_log
from tests.support.event_loop import in_a_loop

HASTY = ChildRestartOptions(first=0.05, most=0.2, stop=1.0, look=0.05)
SLEEP = "import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


def a_part(folder: Path, program: str, name: str = "one") -> ChildProcess:
    return ChildProcess(name, [sys.executable, "-c", program], folder / "logs" / f"{name}.log")


async def until(true: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@in_a_loop
async def test_a_part_that_is_killed_comes_back_as_another_process_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    parts = ChildSupervisor(said.append, os.environ, HASTY)
    parts.start([a_part(tmp_path, SLEEP)])
    try:
        await until(lambda: parts.pid("one"))
        first = parts.pid("one")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: parts.pid("one") not in (None, first))
    finally:
        await parts.stop()
    assert len(said) == 1
    assert "one was ended by SIGKILL; it restarts in 0.05 s" in said[0]
    assert parts.pid("one") is None


@in_a_loop
async def test_one_that_keeps_failing_is_started_less_and_less_often(tmp_path: Path) -> None:
    said: list[str] = []
    parts = ChildSupervisor(said.append, os.environ, HASTY)
    parts.start([a_part(tmp_path, "raise SystemExit(3)")])
    await until(lambda: len(said) >= 4)
    await parts.stop()
    pauses = [line.partition("restarts in ")[2].split()[0] for line in said[:4]]
    assert pauses == ["0.05", "0.1", "0.2", "0.2"]
    assert "ended with exit code 3" in said[0]


@in_a_loop
async def test_one_that_does_not_stop_is_killed_after_a_bounded_time(tmp_path: Path) -> None:
    said: list[str] = []
    part = a_part(tmp_path, STUBBORN)
    parts = ChildSupervisor(said.append, os.environ, HASTY)
    parts.start([part])
    await until(lambda: part.log.exists() and b"deaf" in part.log.read_bytes())
    pid = parts.pid("one")
    assert pid is not None
    began = time.monotonic()
    await parts.stop()
    assert time.monotonic() - began < 30
    assert not is_alive(pid)
    assert said == ["one did not stop within 1 s, and is killed"]


@in_a_loop
async def test_stopping_between_two_lives_starts_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    parts = ChildSupervisor(said.append, os.environ, ChildRestartOptions(first=30))
    parts.start([a_part(tmp_path, "pass")])
    await until(lambda: said)
    began = time.monotonic()
    await parts.stop()
    assert time.monotonic() - began < 20, "it waited for the next life, which is 30 s away"


def test_when_the_supervisor_is_killed_its_children_end_too(tmp_path: Path) -> None:
    supervisor = f"""
import asyncio, os, sys
from pathlib import Path
from holdfast.wiring.dev.children import ChildProcess, ChildSupervisor
async def main():
    parts = ChildSupervisor(print, os.environ)
    parts.start([ChildProcess("one", [sys.executable, "-c", {SLEEP!r}], Path({str(tmp_path / "log")!r}))])
    while parts.pid("one") is None:
        await asyncio.sleep(0.01)
    print(parts.pid("one"), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", supervisor], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert is_alive(child)
        process.kill()
    deadline = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < deadline, "the child lives on without its supervisor"
        time.sleep(0.01)


def test_a_log_that_has_grown_is_moved_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    with open(log, "ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        truncate_log(log, most_bytes=50)
        writer.write(b"new")
        truncate_log(log, most_bytes=50)
    assert log.read_bytes() == b"new"
    assert (tmp_path / "one.log.1").read_bytes() == b"x" * 100


def test_how_a_process_ended_is_said_in_words() -> None:
    assert describe_exit(1) == "ended with exit code 1"
    assert describe_exit(-9) == "was ended by SIGKILL"
    assert describe_exit(-100) == "was ended by signal 100"
