"""What one tenant may try against another and against the agent, as a program that is run where it is tried from.

    python3 -I -c SOURCE TARGET [FILE]

The target says in JSON what is tried, and where things are as they are seen from outside. What succeeded is written to
the file, or else to standard output, as a list of names; then it stays, as services do. It needs the standard library
alone. Whoever is attacked holds a mark, which nobody else is given: an attempt to read has succeeded when it is found.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

#: What the one who is attacked holds, and what is looked for.
MARK = re.compile(rb"mark-of-b-[0-9a-f]{32}")
#: Where it leaves its mark for all to read.
OPEN_TO_ALL = ("/tmp/mark-of-b", "/var/tmp/mark-of-b", "/dev/shm/mark-of-b")
#: How it names the memory that it shares with all.
SHARED = 0x486F6C64
#: Larger pieces of memory hold no mark.
PIECE_BYTES = 8 << 20
IPC_CREAT, READ_BY_ALL = 0o1000, 0o666
CLONE_NEWUSER, CLONE_NEWNS, MNT_DETACH = 0x1000_0000, 0x2_0000, 2
#: Calls for keys have numbers only: to keep one, and all else; on other machines nothing of the kind is tried.
ADD_KEY, KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (0, 0))
KEYCTL_JOIN_SESSION_KEYRING, KEYCTL_SEARCH, KEYCTL_READ, KEY_SPEC_SESSION_KEYRING = 1, 10, 11, -3
KEY_TYPE, KEY_NAME = b"user", b"mark-of-b"

libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """Nothing was there to be had."""


class Attempts:
    """Each returns if it has succeeded, and raises otherwise."""

    def __init__(self, target: dict[str, Any]) -> None:
        #: By which pids it is known; if by none, it is this process that tries it on itself.
        self.pids: list[int] = target["pids"] or [os.getpid()]
        self.target = {"folder": os.getcwd(), **target}

    def environment(self) -> None:
        """The variables of a process, among all that are told of and the one that is known."""
        self._find(lambda pid: [_content(f"/proc/{pid}/environ")])

    def memory(self) -> None:
        """What a process has in memory."""
        self._find(_memory)

    def descriptors(self) -> None:
        """What a process has open, and where it works."""
        _any(self.pids, lambda pid: (os.listdir(f"/proc/{pid}/fd"), os.readlink(f"/proc/{pid}/cwd")))

    def root(self) -> None:
        """The files of a process, through its root."""
        _any(self.pids, lambda pid: os.listdir(f"/proc/{pid}/root{self.target['folder']}"))

    def signals(self) -> None:
        """A signal that does nothing to one who does not wait for it."""
        _any(self.pids, lambda pid: os.kill(pid, signal.SIGURG))

    def held(self) -> None:
        """The same by a descriptor."""
        _any(self.pids, lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGURG))

    def priority(self) -> None:
        """How much of the processor it gets."""
        _any(self.pids, lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)))

    def listing(self) -> None:
        """What is in its folder."""
        os.listdir(self.target["folder"])

    def reading(self) -> None:
        """A file in its folder, which is open to all."""
        _found(_content(f"{self.target['folder']}/mine"))

    def writing(self) -> None:
        """A new file in its folder."""
        os.close(os.open(f"{self.target['folder']}/yours", os.O_WRONLY | os.O_CREAT, 0o600))

    def temporary(self) -> None:
        """What lies open to all where everybody may write."""
        _any(OPEN_TO_ALL, lambda path: _found(_content(path)))

    def shared_memory(self) -> None:
        """Memory that is shared with all."""
        if libc.shmget(SHARED, 0, 0) < 0:
            raise Failed

    def keys(self) -> None:
        """A key that the kernel keeps for whoever has the session's ring of keys."""
        found = ctypes.create_string_buffer(128)
        key = keyctl(KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, KEY_TYPE, KEY_NAME, 0)
        if key < 0 or keyctl(KEYCTL_READ, key, found, len(found)) < 0:
            raise Failed
        _found(found.value)

    def secret(self) -> None:
        """A secret, where the node keeps it."""
        _found(_content(self.target["secret"]))

    def token(self) -> None:
        """What the agent proves with who it is."""
        _found(_content(self.target["token"]))

    def users(self) -> None:
        """Which tenant has which user."""
        if not _content(self.target["users"]):
            raise Failed

    def data(self) -> None:
        """What the agent keeps."""
        if "slots" not in os.listdir(self.target["data"]):
            raise Failed

    def record(self) -> None:
        """What the agent knows of a replica."""
        _content(f"{self.target['slot']}/record.json")

    def logs(self) -> None:
        """What a replica has written."""
        _content(f"{self.target['slot']}/logs/stdout")

    def guard(self) -> None:
        """The line to a guard, which can be asked to stop, and to go on after a deadline."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"{self.target['slot']}/guard.sock")

    def own_guard(self) -> None:
        """The line to the guard of whoever tries it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"{self.target['own_slot']}/guard.sock")

    def cgroup(self) -> None:
        """Who is in its cgroup, and how much that may use."""
        _any(self.target["groups"], lambda group: _content(f"{group}/cgroup.procs"))

    def joining(self) -> None:
        """To be counted into its limits."""
        _any(self.target["groups"], lambda group: _write(f"{group}/cgroup.procs", b"0"))

    def limits(self) -> None:
        """How much it may use."""
        _any(self.target["groups"], lambda group: _rewrite(f"{group}/pids.max"))

    def own_limits(self) -> None:
        """How much one may use oneself, by the name from outside and as it is seen."""
        seen = [os.path.dirname(os.path.dirname(group)) for group in self.target["own_groups"]]
        _any([*self.target["own_groups"], *seen], lambda group: _rewrite(f"{group}/pids.max"))

    def leaving(self) -> None:
        """To be counted into nobody's."""
        _any(self.target["above"], lambda group: _write(f"{group}/cgroup.procs", b"0"))

    def locking(self) -> None:
        """To hold the lock by which an agent shows that it lives, and keep the next one waiting for it."""
        _any(self.target["groups"], lambda group: _lock(os.path.dirname(group)))

    def unmounting(self) -> None:
        """To take away what hides the agent's folder, with the rights that a namespace of users gives, if there are
        any to be had."""
        if os.geteuid() != 0:
            libc.unshare(CLONE_NEWUSER | CLONE_NEWNS)
        libc.umount2(os.fsencode(self.target["data"]), MNT_DETACH)
        self.data()

    def _find(self, pieces: Callable[[int], Iterator[bytes] | list[bytes]]) -> None:
        for pid in dict.fromkeys([*self.pids, *(int(name) for name in os.listdir("/proc") if name.isdecimal())]):
            with suppress(OSError):
                if any(MARK.search(piece) for piece in pieces(pid)):
                    return
        raise Failed


def keyctl(what: int, *given: Any) -> int:
    """Ask the kernel about keys; less than 0: it refuses, or has none."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in given]
    return int(libc.syscall(ctypes.c_long(KEYCTL), ctypes.c_long(what), *words)) if KEYCTL else -1


def _any(among: Any, attempt: Callable[[Any], object]) -> None:
    """It is enough if one of them can be had."""
    for one in among:
        with suppress(OSError, Failed):
            attempt(one)
            return
    raise Failed


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)


def _found(content: bytes) -> None:
    if not MARK.search(content):
        raise Failed


def _memory(pid: int) -> Iterator[bytes]:
    with (
        open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps,
        open(f"/proc/{pid}/mem", "rb", 0) as mem,
    ):
        for line in maps:
            first, last = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and last - first <= PIECE_BYTES:
                with suppress(OSError):
                    mem.seek(first)
                    yield mem.read(last - first)


def _write(path: str, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def _rewrite(path: str) -> None:
    _write(path, _content(path))


def _lock(folder: str) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(file)


def _leave_marks(mark: bytes) -> None:
    """Be one who is attacked, and careless with what lies open to all."""
    os.umask(0)
    for path in (*OPEN_TO_ALL, "mine"):
        with open(path, "wb") as file:
            file.write(mark)
    libc.shmget(SHARED, 4_096, IPC_CREAT | READ_BY_ALL)
    if KEYCTL:
        ring = ctypes.c_long(KEY_SPEC_SESSION_KEYRING)
        libc.syscall(ctypes.c_long(ADD_KEY), KEY_TYPE, KEY_NAME, mark, ctypes.c_size_t(len(mark)), ring)


def main(said: str, file: str = "") -> None:
    """Try all that is asked for, and tell what succeeded."""
    target = json.loads(said)
    attempts, succeeded = Attempts(target), []
    mark = os.environ.get("MARK", "").encode()
    if mark and MARK.fullmatch(mark):
        _leave_marks(mark)
    for name in target["tried"]:
        with suppress(OSError, Failed):
            getattr(attempts, name)()
            succeeded.append(name)
    told = json.dumps(succeeded)
    if file:
        with open(f"{file}.new", "w", encoding="ascii") as result:
            result.write(told)
        os.replace(f"{file}.new", file)
    else:
        print(told, flush=True)
        time.sleep(0 if target["leaves"] else 3_600)


if __name__ == "__main__":
    main(*sys.argv[1:])
