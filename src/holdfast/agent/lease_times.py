"""The numbers that an agent acts by: those that its region told last, kept on the node's disk (RULES 24).

They come with each renewal, and hold before the lease that the renewal is worth. Until the first one those on the disk
count, and on a new node the defaults: nothing exclusive begins without a renewal.
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
#: So long a loop waits for the disk.
WRITE_S = 0.1


class AgentLeaseTimes:
    """One node's memory of its region's numbers. `keep` makes others durable, sooner or later."""

    def __init__(
        self, now: AgentTimes = DEFAULT_TIMES, keep: Callable[[AgentTimes], None] = lambda _times: None
    ) -> None:
        self.now = now
        self._keep = keep

    def told(self, times: AgentTimes | None) -> bool:
        """Whether these are others than before. A server that tells none keeps to those that there are."""
        if times is None or times == self.now:
            return False
        self.now = times
        self._keep(times)
        return True


def lease_times_on_disk(folder: Path) -> AgentLeaseTimes:
    """The numbers that this folder remembers; what cannot be read is not: they are told again."""
    file = folder / NAME
    return AgentLeaseTimes(_read(file), lambda times: _write(file, times))


def _write(file: Path, times: AgentTimes) -> None:
    """A thread writes, and is waited for as long as a loop can stand: nothing depends on the disk."""
    thread = threading.Thread(target=_write_whole, args=(file, times), name="times", daemon=True)
    thread.start()
    thread.join(WRITE_S)


def _write_whole(file: Path, times: AgentTimes) -> None:
    try:
        write_atomically(file, msgspec.json.encode(times).decode())
    except OSError as error:  # they are told again in the next life, before they matter
        Logger("agent").warning("times-not-kept", why=error)


def _read(file: Path) -> AgentTimes:
    try:
        return msgspec.json.decode(file.read_bytes(), type=AgentTimes)
    except FileNotFoundError:
        return DEFAULT_TIMES
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        Logger("agent").warning("times-unreadable", file=file, why=error)
        return DEFAULT_TIMES
