"""The guard of one replica: the parent of its process, and the fence that does not depend on the agent (RULES 4).

    agent ──order, on stdin──────▶ guard ──fork, exec──▶ the process, in a session of its own
          ──extend, stop, go─────▶   │   ──TERM at the deadline or when asked, KILL after the grace──▶
          ◀─what is, on guard.sock───┘
    running ──deadline · stop · over a limit──▶ stopping ──nothing is left──▶ ended: result.json, then the guard goes
       └──────the process ends by itself────────────┘

It runs as `python -I -S guard.py`, in a session of its own, with its slot's folder as its working folder. What it is to
run comes through its stdin, since arguments and environments of processes can be read by others. The record is written
before the process begins, the result when nothing of it is left. If the guard dies, the kernel kills the process.

All deadlines are kept in one poll loop on the boot-time clock. Nothing in it waits for a disk, a reader or an agent:
logs are written by threads, and agents are told without waiting. Orphans of the process become the guard's children, so
that it ends what has left the session, too.

Size: one file, standard library only, so that it starts quickly and needs nothing that an upgrade may change under it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import namedtuple
from contextlib import suppress

TYPE_CHECKING = False  # `typing` would be the slowest import, and nothing needs it to run
if TYPE_CHECKING:
    from typing import Any
RECORD, RESULT, WHO, SOCKET, LOGS = "record.json", "result.json", "who", "guard.sock", "logs"

#: How long a poll may last while there is a time to keep: its own clock stands still while the machine is suspended.
TICK_MS = 250
#: How soon to look again while something that was killed is not gone, and how long to wait for a disk after that.
HURRY_MS, DISK_MS = 20, 1_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
_libc = ctypes.CDLL(None, use_errno=True)  # before any fork: what a fork leaves of a loader's locks is not relied on

#: What the kernel says of a process. `start` is in ticks since boot; `threads` is what a limit of pids counts.
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
    fields = read(f"/proc/{pid}/stat", (FileNotFoundError, ProcessLookupError)).rpartition(")")[2].split()
    if not fields:
        return None
    return Seen(fields[0], int(fields[3]), int(fields[17]), int(fields[19]), int(fields[21]) * PAGE_BYTES)


def descendants(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, read(f"/proc/{one}/task/{thread}/children").split())
    return found[1:]


def kill(pids: list[int]) -> None:
    """End them without asking."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def members(groups: list[str]) -> list[int]:
    """The processes in a cgroup: a list of folders, one in version 2, one for each controller in version 1."""
    return sorted({int(pid) for group in groups for pid in read(f"{group}/cgroup.procs").split()})


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
    kill(members(groups))
    put(groups, "cgroup.freeze", "0")
    put(groups, "freezer.state", "THAWED")  # what version 1 has frozen dies only when it thaws


def memory_kills(groups: list[str]) -> int:
    """How many processes of a cgroup the kernel has killed over its limit of memory."""
    said = [read(f"{group}/{name}") for group in groups for name in ("memory.events", "memory.oom_control")]
    lines = [line.split() for text in said for line in text.splitlines()]
    return sum(int(words[1]) for words in lines if words[0] == "oom_kill")


def write_whole(path: str, said: dict[str, object]) -> None:
    """Put this there, durably, so that a reader sees all of it or what was there before."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


class Log:
    """One stream of the process in files of bounded size: NAME, then NAME.1 and so on, which are older."""

    def __init__(self, path: str, size_bytes: int, files: int) -> None:
        self.names = [path, *(f"{path}.{number}" for number in range(1, files))]
        self.limit = self.size = size_bytes
        self.file = os.open(os.devnull, os.O_WRONLY)

    def keep(self, pipe: int) -> None:
        """Read to the end. What a full disk does not take is lost: the process must not wait for it."""
        while piece := os.read(pipe, min(65_536, self.limit)):
            with suppress(OSError):
                if self.size + len(piece) > self.limit:
                    self.turn_over()
                self.size += os.write(self.file, piece)

    def turn_over(self) -> None:
        """Begin the next file, and let go of the oldest."""
        for number in range(len(self.names) - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(self.names[number - 1], self.names[number])
        fresh = os.open(self.names[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.close(self.file)
        self.file, self.size = fresh, 0


def prctl(option: int, value: int) -> None:
    """Tell the kernel something about this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def become(order: dict[str, Any], go: int, said: int, streams: tuple[int, int, int]) -> None:
    """In the child: turn into what was ordered, once the guard says go; or tell at which step that failed, and end."""
    step, guard = "guard", os.getppid()
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        if not os.read(go, 1):
            os._exit(1)
        step = "cgroup"
        for group in order["groups"]:
            with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")
        os.chdir(order["folder"] if order["own"] else ".")  # as root: the way to its own folder may be closed to it
        step = "user"  # from here on nothing can be imported: the user may not be able to read the standard library
        if order["user"] is not None:
            uid, gid = order["user"]
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        # After the change of user, which would undo it. No set-uid program gives back what was given up.
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        step = "folder"
        os.chdir("." if order["own"] else order["folder"])
        step = "exec"
        os.umask(0o022)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and it would stay so
            signal.signal(ignored, signal.SIG_DFL)
        failed: int | None = errno.ENOENT
        for program in order["programs"]:
            try:
                os.execve(program, order["command"], order["environment"])
            except OSError as error:
                failed = failed if error.errno in (errno.ENOENT, errno.ENOTDIR) else error.errno
        raise OSError(failed, "exec")
    except (OSError, ValueError) as error:
        os.write(said, f"{step} {getattr(error, 'errno', 0)}".encode())
    finally:
        os._exit(127)


class Guard:
    """One replica, from its order to its result."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.groups: list[str] = order["groups"]
        self.deadline: int = order["deadline"]
        #: When it is killed at the latest, once it has begun to end; why it has; and how it ended.
        self.due = self.sample_at = 0
        self.why = self.failed = ""
        self.status: int | None = None
        self.alone = self.ended = self.gone = False
        self.agents: dict[int, socket.socket] = {}
        self.poll = select.poll()

    def run(self) -> None:
        """Start it, and stay until it has ended."""
        self.start()
        while not self.gone:
            for file, _ in self.poll.poll(self.patience()):
                if file == self.door.fileno():
                    self.welcome()
                elif file == self.said:
                    self.hear_start()
                elif file in self.agents:
                    self.hear(self.agents[file])
                elif file == self.woken:
                    os.read(file, 64)
            self.reap()
            self.judge()

    def start(self) -> None:
        """Fork; write down who that is; let it begin."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.door.bind(SOCKET)
        self.door.listen(8)
        (go, let_go), (self.said, said), (out, to_out), (err, to_err) = (os.pipe() for _ in range(4))
        self.nothing = os.open(os.devnull, os.O_RDWR)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(let_go)  # or it would wait for ever for a guard that has died
            become(self.order, go, said, (self.nothing, to_out, to_err))
        for theirs in (go, said, to_out, to_err):
            os.close(theirs)
        for stray in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(stray, signal.SIG_IGN)
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.since = boot_ms()
        pids = (("guard", os.getpid()), ("process", self.pid))
        who = {name: [pid, one.start] for name, pid in pids if (one := seen(pid))}
        os.symlink(json.dumps({**who, "boot": self.order["record"]["boot"]}), WHO)  # never torn; if the record is lost
        write_whole(RECORD, {**self.order["record"], **who, "since": self.since})
        del self.order["environment"]
        logs = {out: Log(f"{LOGS}/stdout", *self.order["logs"]), err: Log(f"{LOGS}/stderr", *self.order["logs"])}
        self.logs = [threading.Thread(target=log.keep, args=(pipe,), daemon=True) for pipe, log in logs.items()]
        for thread in self.logs:
            thread.start()
        for file in (self.door.fileno(), self.said, self.woken):
            self.poll.register(file, select.POLLIN)
        os.dup2(self.nothing, 0)
        os.write(let_go, b"!")

    def patience(self) -> int | None:
        """How long news may be waited for."""
        now = boot_ms()
        if self.due and now >= self.due:
            return DISK_MS if self.ended else HURRY_MS
        times = [one for one in (self.deadline * self.order["leased"], self.due, self.sample_at) if one]
        return max(0, min(min(times) - now, TICK_MS)) if times else None

    def reap(self) -> None:
        """Wait for whoever has ended: the process, and what it left behind."""
        try:
            while (waited := os.waitpid(-1, os.WNOHANG))[0]:
                if waited[0] == self.pid:
                    self.status, self.due = waited[1], boot_ms()
        except ChildProcessError:
            self.alone = True

    def judge(self) -> None:
        """Do what is due now."""
        now = boot_ms()
        if self.order["leased"] and now >= self.deadline:
            self.begin("deadline", self.deadline + self.order["grace"])
        if self.status is None and self.order["sample"] and now >= self.sample_at:
            self.sample_at = now + self.order["sample"]
            with suppress(OSError):  # what cannot be looked at now is looked at the next time
                self.sample(now)
        if self.status is not None and self.alone and not members(self.groups):
            self.end()
        elif self.due and now >= self.due:
            kill_members(self.groups)
            kill(descendants(os.getpid()) or ([-self.pid] if self.status is None else []))  # or its group, unseen

    def begin(self, why: str, due: int) -> None:
        """Ask the group to end, and kill it when that is due. What has begun can only be hastened."""
        if self.due:
            self.due = min(self.due, due)
            return
        self.why, self.due = why, due
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM if due > boot_ms() else signal.SIGKILL)
        self.tell(*self.agents.values())

    def sample(self, now: int) -> None:
        """End what is over a limit that no cgroup keeps, or of which the kernel has killed a part."""
        memory, pids = self.order["sampled_bytes"], self.order["sampled_pids"]
        living = [one for pid in descendants(os.getpid()) if (one := seen(pid))] if memory or pids else []
        if memory_kills(self.groups) or (memory and sum(one.rss_bytes for one in living) > memory):
            self.begin("over-memory", now)
        elif pids and sum(one.threads for one in living) > pids:
            self.begin("over-pids", now)

    def end(self) -> None:
        """Nothing is left: write down how it ended, tell, and go. A guard that cannot write it stays until told to."""
        if not self.ended:
            for thread in self.logs:
                thread.join(DISK_MS / 1000)
            self.ended = True
        self.gone |= bool(self.failed) or not os.path.exists(RECORD)  # without a record nobody will ever ask
        with suppress(OSError):
            write_whole(RESULT, self.what_is())
            self.gone = True
        self.tell(*self.agents.values())
        self.report(self.failed)

    def hear_start(self) -> None:
        """The process has begun, or could not: whoever ordered it is told, in the latter case when all is over."""
        self.failed = os.read(self.said, 64).decode()
        self.poll.unregister(self.said)
        if not self.failed:
            self.report("begun")

    def report(self, text: str) -> None:
        with suppress(OSError):
            os.write(1, text.encode())
        os.dup2(self.nothing, 1)

    def what_is(self) -> dict[str, object]:
        """Everything that an agent may want to know. A negative code is the signal that ended it."""
        state = "ended" if self.ended else "stopping" if self.due else "running"
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        said = {"state": state, "pid": self.pid, "since": self.since, "deadline": self.deadline}
        return {**said, "why": self.why, "memory_kills": memory_kills(self.groups), "code": code}

    def tell(self, *agents: socket.socket) -> None:
        said = json.dumps(self.what_is()).encode()
        for agent in agents:
            with suppress(OSError):  # whoever does not hear this sees the guard go, and reads the result
                agent.send(said)

    def welcome(self) -> None:
        """An agent has come: tell it what is."""
        self.judge()
        agent, _ = self.door.accept()
        agent.setblocking(False)
        self.agents[agent.fileno()] = agent
        self.poll.register(agent, select.POLLIN)
        self.tell(agent)

    def hear(self, agent: socket.socket) -> None:
        """Do what an agent asks. A deadline is never lowered, and once it has passed no other is taken."""
        asked = {}
        with suppress(OSError):
            asked = json.loads(agent.recv(4096) or "{}")
        if boot_ms() < self.deadline:
            self.deadline = max(self.deadline, asked.get("extend", 0))
        if "stop" in asked:
            self.begin("stopped", boot_ms() + asked["stop"])
        self.gone |= self.ended and "go" in asked
        if not asked:  # it has gone; there may be another
            self.poll.unregister(agent)
            self.agents.pop(agent.fileno()).close()


def main() -> None:
    """Read the order, and leave whoever gave it: a guard is nobody's child."""
    order = json.loads(sys.stdin.buffer.read())
    if os.fork() == 0:
        os.setsid()
        os.umask(0o077)
        Guard(order).run()


if __name__ == "__main__":
    main()
