"""What hangs, hangs by itself: the agent's loop goes on with its heartbeats, and who needs it is told why it fails."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.agent import node_load, term_fence
from holdfast.agent.drivers.driver import CannotStart, StartFault
from holdfast.agent.drivers.process import guard_files, guarded_run
from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver, SimulatedMachine
from holdfast.agent.node_load import MachineLoad
from holdfast.agent.prober import NodeProber
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.objects.probes import Probe, TcpProbe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.host.runtime import blocking_calls
from holdfast.host.runtime.blocking_calls import BlockingCalls, Hangs
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import BINDING, CLOCK, ProcessFolder, a_work, until, until_true

BEAT_S = 0.01
#: No heartbeat is later than this; what hangs, hangs for much longer.
LATE_S, HANGS_S = 20, 60


@asynccontextmanager
async def heartbeats() -> AsyncIterator[None]:
    """Beats on this loop all the while, none of them late."""
    beats = [time.monotonic()]

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            beats.append(time.monotonic())

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        beats.append(time.monotonic())
        longest = max(later - earlier for earlier, later in pairwise(beats))
        assert longest < LATE_S, f"no heartbeat for {longest:.1f} s"


class Hung:
    """A call that does not return until the test is over, or has waited long enough to fail."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.calls = 0

    @staticmethod
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __call__(self, *_args: Any, **_given: Any) -> Any:
        self.calls += 1
        self.over.wait(HANGS_S)
        raise OSError("it took too long")


@pytest.fixture
def hung() -> Iterator[Hung]:
    one = Hung()
    yield one
    one.over.set()


@in_a_loop
async def test_a_call_that_hangs_is_given_up_and_more_of_its_kind_are_refused_at_once(hung: Hung) -> None:
    calls = BlockingCalls(CLOCK)
    async with heartbeats():
        many = [calls.ask("the mount", 200, hung) for _ in range(blocking_calls.CALLS_PER_KIND_MAX)]
        answers = await asyncio.gather(*many, return_exceptions=True)
        assert {str(one) for one in answers} == {"the mount: no answer within 200 ms"}
        with pytest.raises(Hangs, match="others wait for one already"):
            await calls.ask("the mount", 60_000, hung)
        assert await calls.ask("another", 60_000, lambda: 7) == 7
        hung.over.set()
        await until_true(lambda: not calls._under_way["the mount"])
        assert await calls.ask("the mount", 60_000, lambda: 8) == 8


@in_a_loop
async def test_calls_that_take_a_moment_wait_for_their_turn_and_none_is_taken_for_one_that_hangs() -> None:
    calls = BlockingCalls(CLOCK)
    many = [
        calls.ask("the table", 60_000, lambda: time.sleep(0.01)) for _ in range(5 * blocking_calls.CALLS_PER_KIND_MAX)
    ]
    assert await asyncio.gather(*many) == [None] * len(many)


@in_a_loop
async def test_what_a_call_raises_is_raised(hung: Hung) -> None:
    hung.over.set()
    with pytest.raises(OSError, match="too long"):
        await BlockingCalls(CLOCK).ask("it", 60_000, hung)
    with pytest.raises(OSError, match="too long"):
        await BlockingCalls(CLOCK).wait("it", hung)


@in_a_loop
async def test_a_secret_on_a_mount_that_hangs_fails_its_replica_and_nobody_else(yard: ProcessFolder) -> None:
    root = yard.root / "secrets"
    root.mkdir(mode=0o700)
    secrets = root / "shop"
    secrets.mkdir()
    os.mkfifo(secrets / "key")  # nobody writes: whoever opens it hangs
    (secrets / "good").write_text("green")
    other = a_work('test "$KEY" = green', slot=(8, 0), secrets=(("KEY", f"file:{secrets}/good"),))
    async with yard.driver(secret_folder=str(root), answer_ms=300) as driver, heartbeats():
        many = [a_work("true", slot=(9, number), secrets=(("KEY", f"file:{secrets}/key"),)) for number in range(10)]
        starts = [asyncio.create_task(driver.start(one)) for one in many]
        await driver.start(other)
        assert (await until(driver, ProcessState.ENDED, ((8, 0), 11))).code == 0
        failed = await asyncio.gather(*starts, return_exceptions=True)
        assert {getattr(one, "code", None) for one in failed} == {StartFault.SECRET}
        assert all(f"reading its secrets at file:{secrets}/key: no answer" in str(one) for one in failed)
    for _ in range(blocking_calls.CALLS_PER_KIND_MAX):  # those who hang are let go
        os.close(os.open(secrets / "key", os.O_RDWR))


@in_a_loop
async def test_a_table_of_users_that_hangs_fails_the_replica_that_needs_it(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch, hung: Hung
) -> None:
    user = "61234" if os.geteuid() == 0 else str(os.geteuid())
    for name in ("getpwuid", "getpwnam"):
        monkeypatch.setattr(pwd, name, hung)
    async with yard.driver(answer_ms=300) as driver, heartbeats():
        with pytest.raises(CannotStart, match="looking up its user: no answer within 300 ms"):
            await driver.start(a_work("true", user=user))
        assert driver.runs() == []


@in_a_loop
async def test_probes_of_what_runs_need_no_table_of_users(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch, hung: Hung
) -> None:
    async with yard.driver() as driver, heartbeats():
        await driver.start(a_work("exec sleep 60"))
        for name in ("getpwuid", "getpwnam"):
            monkeypatch.setattr(pwd, name, hung)
        assert await driver.exec(a_work(""), ("true",), 5_000) == 0


@pytest.mark.parametrize(("module", "what"), [(guard_files, "read_result"), (guarded_run, "connect")])
@in_a_loop
async def test_a_disk_of_the_agents_that_hangs_keeps_nobody_from_anything_but_that(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch, module: ModuleType, what: str
) -> None:
    """What was begun is neither gone nor forgotten: it is found once the disk answers."""
    async with yard.driver() as driver:
        await driver.start(a_work("exec sleep 60"))
    over = threading.Event()
    real: Callable[[Path], Any] = getattr(module, what)

    def slow(folder: Path) -> Any:
        over.wait(HANGS_S)
        return real(folder)

    monkeypatch.setattr(module, what, slow)
    async with heartbeats():
        opening = asyncio.create_task(_opened(yard))
        await asyncio.sleep(0.3)
        assert not opening.done()
        over.set()
        assert await opening is ProcessState.RUNNING


async def _opened(yard: ProcessFolder) -> ProcessState:
    async with yard.driver() as driver:
        found = await until(driver, ProcessState.RUNNING)
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)
        return found.state


def test_a_term_that_the_disk_has_not_kept_yet_is_not_followed_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = [], threading.Event()
    write = term_fence._write

    def slow(file: Path, log_id: str, term: int) -> None:
        begun.append(term)
        assert over.wait(HANGS_S), "it was waited for"
        write(file, log_id, term)

    monkeypatch.setattr(term_fence, "_write", slow)
    known = term_fence.term_fence_on_disk(tmp_path)
    assert [known.heard("log", term) for term in (5, 5, 6, 4)] == [False] * 4
    assert begun == [5], "one at a time: an older one never comes after a newer one"
    assert known.newest == ("", 0)
    over.set()
    for term in (5, 6):
        end = time.monotonic() + 20
        while not known.heard("log", term):
            assert time.monotonic() < end
    assert not known.heard("log", 5)
    assert term_fence.term_fence_on_disk(tmp_path).newest == ("log", 6)


def test_a_term_is_followed_once_the_disk_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = term_fence.term_fence_on_disk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(term_fence, "_write", lambda *_: Hung.full())
        assert not known.heard("log", 5)
    assert known.heard("log", 5)
    assert term_fence.term_fence_on_disk(tmp_path).newest == ("log", 5)


@in_a_loop
async def test_a_folder_of_what_lies_ready_that_hangs_is_told_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung: Hung
) -> None:
    (tmp_path / "model-1").touch()
    machine = MachineLoad(CLOCK, tmp_path)
    monkeypatch.setattr(node_load, "PRESENT_MS", 200)
    async with heartbeats():
        assert (await machine.look()).present == ("model-1",)
        with monkeypatch.context() as patched:
            patched.setattr(node_load, "_present", hung)
            for _ in range(blocking_calls.CALLS_PER_KIND_MAX + 2):
                assert (await machine.look()).present == ("model-1",), "what lay there may still be there"
            assert hung.calls == blocking_calls.CALLS_PER_KIND_MAX, "no more of them hang"
        hung.over.set()
        (tmp_path / "model-2").touch()
        await until_true(lambda: not machine._calls._under_way.total())
        assert (await machine.look()).present == ("model-1", "model-2")


@in_a_loop
async def test_a_name_that_is_not_looked_up_fails_the_probe_and_no_heartbeat(
    monkeypatch: pytest.MonkeyPatch, hung: Hung
) -> None:
    """Others look up names in threads that all of them share: those must be left."""
    real = NodeProber(SimulatedDriver(SimulatedMachine(CLOCK, lambda _: SimulatedBehavior())), CLOCK, "n1.example")
    getaddrinfo = socket.getaddrinfo

    def slow(host: str, *args: Any, **given: Any) -> Any:
        return hung() if host == "n1.example" else getaddrinfo(host, *args, **given)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    one = BoundSlot((1, 0), 1, Phase.RUNNING, "", "t", "w", "acme", 1, 1, ports=(9,))
    probe, loop = Probe(tcp=TcpProbe(), timeout=200), asyncio.get_running_loop()
    async with heartbeats():
        whys = await asyncio.gather(*(real.probe(one, Template(command=("serve",), ports=1), probe) for _ in range(40)))
        assert all("no answer" in why for why in whys)
        await asyncio.wait_for(loop.getaddrinfo("localhost", 80), HANGS_S / 2)
    await real.close()
