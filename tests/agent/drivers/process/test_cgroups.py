"""Limits as they are written down, in a tree of folders that behaves as the kernel's."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.core.model.values.resources import Resources
from tests.support.processes.process_world import a_work

FILES = {
    "memory": ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events"),
    "cpu": ("cpu.max",),
    "pids": ("pids.max",),
}
FILES_OF_ONE = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"),
    "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us"),
    "pids": ("pids.max",),
    "freezer": ("freezer.state",),
}
WORK = a_work("true", need=Resources(cpu=1_500, memory=256), pids=40)


class FakeTree:
    """Fills folders with the files that the kernel would."""

    def __init__(self, *, handed: str = "memory cpu pids") -> None:
        self._handed = handed

    def make(self, folder: Path) -> None:
        if folder.exists():
            return
        folder.mkdir()
        parent = folder.parent
        if (parent / "cgroup.controllers").exists():
            handed = (parent / "cgroup.subtree_control").read_text().split()
            self._fill(folder, [name for controller in handed for name in FILES[controller]], handed)
        else:
            controller = parent.name if parent.name in FILES_OF_ONE else parent.parent.name
            self._fill(folder, FILES_OF_ONE[controller], None)

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder)

    def hand_down(self, folder: Path, controller: str) -> None:
        if controller not in self._handed:
            raise OSError(errno.EBUSY, "processes in it")
        control = folder / "cgroup.subtree_control"
        control.write_text(f"{control.read_text()} {controller}")

    def _fill(self, folder: Path, names: list[str] | tuple[str, ...], controllers: list[str] | None) -> None:
        for name in ("cgroup.procs", *names):
            (folder / name).touch()
        if controllers is not None:
            (folder / "cgroup.controllers").write_text(" ".join(controllers))
            (folder / "cgroup.subtree_control").touch()


def found(root: Path, tree: FakeTree) -> Cgroups:
    groups = Cgroups(root, Path("/somewhere/data"), tree)
    groups.find()
    return groups


def a_second_version(root: Path, offered: str = "cpuset cpu io memory pids") -> Path:
    root.mkdir(exist_ok=True)
    (root / "cgroup.controllers").write_text(offered)
    (root / "cgroup.subtree_control").touch()
    return root


def said(folder: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(folder).iterdir() if path.read_text()}


def test_version_2_hands_controllers_down_and_limits_in_one_folder(tmp_path: Path) -> None:
    groups = found(a_second_version(tmp_path / "cgroup"), FakeTree())
    assert groups.controllers == {"memory", "cpu", "pids"}
    (folder,) = groups.make("7-0-11", WORK)
    limits = {name: text for name, text in said(folder).items() if not name.startswith("cgroup")}
    assert limits == {
        "memory.max": str(256 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
        "pids.max": "40",
    }
    groups.remove([folder])
    groups.leave()
    assert sorted(path.name for path in (tmp_path / "cgroup").iterdir()) == [
        "cgroup.controllers",
        "cgroup.subtree_control",
    ]


def test_what_version_2_does_not_hand_down_is_not_limited(tmp_path: Path) -> None:
    groups = found(a_second_version(tmp_path / "cgroup", "cpu pids"), FakeTree(handed="pids"))
    assert groups.controllers == {"pids"}
    assert groups.works
    (folder,) = groups.make("7-0-11", WORK)
    assert said(folder)["pids.max"] == "40"


def test_version_1_limits_in_a_folder_for_each_controller(tmp_path: Path) -> None:
    for controller in ("memory", "cpu", "pids", "freezer"):
        (tmp_path / controller).mkdir()
        (tmp_path / controller / "cgroup.procs").touch()
    groups = found(tmp_path, FakeTree())
    assert groups.controllers == {"memory", "cpu", "pids"}
    folders = groups.make("7-0-11", WORK)
    assert [Path(folder).parent.parent.name for folder in folders] == ["memory", "cpu", "pids", "freezer"]
    assert [said(folder) for folder in folders] == [
        {"memory.limit_in_bytes": str(256 << 20), "memory.memsw.limit_in_bytes": str(256 << 20)},
        {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"},
        {"pids.max": "40"},
        {},
    ]
    assert groups.named("7-0-11") == folders
    groups.remove(folders)
    assert groups.named("7-0-11") == []


def test_what_is_not_limited_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "cgroup.procs").touch()
    groups = found(tmp_path, FakeTree())
    assert [said(folder) for folder in groups.make("7-0-11", a_work("true"))] == [{}]


def test_nothing_is_promised_where_there_is_nothing(tmp_path: Path) -> None:
    groups = found(tmp_path, FakeTree())
    assert not groups.works
    assert groups.controllers == frozenset()
    assert groups.make("7-0-11", WORK) == []


def test_two_drivers_on_one_machine_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "cgroup.procs").touch()
    both = [Cgroups(tmp_path, Path(f"/somewhere/{name}"), FakeTree()) for name in ("one", "other")]
    for groups in both:
        groups.find()
    assert both[0].make("7-0-11", WORK) != both[1].make("7-0-11", WORK)


def one_controller(root: Path) -> Path:
    (root / "pids").mkdir()
    (root / "pids" / "cgroup.procs").touch()
    return root


def of_folder(root: Path, name: str) -> Cgroups:
    """Those of an agent that keeps what it has in a folder of this name."""
    groups = Cgroups(root, Path(f"/somewhere/{name}"), FakeTree())
    groups.find()
    return groups


def starts_of(root: Path, name: str) -> Cgroups:
    """The same, when that agent starts."""
    groups = Cgroups(root, Path(f"/somewhere/{name}"), FakeTree())
    groups.sweep()
    groups.find()
    return groups


def test_what_a_killed_agent_left_is_removed_when_another_one_starts_whatever_its_folder(tmp_path: Path) -> None:
    killed = of_folder(one_controller(tmp_path), "killed")
    killed.make("7-0-11", WORK)
    killed.release()  # the kernel does it, when a process ends in whatever way
    starts_of(tmp_path, "other")
    assert len(list((tmp_path / "pids").glob("holdfast-*"))) == 1, "only that of the living is there"


def test_cgroups_of_an_agent_that_lives_are_left_alone_though_nobody_is_in_them(tmp_path: Path) -> None:
    living = of_folder(one_controller(tmp_path), "living")
    starts_of(tmp_path, "other")
    (folder,) = living.make("7-0-11", WORK)
    starts_of(tmp_path, "third")
    assert Path(folder).exists()


def test_what_a_killed_agent_left_running_is_left_alone(tmp_path: Path) -> None:
    killed = of_folder(one_controller(tmp_path), "killed")
    runs, ended = killed.make("7-0-11", WORK), killed.make("7-1-12", WORK)
    (Path(runs[0]) / "cgroup.procs").write_text("4711\n")
    killed.release()
    starts_of(tmp_path, "other")
    assert [Path(one).exists() for one in (*runs, *ended)] == [True, False]
    again = of_folder(tmp_path, "killed")
    assert again.named("7-0-11") == runs, "the next agent of its folder has it"


def test_a_folder_of_others_that_has_no_name_of_ours_is_left_alone(tmp_path: Path) -> None:
    one_controller(tmp_path)
    for name in ("holdfast", "holdfast-tools", "system.slice"):
        (tmp_path / "pids" / name).mkdir()
    starts_of(tmp_path, "other")
    assert {"holdfast", "holdfast-tools", "system.slice"} <= {path.name for path in (tmp_path / "pids").iterdir()}


def test_strays_are_cgroups_of_the_same_folder_that_no_binding_has(tmp_path: Path) -> None:
    groups = of_folder(one_controller(tmp_path), "data")
    (known,), (stray,) = groups.make("7-0-11", WORK), groups.make("7-1-12", WORK)
    assert groups.strays(["7-0-11"]) == [[stray]]
    assert groups.strays([]) == [[known], [stray]]
