"""What there is on a node, as its agent sees it: runs of slots, and how they feel."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ProcessState(StrEnum):
    """How far a process is."""

    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class ProcessRun(Struct, frozen=True):
    """One process, or what is left of it: since when it is so, and why it ended, in the words of the edge table.

    `code` is what it exited with by itself; None: somebody or a signal ended it, or nobody knows.
    """

    here: ProcessState
    since: int
    code: int | None = None
    cause: str = "exit"
    detail: str = ""


class ProbeState(Struct, frozen=True):
    """What probes say of a process: it has started, it is ready, it is to be ended."""

    started: bool = True
    ready: bool = True
    failed: bool = False
    detail: str = ""


#: Where nothing is asked, whatever runs is well.
NOT_PROBED = ProbeState()
