"""The processes of slots on a node, and the state of their probes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ProcessState(StrEnum):
    """The state of a process."""

    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class ProcessRun(Struct, frozen=True):
    """One process, running or ended: its state, since when, and the end's cause from the edge table.

    The exit code is `code`; None: ended by the agent or a signal, or unknown.
    """

    here: ProcessState
    since: int
    code: int | None = None
    cause: str = "exit"
    detail: str = ""


class ProbeState(Struct, frozen=True):
    """The state of a process's probes: started, ready, or failed, so that it must be ended."""

    started: bool = True
    ready: bool = True
    failed: bool = False
    detail: str = ""


#: Without probes, every running process counts as started and ready.
NOT_PROBED = ProbeState()
