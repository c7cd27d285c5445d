"""The driver's folders: one for each binding, its working folder, and the logs of forgotten runs.

    DATA/work/UID/          one for each user, owned by root: only that user can pass through it, and none can list it
    DATA/work/UID/BINDING/  the working folder of a binding; owned by its user
    DATA/work/gone/         leftovers of processes until they are removed; root only

Tenants own the content of their working folders and may have filled them in any way. So a leftover folder is moved away
in one step and removed later (`remove_tree`). The folders above it are root's, so that no name leads elsewhere.

The folder of a binding is created first, and only once: a second start of the same binding finds it there. Without a
record nothing was begun in it, and removing it prevents a guard that is still starting from beginning.

`remove_tree` follows no link, uses no path longer than one name, and opens at most three descriptors at a time. A
folder within a folder is moved up before it is emptied, so that any depth of nesting is reached.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from secrets import token_hex

from holdfast.agent.drivers.driver import CannotStart, StartFault
from holdfast.agent.drivers.process.tenant_users import TenantUser
from holdfast.agent.guard import files
from holdfast.core.agent.plan import RunKey

#: The guard's own log, beside the logs of the process.
GUARD_LOG = "guard"

#: Attempts to create a folder that is removed concurrently.
TRIES = 100

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)")
#: Largest number of names in memory at a time.
NAMES_MAX = 1_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def run_name(binding: RunKey) -> str:
    """Return the name of everything that belongs to a binding."""
    (workload, ordinal), epoch = binding
    return f"{workload}-{ordinal}-{epoch}"


class RunFolders:
    """The folders of one driver."""

    def __init__(self, root: Path, logs_kept: int) -> None:
        self._root = root
        self._slots = root / "slots"
        self._work = root / "work"
        self._gone = self._work / "gone"
        self._logs = root / "logs"
        self._logs_kept = logs_kept

    def prepare(self) -> None:
        """Create missing folders. Tenants' users may pass through to their working folders, and see nothing else."""
        own = ((self._work, 0o711), (self._gone, 0o700), (self._slots, 0o700), (self._logs, 0o700))
        for folder, mode in ((self._root, 0o711), *own):
            folder.mkdir(parents=True, exist_ok=True, mode=mode)
        for folder, mode in own:
            folder.chmod(mode)

    @staticmethod
    def binding_of(folder: Path) -> RunKey:
        """Return the binding from a folder's name."""
        found = _NAME.fullmatch(folder.name)
        assert found is not None, f"{folder} is not the folder of a binding"
        workload, ordinal, epoch = map(int, found.groups())
        return (workload, ordinal), epoch

    def found(self) -> list[Path]:
        """Return the folders of bindings, in order."""
        return sorted(folder for folder in self._slots.iterdir() if _NAME.fullmatch(folder.name))

    def of(self, name: str) -> Path:
        return self._slots / name

    def make(self, name: str) -> Path:
        """Create the folder of a binding, which must not exist yet."""
        folder = self.of(name)
        try:
            folder.mkdir(mode=0o700)
            (folder / files.LOGS).mkdir(mode=0o700)
        except FileExistsError:
            raise CannotStart(
                StartFault.DRIVER, f"{folder} is there already\nhint: forget the binding before starting it again"
            ) from None
        return folder

    def working(self, name: str, uid: int) -> Path:
        """Return the default working folder of a binding under this user."""
        return self._work / str(uid) / name

    def make_working(self, name: str, user: TenantUser | None) -> None:
        """Create the default working folder, accessible to its user only."""
        folder = self.working(name, user.uid if user is not None else os.geteuid())
        for _ in range(TRIES):
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                if user is not None:
                    os.chown(folder.parent, 0, user.gid)
                    folder.parent.chmod(0o710)
                folder.mkdir(mode=0o700, exist_ok=True)
                break
            except FileNotFoundError:  # the last other folder of this user was removed at this moment
                continue
        if user is not None:
            os.chown(folder, user.uid, user.gid)

    def remove(self, name: str) -> None:
        """Remove all that belongs to a binding, including its logs."""
        shutil.rmtree(self._slots / name, ignore_errors=True)
        for folder in (*self._work.glob(f"*/{name}"), *self._work.glob(name)):  # older versions had no folder per user
            self._move_away(folder)

    def move_strays_away(self) -> None:
        """Move away the folders of bindings that were being forgotten when the agent was killed."""
        users = [folder for folder in self._work.iterdir() if folder.name.isdecimal()]
        for folder in [folder for user in users for folder in user.iterdir()]:
            if not self.of(folder.name).exists():
                self._move_away(folder)

    def empty_gone(self) -> list[OSError]:
        """Remove what was moved away, which may take long; return the errors."""
        faults = []
        for folder in sorted(self._gone.iterdir()):
            try:
                remove_tree(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                faults.append(error)
        return faults

    def _move_away(self, folder: Path) -> None:
        with suppress(FileNotFoundError):
            folder.rename(self._gone / f"{folder.name}.{token_hex(8)}")
        with suppress(OSError):  # its user has other folders
            folder.parent.rmdir()

    def remove_unbegun(self, folder: Path) -> bool:
        """Remove a folder without a record; whether it is gone. If not, a record was just written."""
        with suppress(OSError):
            (folder / files.LOGS / GUARD_LOG).unlink(missing_ok=True)
            (folder / files.LOGS).rmdir()
        with suppress(OSError):
            for name in (files.SOCKET, files.WHO, f"{files.RECORD}.new"):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        return not folder.exists()

    def forget(self, name: str) -> None:
        """Retain the logs of a binding, up to the configured number, and remove the rest."""
        numbers = [int(kept.suffix[1:]) for kept in self._logs.glob(f"{name}.*")]
        with suppress(OSError):
            (self._slots / name / files.LOGS).rename(self._logs / f"{name}.{max(numbers, default=0) + 1}")
        self.remove(name)
        oldest_first = sorted(self._logs.iterdir(), key=lambda kept: (kept.stat().st_mtime_ns, kept.name))
        for kept in oldest_first[: -self._logs_kept or None]:
            shutil.rmtree(kept, ignore_errors=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it. `OSError` if something stays, for example a mount."""
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if folder.is_symlink() or not folder.is_dir():
            os.unlink(folder.name, dir_fd=above)
            return
        top = _opened(folder.name, above)
        try:
            fresh = map(f"{token_hex(8)}-{{}}".format, count())
            while some := _names(top):
                for name, is_folder in some:
                    _remove(name, top, fresh) if is_folder else os.unlink(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(folder.name, dir_fd=above)
    finally:
        os.close(above)


def _remove(name: str, above: int, fresh: Iterator[str]) -> None:
    """Remove a folder and its files; move the folders in it to its parent."""
    folder = _opened(name, above)
    try:
        while some := _names(folder):
            for one, is_folder in some:
                if not is_folder:
                    os.unlink(one, dir_fd=folder)
                    continue
                _own(one, folder)
                os.rename(one, next(fresh), src_dir_fd=folder, dst_dir_fd=above)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)


def _opened(name: str, above: int) -> int:
    """Open a folder and take its ownership, so that processes of its former owner can add nothing more."""
    _own(name, above)
    folder = os.open(name, _FOLDER, dir_fd=above)
    if os.geteuid() == 0:
        os.fchown(folder, 0, 0)
        os.fchmod(folder, 0o700)
    return folder


def _own(name: str, above: int) -> None:
    """Open a folder that its owner has closed to itself, which hinders every user but root."""
    if os.geteuid() != 0:
        os.chmod(name, 0o700, dir_fd=above)


def _names(folder: int) -> list[tuple[str, bool]]:
    """Return some of the names in a folder, and whether each is a folder; a link is not."""
    with os.scandir(folder) as found:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, NAMES_MAX)]
