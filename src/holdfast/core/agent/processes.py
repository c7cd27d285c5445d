"""The processes of slots on a node, the state of their probes, and when a failed run is restarted.

Each restart comes later, so that nothing loops tightly. The back-off continues after a slot is given up: placed again,
it may fail again on any node.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.workloads import RestartPolicy, Template, restarts_allowed

#: The back-off before the first restart; it doubles for each later one, up to the maximum.
PAUSE_MS, PAUSE_MAX_MS = 1_000, 60_000


class ProcessState(StrEnum):
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


def may_restart(template: Template, one: BoundSlot, run: ProcessRun | None) -> bool:
    """Whether the policy allows a restart here. A moved binding may not: two machines must not share its token."""
    if one.moved or one.restarts >= restarts_allowed(template):
        return False
    return template.restart is RestartPolicy.ALWAYS or run is None or run.code != 0


def restart_at(one: BoundSlot, run: ProcessRun | None, now: int) -> int:
    """Return when to restart, on the node's boot clock. A binding without a run is started at once: it was fenced or
    never started."""
    if run is None:
        return now
    return run.since + min(PAUSE_MAX_MS, PAUSE_MS << min(one.restarts + 2 * one.attempts, 10))


def give_up_at(one: BoundSlot, run: ProcessRun | None, now: int) -> int:
    """Return when a slot that is not restarted may be released for placement: at once, or delayed if agents gave it up
    before."""
    return restart_at(one, run, now) if one.attempts else now


def rejection_backoff_ms(times: int) -> int:
    """Return the back-off before the same slot is declined again, after this many times."""
    return min(PAUSE_MAX_MS, PAUSE_MS << min(times - 1, 10)) if times else 0
