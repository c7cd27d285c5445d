"""Real processes: how they start, what they are given, how they end, what stays."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec, RunStatus, StartFault
from holdfast.agent.drivers.process.run_folders import RunFolders
from holdfast.agent.guard import kernel
from holdfast.core.agent.processes import ProcessState
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import (
    BINDING,
    LATE_MS,
    ROOT_ONLY,
    ProcessFolder,
    a_work,
    found,
    lives,
    until,
    until_true,
)

FOREVER = "exec sleep 60"
STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"


@pytest.mark.parametrize("code", [0, 3])
@in_a_loop
async def test_a_process_runs_and_its_exit_code_is_known(each_yard: ProcessFolder, code: int) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work(f"read line; exit {code}"))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.signal, ended.why) == (code, 0, ExitReason.EXIT)
        assert ended.detail == f"it ended by itself with code {code}"


@in_a_loop
async def test_a_process_that_runs_is_told_of_with_its_pid(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work(FOREVER))
        live = found(driver)
        assert live is not None
        assert live == RunStatus(*BINDING, "web/eu/0", ProcessState.RUNNING, live.since, live.pid)
        assert lives(live.pid)
        assert yard.record().process.pid == live.pid


@in_a_loop
async def test_a_signal_from_elsewhere_is_not_taken_for_a_stop(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("kill -USR1 $$"))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.signal, ended.why) == (None, 10, ExitReason.SIGNALLED)
        assert "SIGUSR1" in ended.detail


@in_a_loop
async def test_a_signal_without_a_name_is_told_by_its_number_and_stops_no_agent(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("kill -37 $$"))
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.signal, ended.why) == (37, ExitReason.SIGNALLED)
        assert "signal 37" in ended.detail
    async with yard.driver() as driver:
        assert [live.signal for live in driver.runs()] == [37]


@in_a_loop
async def test_a_process_that_is_asked_ends_by_itself(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work("trap 'exit 5' TERM; echo heard; while :; do sleep 0.05; done"))
        await until_true(lambda: "heard" in yard.log())
        await driver.stop(*BINDING, 5_000)
        assert (live := found(driver)) is not None
        assert live.state is ProcessState.STOPPING
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.why) == (5, ExitReason.STOPPED)


@in_a_loop
async def test_a_stubborn_process_is_killed_after_its_grace(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work(STUBBORN))
        await until_true(lambda: "deaf" in each_yard.log())
        asked = kernel.boot_ms()
        await driver.stop(*BINDING, 300)
        ended = await until(driver, ProcessState.ENDED)
        assert 300 <= kernel.boot_ms() - asked < LATE_MS
        assert (ended.code, ended.signal, ended.why) == (None, 9, ExitReason.KILLED)


@in_a_loop
async def test_a_second_stop_can_only_hasten_the_first(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await driver.start(a_work(STUBBORN))
        await until_true(lambda: "deaf" in yard.log())
        asked = kernel.boot_ms()
        await driver.stop(*BINDING, 200)
        await driver.stop(*BINDING, 60_000)
        assert (await until(driver, ProcessState.ENDED)).why is ExitReason.KILLED
        assert kernel.boot_ms() - asked < LATE_MS


@in_a_loop
async def test_children_in_the_group_and_out_of_the_session_end_with_it(each_yard: ProcessFolder) -> None:
    script = "sleep 61 & echo $!; setsid sh -c 'echo $$; exec sleep 62' & wait"
    async with each_yard.driver() as driver:
        await driver.start(a_work(script))
        await until_true(lambda: len(each_yard.log().split()) == 2)
        children = each_yard.pids()
        assert all(lives(pid) for pid in children)
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)
        assert not any(lives(pid) for pid in children)


@in_a_loop
async def test_what_a_process_leaves_behind_ends_when_it_does(each_yard: ProcessFolder) -> None:
    async with each_yard.driver() as driver:
        await driver.start(a_work("setsid sh -c 'setsid sleep 63 & echo $!'; while ! test -e seen; do :; done; exit 4"))
        await until_true(lambda: each_yard.log())
        (left,) = each_yard.pids()
        assert lives(left)
        (each_yard.working() / "seen").touch()
        ended = await until(driver, ProcessState.ENDED)
        assert (ended.code, ended.why) == (4, ExitReason.EXIT)
        assert not lives(left)


@pytest.mark.parametrize(
    ("command", "fault", "sentence"),
    [
        (("no-such-program",), StartFault.MISSING_BINARY, "no-such-program: No such file or directory"),
        (("/etc/passwd",), StartFault.MISSING_BINARY, "/etc/passwd: Permission denied"),
        ((), StartFault.MISSING_BINARY, "no command"),
    ],
)
@in_a_loop
async def test_a_command_that_cannot_run_is_told_at_once(
    each_yard: ProcessFolder, command: tuple[str, ...], fault: StartFault, sentence: str
) -> None:
    async with each_yard.driver() as driver:
        with pytest.raises(CannotStart) as told:
            await driver.start(RunSpec(*BINDING, "web/eu/0", command, tenant="shop"))
        assert told.value.code is fault
        assert sentence in told.value.message
        assert driver.runs() == []
        await each_yard.until_empty()


@in_a_loop
async def test_a_file_that_is_no_program_is_told_at_once(yard: ProcessFolder) -> None:
    program = yard.root / "program"
    program.write_bytes(b"\x7fELF, but not really")
    program.chmod(0o755)
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match=r"missing-binary: .*Exec format error"):
            await driver.start(RunSpec(*BINDING, "web/eu/0", (str(program),), tenant="shop"))


@in_a_loop
async def test_a_folder_that_cannot_be_entered_is_told_at_once(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match=r"folder: /no/such: cannot be entered.*No such file"):
            await driver.start(a_work("pwd", folder="/no/such"))
        with pytest.raises(CannotStart, match="folder: here: not an absolute path"):
            await driver.start(a_work("pwd", folder="here"))
        await driver.start(a_work("pwd", folder="/usr"))
        await until(driver, ProcessState.ENDED)
        assert yard.log() == "/usr\n"


@ROOT_ONLY
@in_a_loop
async def test_a_folder_of_another_user_is_told_with_who_cannot_enter_it(yard: ProcessFolder) -> None:
    closed = yard.root / "closed"
    closed.mkdir(mode=0o700)
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match=r"folder: .*cannot be entered by user 200000: Permission denied"):
            await driver.start(a_work("pwd", folder=str(closed)))


@in_a_loop
async def test_a_process_has_exactly_the_variables_it_was_given(yard: ProcessFolder) -> None:
    os.environ["HOLDFAST_TEST_OF_THE_AGENT"] = "not for tenants"
    work = a_work(
        "exec env",
        environment=(("MODE", "fast"), ("HOLDFAST_FENCING_TOKEN", "99"), ("LANG", "de_DE")),
        ports=(8001, 8002),
        devices=(3, 1),
    )
    async with yard.driver() as driver:
        await driver.start(work)
        await until(driver, ProcessState.ENDED)
    del os.environ["HOLDFAST_TEST_OF_THE_AGENT"]
    given = dict(line.split("=", 1) for line in yard.log().splitlines())
    given.pop("PWD")  # the shell's own
    assert given == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "de_DE",
        "HOME": str(yard.working()),
        "MODE": "fast",
        "HOLDFAST_SLOT": "web/eu/0",
        "HOLDFAST_FENCING_TOKEN": "11",
        "PORT": "8001",
        "PORTS": "8001,8002",
        "HOLDFAST_DEVICES": "3,1",
        "CUDA_VISIBLE_DEVICES": "3,1",
    }


@in_a_loop
async def test_a_secret_reaches_the_process_and_nothing_else(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = yard.root / "vault" / "shop"
    own.mkdir(mode=0o700, parents=True)
    own.parent.chmod(0o700)
    (own / "key").write_bytes(b"s3cr\xff-file\n")
    monkeypatch.setenv("VAULT_TOKEN", "s3cr-variable")
    secrets = (("KEY", "file:key"), ("TOKEN", "env:VAULT_TOKEN"))
    script = f'test "$TOKEN" = s3cr-variable && printf %s "$KEY" | wc -c > {yard.root}/seen; exec sleep 60'
    (yard.root / "seen").touch(mode=0o666)
    (yard.root / "seen").chmod(0o666)
    async with yard.driver(secret_folder=str(own.parent), secret_variables=(("shop", "VAULT_TOKEN"),)) as driver:
        await driver.start(a_work(script, secrets=secrets))
        await until_true(lambda: kernel.read(str(yard.root / "seen")))
        assert kernel.read(str(yard.root / "seen")) == "10\n"
        keeper = yard.record().guard.pid
        for file in ("cmdline", "environ"):
            assert b"s3cr" not in Path(f"/proc/{keeper}/{file}").read_bytes()
        assert Path(f"/proc/{keeper}/environ").read_bytes() == b""
        await driver.stop(*BINDING, 0)
        await until(driver, ProcessState.ENDED)
    kept = [path for path in yard.data.rglob("*") if path.is_file()]
    assert {"record.json", "result.json", "guard"} <= {path.name for path in kept}
    assert not any(b"s3cr" in path.read_bytes() for path in kept)


@in_a_loop
async def test_logs_are_turned_over_and_bounded(yard: ProcessFolder) -> None:
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i; echo oh $i >&2; i=$((i+1)); done"
    async with yard.driver(log_bytes=4_096, log_files=3) as driver:
        await driver.start(a_work(script))
        await until(driver, ProcessState.ENDED)
    sizes = {path.name: path.stat().st_size for path in (yard.slot() / "logs").iterdir()}
    assert sizes.pop("guard") == 0
    assert sorted(sizes) == ["stderr", "stderr.1", "stderr.2", "stdout", "stdout.1", "stdout.2"]
    assert max(sizes.values()) <= 4_096
    newest = yard.log("stdout.2") + yard.log("stdout.1") + yard.log()
    assert newest.endswith("line 1998\nline 1999\n")
    assert newest.splitlines()[1:] == [f"line {number}" for number in range(2000)][-len(newest.splitlines()) + 1 :]


@in_a_loop
async def test_what_is_forgotten_leaves_its_last_logs_and_nothing_else(each_yard: ProcessFolder) -> None:
    async with each_yard.driver(logs_kept=2) as driver:
        for number in range(3):
            await driver.start(a_work(f"echo life {number}; touch here"))
            await until(driver, ProcessState.ENDED)
            groups = each_yard.record().groups
            await driver.forget(*BINDING)
            assert driver.runs() == []
            assert not any(os.path.exists(group) for group in groups)
        await each_yard.until_empty()
    kept = sorted((each_yard.data / "logs").iterdir())
    assert [kernel.read(str(folder / "stdout")) for folder in kept] == ["life 1\n", "life 2\n"]


@in_a_loop
async def test_a_binding_is_started_once(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        both = await asyncio.gather(*(driver.start(a_work(FOREVER)) for _ in range(2)), return_exceptions=True)
        assert sorted(isinstance(one, CannotStart) for one in both) == [False, True]
        assert len(driver.runs()) == 1
        with pytest.raises(CannotStart, match="is there already"):
            await driver.start(a_work(FOREVER))


@in_a_loop
async def test_a_start_that_nobody_waits_for_any_more_is_seen_to_its_end(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        waiting = asyncio.create_task(driver.start(a_work(FOREVER)))
        await asyncio.sleep(0.01)
        waiting.cancel()
        assert (await until(driver, ProcessState.RUNNING)).pid


@in_a_loop
async def test_a_guard_that_does_not_begin_in_time_leaves_nothing(yard: ProcessFolder) -> None:
    async with yard.driver(start_ms=1) as driver:
        with pytest.raises(CannotStart, match="did not begin within 1 ms"):
            await driver.start(a_work(FOREVER))
        assert driver.runs() == []
        assert list((yard.data / "slots").iterdir()) == []


@in_a_loop
async def test_many_start_at_once(each_yard: ProcessFolder) -> None:
    bindings = [((7, ordinal), 11) for ordinal in range(8)]
    async with each_yard.driver() as driver:
        await asyncio.gather(*(driver.start(a_work("exit 0", slot=slot)) for slot, _ in bindings))
        for binding in bindings:
            await until(driver, ProcessState.ENDED, binding)
        assert [(live.slot, live.epoch) for live in driver.runs()] == bindings


@in_a_loop
async def test_a_disk_that_was_full_leaves_nothing_in_the_way_of_the_next_start(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with yard.driver() as driver:
        make, full = os.mkdir, [True]

        def mkdir(path: Path, mode: int = 0o777) -> None:
            if full and path.name == "logs":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            make(path, mode)

        monkeypatch.setattr(os, "mkdir", mkdir)
        with pytest.raises(CannotStart, match="No space left"):
            await driver.start(a_work("exit 0"))
        full.clear()
        await driver.start(a_work("exit 0"))
        await until(driver, ProcessState.ENDED)


@in_a_loop
async def test_what_cannot_be_cleared_away_stops_no_agent(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: RunFolders, name: str) -> None:
        raise OSError(errno.EMFILE, f"Too many open files: {name}")

    async with yard.driver() as driver:
        await driver.start(a_work("exit 0"))
        await until(driver, ProcessState.ENDED)
        monkeypatch.setattr(RunFolders, "forget", full)
        await driver.forget(*BINDING)
        assert driver.runs() == []
    assert "not-cleared-away" in caplog.text
