"""Where a driver keeps things: a folder for each binding, where its process works, and the logs of what was forgotten.

    DATA/work/UID/          one for each user, root's: that user alone can pass through it, and nobody can look into it
    DATA/work/UID/BINDING/  where the process of a binding works; its user's alone
    DATA/work/gone/         what processes have left, until it is removed; root's alone

Those of tenants own what is in their folders, and may have filled them in any way: what they left is moved away in one
step, and removed by whoever has the time (`folder_removal`). What is above it is root's, so that no name leads
elsewhere.

The folder of a binding is made before anything else, and once: a second start of the same binding finds it there. While
it has no record nothing was begun in it, and removing it keeps a guard that is still on its way from beginning.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from holdfast.agent.drivers.driver import CannotStart, RunKey, StartFault
from holdfast.agent.drivers.process.folder_removal import remove_tree
from holdfast.agent.drivers.process.tenant_users import TenantUser
from holdfast.agent.guard import files

#: Beside the logs of the process: what its guard had to complain of.
GUARD_LOG = "guard"

#: So often a folder is made that somebody removes.
TRIES = 100

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)")


def run_name(binding: RunKey) -> str:
    """The name of everything that belongs to a binding."""
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
        """Make what is missing. Users of tenants may pass to where they work, and see nothing else."""
        own = ((self._work, 0o711), (self._gone, 0o700), (self._slots, 0o700), (self._logs, 0o700))
        for folder, mode in ((self._root, 0o711), *own):
            folder.mkdir(parents=True, exist_ok=True, mode=mode)
        for folder, mode in own:
            folder.chmod(mode)

    @staticmethod
    def binding_of(folder: Path) -> RunKey:
        """Whose folder it is, by its name."""
        found = _NAME.fullmatch(folder.name)
        assert found is not None, f"{folder} is no folder of a binding"
        workload, ordinal, epoch = map(int, found.groups())
        return (workload, ordinal), epoch

    def found(self) -> list[Path]:
        """The folders of bindings, in order."""
        return sorted(folder for folder in self._slots.iterdir() if _NAME.fullmatch(folder.name))

    def of(self, name: str) -> Path:
        """The folder of a binding."""
        return self._slots / name

    def make(self, name: str) -> Path:
        """The folder of a binding, which must not be there yet."""
        folder = self.of(name)
        try:
            folder.mkdir(mode=0o700)
            (folder / files.LOGS).mkdir(mode=0o700)
        except FileExistsError:
            raise CannotStart(
                StartFault.DRIVER, f"{folder} is there already\nhint: a binding is started again once it is forgotten"
            ) from None
        return folder

    def working(self, name: str, uid: int) -> Path:
        """Where the process of a binding works as this user, if nothing else is asked for."""
        return self._work / str(uid) / name

    def make_working(self, name: str, user: TenantUser | None) -> None:
        """Make that, for its user alone."""
        folder = self.working(name, user.uid if user is not None else os.geteuid())
        for _ in range(TRIES):
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                if user is not None:
                    os.chown(folder.parent, 0, user.gid)
                    folder.parent.chmod(0o710)
                folder.mkdir(mode=0o700, exist_ok=True)
                break
            except FileNotFoundError:  # the last one of this user was forgotten at this moment
                continue
        if user is not None:
            os.chown(folder, user.uid, user.gid)

    def remove(self, name: str) -> None:
        """Remove all that belongs to a binding; of its logs nothing is kept."""
        shutil.rmtree(self._slots / name, ignore_errors=True)
        for folder in (*self._work.glob(f"*/{name}"), *self._work.glob(name)):  # once there was none for each user
            self._move_away(folder)

    def move_strays_away(self) -> None:
        """Those of bindings that were forgotten when the agent was killed."""
        users = [folder for folder in self._work.iterdir() if folder.name.isdecimal()]
        for folder in [folder for user in users for folder in user.iterdir()]:
            if not self.of(folder.name).exists():
                self._move_away(folder)

    def empty_gone(self) -> list[OSError]:
        """Remove what was moved away, which takes as long as there are files; and what is in the way of that."""
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
        with suppress(OSError):  # its user has others
            folder.parent.rmdir()

    def remove_unbegun(self, folder: Path) -> bool:
        """Remove a folder without a record. Whether it is gone: if not, a record has just been written in it."""
        with suppress(OSError):
            (folder / files.LOGS / GUARD_LOG).unlink(missing_ok=True)
            (folder / files.LOGS).rmdir()
        with suppress(OSError):
            for name in (files.SOCKET, files.WHO, f"{files.RECORD}.new"):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        return not folder.exists()

    def forget(self, name: str) -> None:
        """Keep the logs of a binding, a bounded number of them, and remove the rest."""
        numbers = [int(kept.suffix[1:]) for kept in self._logs.glob(f"{name}.*")]
        with suppress(OSError):
            (self._slots / name / files.LOGS).rename(self._logs / f"{name}.{max(numbers, default=0) + 1}")
        self.remove(name)
        oldest_first = sorted(self._logs.iterdir(), key=lambda kept: (kept.stat().st_mtime_ns, kept.name))
        for kept in oldest_first[: -self._logs_kept or None]:
            shutil.rmtree(kept, ignore_errors=True)
