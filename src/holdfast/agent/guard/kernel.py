"""What the kernel tells of processes, sessions and cgroups, how they are killed, and how namespaces are made.

A pid names nobody for long: once its process was waited for, somebody else may have it. So whoever is killed is held by
a descriptor first, and looked at again; a group of processes is signalled only while its first was not waited for.
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

TYPE_CHECKING = False  # `typing` would be the slowest import, and nothing needs it to run
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x2_0000, 0x0800_0000, 0x2000_0000
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
#: The call for keys has a number, and no name in most libraries of C; those of 64 bits, by the kernel's name for them.
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1
#: So many processes are held by descriptors at a time.
HELD_MAX = 100
#: No descriptor has a higher number.
FILES_MAX = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)  # before any fork: what a fork leaves of a loader's locks is not relied on

#: A flag of who has begun to exit.
PF_EXITING = 0x4
#: What the kernel says of a process. `state` is X of one that runs none of its own code any more, though the kernel may
#: not be through with it; `start` is in ticks since boot; `threads` is what a limit of pids counts.
Seen = namedtuple("Seen", "state session threads start rss_bytes")


def boot_ms() -> int:
    """Milliseconds since this machine started, suspended ones too."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def read(path: str, absent: tuple[type[OSError], ...] = (OSError,)) -> str:
    """What a file says; nothing if there is none, which is what these errors say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except absent:
        return ""


def seen(pid: int) -> Seen | None:
    """A process, or what is left of one that nobody has waited for; None when there is none. `OSError` when that cannot
    be looked at: whoever can open nothing must take nobody for dead."""
    first = _seen(f"/proc/{pid}")
    if first is None or first.state not in "ZX" or first.threads <= 1:
        return first
    with suppress(FileNotFoundError, ProcessLookupError):  # its first thread has ended: it is what the others are
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
    """Its children, theirs, and so on."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, read(f"/proc/{one}/task/{thread}/children").split())
    return found[1:]


def members(groups: list[str]) -> list[int]:
    """The processes in a cgroup: a list of folders, one in version 2, one for each controller in version 1."""
    return sorted({int(pid) for group in groups for pid in read(f"{group}/cgroup.procs").split()})


def kill(look: Callable[[], list[int]]) -> None:
    """End whoever is found, without asking, and nobody who has got a pid of theirs meanwhile."""
    pids = look()
    for first in range(0, len(pids), HELD_MAX):
        held: dict[int, int] = {}
        try:
            for pid in pids[first : first + HELD_MAX]:
                with suppress(OSError):  # it has gone; or nothing can be opened now, and it is killed at the next try
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
    """End all that has come of this process. The group of the leader, which nobody has waited for, whether or not the
    kernel tells who that is; 0: there is none."""
    if leader:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    own = os.getpid()
    kill(lambda: descendants(own))


def put(groups: list[str], name: str, text: str) -> bool:
    """Write to the file of this name wherever there is one; whether any took it."""
    taken = False
    for group in groups:
        with suppress(OSError):
            with open(f"{group}/{name}", "w", encoding="ascii") as file:
                file.write(text)
            taken = True
    return taken


def kill_members(groups: list[str]) -> None:
    """End everything in a cgroup; where the kernel cannot do it in one step, while nothing in it can fork."""
    if put(groups, "cgroup.kill", "1"):
        return
    put(groups, "pids.max", "0")
    put(groups, "cgroup.freeze", "1")
    put(groups, "freezer.state", "FROZEN")
    kill(lambda: members(groups))
    put(groups, "cgroup.freeze", "0")
    put(groups, "freezer.state", "THAWED")  # what version 1 has frozen dies only when it thaws


def memory_kills(groups: list[str]) -> int:
    """How many processes of a cgroup the kernel has killed over its limit of memory."""
    said = [read(f"{group}/{name}") for group in groups for name in ("memory.events", "memory.oom_control")]
    lines = [line.split() for text in said for line in text.splitlines()]
    return sum(int(words[1]) for words in lines if words[0] == "oom_kill")


def over(living: Iterable[Seen], memory_bytes: int, pids: int) -> str:
    """Which of two limits these pass together, 0: no limit; empty: none."""
    found = list(living)
    if memory_bytes and sum(one.rss_bytes for one in found) > memory_bytes:
        return "over-memory"
    return "over-pids" if pids and sum(one.threads for one in found) > pids else ""


def prctl(option: int, value: int) -> None:
    """Tell the kernel something about this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def leave_keys() -> None:
    """Leave the session's ring of keys, which all that an agent starts would have from it, for an empty one. Where
    there are no keys, or nobody may use them, there is none."""
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
    """Leave namespaces of these kinds for new ones; that of pids is for those who are forked from now on."""
    if _libc.unshare(ctypes.c_int(kinds)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def setns(file: int, kinds: int) -> None:
    """Enter the namespaces of these kinds of a process that is held by this descriptor, or the one it is of."""
    if _libc.setns(ctypes.c_int(file), ctypes.c_int(kinds)) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or change how one is."""
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount", target)


def publish_deadline(deadline: int) -> None:
    """Take a name that tells it: whoever asks the kernel for that needs no answer of a guard that hangs."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(b"hf%d" % deadline), 0, 0, 0)


def published_deadline(guard: int) -> int:
    """The deadline that a guard holds at this time, whether or not it answers; 0: it tells none."""
    name = read(f"/proc/{guard}/comm").strip()
    return int(name[2:]) if name.startswith("hf") and name[2:].isdecimal() else 0
