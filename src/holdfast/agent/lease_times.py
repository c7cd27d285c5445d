"""The durations that the agent uses: the last ones that its region sent, stored on the node's disk (RULES 24).

They arrive with each renewal, and apply before the lease that it grants. Until the first renewal the agent uses those
on the disk, and on a new node the defaults: no exclusive work starts without a renewal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.core.model.values.settings import DEFAULT_TIMES, AgentTimes
from holdfast.host.runtime.files import write_atomically
from holdfast.host.runtime.telemetry import Logger

NAME = "times.json"
#: Longest time that the event loop waits for the disk.
WRITE_S = 0.1


class AgentLeaseTimes:
    """The durations in use. `keep` stores changed ones, without waiting until they are durable."""

    def __init__(
        self, now: AgentTimes = DEFAULT_TIMES, keep: Callable[[AgentTimes], None] = lambda _times: None
    ) -> None:
        self.now = now
        self._keep = keep

    def told(self, times: AgentTimes | None) -> bool:
        """Use these durations; whether they differ from the last ones. None, from a server that sends none, changes
        nothing."""
        if times is None or times == self.now:
            return False
        self.now = times
        self._keep(times)
        return True


def lease_times_on_disk(folder: Path) -> AgentLeaseTimes:
    """Return the durations in this folder, or the defaults if they are unreadable: the region sends them again."""
    file = folder / NAME
    return AgentLeaseTimes(_read(file), lambda times: _write(file, times))


def _write(file: Path, times: AgentTimes) -> None:
    """Write in a thread, and wait for it for at most `WRITE_S`: nothing depends on the disk."""
    thread = threading.Thread(target=_write_whole, args=(file, times), name="times", daemon=True)
    thread.start()
    thread.join(WRITE_S)


def _write_whole(file: Path, times: AgentTimes) -> None:
    try:
        write_atomically(file, msgspec.json.encode(times).decode())
    except OSError as error:  # the next session receives them again before they matter
        Logger("agent").warning("times-not-kept", why=error)


def _read(file: Path) -> AgentTimes:
    try:
        return msgspec.json.decode(file.read_bytes(), type=AgentTimes)
    except FileNotFoundError:
        return DEFAULT_TIMES
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        Logger("agent").warning("times-unreadable", file=file, why=error)
        return DEFAULT_TIMES
