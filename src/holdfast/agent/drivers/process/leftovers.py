"""What a guard that was killed, or hung, has left: the process dies with its guard, the rest is killed here.

A cgroup tells who belongs to it. Without one, it is whoever is in the process's session, or in the guard's, where
commands run, and whoever was left to the first process of its namespaces, which the kernel ends with that one. Without
either, a process that has left its session escapes, if its guard did not live to end it.
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
#: Whoever can open nothing looks again after so long.
BLIND_MS = 1_000

T = TypeVar("T")


async def retry_until_able(clock: Clock, look: Callable[[], Awaitable[T]]) -> T:
    """What a look gives, once it can be had: an agent without descriptors does not know who lives, and does nothing."""
    while True:
        try:
            return await look()
        except OSError as error:
            Logger("agent.process").warning("cannot-look", why=error)
            await clock.sleep(BLIND_MS)


def can_look() -> bool:
    """Whether the kernel tells who the children of a process are."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


async def kill_leftovers(record: GuardRecord, clock: Clock) -> None:
    """End what is left of a replica and of its guard; returns when nothing is."""
    while kill_once(record):
        await clock.sleep(POLL_MS)


def kill_once(record: GuardRecord) -> bool:
    """Kill all that can be seen of it; whether there was anything."""
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
    """The processes of a session, given who began it.

    A pid is not used again while it is the number of a session. So if somebody else has it now, that session is over,
    and whoever is in the one of that number has nothing to do with it.
    """
    now = kernel.seen(leader.pid) if leader.pid else None
    if not leader.pid or (now is not None and now.start != leader.start):
        return []
    found = [(pid, kernel.seen(pid)) for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit())]
    inside = [(pid, one) for pid, one in found if one is not None and one.session == leader.pid]
    return [ProcessId(pid, one.start) for pid, one in inside if one.start >= leader.start]


def descended_from(one: ProcessId) -> list[ProcessId]:
    """All that has come of a process, as long as it is there."""
    now = kernel.seen(one.pid) if one.pid else None
    if now is None or now.start != one.start:
        return []
    return [ProcessId(pid, found.start) for pid in kernel.descendants(one.pid) if (found := kernel.seen(pid))]


def kill_process(one: ProcessId) -> bool:
    """Kill this very process, and nobody who has its pid by now; whether it was alive. `OSError` when that cannot be
    looked at."""
    with suppress(ProcessLookupError):
        file = os.pidfd_open(one.pid)
        try:
            if one.is_alive():
                signal.pidfd_send_signal(file, signal.SIGKILL)
                return True
        finally:
            os.close(file)
    return False
