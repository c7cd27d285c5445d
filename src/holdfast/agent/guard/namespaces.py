"""The namespaces of one replica: its own pids, mounts and IPC, so that it sees nothing of other work on the node.

    guard ──unshare, fork──▶ the first process: mounts the replica's view, then waits as pid 1 until it is killed
          ──setns, fork────▶ the process, and keepers of commands: with the pids and mounts of the first

The guard stays outside and is the parent of the process, as without namespaces: deadlines, signals, exit codes and
records are the same (docs/design/decisions/0030). The first process inherits orphans. It is killed with its guard, and
then the kernel kills all processes in its namespaces.

A replica sees the node's own files, except that `/tmp`, `/var/tmp` and `/dev/shm` are new and in memory; `/proc` shows
these pids only; of cgroups it sees its own, read-only; and hidden paths are empty.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from contextlib import suppress

from holdfast.agent.guard import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = (
    1, 2, 4, 8, 1 << 5, 1 << 12, 1 << 14, 1 << 19,
)  # fmt: skip
BARE = MS_NOSUID | MS_NODEV | MS_NOEXEC
#: Folders that every user may write to; the first one must exist.
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
CGROUPS = "/sys/fs/cgroup"
#: The message when everything is mounted.
READY = "ready"


class SharedNamespaces:
    """The node's own namespaces, for a replica without its own."""

    first = 0

    def fork(self) -> int:
        """Fork a process of the replica."""
        return os.fork()

    def join(self) -> None:
        """In such a child: enter the mounts and IPC. With own namespaces, its working folder becomes the root."""

    def kill(self) -> None:
        """Kill all that is in the namespaces, as far as the kernel does that."""


class Namespaces(SharedNamespaces):
    """The namespaces of one replica, held by their first process, once all is mounted. Raises `OSError` if the kernel
    allows none."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._line, theirs = socket.socketpair()
        with theirs:
            kernel.unshare(kernel.CLONE_NEWPID)
            try:
                self.first = os.fork()
                if self.first == 0:
                    _be_first(order, theirs.fileno())
            finally:
                kernel.setns(self._own, kernel.CLONE_NEWPID)
        self._held = os.pidfd_open(self.first)
        said = self._line.recv(1024).decode()
        if said != READY:
            number, _, what = said.partition(" ")
            raise OSError(int(number or 0), what)

    def fork(self) -> int:
        kernel.setns(self._held, kernel.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                kernel.setns(self._own, kernel.CLONE_NEWPID)
        return pid

    def join(self) -> None:
        kernel.setns(self._held, kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it was waited for: the namespaces are empty
            signal.pidfd_send_signal(self._held, signal.SIGKILL)


def trial(order: dict[str, Any]) -> str:
    """Return why a replica cannot have its own namespaces here; empty: it can."""
    try:
        made = Namespaces(order)
        pid = made.fork()
        if pid == 0:
            _end_trial(made)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return f"setns: {os.strerror(code)}" if code else ""
    except OSError as error:
        return f"{error.strerror}: {os.strerror(error.errno or 0)}"


def _end_trial(made: Namespaces) -> NoReturn:
    """Check from inside that `/proc` shows the own pids."""
    code = errno.EINVAL
    try:
        made.join()
        code = 0 if os.readlink("/proc/self") == str(os.getpid()) else errno.EINVAL
    except OSError as error:
        code = error.errno or code
    finally:
        os._exit(code)


def _be_first(order: dict[str, Any], line: int) -> NoReturn:
    """In the child: mount the replica's view, report that, and stay until the guard exits. The guard's log stays its
    stderr. The kernel reaps its children."""
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):
            os.dup2(nothing, stream)
        kernel.close_all_but(line)
        os.umask(0o022)
        said = READY
        try:
            kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
            _mount_all(order)
            os.chdir("/")
        except OSError as error:
            said = f"{error.errno} {error.strerror} {error.filename or ''}"[:500]
        os.write(line, said.encode(errors="replace"))
        os.read(line, 1)
    finally:
        os._exit(0)


def _mount_all(order: dict[str, Any]) -> None:
    """Mount what the replica sees differently, in an order that covers no path needed later."""
    given = order["namespaces"]
    kernel.mount("none", "/", "", MS_REC | MS_SLAVE)  # mounts made here do not appear elsewhere
    shown = {os.path.realpath(path): os.open(path, os.O_PATH) for path in given["shown"] if os.path.isdir(path)}
    groups = {os.path.dirname(os.path.dirname(path)): os.open(path, os.O_PATH) for path in order["groups"]}
    own = {os.path.realpath(order["folder"]): os.open(order["folder"], os.O_PATH)} if order["own"] else {}
    _mount_temporary(given["bytes"])
    _show_covered(shown, MS_RDONLY | MS_NOSUID | MS_NODEV)  # before anything in them is hidden
    for path in dict.fromkeys((CGROUPS, *groups, *map(_with_its_folder, given["hidden"]))):
        _hide(path)
    _show_covered(groups, MS_RDONLY | BARE)
    _show_covered(shown, MS_RDONLY | MS_NOSUID | MS_NODEV)
    _show_covered(own, MS_NOSUID | MS_NODEV)
    if os.path.isdir("/dev/mqueue"):
        kernel.mount("mqueue", "/dev/mqueue", "mqueue", BARE)
    kernel.mount("proc", "/proc", "proc", BARE)


def _mount_temporary(size_bytes: int) -> None:
    """Mount one bounded file system in memory for all temporary folders; it ends with the replica."""
    places = list(dict.fromkeys(os.path.realpath(place) for place in TEMPORARY if os.path.isdir(place)))
    base = places[0]
    options = f"mode=0755,size={size_bytes},nr_inodes={max(1_024, size_bytes >> 12)}"
    kernel.mount("holdfast", base, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for number, place in reversed(list(enumerate(places))):  # the base last: it covers the others' folders
        os.mkdir(f"{base}/{number}")
        os.chmod(f"{base}/{number}", 0o1777)
        kernel.mount(f"{base}/{number}", place, "", MS_BIND)


def _with_its_folder(path: str) -> str:
    """Return what to hide for a path: of a file its folder, if that is closed to others, since replacing the file by a
    rename would remove a mount on it."""
    folder = os.path.dirname(path)
    is_closed = folder != "/" and os.path.isfile(path) and not os.stat(folder).st_mode & 0o007
    return folder if is_closed else path


def _hide(path: str) -> None:
    """Hide a path: a folder appears empty, a file has no content. Access to it is no wider than before."""
    if os.path.isdir(path):
        mode = 0o755 if os.stat(path).st_mode & 0o001 else 0o700
        kernel.mount("hidden", path, "tmpfs", BARE, f"mode={mode:o},size=64k")
    elif os.path.exists(path):
        kernel.mount(os.devnull, path, "", MS_BIND)


def _show_covered(kept: dict[str, int], flags: int) -> None:
    """Show the paths that are covered again, by the descriptors that were opened before."""
    for path, file in kept.items():
        if not _is(path, file):
            os.makedirs(path, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{file}", path, "", MS_BIND | MS_REC)
            kernel.mount("none", path, "", MS_REMOUNT | MS_BIND | flags)


def _is(path: str, file: int) -> bool:
    """Whether the path still leads to this file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False
