"""What a process may use, and as whom: kept by the kernel where a cgroup can be written to, by looking otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason, LimitMethod, StartFault
from holdfast.agent.drivers.process.leftovers import in_session
from holdfast.agent.guard import kernel
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.values.resources import Resources
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import (
    BINDING,
    ROOT_ONLY,
    WITHOUT_ITS_FIRST_THREAD,
    ProcessFolder,
    a_work,
    lives,
    until,
    until_true,
)

#: Forks without end, and goes on where it cannot. A shell would end with code 2 there, before the kill.
FORKS = """
import os, time
while True:
    try:
        if not os.fork():
            os._exit(0)
        os.wait()
    except OSError:
        time.sleep(0.01)
"""
#: Holds 200 MiB, for a few seconds at most.
HUNGRY = "dd if=/dev/zero of=/dev/null bs=200M count=100 2>/dev/null"


@in_a_loop
async def test_a_process_over_its_memory_is_killed_and_it_says_why(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work(f"exec {HUNGRY}", need=Resources(memory=64)))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.signal, ended.why) == (None, 9, ExitReason.OVER_MEMORY)
        assert ended.detail == "it used more than its 64 MiB of memory, and was killed"


@in_a_loop
async def test_a_child_over_the_memory_takes_the_whole_with_it(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work(f"{HUNGRY}; exec sleep 60", need=Resources(memory=64)))
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.OVER_MEMORY


@in_a_loop
async def test_the_memory_of_a_process_counts_when_its_first_thread_has_ended(each_yard: ProcessFolder) -> None:
    command = ("python3", "-I", "-c", WITHOUT_ITS_FIRST_THREAD, "150")
    async with each_yard.driver() as driver:
        await driver.start(a_work("", command=command, need=Resources(memory=100)))
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.OVER_MEMORY


@in_a_loop
async def test_a_process_within_its_limits_is_left_alone(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work("sleep 0.3; exit 6", need=Resources(cpu=500, memory=64), pids=8))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.why) == (6, ExitReason.EXIT)


@in_a_loop
async def test_one_that_has_no_limits_is_not_looked_at(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work(HUNGRY.replace("count=100", "count=3") + "; exit 6"))
        assert (await until(driver, ProcessState.ENDED)).code == 6


MANY = "i=0; while [ $i -lt 20 ]; do sleep 64 & i=$((i+1)); done; sleep 0.5; exit 7"


@in_a_loop
async def test_a_cgroup_gives_no_more_processes_than_the_limit(cgroup_yard: ProcessFolder) -> None:
    async with cgroup_yard.driver() as driver:
        await driver.start(a_work(MANY, pids=10))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.why, ended.code) == (ExitReason.EXIT, 2)
        assert "annot fork" in cgroup_yard.log("stderr")


@in_a_loop
async def test_without_a_cgroup_too_many_processes_are_killed_and_it_says_why(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work(MANY, pids=10))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.signal, ended.why) == (9, ExitReason.OVER_PIDS)
        assert ended.detail == "it had more than 10 processes and threads, and was killed"


@in_a_loop
async def test_a_cgroup_slows_down_who_uses_more_cpu_than_it_may(cgroup_yard: ProcessFolder) -> None:
    async with cgroup_yard.driver() as driver:
        await driver.start(a_work("while :; do :; done", need=Resources(cpu=100)))
        groups = cgroup_yard.record().groups
        await until_true(lambda: _throttled(groups) > 2)
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)


def _throttled(groups: tuple[str, ...]) -> int:
    lines = [line.split() for group in groups for line in kernel.read(f"{group}/cpu.stat").splitlines()]
    return sum(int(words[1]) for words in lines if words[0] == "nr_throttled")


@in_a_loop
async def test_a_guard_is_not_within_the_limits_of_what_it_guards(cgroup_yard: ProcessFolder) -> None:
    async with cgroup_yard.driver() as driver:
        await driver.start(a_work("exec sleep 60", need=Resources(memory=64)))
        record = cgroup_yard.record()
        assert kernel.members(list(record.groups)) == [record.process.pid]
        assert record.process in in_session(record.process)


@in_a_loop
async def test_the_driver_says_how_limits_are_kept(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        can = driver.capabilities()
    kept = (can.memory, can.pids, can.cpu, can.whole)
    if each_yard.cgroups:
        assert kept == (LimitMethod.CGROUP, LimitMethod.CGROUP, LimitMethod.CGROUP, True)
    else:
        assert kept == (LimitMethod.SAMPLED, LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED, each_yard.namespaces)
        assert any("cpu is not limited" in sentence for sentence in can.missing)
        assert any("memory and processes are sampled" in sentence for sentence in can.missing)
    assert can.namespaces == each_yard.namespaces
    assert can.namespaces != any("share the node's pids" in sentence for sentence in can.missing)
    assert can.users == (os.geteuid() == 0)


@ROOT_ONLY
@pytest.mark.skipif(not Path("/sys/fs/cgroup/freezer/cgroup.procs").exists(), reason="no freezer of version 1 here")
@in_a_loop
async def test_where_the_kernel_cannot_kill_a_cgroup_it_is_killed_while_it_cannot_fork(
    cgroup_yard: ProcessFolder,
) -> None:
    """As on a machine of version 1 alone: a freezer, and no `cgroup.kill`."""
    group = Path("/sys/fs/cgroup/freezer") / cgroup_yard.root.name
    group.mkdir()
    try:
        async with cgroup_yard.driver() as driver:
            await driver.start(a_work("", command=("python3", "-I", "-c", FORKS), pids=1000))
            record = cgroup_yard.record()
            groups = [folder for folder in record.groups if "/unified/" not in folder]
            for pid in kernel.members(groups):
                kernel.put([str(group)], "cgroup.procs", str(pid))
            kernel.kill_members([*groups, str(group)])
            assert (await until(driver, ProcessState.ENDED)).signal == 9
            assert kernel.read(str(group / "freezer.state")) == "THAWED\n"
            assert not lives(record.process.pid)
    finally:
        await until_true(lambda: not kernel.members([str(group)]))
        group.rmdir()


@in_a_loop
async def test_an_agent_that_is_not_root_runs_processes_as_itself_only(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 61_000)
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match="the agent runs as user 61000, and only root can") as told:
            await driver.start(a_work("id -u", user="nobody"))
        assert told.value.code is StartFault.USER_NOT_ALLOWED
        assert not driver.capabilities().users
        await driver.start(a_work("id -u", user="61000"))
        await until(driver, ProcessState.ENDED)
    assert yard.log() == f"{os.getuid()}\n"  # no change of user was made
