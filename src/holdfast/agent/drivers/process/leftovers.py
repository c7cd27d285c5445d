"""Kills what a guard that was killed or hung has left: the kernel ends its process with it, the rest is killed here.

A cgroup contains all processes of the run. Without one, its processes are those in the process's session, those in the
guard's session, which contains commands, and those that its namespaces' first process inherited. Without either, a
process that left its session survives, unless its guard lived long enough to end it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from holdfast.agent.drivers.process.guard_files import NOBODY, GuardRecord, ProcessId, boot_id
from holdfast.agent.guard import kernel
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger

POLL_MS = 20
#: Without a free descriptor, an examination is repeated after this time.
BLIND_MS = 1_000

T = TypeVar("T")


async def retry_until_able(clock: Clock, look: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an examination once it succeeds: an agent without descriptors cannot see which processes
    live."""
    while True:
        try:
            return await look()
        except OSError as error:
            Logger("agent.process").warning("cannot-look", why=error)
            await clock.sleep(BLIND_MS)


def can_look() -> bool:
    """Whether the kernel lists the children of a process."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


async def kill_leftovers(record: GuardRecord, clock: Clock) -> None:
    """End what is left of a run and of its guard; return when nothing is."""
    while kill_once(record):
        await clock.sleep(POLL_MS)


def kill_once(record: GuardRecord) -> bool:
    """Kill all visible processes of the run; whether there were any."""
    if record.boot != boot_id():
        return False
    groups = list(record.groups)
    left = kernel.members(groups)
    if left:
        kernel.kill_members(groups)
    found = (record.guard, *in_session(record.guard), *in_session(record.process), *descended_from(record.first))
    ended = [kill_process(one) for one in found if one != NOBODY]
    return bool(left) or any(ended)


def in_session(leader: ProcessId) -> list[ProcessId]:
    """Return the processes of a session, given its leader.

    A pid is not reused while it numbers a session. If another process has the leader's pid, its session is over.
    """
    now = kernel.seen(leader.pid) if leader.pid else None
    if not leader.pid or (now is not None and now.start != leader.start):
        return []
    found = [(pid, kernel.seen(pid)) for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit())]
    inside = [(pid, one) for pid, one in found if one is not None and one.session == leader.pid]
    return [ProcessId(pid, one.start) for pid, one in inside if one.start >= leader.start]


def descended_from(one: ProcessId) -> list[ProcessId]:
    """Return all descendants of a process, as long as it exists."""
    now = kernel.seen(one.pid) if one.pid else None
    if now is None or now.start != one.start:
        return []
    return [ProcessId(pid, found.start) for pid in kernel.descendants(one.pid) if (found := kernel.seen(pid))]


def kill_process(one: ProcessId) -> bool:
    """Kill this very process, never another with its pid; whether it lived. `OSError` if that cannot be examined."""
    with suppress(ProcessLookupError):
        file = os.pidfd_open(one.pid)
        try:
            if one.is_alive():
                signal.pidfd_send_signal(file, signal.SIGKILL)
                return True
        finally:
            os.close(file)
    return False
