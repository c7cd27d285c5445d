"""What a machine says of its load and of what lies ready on it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.agent.drivers.driver import CannotStart, StartFault
from holdfast.agent.drivers.process.preflight import check_ports_free
from holdfast.agent.node_load import MachineLoad, NodeLoad
from holdfast.core.ledger.codec import encode
from holdfast.core.model.objects.topology import PRESENT_MAX
from holdfast.core.region.commands import ReportNode
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import CLOCK
from tests.support.processes.real_cluster import free_ports


def a_machine(proc: Path, busy: int, idle: int, available: int) -> None:
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\n")
    (proc / "meminfo").write_text(f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n")


@pytest.mark.parametrize(
    ("busy", "idle", "available", "cpu", "memory"),
    [(0, 100, 1_000, 0, 0), (44, 56, 951, 40, 0), (45, 55, 950, 50, 10), (100, 0, 0, 100, 100), (0, 0, 500, 0, 50)],
)
@in_a_loop
async def test_load_is_told_in_steps_of_what_happened_since_the_last_look(
    tmp_path: Path, busy: int, idle: int, available: int, cpu: int, memory: int
) -> None:
    a_machine(tmp_path, 1_000, 5_000, 1_000)
    machine = MachineLoad(CLOCK, proc=tmp_path)
    a_machine(tmp_path, 1_000 + busy, 5_000 + idle, available)
    assert await machine.look() == NodeLoad(cpu, memory)


@in_a_loop
async def test_what_lies_ready_are_the_names_in_a_folder_in_order_and_not_too_many(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    machine = MachineLoad(CLOCK, folder)
    assert (await machine.look()).present == (), "there is no such folder yet"
    folder.mkdir()
    for number in range(PRESENT_MAX + 20):
        (folder / f"model-{number:04}").touch()
    (folder / ("x" * 240)).touch()
    found = (await machine.look()).present
    assert found == tuple(f"model-{number:04}" for number in range(PRESENT_MAX))


@in_a_loop
async def test_a_file_whose_name_is_no_text_is_not_told_of(tmp_path: Path) -> None:
    (tmp_path / "model-1").touch()
    (tmp_path / os.fsdecode(b"model-\xff")).touch()
    found = (await MachineLoad(CLOCK, tmp_path).look()).present
    assert encode(ReportNode("n1", 0, 0, found)), "it can be said"
    assert found == ("model-1",)


@in_a_loop
async def test_this_machine_can_be_looked_at() -> None:
    fares = await MachineLoad(CLOCK).look()
    assert 0 <= fares.cpu <= 100
    assert 0 <= fares.memory <= 100


def test_a_port_that_somebody_has_is_named() -> None:
    port = free_ports(2)
    check_ports_free((port, port + 1))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        with pytest.raises(CannotStart, match=f"port {port + 1} is in use") as failed:
            check_ports_free((port, port + 1))
    assert failed.value.code is StartFault.PORT
