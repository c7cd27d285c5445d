"""The guard of one replica: the parent of its process, and the fence that does not depend on the agent (RULES 4).

    agent ──order, on stdin──────▶ guard ──fork, exec──▶ the process, in a session and namespaces of its own
          ──extend, stop, go─────▶   │   ──TERM at the deadline or on a stop, KILL after the grace──▶
          ──run, cancel──────────▶   │   ──fork──▶ keepers ──fork, exec──▶ commands beside it
          ◀─reports, results─────────┘   on guard.sock
    running ──deadline · stop · over a limit──▶ stopping ──nothing is left──▶ ended: result.json, then the guard exits
       └──────the process ends by itself────────────┘

It runs in a session of its own, with its slot's folder as its working folder. It receives its order on stdin, since
arguments and environments of processes can be read by others. It writes the record before the process begins, and the
result when nothing of it is left. If the guard dies, the kernel kills the process.

One poll loop on the boot clock handles all deadlines. It never waits for a disk, a reader or an agent: threads write
the logs, and messages to agents are sent without blocking. Orphans of the process become the guard's children, so that
it also ends those that left the session.

Size: one loop, and all that may happen in it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress

from holdfast.agent.guard import kernel
from holdfast.agent.guard.child import HURRY_MS, LATE, become
from holdfast.agent.guard.exec_commands import ExecCommands
from holdfast.agent.guard.files import LOGS, RECORD, RESULT, SOCKET, WHO, RunLog, write_atomically
from holdfast.agent.guard.kernel import boot_ms
from holdfast.agent.guard.namespaces import Namespaces, SharedNamespaces, trial

TYPE_CHECKING = False  # `typing` would be the slowest import, and nothing needs it at run time
if TYPE_CHECKING:
    from typing import Any

#: Longest poll while a time is due: the clock of a poll stands still while the machine is suspended.
TICK_MS = 250
#: How long to wait for a disk, once nothing is left to end.
DISK_MS = 1_000
#: Largest message of an agent.
MESSAGE_BYTES = 1 << 18


class Guard:
    """One replica, from its order to its result."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.groups: list[str] = order["groups"]
        self.deadline: int = order["deadline"]
        #: When it is killed at the latest, once it has begun to end; why it ends; and how it ended.
        self.due = self.sample_at = 0
        self.why = self.failed = ""
        self.status: int | None = None
        self.alone = self.ended = self.gone = False
        self.agents: dict[int, socket.socket] = {}
        self.poll = select.poll()

    def run(self) -> None:
        """Start it, and serve until it has ended."""
        self.start()
        while not self.gone:
            for file, _ in self.poll.poll(self.patience()):
                if file == self.door.fileno():
                    self.welcome()
                elif file == self.said:
                    self.hear_start()
                elif file in self.agents:
                    self.hear(self.agents[file])
                elif file in self.commands.by_line:
                    self.commands.hear(file)
                elif file == self.woken:
                    os.read(file, 64)
            self.reap()
            self.judge()

    def start(self) -> None:
        """Fork, record the process ids, and let the process begin."""
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.door.bind(SOCKET)
        self.door.listen(16)
        self.namespaces = Namespaces(self.order) if self.order["namespaces"] else SharedNamespaces()
        self.commands = ExecCommands(self.order, self.poll, self.namespaces)
        (go, let_go), (self.said, said), (out, to_out), (err, to_err) = (os.pipe() for _ in range(4))
        self.nothing = os.open(os.devnull, os.O_RDWR)
        self.pid = self.namespaces.fork()
        if self.pid == 0:
            os.close(let_go)  # or it would wait forever for a guard that has died
            become(self.order, said, (self.nothing, to_out, to_err), go, namespaces=self.namespaces)
        for theirs in (go, said, to_out, to_err):
            os.close(theirs)
        for stray in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(stray, signal.SIG_IGN)
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.since = boot_ms()
        if self.order["leased"]:
            kernel.publish_deadline(self.deadline)
        pids = (("guard", os.getpid()), ("process", self.pid), ("first", self.namespaces.first))
        who = {name: [pid, one.start] for name, pid in pids if pid and (one := kernel.seen(pid))}
        os.symlink(json.dumps({**who, "boot": self.order["record"]["boot"]}), WHO)  # atomic; if the record is lost
        write_atomically(RECORD, {**self.order["record"], **who, "since": self.since})
        logs = {out: RunLog(f"{LOGS}/stdout", *self.order["logs"]), err: RunLog(f"{LOGS}/stderr", *self.order["logs"])}
        self.logs = [threading.Thread(target=log.keep, args=(pipe,), daemon=True) for pipe, log in logs.items()]
        for thread in self.logs:
            thread.start()
        for file in (self.door.fileno(), self.said, self.woken):
            self.poll.register(file, select.POLLIN)
        os.dup2(self.nothing, 0)
        self.failed = LATE if self.order["leased"] and boot_ms() >= self.deadline else ""  # the disk was slow
        os.write(let_go, b"" if self.failed else b"!")
        os.close(let_go)

    def patience(self) -> int | None:
        """Return how long the next poll may wait."""
        now = boot_ms()
        if self.due and now >= self.due:
            return DISK_MS if self.ended else HURRY_MS
        deadline = 0 if self.due else self.deadline * self.order["leased"]  # once it ends, only `due` counts
        times = [one for one in (deadline, self.due, self.sample_at) if one]
        return max(0, min(min(times) - now, TICK_MS)) if times else None

    def reap(self) -> None:
        """Wait for ended children: the process, and orphans that it left."""
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
            with suppress(OSError):  # without a descriptor: sampled again next time
                self.sample(now)
        if self.status is not None and self.alone and not kernel.members(self.groups):
            self.end()
        elif self.due and now >= self.due:
            kernel.kill_members(self.groups)
            self.namespaces.kill()
            kernel.kill_descendants(self.pid if self.status is None else 0)

    def begin(self, why: str, due: int) -> None:
        """Send TERM to the group, and kill it when `due`. A run that is ending can only get an earlier `due`."""
        if self.due:
            self.due = min(self.due, due)
            return
        self.why, self.due = why, due
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM if due > boot_ms() else signal.SIGKILL)
        self.tell(*self.agents.values())

    def sample(self, now: int) -> None:
        """End a run that exceeds a limit without a cgroup, or of which the kernel has killed a part."""
        limits, keepers = (self.order["sampled_bytes"], self.order["sampled_pids"]), self.commands.keepers()
        ours = {*keepers, self.namespaces.first}
        pids = [pid for pid in kernel.descendants(os.getpid()) if pid not in ours] if any(limits) else []
        living = {pid: one for pid in pids if (one := kernel.seen(pid))}
        beside = {pid for keeper in keepers for pid in kernel.descendants(keeper)}
        why = kernel.over([one for pid, one in living.items() if pid not in beside], *limits)
        if kernel.memory_kills(self.groups) or why:
            self.begin(why or "over-memory", now)
        elif kernel.over(living.values(), *limits):  # over only with commands: end those that ran for a while
            self.commands.end_older(now - self.order["sample"])

    def end(self) -> None:
        """Write the result, report it, and exit; without a written result, stay until an agent lets it go."""
        if not self.ended:
            for thread in self.logs:
                thread.join(DISK_MS / 1000)
            self.ended = True
        self.gone |= bool(self.failed) or not os.path.exists(RECORD)  # without a record no agent will ever connect
        with suppress(OSError):
            write_atomically(RESULT, self.what_is())
            self.gone = True
        self.tell(*self.agents.values())
        self.report(self.failed)

    def hear_start(self) -> None:
        """The process has begun, or could not: report that to the agent, in the latter case at the end."""
        self.failed = os.read(self.said, 64).decode() or self.failed
        self.poll.unregister(self.said)
        if not self.failed:
            self.report("begun")

    def report(self, text: str) -> None:
        with suppress(OSError):
            os.write(1, text.encode())
        os.dup2(self.nothing, 1)

    def what_is(self) -> dict[str, object]:
        """Return the guard's report. A negative code is the signal that ended the process."""
        state = "ended" if self.ended else "stopping" if self.due else "running"
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        said = {"state": state, "pid": self.pid, "since": self.since, "deadline": self.deadline}
        return {**said, "why": self.why, "memory_kills": kernel.memory_kills(self.groups), "code": code}

    def tell(self, *agents: socket.socket) -> None:
        said = json.dumps(self.what_is()).encode()
        for agent in agents:
            with suppress(OSError):  # an agent that misses this sees the guard exit, and reads the result
                agent.send(said)

    def welcome(self) -> None:
        """Accept an agent's connection and send it the report."""
        self.judge()
        agent, _ = self.door.accept()
        agent.setblocking(False)
        self.agents[agent.fileno()] = agent
        self.poll.register(agent, select.POLLIN)
        self.tell(agent)

    def hear(self, agent: socket.socket) -> None:
        """Process an agent's message. A deadline is never lowered, nor moved after it has passed. The grace is never
        raised, since a region may rely on the lower one."""
        asked = {}
        with suppress(OSError):
            asked = json.loads(agent.recv(MESSAGE_BYTES) or "{}")
        if boot_ms() < self.deadline:
            self.order["grace"] = min(self.order["grace"], asked.get("grace", self.order["grace"]))
        if boot_ms() < self.deadline < asked.get("extend", 0):
            self.deadline = asked["extend"]
            kernel.publish_deadline(self.deadline)
        if "stop" in asked:
            self.begin(asked.get("why", "stopped"), boot_ms() + asked["stop"])
        if "run" in asked:
            self.commands.begin(agent, asked, is_ending=bool(self.due))
        if "cancel" in asked:
            self.commands.end(agent, asked["cancel"])
        self.gone |= self.ended and "go" in asked
        if not asked:  # it has disconnected; another agent may connect
            self.commands.end(agent)
            self.poll.unregister(agent)
            self.agents.pop(agent.fileno()).close()


def main() -> None:
    """Read the order, and detach from the agent by a fork. A `trial` only tests whether namespaces work."""
    order = json.loads(sys.stdin.buffer.read())
    if "trial" in order:
        print(trial(order["trial"]))
    elif os.fork() == 0:
        os.setsid()
        os.umask(0o077)
        Guard(order).run()
