"""RULES 4: the fence does not depend on the agent. Whoever is killed or stopped, leased work ends in time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason
from holdfast.agent.drivers.process.leftovers import kill_leftovers
from holdfast.agent.guard import kernel
from holdfast.core.agent.processes import ProcessState
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import (
    BINDING,
    CLOCK,
    LATE_MS,
    LEASE_MS,
    WITHOUT_ITS_FIRST_THREAD,
    ProcessFolder,
    a_process_folder,
    a_work,
    found,
    lives,
    until,
    until_true,
)

CHECKOUT = Path(__file__).parents[3]
STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
QUIET = STUBBORN.replace("echo deaf; ", "")


def _processor_ms(pid: int) -> int:
    """How long a process has run on a core."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 // os.sysconf("SC_CLK_TCK")


@in_a_loop
async def test_leased_work_ends_at_its_deadline(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work("exec sleep 60", leased=True, deadline=deadline))
        ended = await until(driver, ProcessState.ENDED)
        assert deadline <= CLOCK.boot() < deadline + LATE_MS
        assert (ended.signal, ended.why) == (signal.SIGTERM, ExitReason.DEADLINE)


@in_a_loop
async def test_a_stubborn_one_is_dead_by_deadline_grace_and_margin(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work(f"({STUBBORN}) & {STUBBORN}", leased=True, deadline=deadline, grace_ms=300))
        record = each_yard.record()
        await until_true(lambda: not lives(record.process.pid))
        assert deadline + 300 <= CLOCK.boot() < deadline + 300 + LATE_MS
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.signal, ended.why) == (9, ExitReason.DEADLINE)


@in_a_loop
async def test_a_guard_waits_out_the_grace_without_looking_all_the_time(yard: ProcessFolder) -> None:
    async with yard.driver(grace_ms=2_000) as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=2_000))
        await until(driver, ProcessState.STOPPING)
        keeper = yard.record().guard.pid
        before = _processor_ms(keeper)
        await until_true(lambda: CLOCK.boot() >= deadline + 1_700)
        # However busy the machine is: who looks all the time uses all it gets of those 1.4 s.
        assert _processor_ms(keeper) - before < 200
        await until(driver, ProcessState.ENDED)


@in_a_loop
async def test_a_lease_allows_no_longer_grace_than_the_fence_counts_with(yard: ProcessFolder) -> None:
    async with yard.driver(grace_ms=200) as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=60_000))
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.DEADLINE
        assert CLOCK.boot() < deadline + 200 + LATE_MS


@in_a_loop
async def test_a_long_stop_ends_with_the_lease(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=200))
        await until_true(lambda: "deaf" in yard.log())
        await driver.stop(*BINDING, 60_000)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.KILLED
        assert deadline + 200 <= CLOCK.boot() < deadline + 200 + LATE_MS


@in_a_loop
async def test_work_that_is_extended_lives_on_and_no_deadline_is_lowered(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        first = CLOCK.boot() + LEASE_MS
        await driver.start(a_work("exec sleep 60", leased=True, deadline=first))
        driver.extend(first + 2_000)
        driver.extend(first - 300)
        while (now := CLOCK.boot()) < first + 300:
            assert (live := found(driver)) is not None
            assert (live.state, live.deadline) == (ProcessState.RUNNING, first + 2_000), now
            await asyncio.sleep(0.05)
        await until(driver, ProcessState.ENDED)
        assert first + 2_000 <= CLOCK.boot() < first + 2_000 + LATE_MS


@in_a_loop
async def test_work_that_is_not_leased_is_not_extended_and_does_not_end(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("exec sleep 60", deadline=CLOCK.boot() + 100))
        driver.extend(CLOCK.boot() + 100)
        await asyncio.sleep(0.4)
        assert (live := found(driver)) is not None
        assert (live.state, live.deadline) == (ProcessState.RUNNING, 0)


@in_a_loop
async def test_a_guard_that_has_begun_does_not_stop_however_it_is_extended(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work(STUBBORN, leased=True, deadline=deadline, grace_ms=300))
        await until(driver, ProcessState.STOPPING)
        driver.extend(CLOCK.boot() + 60_000)
        ended = await until(driver, ProcessState.ENDED)
        assert CLOCK.boot() < deadline + 300 + LATE_MS
        assert (ended.why, ended.deadline) == (ExitReason.DEADLINE, deadline)


@in_a_loop
async def test_a_guard_that_slept_past_its_deadline_takes_no_extension_that_waited_for_it(yard: ProcessFolder) -> None:
    async with yard.driver(kill_margin_ms=60_000) as driver:
        deadline = CLOCK.boot() + LEASE_MS
        await driver.start(a_work("exec sleep 60", leased=True, deadline=deadline))
        keeper = yard.record().guard.pid
        os.kill(keeper, signal.SIGSTOP)
        driver.extend(deadline + 60_000)
        await until_true(lambda: CLOCK.boot() > deadline)
        os.kill(keeper, signal.SIGCONT)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.DEADLINE


@in_a_loop
async def test_work_whose_lease_has_run_out_is_not_started(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match="its lease has run out"):
            await driver.start(a_work("true", leased=True, deadline=CLOCK.boot()))


@contextmanager
def a_holder(yard: ProcessFolder, lease_ms: int, grace_ms: int, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent in a process of its own, whose work runs."""
    words = [str(yard.data), str(yard.cgroups), str(yard.namespaces), str(lease_ms), str(grace_ms), script]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.agent_process", *words], cwd=CHECKOUT, stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"started\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_leased_work_ends_in_time_when_its_agent_is_killed_or_stopped(
    each_yard: ProcessFolder, how: signal.Signals
) -> None:
    with a_holder(each_yard, LEASE_MS, 200, f"setsid sleep 65 & echo $!; {QUIET}") as holder:
        process = each_yard.record().process
        time.sleep(LEASE_MS / 1_000 + 0.2)
        assert process.is_alive(), "it was renewed all the time"
        (escaped,) = each_yard.pids()
        holder.send_signal(how)
        gone = kernel.boot_ms()
        while process.is_alive():
            assert kernel.boot_ms() < gone + LEASE_MS + 200 + LATE_MS
            time.sleep(0.01)
        assert kernel.boot_ms() >= gone + LEASE_MS // 2, "it lived on for what was left of its lease"
        keeper = each_yard.record().guard
        while keeper.is_alive():
            assert kernel.boot_ms() < gone + LEASE_MS + 200 + LATE_MS
            time.sleep(0.01)
        assert not lives(escaped)


@in_a_loop
async def test_cgroups_of_an_agent_that_was_killed_are_removed_when_another_one_starts(
    cgroup_yard: ProcessFolder,
) -> None:
    """One of another folder; but not before all that ran in them has ended."""
    with a_holder(cgroup_yard, 60_000, 300, "exec sleep 60") as holder, a_process_folder(cgroups=True) as other:
        record = cgroup_yard.record()
        bases = {Path(group).parent for group in record.groups}
        for is_alive in (True, False):
            if not is_alive:
                holder.kill()
                holder.wait()
            async with other.driver() as driver:
                await driver.sweep()
            assert record.process.is_alive()
            assert all(Path(group).exists() for group in record.groups)
        await kill_leftovers(record, CLOCK)
        async with other.driver() as driver:
            await driver.sweep()
        assert [base for base in sorted(bases) if base.exists()] == []


@in_a_loop
async def test_work_of_an_agent_that_was_killed_is_found_again_and_its_exit_code_known(
    each_yard: ProcessFolder,
) -> None:
    with a_holder(each_yard, 60_000, 300, "sleep 0.7; exit 9") as holder:
        holder.kill()
        holder.wait()
        async with each_yard.driver() as driver:
            live = found(driver)
            assert live is not None
            assert (live.state, live.pid, live.leased) == (ProcessState.RUNNING, each_yard.record().process.pid, True)
            driver.extend(CLOCK.boot() + 5_000)
            ended = await until(driver, ProcessState.ENDED)
            assert (ended.code, ended.why) == (9, ExitReason.EXIT)


@in_a_loop
async def test_a_guard_outlives_what_ends_an_agents_group(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("sleep 0.6; exit 8"))
        keeper = yard.record().guard.pid
        assert os.getsid(keeper) not in (os.getsid(0), os.getsid(yard.record().process.pid))
        for stray in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(keeper, stray)
        assert (await until(driver, ProcessState.ENDED)).code == 8


@in_a_loop
async def test_a_guard_that_is_killed_takes_everything_with_it(each_yard: ProcessFolder) -> None:
    script = "sleep 66 & echo $!; (trap '' TERM; sleep 67) & echo $!; " + (
        "setsid sleep 68 & echo $!; " if each_yard.cgroups or each_yard.namespaces else "echo $!; "
    )
    async with each_yard.driver() as driver:
        await driver.start(a_work(script + "wait"))
        await until_true(lambda: len(each_yard.log().split()) == 3)
        record, pids = each_yard.record(), each_yard.pids()
        assert all(lives(pid) for pid in pids)
        os.kill(record.guard.pid, signal.SIGKILL)
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.why) == (None, ExitReason.GUARD_GONE)
        assert not any(lives(pid) for pid in [record.process.pid, *pids])


@in_a_loop
async def test_what_goes_on_without_its_first_thread_ends_with_its_guard(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work("", command=("python3", "-I", "-c", WITHOUT_ITS_FIRST_THREAD, "1")))
        await until_true(each_yard.log)
        record = each_yard.record()
        assert record.process.is_alive()
        os.kill(record.guard.pid, signal.SIGKILL)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert not lives(record.process.pid)


@in_a_loop
async def test_a_guard_that_hangs_is_killed_by_the_agent_and_so_is_what_it_guards(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        deadline = CLOCK.boot() + LEASE_MS
        script = "setsid sleep 69 & echo $!; exec sleep 60"
        await driver.start(a_work(script, leased=True, deadline=deadline, grace_ms=100))
        await until_true(each_yard.log)
        record, (escaped,) = each_yard.record(), each_yard.pids()
        os.kill(record.guard.pid, signal.SIGSTOP)
        ended = await until(driver, ProcessState.ENDED)
        assert CLOCK.boot() < deadline + 100 + LATE_MS
        assert ended.why is ExitReason.GUARD_GONE
        assert not any(lives(pid) for pid in (record.process.pid, escaped))


@in_a_loop
async def test_a_guard_that_hangs_when_it_is_asked_to_stop_is_killed(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("exec sleep 60"))
        record = yard.record()
        os.kill(record.guard.pid, signal.SIGSTOP)
        await driver.stop(*BINDING, 100)
        await until(driver, ProcessState.ENDED)
        assert not record.process.is_alive()
