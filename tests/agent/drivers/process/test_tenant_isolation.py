"""Tenants apart on a node: what one tries from its process and from its probe against another, and against the agent.

Every attempt is a real one: whoever it is aimed at succeeds with it on itself, or root does, from outside.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec
from holdfast.agent.drivers.process import launch
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.guard import kernel
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.values.resources import Resources
from holdfast.wiring.config.private_files import write_private
from tests.support.event_loop import in_a_loop
from tests.support.processes import isolation_attempts
from tests.support.processes.process_world import (
    ROOT_ONLY,
    ProcessFolder,
    a_process_folder,
    a_work,
    can_use_cgroups,
    lives,
    no_namespaces,
    until,
    until_true,
)

CHECKOUT = Path(__file__).parents[4]
#: Where a folder is hidden only because it is the agent's.
NOT_TEMPORARY = "/run"
A: RunKey = ((7, 0), 11)
B: RunKey = ((8, 0), 12)
LIMIT_MS = 60_000
#: What one can do to oneself.
ON_ONESELF = (
    "environment", "memory", "descriptors", "root", "signals", "held", "priority", "listing", "reading", "writing",
    "temporary", "shared_memory",
)  # fmt: skip
#: What nobody but root can do, outside.
BY_ROOT = ("secret", "token", "users", "data", "record", "logs", "guard", "own_guard", "unmounting")
ON_CGROUPS = ("cgroup", "limits", "own_limits", "joining", "leaving", "locking")
#: What is tried together: what one does to oneself, and what root does outside.
TRIED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "processes-and-files": (ON_ONESELF, BY_ROOT), "cgroups": ((), ON_CGROUPS), "keys": (("keys",), ()),
}  # fmt: skip
#: What is left where the kernel allows no namespaces: what a tenant leaves open to all, and numbers of cgroups.
WITHOUT_NAMESPACES = {"temporary", "shared_memory", "cgroup"}
EVERYBODYS = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
NEEDS_PYTHON = pytest.mark.skipif(EVERYBODYS is None, reason="no interpreter that everybody can use")


class Field:
    """A node with two tenants: one who attacks, and one who is attacked."""

    def __init__(self, yard: ProcessFolder, driver: ProcessDriver, on_oneself: tuple[str, ...]) -> None:
        self.yard = yard
        self.driver = driver
        self.mark = f"mark-of-b-{token_hex(16)}"
        #: What the one who is attacked does to itself, and is seen to succeed with.
        self.on_oneself = on_oneself

    @staticmethod
    def prepare(yard: ProcessFolder) -> dict[str, Any]:
        """Settings of a driver, and the agent's own files."""
        (yard.root / "secrets" / "b").mkdir(parents=True)
        (yard.root / "secrets").chmod(0o700)
        return {"secret_folder": str(yard.root / "secrets"), "hidden": (str(yard.root / "agent.token"),)}

    def write_secrets(self) -> None:
        for file in (self.yard.root / "secrets" / "b" / "key", self.yard.root / "agent.token"):
            file.write_text(self.mark, encoding="ascii")
            file.chmod(0o600)

    def on_itself(self) -> str:
        """What is tried by the one who is to be attacked."""
        return json.dumps({"tried": self.on_oneself, "pids": [], "leaves": False})

    def target(self, *tried: str, leaves: bool = False) -> str:
        """What is tried, with all that can be known of the one who is attacked, but for the mark."""
        record, own = self.yard.record(B), self.yard.record(A) if self.yard.slot(A).exists() else self.yard.record(B)
        return json.dumps({
            "tried": tried,
            "leaves": leaves,
            "pids": [one.pid for one in (record.process, record.guard, record.first) if one.pid],
            "folder": str(self.yard.working(B)),
            "secret": str(self.yard.root / "secrets" / "b" / "key"),
            "token": str(self.yard.root / "agent.token"),
            "users": str(self.yard.root / "users.json"),
            "data": str(self.yard.data),
            "slot": str(self.yard.slot(B)),
            "own_slot": str(self.yard.slot(A)),
            "groups": record.groups,
            "own_groups": own.groups,
            "above": [str(path) for group in record.groups for path in Path(group).parents if "cgroup" in path.parts],
        })  # fmt: skip

    def work(self, binding: RunKey, tenant: str, target: str, **fields: Any) -> RunSpec:
        command = (str(EVERYBODYS), "-I", "-c", SOURCE, target)
        need = Resources(cpu=1_000, memory=128)
        given = {"slot": binding[0], "epoch": binding[1], "tenant": tenant, "need": need, "pids": 64, **fields}
        return replace(a_work(""), command=command, **given)

    async def end(self, binding: RunKey) -> None:
        await self.driver.stop(*binding, 0)
        await until(self.driver, ProcessState.ENDED, binding)
        await self.driver.forget(*binding)

    async def answer(self, binding: RunKey) -> set[str]:
        """What succeeded in a process."""
        await until_true(lambda: self.yard.log(binding=binding), 60)
        found = json.loads(self.yard.log(binding=binding))
        assert self.yard.log("stderr", binding) == ""
        return set(found)


SOURCE = Path(isolation_attempts.__file__).read_text(encoding="utf-8")


def by_root(target: str) -> set[str]:
    """The same from outside, as root."""
    ran = subprocess.run([sys.executable, "-I", "-c", SOURCE, target], stdout=subprocess.PIPE, check=True, timeout=60)
    return set(json.loads(ran.stdout))


def must_be_possible(what: str, yard: ProcessFolder) -> None:
    """Skip what cannot be tried on this machine."""
    if what == "cgroups" and not yard.cgroups:
        pytest.skip("no cgroup for memory, cpu and pids can be written to on this machine: nothing of one is tried")
    # What every agent has that is a service, and hands down to whatever it starts unless it takes care.
    if what == "keys" and isolation_attempts.keyctl(isolation_attempts.KEYCTL_JOIN_SESSION_KEYRING, 0) <= 0:
        pytest.skip("the kernel gives no session keyring on this machine (keyctl): nothing of one is tried")


@pytest.mark.parametrize("what", sorted(TRIED))
@pytest.mark.parametrize("namespaces", [True, False], ids=["namespaces", "shared"])
@ROOT_ONLY
@NEEDS_PYTHON
@in_a_loop
async def test_nothing_of_another_tenant_or_the_agent_is_in_reach_of_a_process_or_its_probe(
    namespaces: bool, what: str
) -> None:
    on_oneself, outside = TRIED[what]
    tried = (*on_oneself, *outside)
    with a_process_folder(cgroups=False, namespaces=namespaces, where=NOT_TEMPORARY) as yard:
        yard.cgroups = can_use_cgroups(yard.data)
        must_be_possible(what, yard)
        async with yard.driver(**Field.prepare(yard)) as driver:
            field = Field(yard, driver, on_oneself)
            field.write_secrets()
            await driver.start(field.work(B, "b", field.on_itself(), environment=(("MARK", field.mark),)))
            assert await field.answer(B) == set(field.on_oneself), "each is a real attempt: one succeeds on oneself"

            work = field.work(A, "a", field.target())
            await driver.start(work)
            await field.answer(A)
            target = field.target(*tried)
            assert await driver.exec(work, (*work.command[:-1], target, "from-probe"), LIMIT_MS) == 0
            from_probe = set(json.loads((yard.working(A) / "from-probe").read_text(encoding="ascii")))
            await field.end(A)
            await driver.start(field.work(A, "a", target))
            from_process = await field.answer(A)

            left = set() if namespaces else WITHOUT_NAMESPACES & set(tried)
            assert (from_process, from_probe) == (left, left)
            assert by_root(field.target(*outside, leaves=True)) == set(outside), "root succeeds with the rest"
            assert yard.record(B).process.is_alive()


@pytest.fixture
def apart() -> Iterator[ProcessFolder]:
    """With namespaces, and without cgroups: what holds does so by the former alone."""
    with a_process_folder(cgroups=False, namespaces=True, where=NOT_TEMPORARY) as made:
        yield made


@in_a_loop
async def test_what_hides_the_agents_folder_is_taken_away_by_whoever_is_root_inside_and_by_nobody_else(
    apart: ProcessFolder,
) -> None:
    """Above, tenants fail to take it away. That it is there to be taken away, and what it hides, is shown here."""
    async with apart.driver() as driver:
        await driver.start(a_work("exec sleep 60"))
        program = (
            "import ctypes, os, sys\n"
            "libc = ctypes.CDLL(None)\n"
            "assert libc.setns(os.pidfd_open(int(sys.argv[1])), 0x20000) == 0\n"
            "before = os.listdir(sys.argv[2])\n"
            "assert libc.umount2(sys.argv[2].encode(), 2) == 0\n"
            "print(before, 'slots' in os.listdir(sys.argv[2]))\n"
        )
        first = str(apart.record().first.pid)
        words = [sys.executable, "-I", "-c", program, first, str(apart.data)]
        ran = await asyncio.to_thread(subprocess.run, words, stdout=subprocess.PIPE, check=True, timeout=30)
        assert ran.stdout.decode() == "['work'] True\n"


#: What root finds at a path with the mounts of a process; what stands there, or why nothing does.
LOOKING = (
    "import ctypes, os, sys\n"
    "assert ctypes.CDLL(None).setns(os.pidfd_open(int(sys.argv[1])), 0x20000) == 0\n"
    "try:\n    print(open(sys.argv[2]).read())\n"
    "except OSError as error:\n    print(type(error).__name__)\n"
)


@pytest.mark.parametrize(
    ("mode", "before", "after"), [(0o700, "FileNotFoundError", "FileNotFoundError"), (0o755, "", "new")]
)
@in_a_loop
async def test_a_token_that_is_replaced_stays_out_of_sight_where_nobody_else_may_enter_its_folder(
    apart: ProcessFolder, mode: int, before: str, after: str
) -> None:
    """Who renames a file over another takes away what a running replica has mounted there: then its mode is left."""
    keys = apart.root / "keys"
    keys.mkdir()
    keys.chmod(mode)
    write_private(keys / "agent.token", "old")

    async def seen() -> str:
        words = [sys.executable, "-I", "-c", LOOKING, str(apart.record().first.pid), str(keys / "agent.token")]
        ran = await asyncio.to_thread(subprocess.run, words, stdout=subprocess.PIPE, check=True, timeout=30)
        return ran.stdout.decode().strip()

    work = a_work("exec sleep 60")
    async with apart.driver(hidden=(str(keys / "agent.token"),)) as driver:
        await driver.start(work)
        assert await seen() == before
        write_private(keys / "agent.token", "new")
        assert await seen() == after, "as root sees it"
        looks = ("sh", "-c", f"! cat {keys}/agent.token 2>/dev/null")
        assert await driver.exec(work, looks, LIMIT_MS) == 0, "its tenant reads it in neither case"


@in_a_loop
async def test_a_replica_sees_its_own_processes_and_limits_and_an_empty_tmp(cgroup_yard: ProcessFolder) -> None:
    if not cgroup_yard.namespaces:
        pytest.skip(f"replicas can have no namespaces of their own on this machine: {no_namespaces()}")
    script = (
        "echo $$; ls /tmp /var/tmp /dev/shm; ls -d /proc/[0-9]*; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/*/pids.max"
    )
    async with cgroup_yard.driver() as driver:
        await driver.start(a_work(f"{script} 2>/dev/null; exit 0", pids=77, folder="/"))
        await until(driver, ProcessState.ENDED)
    own, *words = cgroup_yard.log().split()
    pids = {int(word.removeprefix("/proc/")) for word in words if word.startswith("/proc/")}
    assert own == "2"
    assert {1, 2} <= pids
    assert len(pids) <= 4
    assert [word for word in words if not word.startswith("/")] == ["77"]


@in_a_loop
async def test_what_a_replica_mounts_and_writes_to_tmp_is_seen_by_nobody_else_and_ends_with_it(
    apart: ProcessFolder,
) -> None:
    mounts, name = kernel.read("/proc/self/mountinfo"), f"holdfast-{token_hex(8)}"
    async with apart.driver() as driver:
        await driver.start(a_work(f"echo secret > /tmp/{name}; cat /tmp/{name}; exec sleep 60"))
        await until_true(lambda: apart.log() == "secret\n")
        assert not Path("/tmp", name).exists()
        assert kernel.read("/proc/self/mountinfo") == mounts
        await driver.start(a_work(f"cat /tmp/{name}; exit 3", slot=B[0], epoch=B[1]))
        assert (await until(driver, ProcessState.ENDED, B)).code == 3
        assert "No such file" in apart.log("stderr", B)


@in_a_loop
async def test_a_replicas_tmp_is_bounded_by_its_memory(apart: ProcessFolder) -> None:
    script = "dd if=/dev/zero of=/tmp/large bs=1M count=64 2>/dev/null; stat -c %s /tmp/large"
    async with apart.driver() as driver:
        await driver.start(a_work(script, need=Resources(memory=16)))
        await until(driver, ProcessState.ENDED)
    assert apart.log() == f"{16 << 20}\n"


@in_a_loop
async def test_orphans_in_a_replica_are_reaped(apart: ProcessFolder) -> None:
    script = (
        "for i in 1 2 3 4 5 6 7 8; do (sh -c : & sh -c : &) ; done; while grep -q ' Z ' /proc/[0-9]*/stat; do :; done"
    )
    async with apart.driver() as driver:
        await driver.start(a_work(f"{script} 2>/dev/null; exit 6"))
        assert (await until(driver, ProcessState.ENDED)).code == 6


@in_a_loop
async def test_a_replica_whose_first_process_is_killed_ends_with_all_that_it_began(apart: ProcessFolder) -> None:
    async with apart.driver() as driver:
        await driver.start(a_work("setsid sleep 71 & echo $!; (trap '' TERM; setsid sleep 72) & wait"))
        await until_true(lambda: apart.log())
        record, (escaped,) = apart.record(), apart.pids()
        os.kill(record.first.pid, signal.SIGKILL)
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.signal, ended.why) == (signal.SIGKILL, ExitReason.SIGNALLED)
        assert not any(lives(pid) for pid in (record.process.pid, escaped))


@ROOT_ONLY
def test_an_agent_without_the_right_to_make_namespaces_says_so_and_runs_processes_as_before(
    yard: ProcessFolder,
) -> None:
    """Root, but without CAP_SYS_ADMIN, as in most containers."""
    program = (
        "import asyncio, ctypes\n"
        "assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0\n"  # what is executed from now on has no CAP_SYS_ADMIN
        "from tests.agent.drivers.process.test_tenant_isolation import Path, ProcessFolder, ProcessState\n"
        "from tests.agent.drivers.process.test_tenant_isolation import a_work, until\n"
        "async def main():\n"
        f"    yard = ProcessFolder(Path({str(yard.root)!r}), cgroups=False, namespaces=True)\n"
        "    async with yard.driver() as driver:\n"
        "        can = driver.capabilities()\n"
        "        await driver.start(a_work('exit 9'))\n"
        "        print(can.namespaces, (await until(driver, ProcessState.ENDED)).code, can.missing[-1])\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True, timeout=60)
    why = "replicas share the node's pids, mounts and /tmp: unshare: Operation not permitted"
    assert ran.stdout.decode() == f"False 9 {why}\n"


@in_a_loop
async def test_a_replica_does_not_begin_where_its_namespaces_fail_though_they_were_promised(
    apart: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never as if it had been said that there are none: a workload may have asked for them."""
    async with apart.driver() as driver:
        assert driver.capabilities().namespaces
        promised = launch.namespaces_of
        monkeypatch.setattr(launch, "namespaces_of", lambda *given: {**promised(*given), "bytes": -1})
        with pytest.raises(CannotStart, match=r"its guard ended before it began: .*mount"):
            await driver.start(a_work("exit 0"))
        assert driver.runs() == []
        await apart.until_empty()


@in_a_loop
async def test_an_installation_below_tmp_is_there_to_be_read_and_what_is_hidden_in_it_is_not() -> None:
    with a_process_folder(cgroups=False, namespaces=True) as yard:
        program = yard.root / "program"
        program.write_text(f"#!/bin/sh\nls {yard.data}\ntouch {yard.root}/open/new || exit 7\n", encoding="ascii")
        program.chmod(0o755)
        (yard.root / "open").mkdir()
        (yard.root / "open").chmod(0o777)
        work = replace(a_work(""), command=(str(program),))
        async with yard.driver(shown=(str(yard.root),)) as driver:
            await driver.start(work)
            assert (await until(driver, ProcessState.ENDED)).code == 7
            assert yard.log() == "work\n"
            assert "Read-only file system" in yard.log("stderr")
            await driver.forget(work.slot, work.epoch)
        async with yard.driver() as driver:
            with pytest.raises(CannotStart, match="missing-binary"):
                await driver.start(work)
