"""A guard by itself, without a driver: what must hold whatever the disk and the agent do."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.drivers.process.guard_files import ProcessId, boot_id, read_record, read_result
from holdfast.agent.drivers.process.launch import PROGRAM
from holdfast.agent.guard import files, kernel
from tests.support.processes.process_world import LATE_MS, LEASE_MS, ROOT_ONLY, ProcessFolder


def an_order(script: str, **fields: Any) -> bytes:
    record = {
        "slot": [7, 0], "epoch": 11, "name": "web/eu/0", "boot": boot_id(), "leased": False, "deadline": 0,
        "grace_ms": 200, "memory_bytes": 0, "pids": 0, "groups": [],
    }  # fmt: skip
    order = {
        "record": record, "command": ["sh", "-c", script], "environment": {"PATH": "/bin"},
        "folder": "/", "own": False, "user": None, "groups": [], "leased": False, "deadline": 0, "grace": 200,
        "sample": 0, "sampled_bytes": 0, "sampled_pids": 0, "logs": [65_536, 1], "namespaces": None,
    }  # fmt: skip
    return json.dumps({**order, **fields}).encode()


def launched(folder: Path, order: bytes, program: tuple[str, ...] = PROGRAM, **given: Any) -> bytes:
    """Start a guard in this folder, and hear its answer."""
    with (folder / "logs" / "guard").open("wb") as errors:
        said = subprocess.run(
            program, cwd=folder, env={}, input=order, stdout=subprocess.PIPE, stderr=errors, timeout=10, **given
        )
    assert isinstance(said.stdout, bytes)
    return said.stdout


def a_copy(folder: Path) -> Path:
    """The program of a guard in a new folder, with all that it needs of this project; everybody can read it."""
    program = Path(PROGRAM[-1])
    for file in (*program.parent.glob("*.py"), program.parents[1] / "__init__.py", program.parents[2] / "__init__.py"):
        copied = folder / file.relative_to(program.parents[3])
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / program.relative_to(program.parents[3])


@pytest.fixture
def slot(yard: ProcessFolder) -> Path:
    folder = yard.slot()
    (folder / "logs").mkdir(parents=True)
    return folder


@contextmanager
def a_line(slot: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(60)
        line.connect(str(slot / files.SOCKET))
        yield line


def guard_of(slot: Path) -> ProcessId:
    record = read_record(slot)
    assert record is not None
    return record.guard


def until_gone(one: ProcessId, limit: float = 60) -> None:
    end = time.monotonic() + limit
    while one.is_alive():
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.01)


def test_the_deadline_is_kept_where_no_kernel_tells_who_the_children_are(slot: Path, tmp_path: Path) -> None:
    blind = a_copy(tmp_path / "program")
    for file in blind.parent.glob("*.py"):
        file.write_text(file.read_text().replace("/children", "/not-told"))
    deadline = kernel.boot_ms() + LEASE_MS
    stubborn = "trap '' TERM; sleep 60 & while :; do sleep 0.05; done"
    launched(slot, an_order(stubborn, leased=True, deadline=deadline), (sys.executable, "-I", "-S", str(blind)))
    record = read_record(slot)
    assert record is not None
    until_gone(record.process)
    assert kernel.boot_ms() < deadline + 200 + LATE_MS
    until_gone(record.guard)


def test_a_guard_whose_folder_was_removed_goes_when_its_process_has_ended(slot: Path) -> None:
    launched(slot, an_order("sleep 0.5"))
    one = guard_of(slot)
    shutil.rmtree(slot)
    until_gone(one)


def test_the_deadline_is_kept_while_the_logs_hang(slot: Path) -> None:
    os.mkfifo(slot / "logs" / "stdout")  # nobody reads it: whoever opens it hangs
    deadline = kernel.boot_ms() + LEASE_MS
    assert launched(slot, an_order("while :; do echo more; done", leased=True, deadline=deadline)) == b"begun"
    record = read_record(slot)
    assert record is not None
    until_gone(record.process)
    assert deadline <= kernel.boot_ms() < deadline + 200 + LATE_MS
    until_gone(record.guard)


def test_a_guard_that_cannot_write_its_result_stays_until_it_is_told_to_go(slot: Path) -> None:
    (slot / f"{files.RESULT}.new").mkdir()
    assert launched(slot, an_order("exit 3")) == b"begun"
    with a_line(slot) as line:
        said = json.loads(line.recv(4096))
        while said["state"] != "ended":
            said = json.loads(line.recv(4096))
        assert said["code"] == 3
        assert guard_of(slot).is_alive()
        line.send(b'{"go": true}')
        until_gone(guard_of(slot))


def test_a_result_that_could_not_be_written_is_written_when_it_can_be(slot: Path) -> None:
    (slot / f"{files.RESULT}.new").mkdir()
    launched(slot, an_order("exit 3"))
    (slot / f"{files.RESULT}.new").rmdir()
    until_gone(guard_of(slot))
    result = read_result(slot)
    assert result is not None
    assert result.code == 3


def test_agents_come_and_go_and_a_guard_answers_each(slot: Path) -> None:
    launched(slot, an_order("exec sleep 60"))
    for _ in range(3):
        with a_line(slot) as line:
            assert json.loads(line.recv(4096))["state"] == "running"
    with a_line(slot) as first, a_line(slot) as second:
        first.recv(4096)
        second.recv(4096)
        first.send(b'{"stop": 0}')
        assert json.loads(second.recv(4096))["state"] == "stopping"
        assert json.loads(second.recv(4096))["state"] == "ended"
    until_gone(guard_of(slot))


def test_an_order_that_is_cut_off_begins_nothing(slot: Path) -> None:
    assert launched(slot, an_order("exec sleep 60")[:-20]) == b""
    assert list(slot.iterdir()) == [slot / "logs"]


def test_whoever_has_got_a_pid_since_it_was_seen_is_not_killed() -> None:
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as stranger:
        looks = iter([[one.pid, stranger.pid], [one.pid]])  # the second one is not among them any more
        kernel.kill(lambda: next(looks))
        assert one.wait(5) == -9
        assert stranger.poll() is None
        stranger.kill()


def test_a_guard_costs_little(slot: Path) -> None:
    """Counted in time on a processor, at best: how long it takes is a matter of who else is there."""
    costs = []
    for _ in range(5):
        launched_ms = _spent_on_children()
        assert launched(slot, an_order("exec sleep 60")) == b"begun"
        launched_ms = _spent_on_children() - launched_ms
        keeper = guard_of(slot)
        costs.append(launched_ms + int(kernel.read(f"/proc/{keeper.pid}/schedstat").split()[0]) / 1_000_000)
        seen = kernel.seen(keeper.pid)
        assert seen is not None
        assert seen.rss_bytes < 16 << 20
        with a_line(slot) as line:
            line.send(b'{"stop": 0}')
            until_gone(keeper)
        for file in (files.WHO, files.RECORD, files.RESULT, files.SOCKET):
            (slot / file).unlink()
    assert min(costs) < 150


def _spent_on_children() -> float:
    """Milliseconds on a processor, of those that were waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (spent.ru_utime + spent.ru_stime) * 1_000


@ROOT_ONLY
@pytest.mark.skipif(shutil.which("python3", path="/usr/bin") is None, reason="no interpreter that everybody can use")
def test_a_guard_needs_an_interpreter_and_no_more_rights_than_its_process(slot: Path, yard: ProcessFolder) -> None:
    program = a_copy(yard.root / "program")
    for folder in (yard.data, slot.parent):
        folder.chmod(0o711)
    for folder in (slot, slot / "logs"):
        os.chown(folder, 59_999, 59_999)
    order = an_order("id -u; exit 4", sample=50, sampled_bytes=1 << 30)
    everybodys = ("/usr/bin/python3", "-I", "-S", str(program))
    assert launched(slot, order, everybodys, user=59_999, group=59_999, extra_groups=[]) == b"begun"
    until_gone(guard_of(slot))
    assert kernel.read(str(slot / "logs" / "guard")) == ""
    assert kernel.read(str(slot / "logs" / "stdout")) == "59999\n"
    result = read_result(slot)
    assert result is not None
    assert result.code == 4


def test_nothing_begins_after_the_deadline_it_was_ordered_with(slot: Path, tmp_path: Path) -> None:
    """The disk that a guard writes its record to may hang for longer than a fence: by then another runs elsewhere."""
    proof = tmp_path / "begun"
    order = an_order(f"echo >{proof}; sleep 60", leased=True, deadline=kernel.boot_ms() - 1, grace=60_000)
    said = launched(slot, order)
    assert said == b"lease 0"
    assert not proof.exists()


def test_a_command_beside_it_begins_by_the_deadline_that_its_guard_holds(slot: Path) -> None:
    """Not by the one that was ordered, which is long past."""
    deadline = kernel.boot_ms() + 5_000
    assert launched(slot, an_order("sleep 60", leased=True, deadline=deadline)) == b"begun"
    with a_line(slot) as line:
        line.recv(65_536)
        line.send(json.dumps({"extend": kernel.boot_ms() + 60_000}).encode())
        time.sleep((deadline + 1 - kernel.boot_ms()) / 1_000)
        line.send(json.dumps({"run": 1, "command": ["true"], "limit": 5_000}).encode())
        assert json.loads(line.recv(65_536))["code"] == 0
        line.send(json.dumps({"stop": 0}).encode())
