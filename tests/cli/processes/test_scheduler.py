"""`holdfast scheduler`: what is said on the command line is what the process is told."""

from __future__ import annotations

import pytest

from holdfast.wiring import scheduler
from holdfast.wiring.machine import MachineOptions
from tests.support.api.command_line import CommandLine

LEAST = ("scheduler", "--server", "http://127.0.0.1:7401/", "--name", "far", "--token-file", "t")


def test_every_flag_arrives(holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[MachineOptions] = []

    def run(options: MachineOptions) -> int:
        told.append(options)
        return 0

    monkeypatch.setattr(scheduler, "run", run)
    assert holdfast(*LEAST).exit_code == 0
    more = ("--listen", "127.0.0.1:7480", "--log-level", "debug", "--log-form", "json", "--insecure")
    assert holdfast(*LEAST, *more).exit_code == 0
    assert told == [
        MachineOptions("scheduler", ("http://127.0.0.1:7401",), "far", "t"),
        MachineOptions(
            "scheduler",
            ("http://127.0.0.1:7401",), "far", "t",
            insecure=True, log_level="debug", log_form="json", listen="127.0.0.1:7480",
        ),
    ]  # fmt: skip


def test_an_address_that_everybody_reaches_is_refused_with_the_way_out(holdfast: CommandLine) -> None:
    done = holdfast(*LEAST, "--listen", "0.0.0.0:7480")
    assert done.exit_code == 1
    assert "listen 0.0.0.0:7480 is reachable from other machines" in done.stderr
