"""Servers and agents whose standard error is a pipe that nobody reads: they work, they stop, and they have said so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from holdfast.wiring.dev.data_folder import address, read_ready_file, token_file
from tests.support.pipes import Reader, full_pipe
from tests.support.processes.real_cluster import PLACE, RealCluster

pytestmark = pytest.mark.timeout(300)


def test_leaders_and_agents_that_nobody_listens_to_work_and_what_they_had_to_say_is_said_later(tmp_path: Path) -> None:
    field = RealCluster(tmp_path)
    names = ("platform", PLACE, "n1")
    pipes = {name: full_pipe() for name in names}
    ends = {}
    try:
        for name, pipe in pipes.items():
            ends[name], field.ears[name] = pipe.__enter__()
        field.open()
        data, server = tmp_path / "n1", address(PLACE, field.port)
        words = (f"--server={server}", "--node=n1", f"--data={data}", f"--token-file={token_file(tmp_path)}")
        agent = field.start("n1", "holdfast.cli.main", "agent", *words)
        field.until(lambda: read_ready_file(data) is not None, "n1 is not registered")
        readers = {name: Reader(end) for name, end in ends.items()}
        readers["platform"].until("ready")
        readers[PLACE].until("ready")
        readers["n1"].until("registered")
        for process in (agent, *field.processes[1::-1]):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        readers["platform"].until("stopping")
        readers[PLACE].until("stopping")
    finally:
        field.end()
        for pipe in pipes.values():
            pipe.__exit__(None, None, None)


def test_a_server_that_nobody_ever_listens_to_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    field = RealCluster(tmp_path)
    with full_pipe() as (_, field.ears["platform"]):
        try:
            server = field.server("platform", "--role", "platform")
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        finally:
            field.end()
