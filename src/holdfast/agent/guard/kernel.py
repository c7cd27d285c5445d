"""Processes, sessions and cgroups as the kernel shows them, how to kill them, and how to create namespaces.

A pid is reused once its process was waited for. So a process is held by a descriptor before it is killed, and examined
again. A process group is signalled only while its leader was not waited for.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time
from collections import namedtuple
from contextlib import suppress

TYPE_CHECKING = False  # `typing` would be the slowest import, and nothing needs it at run time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x2_0000, 0x0800_0000, 0x2000_0000
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
#: The number of the call for keys, which has no name in most C libraries; for 64-bit systems, by the kernel's name.
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1
#: Largest number of processes that are held by descriptors at a time.
HELD_MAX = 100
#: No descriptor has a higher number.
FILES_MAX = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)  # before any fork: the state of a loader's locks after a fork is undefined

#: The flag of a process that has begun to exit.
PF_EXITING = 0x4
#: A process in the kernel's view. `state` is X once it executes no code of its own; `start` is in ticks since boot;
#: `threads` is what a pids limit counts.
Seen = namedtuple("Seen", "state session threads start rss_bytes")


def boot_ms() -> int:
    """Return the milliseconds since this machine started, including suspended time."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def read(path: str, absent: tuple[type[OSError], ...] = (OSError,)) -> str:
    """Return a file's content; empty on one of these errors, which mean that there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except absent:
        return ""


def seen(pid: int) -> Seen | None:
    """Return a process, even if it only waits to be reaped; None if there is none. `OSError` if that cannot be
    examined: a process that cannot be read is not dead."""
    first = _seen(f"/proc/{pid}")
    if first is None or first.state not in "ZX" or first.threads <= 1:
        return first
    with suppress(FileNotFoundError, ProcessLookupError):  # its first thread has ended: the other threads decide
        for thread in os.listdir(f"/proc/{pid}/task"):
            one = _seen(f"/proc/{pid}/task/{thread}")
            if one is not None and one.state not in "ZX":
                return one._replace(start=first.start)
    return first


def _seen(path: str) -> Seen | None:
    fields = read(f"{path}/stat", (FileNotFoundError, ProcessLookupError)).rpartition(")")[2].split()
    if not fields:
        return None
    state = "X" if fields[0] != "Z" and int(fields[6]) & PF_EXITING else fields[0]
    return Seen(state, int(fields[3]), int(fields[17]), int(fields[19]), int(fields[21]) * PAGE_BYTES)


def descendants(pid: int) -> list[int]:
    """Return its children, their children, and so on."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, read(f"/proc/{one}/task/{thread}/children").split())
    return found[1:]


def members(groups: list[str]) -> list[int]:
    """Return the pids in a cgroup: a list of folders, one in version 2, one for each controller in version 1."""
    return sorted({int(pid) for group in groups for pid in read(f"{group}/cgroup.procs").split()})


def kill(look: Callable[[], list[int]]) -> None:
    """Kill the processes that `look` returns, and none that has reused one of their pids meanwhile."""
    pids = look()
    for first in range(0, len(pids), HELD_MAX):
        held: dict[int, int] = {}
        try:
            for pid in pids[first : first + HELD_MAX]:
                with suppress(OSError):  # it has ended; or no descriptor is free, and the next try kills it
                    held[pid] = os.pidfd_open(pid)
            still = set(look())
            for pid, file in held.items():
                if pid in still:
                    with suppress(ProcessLookupError, PermissionError):
                        signal.pidfd_send_signal(file, signal.SIGKILL)
        finally:
            for file in held.values():
                os.close(file)


def kill_descendants(leader: int) -> None:
    """Kill all descendants of this process, and the group of its leader, which was not waited for. 0: no leader."""
    if leader:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    own = os.getpid()
    kill(lambda: descendants(own))


def put(groups: list[str], name: str, text: str) -> bool:
    """Write to the file of this name in every group that has it; whether any write succeeded."""
    taken = False
    for group in groups:
        with suppress(OSError):
            with open(f"{group}/{name}", "w", encoding="ascii") as file:
                file.write(text)
            taken = True
    return taken


def kill_members(groups: list[str]) -> None:
    """Kill everything in a cgroup; if the kernel cannot do it in one step, while nothing in it can fork."""
    if put(groups, "cgroup.kill", "1"):
        return
    put(groups, "pids.max", "0")
    put(groups, "cgroup.freeze", "1")
    put(groups, "freezer.state", "FROZEN")
    kill(lambda: members(groups))
    put(groups, "cgroup.freeze", "0")
    put(groups, "freezer.state", "THAWED")  # in version 1, frozen processes die only when thawed


def memory_kills(groups: list[str]) -> int:
    """Return how many processes of a cgroup the kernel has killed over its memory limit."""
    said = [read(f"{group}/{name}") for group in groups for name in ("memory.events", "memory.oom_control")]
    lines = [line.split() for text in said for line in text.splitlines()]
    return sum(int(words[1]) for words in lines if words[0] == "oom_kill")


def over(living: Iterable[Seen], memory_bytes: int, pids: int) -> str:
    """Return which of two limits these exceed together, 0: no limit; empty: none."""
    found = list(living)
    if memory_bytes and sum(one.rss_bytes for one in found) > memory_bytes:
        return "over-memory"
    return "over-pids" if pids and sum(one.threads for one in found) > pids else ""


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def leave_keys() -> None:
    """Replace the session keyring, which an agent's children would share, by an empty one, if keyrings can be used."""
    number = KEYCTL.get(os.uname().machine, 0) if sys.maxsize > 1 << 32 else 0
    if number and _libc.syscall(ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None) < 0:
        error = ctypes.get_errno()
        if error not in (errno.ENOSYS, errno.EPERM):
            raise OSError(error, "keyctl")


def close_all_but(*files: int) -> None:
    """Close every descriptor but these and the first three."""
    first = 3
    for file in sorted(files):
        os.closerange(first, file)
        first = file + 1
    os.closerange(first, FILES_MAX)


def unshare(kinds: int) -> None:
    """Leave namespaces of these kinds for new ones; a new pid namespace applies to later forks."""
    if _libc.unshare(ctypes.c_int(kinds)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def setns(file: int, kinds: int) -> None:
    """Enter namespaces of these kinds: those of the process, or the one namespace, behind this descriptor."""
    if _libc.setns(ctypes.c_int(file), ctypes.c_int(kinds)) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or change a mount."""
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount", target)


def publish_deadline(deadline: int) -> None:
    """Set a process name with the deadline, which the agent can read even if the guard hangs."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(b"hf%d" % deadline), 0, 0, 0)


def published_deadline(guard: int) -> int:
    """Return the current deadline of a guard, even if it does not answer; 0: it publishes none."""
    name = read(f"/proc/{guard}/comm").strip()
    return int(name[2:]) if name.startswith("hf") and name[2:].isdecimal() else 0
