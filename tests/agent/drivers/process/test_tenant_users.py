"""Tenants apart on a node: each has a user of its own, and nothing of another's in reach. With real processes."""

from __future__ import annotations

import errno
import grp
import json
import multiprocessing
import os
import pwd
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason, StartFault
from holdfast.agent.drivers.process import disk_usage, run_folders, tenant_users
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.tenant_users import TenantUsers, missing_here
from holdfast.agent.guard import kernel
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.values.resources import Resources
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import FIRST_USER, ROOT_ONLY, ProcessFolder, a_work, until, until_true

A, B = "alpha", "beta"
#: Nothing is lent to containers.
NONE_LENT: tuple[Path, ...] = ()


def users_in(folder: Path, numbers: tuple[int, int] = (200_000, 200_003)) -> TenantUsers:
    return TenantUsers(folder / "users.json", numbers, NONE_LENT)


# Numbers


def test_a_tenant_keeps_its_number_over_all_lives_of_all_agents(tmp_path: Path) -> None:
    first = users_in(tmp_path)
    assert [first.of(name).uid for name in (A, B, A)] == [200_000, 200_001, 200_000]
    later = users_in(tmp_path)
    assert [later.of(name).uid for name in (B, A, "gamma")] == [200_001, 200_000, 200_002]
    assert later.of(A) == tenant_users.TenantUser(200_000, 200_000, A)


def test_whose_numbers_are_is_known_to_root_alone_and_is_never_half_written(tmp_path: Path) -> None:
    users = TenantUsers(tmp_path / "new" / "users.json", (200_000, 200_003), NONE_LENT)
    users.of(A)
    file = tmp_path / "new" / "users.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (tmp_path / "new" / "users.new").write_text('{"20')  # what a crash has left
    assert users.of(B).uid == 200_001
    assert json.loads(file.read_text()) == {"200000": A, "200001": B}


def test_a_map_that_cannot_be_read_gives_nobody_anything_and_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text('{"200000": "alp')
    with pytest.raises(CannotStart, match=r"users\.json") as told:
        users_in(tmp_path).of(B)
    assert told.value.code is StartFault.NO_USER
    assert file.read_text() == '{"200000": "alp'


def test_when_no_number_is_left_a_new_tenant_is_told_so_and_the_others_keep_theirs(tmp_path: Path) -> None:
    users = users_in(tmp_path)
    assert [users.of(f"t{number}").uid for number in range(4)] == list(range(200_000, 200_004))
    with pytest.raises(CannotStart, match=r"no user is left .* 200000 to 200003 .*\nhint: .*--tenant-users") as told:
        users.of("t4")
    assert told.value.code is StartFault.NO_USER
    assert users.of("t3").uid == 200_003
    assert users_in(tmp_path, (200_000, 200_009)).of("t4").uid == 200_004


def test_a_number_is_never_another_tenants_whatever_the_range_becomes(tmp_path: Path) -> None:
    users_in(tmp_path, (200_000, 200_000)).of(A)
    other = users_in(tmp_path, (300_000, 300_001))
    assert (other.of(B).uid, other.of(A).uid) == (300_000, 200_000)
    assert users_in(tmp_path, (200_000, 200_001)).of("gamma").uid == 200_001


@pytest.mark.parametrize("table", ["getpwuid", "getgrgid"])
def test_numbers_that_the_machine_has_given_a_meaning_to_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    def known(number: int) -> SimpleNamespace:
        if number == 200_000:
            return SimpleNamespace(pw_name="someone", gr_name="someone")
        raise KeyError(number)

    monkeypatch.setattr(pwd if table == "getpwuid" else grp, table, known)
    assert users_in(tmp_path).of(A).uid == 200_001


def test_a_number_that_has_become_somebody_elses_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = users_in(tmp_path)
    users.of(A)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_name="someone"))
    with pytest.raises(CannotStart, match="user 200000, assigned to tenant alpha here, is now someone") as told:
        users.of(A)
    assert told.value.code is StartFault.NO_USER


def test_numbers_that_are_lent_to_containers_are_passed_over(tmp_path: Path) -> None:
    lent = tmp_path / "subuid"
    lent.write_text("someone:100000:100002\nnonsense\nother:x:y\n")
    assert TenantUsers(tmp_path / "users.json", (200_000, 200_009), [lent]).of(A).uid == 200_002


def test_a_container_that_has_fewer_users_is_known(tmp_path: Path) -> None:
    few = tmp_path / "uid_map"
    few.write_text("         0     100000      65536\n")
    assert missing_here((200_000, 265_535), few)
    assert not missing_here((40_000, 59_999), few)
    assert missing_here((65_000, 65_536), few)


def _takes(file: str, names: list[str], results: Any) -> None:
    users = TenantUsers(Path(file), (200_000, 200_999), NONE_LENT)
    results.put({name: users.of(name).uid for name in names})


def test_agents_of_one_machine_that_ask_at_the_same_time_give_no_number_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    names = [[f"own-{agent}-{number}" for number in range(15)] + ["shared"] for agent in range(4)]
    agents = [context.Process(target=_takes, args=(str(tmp_path / "users.json"), some, results)) for some in names]
    for agent in agents:
        agent.start()
    found = [results.get(timeout=60) for _ in agents]
    for agent in agents:
        agent.join(60)
    given = {(name, uid) for one in found for name, uid in one.items()}
    assert len(given) == 4 * 15 + 1
    assert len({uid for _, uid in given}) == len(given)


def test_numbers_on_record_are_remembered_again_when_the_map_was_lost(tmp_path: Path) -> None:
    users = users_in(tmp_path)
    assert users.remember([(200_000, B), (200_002, A)]) == []
    assert [users.of(name).uid for name in (A, B, "gamma")] == [200_002, 200_000, 200_001]
    assert users.remember([(200_001, B), (200_000, B)]) == [200_001], "that one is another's by now"


def test_a_map_that_is_lost_while_its_agent_lives_gives_no_number_to_another_tenant(tmp_path: Path) -> None:
    users = users_in(tmp_path)
    users.remember([(200_001, A)])
    assert users.of("gamma").uid == 200_000
    (tmp_path / "users.json").unlink()
    assert users.of(B).uid == 200_002
    assert json.loads((tmp_path / "users.json").read_text()) == {"200000": "gamma", "200001": A, "200002": B}


# Processes


async def _started(driver: ProcessDriver, tenant: str, script: str, number: int = 0, **fields: Any) -> None:
    await driver.start(a_work(script, slot=(7 if tenant == A else 8, number), tenant=tenant, **fields))


A_BINDING, B_BINDING = ((7, 0), 11), ((8, 0), 11)


@ROOT_ONLY
@in_a_loop
async def test_each_tenant_runs_as_a_user_of_its_own_with_no_other_group(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        for tenant, binding in ((A, A_BINDING), (B, B_BINDING)):
            await _started(driver, tenant, "id -u; id -g; id -G; touch mine; grep NoNewPrivs /proc/self/status")
            await until(driver, ProcessState.ENDED, binding)
        for number, binding in enumerate((A_BINDING, B_BINDING)):
            uid = FIRST_USER + number
            assert yard.log(binding=binding).split() == [str(uid)] * 3 + ["NoNewPrivs:", "1"]
            assert (yard.working(binding) / "mine").stat().st_uid == uid


@ROOT_ONLY
@in_a_loop
async def test_a_tenant_can_neither_enter_nor_find_the_folder_of_another(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await _started(driver, A, "umask 0; chmod 777 .; echo s3cr > note; chmod 666 note; echo done; exec sleep 60")
        await until_true(lambda: yard.log(binding=A_BINDING))
        theirs = yard.working(A_BINDING)
        assert (theirs / "note").read_text() == "s3cr\n"
        tries = [
            f"cat {theirs}/note", f"ls {theirs}", f"test -e {theirs}", f"test -e {theirs.parent}/7-0-12",
            f"ls {theirs.parent}", f"ls {theirs.parent.parent}", f"ls {yard.data}/slots", f"ls {yard.data}/logs",
            f"touch {theirs}/mine", f"touch {theirs.parent}/mine", "mkdir $HOME/../mine",
            f"cat {yard.root}/users.json", f"ls {theirs.parent.parent / 'gone'}",
        ]  # fmt: skip
        script = "\n".join(f"{one} 2>/dev/null && echo reached {number}" for number, one in enumerate(tries))
        await _started(driver, B, f"{script}\ntouch mine && cat mine && echo over")
        await until(driver, ProcessState.ENDED, B_BINDING)
        assert yard.log(binding=B_BINDING) == "over\n"


@ROOT_ONLY
@in_a_loop
async def test_a_second_replica_of_a_tenant_has_the_same_user_also_after_a_restart(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await _started(driver, B, "exec sleep 60")
        await _started(driver, A, "exec sleep 60")
    async with yard.driver() as driver:
        await _started(driver, A, "id -u", number=1)
        await until(driver, ProcessState.ENDED, ((7, 1), 11))
        assert yard.log(binding=((7, 1), 11)) == f"{FIRST_USER + 1}\n"
        assert os.stat(f"/proc/{yard.record(A_BINDING).process.pid}").st_uid == FIRST_USER + 1


@ROOT_ONLY
@in_a_loop
async def test_what_runs_keeps_its_number_from_others_though_the_map_was_lost(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await _started(driver, A, "exec sleep 60")
    (yard.root / "users.json").unlink()
    async with yard.driver() as driver:
        await _started(driver, B, "id -u")
        await until(driver, ProcessState.ENDED, B_BINDING)
        assert yard.log(binding=B_BINDING) == f"{FIRST_USER + 1}\n"


@ROOT_ONLY
@in_a_loop
async def test_what_runs_under_a_number_that_is_anothers_by_now_is_ended(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await _started(driver, A, "exec sleep 60")
    (yard.root / "users.json").write_text(json.dumps({FIRST_USER: B}))
    async with yard.driver() as driver:
        await until(driver, ProcessState.ENDED, A_BINDING)


@ROOT_ONLY
@in_a_loop
async def test_nothing_starts_of_which_nobody_says_whose_it_is(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        with pytest.raises(CannotStart, match="the binding names no tenant"):
            await _started(driver, "", "id")


# Users that are named


@ROOT_ONLY
@in_a_loop
async def test_a_user_that_is_listed_for_a_tenant_may_be_named_by_name_or_number(yard: ProcessFolder) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    async with yard.driver(users=((A, "nobody"), (A, "61234"), (B, "no-such-user"))) as driver:
        for number, (user, uid) in enumerate([("nobody", nobody), (str(nobody), nobody), ("61234", 61_234)]):
            await _started(driver, A, "id -u; touch mine", number, user=user)
            binding = ((7, number), 11)
            await until(driver, ProcessState.ENDED, binding)
            assert yard.log(binding=binding) == f"{uid}\n"


@ROOT_ONLY
@pytest.mark.parametrize(
    ("user", "fault", "why"),
    [
        ("no-such-user", StartFault.UNKNOWN_USER, "no such user"),
        ("-1", StartFault.UNKNOWN_USER, "no such user"),
        ("4294967295", StartFault.UNKNOWN_USER, "no such user"),
        ("61235", StartFault.USER_NOT_ALLOWED, r"not among the users that this node lists for tenant alpha \(root, 6"),
        ("61234", StartFault.USER_NOT_ALLOWED, "not among the users that this node lists for tenant alpha"),
        ("61236", StartFault.USER_NOT_ALLOWED, "other tenants have this user, too"),
        ("61237", StartFault.USER_NOT_ALLOWED, "other tenants have this user, too"),
        (str(FIRST_USER + 7), StartFault.USER_NOT_ALLOWED, "other tenants have this user, too"),
        ("root", StartFault.USER_NOT_ALLOWED, "no run may be root"),
        ("0", StartFault.USER_NOT_ALLOWED, "no run may be root"),
    ],
)
@in_a_loop
async def test_other_users_are_refused_and_root_always(
    yard: ProcessFolder, user: str, fault: StartFault, why: str
) -> None:
    (yard.root / "users.json").write_text('{"61237": "beta"}')  # by another range than there is now
    listed = ((A, "root"), (A, "61236"), (A, "61237"), (A, str(FIRST_USER + 7)), (B, "61234"), (B, "61236"))
    async with yard.driver(users=listed) as driver:
        with pytest.raises(CannotStart, match=why) as told:
            await _started(driver, A, "id", user=user)
        assert told.value.code is fault


# Secrets


@pytest.fixture
def vault(yard: ProcessFolder) -> Path:
    """The secrets of two tenants, and what lies around them."""
    root = yard.root / "vault"
    for tenant in (A, B):
        (root / tenant / "db").mkdir(parents=True)
        (root / tenant / "db" / "key").write_text(f"s3cr-{tenant}\n")
    (yard.root / "outside").write_text("s3cr-outside")
    (root / "loose").write_text("s3cr-loose")
    (root / A / "link").symlink_to(yard.root / "outside")
    (root / A / "theirs").symlink_to(root / B / "db" / "key")
    (root / A / "same").symlink_to("db/key")
    (root / A / "loop").symlink_to("loop")
    (root / "alias").symlink_to(root / B)
    (root / A / "large").write_text("s3cr" * 20_000)
    root.chmod(0o700)
    return root


@pytest.mark.parametrize("where", ["file:db/key", "file:VAULT/alpha/db/key", "file:same", "file:db/../db/key"])
@in_a_loop
async def test_a_tenant_has_the_secrets_of_its_own_folder(yard: ProcessFolder, vault: Path, where: str) -> None:
    async with yard.driver(secret_folder=str(vault)) as driver:
        secrets = (("KEY", where.replace("VAULT", str(vault))),)
        await _started(driver, A, 'test "$KEY" = s3cr-alpha', secrets=secrets)
        assert (await until(driver, ProcessState.ENDED, A_BINDING)).code == 0


@pytest.mark.parametrize(
    ("tenant", "where", "why"),
    [
        (A, "file:/etc/hostname", "is not in"),
        (A, "file:VAULT/beta/db/key", "is not in"),
        (A, "file:../beta/db/key", "is not in"),
        (A, "file:../loose", "is not in"),
        (A, "file:theirs", "is not in"),
        (A, "file:../beta/missing", "is not in"),
        (A, "file:/no/such/file", "is not in"),
        (A, "file:loop", "Too many levels of symbolic links"),
        (A, "file:link", "is not in"),
        (A, "file:missing", "No such file"),
        (A, "file:db", "Is a directory"),
        (A, "file:large", "larger than"),
        (A, "file:", "Is a directory"),
        ("alias", "file:db/key", "is not in"),
        ("..", "file:outside", "no folder can be named"),
        (".", "file:beta/db/key", "no folder can be named"),
        ("beta/db", "file:key", "no folder can be named"),
        (A, "env:PATH", "not one that this node passes to alpha"),
        (A, "env:OF_BETA", "not one that this node passes to alpha"),
        (A, "env:MISSING", "no variable MISSING"),
        (A, "s3cr", "file:PATH or env:NAME"),
    ],
)
@in_a_loop
async def test_a_secret_that_cannot_be_had_is_told_without_its_value(
    yard: ProcessFolder, vault: Path, monkeypatch: pytest.MonkeyPatch, tenant: str, where: str, why: str
) -> None:
    monkeypatch.setenv("OF_BETA", "s3cr-variable")
    where = where.replace("VAULT", str(vault))
    variables = ((A, "MISSING"), (B, "OF_BETA"))
    async with yard.driver(secret_folder=str(vault), secret_variables=variables) as driver:
        with pytest.raises(CannotStart, match=why) as told:
            await _started(driver, tenant, "env", secrets=(("KEY", where),))
        assert told.value.code is StartFault.SECRET
        assert "s3cr" not in str(told.value).replace(where, "")
        await _started(driver, B, 'test "$KEY" = s3cr-variable', secrets=(("KEY", "env:OF_BETA"),))
        assert (await until(driver, ProcessState.ENDED, B_BINDING)).code == 0


@in_a_loop
async def test_a_link_that_is_turned_elsewhere_while_it_is_opened_gives_nothing(
    yard: ProcessFolder, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = os.path.realpath

    def slowly(path: Path, *, strict: bool = False) -> str:
        found = resolve(path, strict=strict)
        if Path(path).name == "turned":  # whoever looked first has seen a link to what is the tenant's own
            (vault / A / "db" / "key").unlink()
            (vault / A / "db" / "key").symlink_to(vault / B / "db" / "key")
        return found

    (vault / A / "turned").symlink_to("db/key")
    monkeypatch.setattr("holdfast.agent.drivers.process.environment.os.path.realpath", slowly)
    async with yard.driver(secret_folder=str(vault)) as driver:
        with pytest.raises(CannotStart, match="has led out of"):
            await _started(driver, A, "env", secrets=(("KEY", "file:turned"),))


@ROOT_ONLY
@in_a_loop
async def test_a_folder_of_secrets_that_others_can_look_into_hands_on_nothing(yard: ProcessFolder, vault: Path) -> None:
    vault.chmod(0o701)
    async with yard.driver(secret_folder=str(vault)) as driver:
        with pytest.raises(CannotStart, match=r"open to other users.*chmod o-rwx"):
            await _started(driver, A, "env", secrets=(("KEY", "file:db/key"),))


@ROOT_ONLY
@in_a_loop
async def test_a_tenant_reads_neither_the_secrets_nor_the_variables_of_another(
    yard: ProcessFolder, vault: Path
) -> None:
    async with yard.driver(secret_folder=str(vault)) as driver:
        await _started(driver, A, "exec sleep 60", secrets=(("KEY", "file:db/key"),))
        pid = yard.record(A_BINDING).process.pid
        tries = [f"cat {vault}/alpha/db/key", f"ls {vault}", f"grep -a s3cr /proc/{pid}/environ", f"kill -0 {pid}",
                 f"ls -l /proc/{pid}/cwd/", f"head -c1 /proc/{pid}/mem"]  # fmt: skip
        script = "\n".join(f"{one} 2>/dev/null && echo reached {number}" for number, one in enumerate(tries))
        await _started(driver, B, f"{script}\necho over", secrets=(("KEY", "file:db/key"),))
        await until(driver, ProcessState.ENDED, B_BINDING)
        assert yard.log(binding=B_BINDING) == "over\n"


# What is left behind


HOSTILE = """
mkdir -p closed/within; echo 1 > closed/within/file; chmod 000 closed/within closed
ln -s OUTSIDE link; ln -s OUTSIDE/kept file-link; mkdir odd; touch -- odd/-rf "odd/a b"; mkfifo odd/fifo
i=0; while [ $i -lt 1500 ]; do mkdir -p d/d/d/d/d/d/d/d/d/d; cd d/d/d/d/d/d/d/d/d/d; echo x > file; i=$((i+10)); done
echo made
"""


@in_a_loop
async def test_nothing_is_left_of_what_a_process_wrote_and_nothing_else_is_touched(yard: ProcessFolder) -> None:
    outside = yard.root / "outside"
    outside.mkdir()
    (outside / "kept").write_text("here")
    async with yard.driver() as driver:
        await _started(driver, A, HOSTILE.replace("OUTSIDE", str(outside)))
        await until(driver, ProcessState.ENDED, A_BINDING, limit=30)
        assert yard.log(binding=A_BINDING) == "made\n"
        await _started(driver, B, "echo here > kept; exec sleep 60")
        await until_true(lambda: (yard.working(B_BINDING) / "kept").exists())
        await driver.forget(*A_BINDING)
        work = yard.data / "work"
        own = [yard.working(B_BINDING).parent.name]
        if os.geteuid() == 0:
            assert sorted(one.name for one in work.iterdir() if one.name != "gone") == own
        await until_true(lambda: not list((work / "gone").iterdir()))
        assert (yard.working(B_BINDING) / "kept").read_text() == "here\n"
    assert (outside / "kept").read_text() == "here"


def _fill(folders: list[Path], asked: Connection) -> None:
    """Be another replica of the tenant, which was handed the folders, and add something whenever that is asked for."""
    held = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
    os.setresuid(FIRST_USER, FIRST_USER, FIRST_USER)
    asked.send("ready")
    while number := asked.recv():
        for file in held:
            with suppress(OSError):
                os.mkdir(f"f{number}", dir_fd=file)
        asked.send("done")


@ROOT_ONLY
def test_what_a_process_has_left_is_removed_though_its_tenant_goes_on_to_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "left", tmp_path / "left" / "within"]
    for folder in folders:
        folder.mkdir()
        os.chown(folder, FIRST_USER, FIRST_USER)
    ours, theirs = multiprocessing.Pipe()
    tenant = multiprocessing.Process(target=_fill, args=(folders, theirs), daemon=True)
    tenant.start()
    numbers, names = iter(range(1, 100)), run_folders._names

    def once_filled(folder: int) -> list[tuple[str, bool]]:
        ours.send(next(numbers))
        ours.recv()
        return names(folder)

    monkeypatch.setattr(run_folders, "_names", once_filled)
    try:
        ours.recv()
        run_folders.remove_tree(folders[0])
        assert not folders[0].exists()
    finally:
        ours.send(0)
        tenant.join()


@in_a_loop
async def test_what_an_agent_that_was_killed_had_no_time_to_remove_is_removed_by_the_next(yard: ProcessFolder) -> None:
    async with yard.driver() as driver:
        await _started(driver, A, "touch mine")
        await until(driver, ProcessState.ENDED, A_BINDING)
        await _started(driver, B, "touch mine")
        await until(driver, ProcessState.ENDED, B_BINDING)
    left, kept = yard.working(A_BINDING), yard.working(B_BINDING)
    yard.slot(A_BINDING).rename(yard.root / "as-if-it-was-forgotten")
    (yard.data / "work" / "9-0-11" / "of-an-older-agent").mkdir(parents=True)
    (yard.data / "work" / "gone" / "7-0-10.0").mkdir()
    async with yard.driver():
        await until_true(lambda: not left.exists() and not list((yard.data / "work" / "gone").iterdir()))
        assert (kept / "mine").exists()
        assert (yard.data / "work" / "9-0-11" / "of-an-older-agent").exists()


# Limits


@pytest.mark.parametrize(
    "script",
    ["head -c 6000000 /dev/zero > large", "mkdir -p a/b; chmod 700 a; head -c 6000000 /dev/zero > a/b/large"],
)
@in_a_loop
async def test_a_replica_over_its_disk_is_ended_and_says_why(yard: ProcessFolder, script: str) -> None:
    async with yard.driver() as driver:
        await _started(driver, A, f"trap '' TERM; {script}; sleep 60 & wait", need=Resources(disk=4))
        ended = await until(driver, ProcessState.ENDED, A_BINDING, limit=30)
        assert (ended.why, ended.signal) == (ExitReason.OVER_DISK, 9)
        assert ended.detail == "it used more than its 4 MiB of disk, and was killed"


@in_a_loop
async def test_the_next_agent_measures_what_it_has_found_and_reads_why_it_ended(yard: ProcessFolder) -> None:
    async with yard.driver(disk_ms=3_600_000) as driver:
        await _started(driver, A, "head -c 6000000 /dev/zero > large; exec sleep 60", need=Resources(disk=4))
        await until_true(lambda: (yard.working(A_BINDING) / "large").exists())
    async with yard.driver() as driver:
        assert (await until(driver, ProcessState.ENDED, A_BINDING, limit=30)).why is ExitReason.OVER_DISK
    async with yard.driver() as driver:
        assert (await until(driver, ProcessState.ENDED, A_BINDING)).why is ExitReason.OVER_DISK


@in_a_loop
async def test_links_holes_and_what_others_hold_are_not_counted(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (yard.root / "elsewhere").write_bytes(b"x" * 6_000_000)
    script = f"ln -s {yard.root}/elsewhere link; ln -s / root; truncate -s 1G hole; head -c 3000000 /dev/zero > file; "
    script += "ln file same; ln file again; echo made; exec sleep 60"
    counted: list[int | None] = []
    measure = disk_usage.used_bytes

    def counting(folder: Path) -> int | None:
        counted.append(measure(folder))
        return counted[-1]

    monkeypatch.setattr(disk_usage, "used_bytes", counting)
    async with yard.driver() as driver:
        await _started(driver, A, script, need=Resources(disk=4))
        await until_true(lambda: yard.log(binding=A_BINDING))
        await until_true(lambda: len(counted) > 3 and (counted[-1] or 0) >= 3_000_000)
        assert driver.runs()[0].state is ProcessState.RUNNING
        await _started(driver, B, "head -c 6000000 /dev/zero > large; sleep 0.3")
        assert (await until(driver, ProcessState.ENDED, B_BINDING)).why is ExitReason.EXIT, "it asked for no bound"


@in_a_loop
async def test_a_replica_that_keeps_its_disk_from_being_measured_is_ended_and_says_why(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by moving folders about, over which `du` stumbles and tells no sum."""
    tried: list[str] = []

    def stumbling(folder: Path) -> int | None:
        tried.append(folder.name)
        return None if folder.name.startswith("7-") or tried.count(folder.name) % disk_usage.TRIES else 1_024

    monkeypatch.setattr(disk_usage, "used_bytes", stumbling)
    async with yard.driver() as driver:
        await _started(driver, B, "exec sleep 60", need=Resources(disk=4))
        await _started(driver, A, "exec sleep 60", need=Resources(disk=4))
        ended = await until(driver, ProcessState.ENDED, A_BINDING, limit=30)
        assert ended.why is ExitReason.DISK_UNKNOWN
        assert ended.detail == "its disk usage, 4 MiB at most, could not be measured; it was killed"
        await until_true(lambda: tried.count("8-0-11") > 2 * disk_usage.TRIES, 30)
        assert [live.state for live in driver.runs()] == [ProcessState.ENDED, ProcessState.RUNNING], (
            "it was measured in the end"
        )


@in_a_loop
async def test_an_agent_that_cannot_measure_anything_ends_nobody_for_it(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []

    def failing(folder: Path) -> int | None:
        tried.append(folder)
        raise OSError(errno.EAGAIN, "no process can be made")

    monkeypatch.setattr(disk_usage, "used_bytes", failing)
    async with yard.driver() as driver:
        await _started(driver, A, "exec sleep 60", need=Resources(disk=4))
        await until_true(lambda: len(tried) > 2 * disk_usage.TRIES)
        assert driver.runs()[0].state is ProcessState.RUNNING


@ROOT_ONLY
@in_a_loop
async def test_a_folder_that_takes_long_to_measure_holds_up_no_other_tenant(
    yard: ProcessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, hung = disk_usage.used_bytes, threading.Event()

    def slowly(folder: Path) -> int | None:
        if folder.name.startswith("7-"):
            hung.wait(60)
        return measure(folder)

    monkeypatch.setattr(disk_usage, "used_bytes", slowly)
    try:
        async with yard.driver() as driver:
            for number in range(6):
                await _started(driver, A, "exec sleep 60", number, need=Resources(disk=4))
            await _started(driver, B, "head -c 6000000 /dev/zero > large; exec sleep 60", need=Resources(disk=4))
            assert (await until(driver, ProcessState.ENDED, B_BINDING, limit=30)).why is ExitReason.OVER_DISK
    finally:
        hung.set()


@in_a_loop
async def test_what_asks_for_nothing_is_limited_in_memory_cpu_and_processes(cgroup_yard: ProcessFolder) -> None:
    whole = Resources(cpu=2_000, memory=512)
    async with cgroup_yard.driver(whole=whole, pids=300) as driver:
        await _started(driver, A, "exec sleep 60")
        groups = cgroup_yard.record(A_BINDING).groups

        def said(*names: str) -> str:
            found = [kernel.read(f"{group}/{name}").strip() for group in groups for name in names]
            return next(one for one in found if one)

        assert said("memory.max", "memory.limit_in_bytes") == str(512 << 20)
        assert said("cpu.max", "cpu.cfs_quota_us").split()[0] == "200000"
        assert said("pids.max") == "300"
