"""The code of a forked child of the guard, until it executes the process or a command beside it.

    guard ──fork──▶ the process, in a session of its own
          ──fork──▶ a keeper ──fork──▶ a command, in the guard's session, in a group of its own

In a replica with namespaces, all of these are forked into its pid namespace and enter the others here. The process does
so after it has joined its cgroup, whose files are not visible from then on. A keeper does so before it forks, with
descriptors of them. A keeper is the parent of one command. Processes that leave the command's group or session become
the keeper's children, which ends them with the command. A command is in the replica's cgroup and has its user; a keeper
is not. The kernel kills both when the guard dies.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import time

from holdfast.agent.guard import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from holdfast.agent.guard.namespaces import SharedNamespaces

#: How soon to check again whether killed processes have ended.
HURRY_MS = 20
#: The answer for a process whose lease expired before it began: the replica may run elsewhere by now.
LATE = "lease 0"
#: Signals that are reset before an exec: the guard, Python or the agent's parent may ignore some, and that is
#: inherited.
_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def become(
    order: dict[str, Any],
    said: int,
    streams: tuple[int, int, int],
    go: int | None = None,
    entries: list[int] | None = None,
    namespaces: SharedNamespaces | None = None,
) -> NoReturn:
    """In the child: execute the ordered command once the guard permits it; or report the failed step, and exit.

    Without `go` it is a command: it stays in the guard's session, where it is found even if its guard is killed, and
    its keeper passes the `entries` of its cgroup. The process opens its own, and then joins its namespaces.
    """
    step, parent = "guard", os.getppid()  # 0 from within a pid namespace, which ends with the guard
    try:
        if go is None:
            os.setpgid(0, 0)
        else:
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        if go is not None and not os.read(go, 1):
            os._exit(1)
        step = "cgroup"
        for entry in opened(order) if entries is None else entries:
            os.write(entry, b"0")
        step = "namespaces"
        if namespaces is not None:
            namespaces.join()
        os.chdir(order["folder"] if order["own"] else ".")  # as root, since its user may lack access to the path
        step = "user"  # from here on nothing can be imported: the user may not be able to read the standard library
        if order["user"] is not None:
            kernel.leave_keys()  # as root, since a keyring counts toward its user's quota
            uid, gid = order["user"]
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        # After the change of user, which would undo it. No set-uid program can regain privileges from here on.
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        step = "folder"
        os.chdir("." if order["own"] else order["folder"])
        if go is not None and order["leased"] and kernel.boot_ms() >= order["deadline"]:
            os.write(said, LATE.encode())
            os._exit(1)
        step = "exec"
        os.umask(0o022)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _execute(order["command"], order["environment"])
    except (OSError, ValueError) as error:
        os.write(said, f"{step} {getattr(error, 'errno', 0)}".encode())
    finally:
        os._exit(127)


def opened(order: dict[str, Any]) -> list[int]:
    """Return descriptors of the files through which its cgroup is entered."""
    return [os.open(f"{group}/cgroup.procs", os.O_WRONLY) for group in order["groups"]]


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Execute this command, found by PATH."""
    name, folders = command[0], environment["PATH"].split(":")
    failed: int | None = errno.ENOENT
    for program in [name] if "/" in name else [os.path.join(folder, name) for folder in folders if folder]:
        try:
            os.execve(program, command, environment)
        except OSError as error:
            failed = failed if error.errno in (errno.ENOENT, errno.ENOTDIR) else error.errno
    raise OSError(failed, "exec")


def keep(order: dict[str, Any], limit_ms: int, line: int, namespaces: SharedNamespaces) -> NoReturn:
    """In the child: run a command until it ends, its time is over, or its agent cancels it. Then end what it left, and
    report its exit code or the failed step."""
    guard = os.getppid()
    try:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        step = "cgroup"
        try:
            entries = opened(order)
            step = "namespaces"
            namespaces.join()
        except OSError as error:
            os.write(line, json.dumps({"failed": f"{step} {error.errno}"}).encode())
            os._exit(0)
        kernel.close_all_but(line, *entries)  # a keeper uses no other open file of the guard
        nothing = os.open(os.devnull, os.O_RDWR)
        why, failed = os.pipe()
        pid = os.fork()
        if pid == 0:
            become(order, failed, (nothing, nothing, nothing), entries=entries)
        os.close(failed)
        news = select.poll()
        for file in (os.pidfd_open(pid), line):
            news.register(file, select.POLLIN)
        news.poll(limit_ms)
        code = _ended(pid)
        os.write(line, json.dumps({"code": code, "failed": os.read(why, 64).decode()}).encode())
    finally:
        os._exit(0)


def _ended(leader: int) -> int:
    """End this command and all its descendants; return its exit code, or minus the signal that ended it."""
    status: int | None = None
    while True:
        kernel.kill_descendants(leader if status is None else 0)
        try:
            while (waited := os.waitpid(-1, os.WNOHANG))[0]:
                if waited[0] == leader:
                    status = waited[1]
        except ChildProcessError:
            assert status is not None, "without children its command was waited for"
            return os.waitstatus_to_exitcode(status)
        time.sleep(HURRY_MS / 1_000)
