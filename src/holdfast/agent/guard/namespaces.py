"""The namespaces of one replica: pids, mounts and IPC of its own, so that it sees nothing of its node's other work.

    guard ──unshare, fork──▶ the first: mounts what is seen, then only is there: pid 1, until it is killed
          ──setns, fork────▶ the process, and keepers of commands: among the first's pids, seen with its mounts

The guard stays outside and is the parent of the process, as without namespaces: deadlines, signals, exit codes and
records are the same (docs/design/decisions/0030). The first inherits orphans. When it is killed the kernel kills all
that is in there, wherever that has fled to; and it is killed with its guard.

What is seen is the node's own files but for these: `/tmp`, `/var/tmp` and `/dev/shm` are new and in memory; `/proc`
tells of these pids alone; of cgroups there is the own one, to be read; and what is hidden is not there.
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
#: What everybody may write to; the first one has to be there.
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
CGROUPS = "/sys/fs/cgroup"
#: What is said when all is mounted.
READY = "ready"


class SharedNamespaces:
    """The node's own, where a replica has none."""

    first = 0

    def fork(self) -> int:
        """Fork one who belongs to the replica."""
        return os.fork()

    def join(self) -> None:
        """In such a child: see what is seen in there. Where anything changes, its working folder is the root."""

    def kill(self) -> None:
        """End all that is in there, as far as the kernel does that."""


class Namespaces(SharedNamespaces):
    """Those of one replica, held by the first process in them, once all is mounted. Raises `OSError` where the kernel
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
        with suppress(ProcessLookupError):  # it was waited for: nothing is in there
            signal.pidfd_send_signal(self._held, signal.SIGKILL)


def trial(order: dict[str, Any]) -> str:
    """Why a replica cannot have namespaces of its own here; empty: it can."""
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
    """See from inside whether it is inside."""
    code = errno.EINVAL
    try:
        made.join()
        code = 0 if os.readlink("/proc/self") == str(os.getpid()) else errno.EINVAL
    except OSError as error:
        code = error.errno or code
    finally:
        os._exit(code)


def _be_first(order: dict[str, Any], line: int) -> NoReturn:
    """In the child: mount what is seen, say so, and stay until the guard goes. Of what the guard has open its log is
    kept. Nobody waits for its children: the kernel removes them when they end."""
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
    """All that is seen differently, in an order in which nothing covers what is needed later."""
    given = order["namespaces"]
    kernel.mount("none", "/", "", MS_REC | MS_SLAVE)  # what is mounted here is mounted nowhere else
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
    """One file system in memory for all places that everybody may write to: it has one bound, and ends with them."""
    places = list(dict.fromkeys(os.path.realpath(place) for place in TEMPORARY if os.path.isdir(place)))
    base = places[0]
    options = f"mode=0755,size={size_bytes},nr_inodes={max(1_024, size_bytes >> 12)}"
    kernel.mount("holdfast", base, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for number, place in reversed(list(enumerate(places))):  # the base last: it covers the others' folders
        os.mkdir(f"{base}/{number}")
        os.chmod(f"{base}/{number}", 0o1777)
        kernel.mount(f"{base}/{number}", place, "", MS_BIND)


def _with_its_folder(path: str) -> str:
    """What to hide for a path: of a file the folder, where that is closed to others. Whoever renames another file over
    it, as one replaces a token, takes away what is mounted on it here; and no folder is replaced so."""
    folder = os.path.dirname(path)
    is_closed = folder != "/" and os.path.isfile(path) and not os.stat(folder).st_mode & 0o007
    return folder if is_closed else path


def _hide(path: str) -> None:
    """Nothing is there any more: of a folder nothing that was in it, of a file no content. Nobody may enter it who
    could not before."""
    if os.path.isdir(path):
        mode = 0o755 if os.stat(path).st_mode & 0o001 else 0o700
        kernel.mount("hidden", path, "tmpfs", BARE, f"mode={mode:o},size=64k")
    elif os.path.exists(path):
        kernel.mount(os.devnull, path, "", MS_BIND)


def _show_covered(kept: dict[str, int], flags: int) -> None:
    """What is covered under these paths is there again, by the descriptors that were opened before."""
    for path, file in kept.items():
        if not _is(path, file):
            os.makedirs(path, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{file}", path, "", MS_BIND | MS_REC)
            kernel.mount("none", path, "", MS_REMOUNT | MS_BIND | flags)


def _is(path: str, file: int) -> bool:
    """Whether that is still what is there."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False
