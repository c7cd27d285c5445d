"""RULES 23: what runs for a replica, as its probes do, runs under its guard, and ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExecNotRun, ExitReason, StartFault
from holdfast.agent.guard import kernel
from holdfast.agent.prober import NodeProber, ProbeNotRun
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.objects.probes import ExecProbe, Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import (
    BINDING,
    CLOCK,
    FIRST_USER,
    LATE_MS,
    LEASE_MS,
    ROOT_ONLY,
    ProcessFolder,
    a_process_folder,
    a_work,
    found,
    lives,
    until,
    until_true,
)

CHECKOUT = Path(__file__).parents[3]
#: A command that goes on by itself: it forks, leaves its session, and its first process ends.
ESCAPES = "setsid sh -c 'setsid sleep {seconds} & exec sleep {seconds}' & sleep 0.1"
LIMIT_MS = 20_000


@pytest.fixture(params=[False, True], ids=["shared", "namespaces"])
def yard(request: pytest.FixtureRequest) -> Iterator[ProcessFolder]:
    """What runs beside a replica is found and ended with namespaces and without."""
    with a_process_folder(cgroups=False, namespaces=request.param) as made:
        yield made


def nap(seconds: int) -> str:
    """How long something sleeps: a time that no other process that runs tests on this machine has."""
    return f"{seconds}.{os.getpid()}"


def alive(seconds: int) -> list[int]:
    """Those who sleep for so long, seen from outside."""
    asleep = []
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            words = Path(f"/proc/{int(name)}/cmdline").read_bytes().split(b"\0")
            if words[:2] == [b"sleep", nap(seconds).encode()]:
                asleep.append(int(name))
    return asleep


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


@in_a_loop
async def test_nothing_that_a_probe_started_is_left_when_its_replica_has_ended(each_yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with each_yard.driver() as driver:
        await driver.start(work)
        for _ in range(3):
            assert await driver.exec(work, sh(ESCAPES.format(seconds=nap(3_601))), LIMIT_MS) == 0
        lasting = asyncio.create_task(
            driver.exec(work, sh(f"{ESCAPES.format(seconds=nap(3_601))}; sleep {nap(3_601)}"), LIMIT_MS)
        )
        await until_true(lambda: len(alive(3_601)) == 3)
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)
        assert alive(3_601) == [], "it has ended, and with it all that ran for it"
        with suppress(ExecNotRun):  # the guard may have gone before it could tell
            assert await lasting < 0


@in_a_loop
async def test_what_a_probe_leaves_ends_with_the_probe(each_yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with each_yard.driver() as driver:
        await driver.start(work)
        assert await driver.exec(work, sh(ESCAPES.format(seconds=nap(3_602))), LIMIT_MS) == 0
        assert alive(3_602) == []
        assert (live := found(driver)) is not None
        assert live.state is ProcessState.RUNNING


@in_a_loop
async def test_a_probe_that_nobody_waits_for_ends_with_all_it_started(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        await driver.start(work)
        waiting = asyncio.create_task(
            driver.exec(work, sh(f"{ESCAPES.format(seconds=nap(3_603))}; sleep {nap(3_603)}"), LIMIT_MS)
        )
        await until_true(lambda: len(alive(3_603)) == 3)
        waiting.cancel()
        await until_true(lambda: not alive(3_603))
        assert lives(yard.record().process.pid)


@in_a_loop
async def test_a_probe_ends_when_its_time_is_over_whoever_waits_for_it(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        await driver.start(work)
        assert (
            await driver.exec(work, sh(f"trap '' TERM; {ESCAPES.format(seconds=nap(3_604))}; sleep {nap(3_604)}"), 400)
            == -9
        )
        assert alive(3_604) == []


@in_a_loop
async def test_a_probe_whose_guard_is_silent_could_not_be_asked_and_has_not_failed(yard: ProcessFolder) -> None:
    """As while the machine swaps: a liveness probe must not end what nobody could ask."""
    template = Template(command=("sleep", "60"))
    one = BoundSlot(BINDING[0], BINDING[1], Phase.RUNNING, "", "t", "w", "acme", 1, 1)
    async with yard.driver(answer_ms=200) as driver:
        await driver.start(a_work("exec sleep 60"))
        asking, keeper = NodeProber(driver, CLOCK, "127.0.0.1"), yard.record().guard.pid
        assert await asking.probe(one, template, a_probe("exit 3")) == "its command ended with 3"
        assert await asking.probe(one, template, a_probe("sleep 60", 300)) == "no answer within 300 ms"
        os.kill(keeper, signal.SIGSTOP)
        with pytest.raises(ProbeNotRun, match="its guard has not answered for 500 ms"):
            await asking.probe(one, template, a_probe("exit 0", 300))
        os.kill(keeper, signal.SIGCONT)
        assert await asking.probe(one, template, a_probe("exit 0")) == ""


def a_probe(script: str, timeout: int = LIMIT_MS) -> Probe:
    return Probe(exec=ExecProbe(sh(script)), timeout=timeout)


@in_a_loop
async def test_a_command_beside_a_process_ends_with_its_agent(yard: ProcessFolder) -> None:
    script = (
        "import asyncio\n"
        "from tests.agent.guard.test_exec_commands import a_work, sh, ProcessFolder, Path\n"
        "async def main():\n"
        f"    yard = ProcessFolder(Path({str(yard.root)!r}), cgroups=False, namespaces={yard.namespaces})\n"
        "    async with yard.driver() as driver:\n"
        "        await driver.start(a_work('exec sleep 60'))\n"
        f"        await driver.exec(a_work(''), sh('setsid sleep {nap(3_605)} & sleep {nap(3_605)}'), 60_000)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT) as agent:
        await until_true(lambda: len(alive(3_605)) == 2)
        agent.kill()
    await until_true(lambda: not alive(3_605))
    assert lives(yard.record().process.pid)


@in_a_loop
async def test_a_probe_ends_at_the_deadline_of_its_replica_though_its_agent_sleeps(each_yard: ProcessFolder) -> None:
    deadline = CLOCK.boot() + LEASE_MS
    work = a_work("trap '' TERM; while :; do sleep 0.05; done", leased=True, deadline=deadline, grace_ms=200)
    async with each_yard.driver(kill_margin_ms=60_000) as driver:
        await driver.start(work)
        probe = asyncio.create_task(
            driver.exec(work, sh(f"{ESCAPES.format(seconds=nap(3_606))}; sleep {nap(3_606)}"), LIMIT_MS)
        )
        await until_true(lambda: len(alive(3_606)) == 3)
        await until_true(lambda: not alive(3_606))
        assert deadline <= CLOCK.boot() < deadline + 200 + LATE_MS
        await asyncio.wait({probe})


@in_a_loop
async def test_a_probe_does_not_outlive_a_guard_that_is_killed(each_yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with each_yard.driver() as driver:
        await driver.start(work)
        probe = asyncio.create_task(driver.exec(work, sh(f"sleep {nap(3_607)} & sleep {nap(3_607)}"), LIMIT_MS))
        await until_true(lambda: len(alive(3_607)) == 2)
        os.kill(each_yard.record().guard.pid, signal.SIGKILL)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert alive(3_607) == []
        with pytest.raises(ExecNotRun, match="its guard has gone"):
            await probe


@in_a_loop
async def test_a_process_that_ends_by_itself_does_not_wait_for_its_probes(yard: ProcessFolder) -> None:
    work = a_work("sleep 0.5; exit 7")
    async with yard.driver() as driver:
        await driver.start(work)
        probe = asyncio.create_task(driver.exec(work, sh(f"trap '' TERM; sleep {nap(3_608)}"), LIMIT_MS))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.why) == (7, ExitReason.EXIT)
        assert alive(3_608) == []
        await asyncio.wait({probe})


@in_a_loop
async def test_a_probe_runs_in_the_cgroup_of_its_replica(cgroup_yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with cgroup_yard.driver() as driver:
        await driver.start(work)
        probe = asyncio.create_task(driver.exec(work, ("sleep", nap(3_609)), LIMIT_MS))
        await until_true(lambda: alive(3_609))
        inside = kernel.members(list(cgroup_yard.record().groups))
        assert inside == sorted([cgroup_yard.record().process.pid, *alive(3_609)])
        probe.cancel()
        await asyncio.wait({probe})


@in_a_loop
async def test_a_probe_has_the_variables_the_folder_and_the_signals_of_its_replica(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60", environment=(("COLOUR", "green"),))
    async with yard.driver() as driver:
        await driver.start(work)
        script = 'test "$COLOUR" = green && test "$HOLDFAST_FENCING_TOKEN" = 11 && test "$PWD" = "$HOME"'
        assert await driver.exec(work, sh(script), LIMIT_MS) == 0
        assert await driver.exec(work, sh("test $(ls /proc/self/fd | wc -l) -le 5; kill -TERM $$"), LIMIT_MS) == -15


@in_a_loop
async def test_neither_a_process_nor_its_probe_ignores_a_signal_whatever_the_agent_was_started_with(
    yard: ProcessFolder,
) -> None:
    work = a_work("grep SigIgn /proc/self/status > process; exec sleep 60")
    ours = (signal.SIGUSR1, signal.SIGTTOU, signal.SIGQUIT, signal.SIGRTMIN + 1)
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in ours]
    try:
        async with yard.driver() as driver:
            await driver.start(work)
            assert await driver.exec(work, sh("grep SigIgn /proc/self/status > probe"), LIMIT_MS) == 0
            seen = [yard.working() / name for name in ("process", "probe")]
            await until_true(lambda: all(file.exists() and file.read_text().endswith("\n") for file in seen))
            for file in seen:
                ignored = int(file.read_text().split()[1], 16)
                assert [number for number in signal.valid_signals() if ignored >> (number - 1) & 1] == []
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@in_a_loop
async def test_a_command_beside_a_process_gains_no_rights(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        await driver.start(work)
        assert await driver.exec(work, ("grep", "-q", "NoNewPrivs:.1", "/proc/self/status"), LIMIT_MS) == 0


@ROOT_ONLY
@in_a_loop
async def test_a_probe_runs_as_the_user_of_its_replica(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        await driver.start(work)
        assert await driver.exec(work, sh(f'test "$(id -u)" = {FIRST_USER}'), LIMIT_MS) == 0


@in_a_loop
async def test_a_probe_that_cannot_be_run_says_why(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match="does not run"):
            await driver.exec(work, ("true",), LIMIT_MS)
        await driver.start(work)
        with pytest.raises(CannotStart, match="no-such-thing: No such file") as failed:
            await driver.exec(work, ("no-such-thing",), LIMIT_MS)
        assert failed.value.code is StartFault.MISSING_BINARY
        assert kernel.read(str(yard.slot() / "logs" / "guard")) == ""


@in_a_loop
async def test_nothing_begins_for_a_process_that_ends(yard: ProcessFolder) -> None:
    work = a_work("trap '' TERM; echo deaf; while :; do sleep 0.05; done")
    async with yard.driver() as driver:
        await driver.start(work)
        await until_true(lambda: "deaf" in yard.log())
        await driver.stop(*BINDING, 60_000)
        with pytest.raises(CannotStart, match="its process is ending"):
            await driver.exec(work, ("true",), LIMIT_MS)
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)


@in_a_loop
async def test_too_many_probes_at_a_time_are_refused_and_the_others_answered(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60")
    async with yard.driver() as driver:
        await driver.start(work)
        many = [driver.exec(work, sh("sleep 0.5; exit 3"), LIMIT_MS) for _ in range(20)]
        answers = await asyncio.gather(*many, return_exceptions=True)
        assert [one for one in answers if one == 3] == [3] * 16
        assert {str(one) for one in answers if one != 3} == {"driver: too many commands run beside it already"}
        assert await driver.exec(work, ("true",), LIMIT_MS) == 0


@in_a_loop
async def test_a_probe_that_takes_its_replica_over_a_limit_ends_alone(yard: ProcessFolder) -> None:
    work = a_work("exec sleep 60", pids=3, need=Resources(memory=256))
    async with yard.driver() as driver:
        await driver.start(work)
        many = sh(f"for n in 1 2 3 4 5; do sleep {nap(3_610)} & done; wait")
        assert await driver.exec(work, many, LIMIT_MS) == -9
        assert alive(3_610) == []
        assert (live := found(driver)) is not None
        assert live.state is ProcessState.RUNNING
