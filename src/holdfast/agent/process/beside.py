"""A command beside a process, for probes: with its variables, its folder and its user, in a session of its own.

It is not among what its guard watches: it is short, bounded by its asker, and killed with all it started when that
stops waiting. As the process itself it gains no rights by what it runs, and it does not outlive whoever asked for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from holdfast.agent import guard
from holdfast.agent.driver import OF_OURSELVES, CannotStart, StartFault
from holdfast.agent.process.users import User


async def run_beside(command: tuple[str, ...], environment: dict[str, str], folder: str, user: User | None) -> int:
    """Its exit code; minus the signal that ended it."""
    as_whom = {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": ()}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,
            preexec_fn=_confine,
            **as_whom,  # type: ignore[arg-type]
        )
    except OSError as error:
        if error.errno in OF_OURSELVES:
            raise
        raise CannotStart(StartFault.MISSING_BINARY, f"{command[0]}: {error.strerror}") from error
    try:
        return await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _confine() -> None:
    """In the child, once it is its user's: what a guard does for a process."""
    guard.prctl(guard.PR_SET_NO_NEW_PRIVS, 1)
    guard.prctl(guard.PR_SET_PDEATHSIG, signal.SIGKILL)
