"""Limits by cgroups, version 2 or 1, whichever the agent may write to.

    version 2    ROOT/holdfast-ID/SLOT/              one tree; controllers are enabled level by level
    version 1    ROOT/CONTROLLER/holdfast-ID/SLOT/   a tree for each; `unified` is a version 2 without controllers

ID is a hash of the driver's folder, so that two drivers on one machine use different groups. Each driver locks its own
group while it runs: a group without a lock was left by a driver that was killed. Guards stay outside, since a limit
must not end the process that enforces it. The guard enters, kills and counts kills by itself, with the folders alone.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from holdfast.agent.drivers.driver import RunSpec
from holdfast.agent.guard.kernel import members

PERIOD_US = 100_000
QUOTA_MIN_US = 1_000
MEBIBYTE = 1 << 20
CONTROLLERS = ("memory", "cpu", "pids")
_NAME = re.compile(r"holdfast-[0-9a-f]{8}")


class CgroupTree(Protocol):
    """Folders of cgroups. The kernel fills each with the files of the controllers that are enabled for it."""

    def make(self, folder: Path) -> None:
        """Create a folder, if it is missing."""

    def remove(self, folder: Path) -> None:
        """Remove a folder."""

    def hand_down(self, folder: Path, controller: str) -> None:
        """Enable the controller for the groups within the folder."""


class KernelTree:
    def make(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True, mode=0o755)

    def remove(self, folder: Path) -> None:
        folder.rmdir()

    def hand_down(self, folder: Path, controller: str) -> None:
        _write(folder / "cgroup.subtree_control", f"+{controller}")


class Cgroups:
    """The cgroups of one driver. If it can write to none, it has no controllers and creates no groups."""

    def __init__(self, root: Path, owner: Path, tree: CgroupTree | None = None) -> None:
        self._root = root
        self._name = "holdfast-" + blake2b(os.fsencode(owner.resolve()), digest_size=4).hexdigest()
        self._tree = tree or KernelTree()
        #: The folder above those of slots, for each controller that works, and for `unified` or `freezer`.
        self._bases: dict[str, Path] = {}
        #: Descriptors of those folders, which hold the locks.
        self._locks: list[int] = []

    def find(self) -> None:
        """Detect which controllers work here, and create the folders above those of slots."""
        if (self._root / "cgroup.controllers").exists():
            self._find_unified(self._root, CONTROLLERS)
            return
        for controller in CONTROLLERS:
            self._find_single(controller)
        if (self._root / "unified" / "cgroup.controllers").exists():
            self._find_unified(self._root / "unified", ())
        if self._bases and "unified" not in self._bases:
            self._find_single("freezer")

    def strays(self, known: Collection[str]) -> list[list[str]]:
        """Return the driver's cgroups that have none of these names: no record describes what may run in them."""
        inside = {group.name for base in self._bases.values() for group in base.iterdir() if group.is_dir()}
        return [self.named(name) for name in sorted(inside) if name not in known]

    def sweep(self) -> None:
        """Remove empty cgroups that killed drivers of this machine left behind."""
        trees = (self._root, *(self._root / name for name in (*CONTROLLERS, "freezer", "unified")))
        for tree in trees:
            for base in sorted(tree.iterdir() if tree.is_dir() else ()):
                if _NAME.fullmatch(base.name) and base.name != self._name:
                    with suppress(OSError):
                        self._sweep(base)

    def _sweep(self, base: Path) -> None:
        file = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for group in sorted(path for path in base.iterdir() if path.is_dir()):
                if not members([str(group)]):
                    with suppress(OSError):
                        self._tree.remove(group)
            if not any(path.is_dir() for path in base.iterdir()):
                self._tree.remove(base)
        finally:
            os.close(file)

    @property
    def controllers(self) -> frozenset[str]:
        """Which of memory, cpu and pids the kernel limits."""
        return frozenset(CONTROLLERS) & self._bases.keys()

    @property
    def works(self) -> bool:
        """Whether cgroups can be used at all."""
        return bool(self._bases)

    def make(self, name: str, work: RunSpec) -> list[str]:
        """Create a cgroup with the limits of this run; return its folders."""
        folders = list(dict.fromkeys(base / name for base in self._bases.values()))
        try:
            for folder in folders:
                self._tree.make(folder)
            for controller in sorted(self.controllers):
                _limit(self._bases[controller] / name, controller, work)
        except OSError:
            self.remove([str(folder) for folder in folders])
            raise
        return [str(folder) for folder in folders]

    def named(self, name: str) -> list[str]:
        """Return the existing folders of the cgroup of this name."""
        return [str(folder) for base in self._bases.values() if (folder := base / name).exists()]

    def remove(self, groups: Sequence[str]) -> None:
        """Remove an empty cgroup. Its folders are busy for a moment after its last process has ended."""
        for group in groups:
            for _ in range(20):
                with suppress(OSError):
                    self._tree.remove(Path(group))
                if not os.path.exists(group):
                    break
                time.sleep(0.01)

    def leave(self) -> None:
        """Remove the folders above those of slots, if no slot has one."""
        for base in dict.fromkeys(self._bases.values()):
            with suppress(OSError):
                if not any(path.is_dir() for path in base.iterdir()):
                    self._tree.remove(base)
        self.release()

    def release(self) -> None:
        for file in self._locks:
            os.close(file)
        self._locks.clear()

    def _make_base(self, base: Path) -> None:
        """Create and lock the folder, again if a sweep removed it in between. Tenants may pass through it but not open
        it, since opening allows locking."""
        while True:
            self._tree.make(base)
            try:
                base.chmod(0o711)
                file = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            with suppress(OSError):  # without locks there is no sweep either
                fcntl.flock(file, fcntl.LOCK_SH)
            with suppress(FileNotFoundError):
                if os.stat(base).st_ino == os.fstat(file).st_ino:
                    self._locks.append(file)
                    return
            os.close(file)

    def _find_unified(self, root: Path, controllers: Sequence[str]) -> None:
        """Version 2. Controllers that cannot be enabled limit nothing, but a whole cgroup can be killed in any case."""
        base = root / self._name
        with suppress(OSError):
            self._hand_down(root, controllers)
            self._make_base(base)
            self._bases["unified"] = base
            self._bases |= dict.fromkeys(self._hand_down(base, controllers), base)

    def _hand_down(self, level: Path, controllers: Sequence[str]) -> list[str]:
        """Enable the controllers that this level has; return those that are enabled."""
        for controller in controllers:
            with suppress(OSError):
                if controller in _words(level / "cgroup.controllers"):
                    self._tree.hand_down(level, controller)
        return [controller for controller in controllers if controller in _words(level / "cgroup.subtree_control")]

    def _find_single(self, controller: str) -> None:
        """Version 1, one controller."""
        base = self._root / controller / self._name
        with suppress(OSError):
            if (self._root / controller / "cgroup.procs").exists():
                self._make_base(base)
                self._bases[controller] = base


def _limit(group: Path, controller: str, work: RunSpec) -> None:
    """Write the limits of this run, in the format of the version whose files exist."""
    match controller:
        case "memory" if work.need.memory:
            _limit_memory(group, work.need.memory * MEBIBYTE)
        case "cpu" if work.need.cpu:
            quota = max(QUOTA_MIN_US, work.need.cpu * PERIOD_US // 1000)
            if (group / "cpu.max").exists():
                _write(group / "cpu.max", f"{quota} {PERIOD_US}")
            else:
                _write(group / "cpu.cfs_period_us", str(PERIOD_US))
                _write(group / "cpu.cfs_quota_us", str(quota))
        case "pids" if work.pids:
            _write(group / "pids.max", str(work.pids))


def _limit_memory(group: Path, size_bytes: int) -> None:
    """Limit memory and swap; beyond it the kernel ends all of the group together, if it can."""
    if (group / "memory.max").exists():
        _write(group / "memory.max", str(size_bytes))
    else:
        _write(group / "memory.limit_in_bytes", str(size_bytes))
    further = ("memory.swap.max", "0"), ("memory.oom.group", "1"), ("memory.memsw.limit_in_bytes", str(size_bytes))
    for name, text in further:
        if (group / name).exists():
            _write(group / name, text)


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()


def _write(path: Path, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
