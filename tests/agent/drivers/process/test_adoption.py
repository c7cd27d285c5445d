"""What the next agent finds: it takes over what lives, ends what nobody guards, and touches nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason, StartFault
from holdfast.agent.drivers.process import driver as process_driver
from holdfast.agent.drivers.process.guard_files import GuardRecord, ProcessId, read_record
from holdfast.agent.drivers.process.launch import launch
from holdfast.agent.drivers.process.leftovers import in_session, kill_leftovers, kill_once
from holdfast.agent.guard import files, kernel
from holdfast.core.agent.processes import ProcessState
from tests.support.event_loop import in_a_loop
from tests.support.processes.no_descriptors import no_descriptors
from tests.support.processes.process_world import (
    BINDING,
    CLOCK,
    LATE_MS,
    LEASE_MS,
    ProcessFolder,
    a_work,
    found,
    lives,
    until,
    until_true,
)


async def left_by_another(yard: ProcessFolder, script: str, **fields: Any) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work(script, **fields))


def rewritten(yard: ProcessFolder, **fields: object) -> None:
    """Change what the record says."""
    path = yard.slot() / files.RECORD
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@in_a_loop
async def test_what_runs_stays_when_its_agent_goes_and_is_taken_over_by_the_next(each_yard: ProcessFolder) -> None:
    await left_by_another(each_yard, "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
    record = each_yard.record()
    assert record.process.is_alive()
    await until_true(lambda: each_yard.log())
    async with each_yard.driver() as driver:
        live = found(driver)
        assert live is not None
        assert (live.state, live.pid, live.since, live.name) == (
            ProcessState.RUNNING, record.process.pid, record.since, "web/eu/0",
        )  # fmt: skip
        await driver.stop(*BINDING, 5_000)
        assert (await until(driver, ProcessState.ENDED)).code == 3
        await driver.forget(*BINDING)
    async with each_yard.driver() as driver:
        assert driver.runs() == []


@in_a_loop
async def test_what_ended_between_two_agents_is_told_by_its_result(each_yard: ProcessFolder) -> None:
    await left_by_another(each_yard, "sleep 0.1; exit 12")
    await until_true(lambda: not each_yard.record().guard.is_alive())
    async with each_yard.driver() as driver:
        assert [(live.state, live.code, live.why) for live in driver.runs()] == [
            (ProcessState.ENDED, 12, ExitReason.EXIT)
        ]


@in_a_loop
async def test_leased_work_past_its_deadline_is_left_to_its_guard(yard: ProcessFolder) -> None:
    deadline = CLOCK.boot() + LEASE_MS
    script = "trap '' TERM; while :; do sleep 0.05; done"
    await left_by_another(yard, script, leased=True, deadline=deadline, grace_ms=3_000)
    await until_true(lambda: CLOCK.boot() > deadline)
    async with yard.driver() as driver:
        driver.extend(CLOCK.boot() + 60_000)
        live = found(driver)
        assert live is not None
        assert (live.state, live.why, live.deadline) == (ProcessState.STOPPING, ExitReason.DEADLINE, deadline)
        assert (await until(driver, ProcessState.ENDED)).signal == 9


@in_a_loop
async def test_what_a_guard_left_when_it_was_killed_is_ended_by_the_next_agent(each_yard: ProcessFolder) -> None:
    await left_by_another(each_yard, "sleep 69 & echo $!; wait")
    await until_true(lambda: each_yard.log())
    record, (child,) = each_yard.record(), each_yard.pids()
    os.kill(record.guard.pid, signal.SIGKILL)
    await until_true(lambda: not record.process.is_alive())
    assert each_yard.namespaces or lives(child), "the kernel ends it only where it has namespaces"
    async with each_yard.driver() as driver:
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert not lives(child)


@in_a_loop
async def test_a_guard_that_is_silent_for_a_while_keeps_its_replica(each_yard: ProcessFolder) -> None:
    """As while its machine swaps. Where no lease is to end, nobody has to end anything."""
    await left_by_another(each_yard, "trap 'exit 3' TERM; while :; do sleep 0.05; done")
    record = each_yard.record()
    os.kill(record.guard.pid, signal.SIGSTOP)
    async with each_yard.driver(answer_ms=50) as driver:
        await asyncio.sleep(0.5)
        live = found(driver)
        assert live is not None
        assert (live.state, live.why) == (ProcessState.RUNNING, ExitReason.NOT_YET)
        assert record.process.is_alive()
        os.kill(record.guard.pid, signal.SIGCONT)
        await until_true(lambda: (live := found(driver)) is not None and live.pid == record.process.pid)
        await driver.stop(*BINDING, 5_000)
        assert (await until(driver, ProcessState.ENDED)).code == 3


@in_a_loop
async def test_a_guard_that_stays_silent_when_it_is_asked_to_stop_is_killed(yard: ProcessFolder) -> None:
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    os.kill(record.guard.pid, signal.SIGSTOP)
    async with yard.driver(answer_ms=50) as driver:
        await driver.stop(*BINDING, 100)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert not record.process.is_alive()
        assert not record.guard.is_alive()


@in_a_loop
async def test_a_silent_guard_keeps_exclusive_work_until_the_deadline_that_it_heard_last_and_no_longer(
    yard: ProcessFolder,
) -> None:
    first = CLOCK.boot() + LEASE_MS
    async with yard.driver() as driver:
        await driver.start(a_work("exec sleep 60", leased=True, deadline=first, grace_ms=100))
        record = yard.record()
        driver.extend(first + 1_000)
        await until_true(lambda: kernel.published_deadline(record.guard.pid) == first + 1_000)
    os.kill(record.guard.pid, signal.SIGSTOP)
    async with yard.driver(answer_ms=50) as driver:
        while True:
            driver.extend(CLOCK.boot() + 60_000)  # it is sent, and nobody hears it
            is_alive = record.process.is_alive()
            if CLOCK.boot() >= first + 900:
                break
            assert is_alive, "it was ended before its deadline"
            await asyncio.sleep(0.05)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert first + 1_000 + 100 <= CLOCK.boot() < first + 1_000 + 100 + LATE_MS
        assert not record.process.is_alive()


@in_a_loop
async def test_a_silent_guard_that_many_agents_have_called_in_vain_is_called_again(yard: ProcessFolder) -> None:
    """Whoever calls it while nobody takes calls waits in a queue, which has an end."""
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    os.kill(record.guard.pid, signal.SIGSTOP)
    with ExitStack() as calls:
        while True:
            line = calls.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
            try:
                line.connect(str(yard.slot() / files.SOCKET))
            except BlockingIOError:
                break
        async with yard.driver(answer_ms=50) as driver:
            live = found(driver)
            assert live is not None
            assert live.state is ProcessState.RUNNING
            os.kill(record.guard.pid, signal.SIGCONT)
            await until_true(lambda: (live := found(driver)) is not None and live.pid == record.process.pid)
            await driver.stop(*BINDING, 0)
            await until(driver, ProcessState.ENDED)


@in_a_loop
async def test_a_process_that_has_a_pid_by_chance_is_not_touched(yard: ProcessFolder) -> None:
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    await kill_leftovers(record, CLOCK)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        seen = kernel.seen(stranger.pid)
        assert seen is not None
        for start in (seen.start - 1, seen.start + 1):
            rewritten(yard, guard=[stranger.pid, start], process=[stranger.pid, start])
            async with yard.driver() as driver:
                assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
            assert stranger.poll() is None
        assert in_session(ProcessId(stranger.pid, seen.start)) == [ProcessId(stranger.pid, seen.start)]
        stranger.kill()


@in_a_loop
async def test_a_record_of_another_boot_has_ended_and_touches_nobody(yard: ProcessFolder) -> None:
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    rewritten(yard, boot="another-boot")
    async with yard.driver() as driver:
        assert [(live.state, live.why) for live in driver.runs()] == [(ProcessState.ENDED, ExitReason.REBOOTED)]
        assert record.process.is_alive()
    rewritten(yard, boot=record.boot)


@pytest.mark.parametrize("raw", [b"{", b'{"name": "\xff"}', b""])
@in_a_loop
async def test_a_record_that_cannot_be_read_is_reported_and_disturbs_nobody_else(
    yard: ProcessFolder, caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    await left_by_another(yard, "exec sleep 60")
    broken = yard.data / "slots" / "8-0-12"
    broken.mkdir()
    (broken / files.RECORD).write_bytes(raw)
    with caplog.at_level(logging.WARNING):
        async with yard.driver() as driver:
            assert (await until(driver, ProcessState.ENDED, ((8, 0), 12))).why is ExitReason.GUARD_GONE
            assert (await until(driver, ProcessState.RUNNING)).why is ExitReason.NOT_YET
            await driver.forget((8, 0), 12)
    assert "record-unreadable" in caplog.text
    assert "8-0-12" in caplog.text
    assert not broken.exists()


@pytest.mark.parametrize("guards", ["well", "hung", "killed"])
@in_a_loop
async def test_what_runs_under_a_record_that_cannot_be_read_has_ended_before_anybody_may_call_it_gone(
    each_yard: ProcessFolder, guards: str
) -> None:
    await left_by_another(each_yard, "trap '' TERM; sleep 60 & echo begun; wait; sleep 60")
    record = each_yard.record()
    await until_true(lambda: "begun" in each_yard.log())
    (each_yard.slot() / files.RECORD).write_text("{")
    if guards != "well":
        os.kill(record.guard.pid, {"hung": signal.SIGSTOP, "killed": signal.SIGKILL}[guards])
    async with each_yard.driver(answer_ms=500) as driver:
        seen = found(driver)
        assert seen is not None
        assert seen.state in (ProcessState.STOPPING, ProcessState.ENDED)
        await until(driver, ProcessState.ENDED)
        assert not record.process.is_alive()
        assert [one for one in in_session(record.process) if one.is_alive()] == []
        assert not kernel.members(list(record.groups))
        await until_true(lambda: not record.guard.is_alive())
        await driver.forget(*BINDING)
        kept = (each_yard.data / "logs").rglob("stdout")
        assert ["begun" in file.read_text() for file in kept] == [True]
        await driver.start(a_work("exit 0"))
        await until(driver, ProcessState.ENDED)


@pytest.mark.parametrize("link", [None, b"{", b'{"boot": "\xff"}'])
@in_a_loop
async def test_where_nobody_can_say_who_it_is_its_guard_is_asked(yard: ProcessFolder, link: bytes | None) -> None:
    """The record and the link beside it are gone bad, as no single fault makes them."""
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    (yard.slot() / files.RECORD).write_text("{")
    (yard.slot() / files.WHO).unlink()
    if link is not None:
        os.symlink(link, os.fsencode(yard.slot() / files.WHO))
    async with yard.driver() as driver:
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.KILLED
        assert not record.process.is_alive()
        await driver.forget(*BINDING)


@in_a_loop
async def test_a_guard_that_dies_before_it_has_begun_leaves_nobody(yard: ProcessFolder) -> None:
    """Its record cannot be written, as on a full disk; its child must not wait for it for ever."""
    (yard.data / "slots").mkdir(parents=True)
    async with yard.driver() as driver:
        make = driver._folders.make

        def make_full(name: str) -> Path:
            folder = make(name)
            (folder / f"{files.RECORD}.new").mkdir()
            return folder

        driver._folders.make = make_full  # type: ignore[method-assign]
        with pytest.raises(CannotStart):
            await driver.start(a_work("touch ../../begun"))
        await until_true(lambda: not _in_folder(yard.data))
        assert not (yard.data / "begun").exists()


def _in_folder(folder: Path) -> list[str]:
    """The processes that work anywhere in it, or where it was."""
    links = [f"/proc/{name}/cwd" for name in os.listdir("/proc") if name.isdecimal()]
    found = []
    for link in links:
        with suppress(OSError):
            found.append(os.readlink(link))
    return [path for path in found if path.startswith(str(folder.resolve()))]


@in_a_loop
async def test_what_runs_in_a_cgroup_of_ours_without_any_record_is_ended_before_the_agent_speaks(
    cgroup_yard: ProcessFolder,
) -> None:
    """Somebody has emptied the folder of a node: the agent would say that nothing is there."""
    await left_by_another(cgroup_yard, "sleep 60 & setsid sleep 60 & wait")
    record = cgroup_yard.record()
    groups = list(record.groups)
    await until_true(lambda: len(kernel.members(groups)) == 3)
    shutil.rmtree(cgroup_yard.data)
    async with cgroup_yard.driver() as driver:
        assert driver.runs() == []
        assert not record.process.is_alive()
        assert [group for group in groups if Path(group).exists()] == []
    await until_true(lambda: not record.guard.is_alive())


@in_a_loop
async def test_a_folder_in_which_nothing_was_begun_is_removed(each_yard: ProcessFolder) -> None:
    (each_yard.data / "slots").mkdir(parents=True)
    (each_yard.slot() / "logs").mkdir(parents=True)
    (each_yard.slot() / "logs" / "guard").touch()
    (each_yard.slot() / files.SOCKET).touch()
    (each_yard.slot() / f"{files.RECORD}.new").touch()
    async with each_yard.driver() as driver:
        assert driver.runs() == []
        assert not each_yard.slot().exists()
        await driver.start(a_work("exit 0"))
        await until(driver, ProcessState.ENDED)


@in_a_loop
async def test_a_guard_whose_folder_was_removed_begins_nothing(yard: ProcessFolder) -> None:
    """The agent was killed after it had given the order; the next one removed the folder before the guard began."""
    async with yard.driver() as driver:
        starting = asyncio.create_task(driver.start(a_work("touch ../../begun")))
        await until_true(lambda: (yard.slot() / "logs" / "guard").exists())
        (yard.slot() / "logs" / "guard").unlink()
        (yard.slot() / "logs").rmdir()
        yard.slot().rmdir()
        failed = (await asyncio.gather(starting, return_exceptions=True))[0]
        assert "driver" in str(failed)
        assert not (yard.data / "begun").exists()
        assert driver.runs() == []


@in_a_loop
async def test_what_begins_while_its_start_is_given_up_is_ended_and_not_lost_sight_of(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that hung lets go: the guard writes its record just when the agent has looked for it in vain."""
    begun: list[GuardRecord] = []
    looks = iter([None])

    def too_late(order: dict[str, Any], folder: Path, limit_ms: int) -> None:
        launch(order, folder, limit_ms)
        begun.append(yard.record())
        raise CannotStart(StartFault.DRIVER, "its guard did not begin in time")

    monkeypatch.setattr(process_driver, "launch", too_late)
    monkeypatch.setattr(process_driver, "read_record", lambda folder: next(looks, read_record(folder)))
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match="did not begin in time"):
            await driver.start(a_work("exec sleep 60"))
        assert not begun[0].process.is_alive()
        assert not begun[0].guard.is_alive()
        assert driver.runs() == []
        assert not yard.slot().exists()


@in_a_loop
async def test_an_agent_that_can_open_nothing_takes_nobody_for_dead(yard: ProcessFolder) -> None:
    await left_by_another(yard, "exec sleep 60")
    record = yard.record()
    with no_descriptors():
        for look in (record.process.is_alive, lambda: kill_once(record), lambda: read_record(yard.slot())):
            with pytest.raises(OSError, match="Too many open files"):
                look()
    assert record.process.is_alive()
    assert record.guard.is_alive()


@in_a_loop
async def test_what_a_guard_left_is_ended_once_something_can_be_opened_again(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("sleep 69 & echo $!; wait"))
        await until_true(lambda: yard.log())
        child, keeper = int(yard.log()), yard.record().guard.pid
        with no_descriptors():
            os.kill(keeper, signal.SIGKILL)
            await asyncio.sleep(0.5)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.GUARD_GONE
        assert not lives(child)


@in_a_loop
async def test_what_an_older_agent_started_after_the_next_one_had_looked_is_found_when_it_is_in_the_way(
    yard: ProcessFolder,
) -> None:
    async with yard.driver() as older, yard.driver() as newer:
        await older.start(a_work("exec sleep 60"))
        assert newer.runs() == []
        with pytest.raises(CannotStart, match="is there already"):
            await newer.start(a_work("exec sleep 60"))
        live = found(newer)
        assert live is not None
        assert (live.state, live.pid) == (ProcessState.RUNNING, yard.record().process.pid)
        await newer.stop(*BINDING, 100)
        await until(newer, ProcessState.ENDED)
