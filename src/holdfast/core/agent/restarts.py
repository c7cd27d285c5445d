"""Whether what has failed is started again on its node, and when: later each time, so that nothing loops tightly.

What was given up is placed anew and fails again, wherever it stands: so the pauses go on where they were.
"""

from __future__ import annotations

from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import ProcessRun
from holdfast.core.model.objects.workloads import RestartPolicy, Template, restarts_allowed

#: Before the first restart so long; twice as long before each later one.
PAUSE_MS, PAUSE_MAX_MS = 1_000, 60_000


def may_restart(template: Template, one: BoundSlot, run: ProcessRun | None) -> bool:
    """Whether its policy lets it be started again here. Its token is that of its binding: two machines share none."""
    if one.moved or one.restarts >= restarts_allowed(template):
        return False
    return template.restart is RestartPolicy.ALWAYS or run is None or run.code != 0


def restart_at(one: BoundSlot, run: ProcessRun | None, now: int) -> int:
    """When, on the node's even clock. What left nothing behind is started at once: it was fenced, or never began."""
    if run is None:
        return now
    return run.since + min(PAUSE_MAX_MS, PAUSE_MS << min(one.restarts + 2 * one.attempts, 10))


def give_up_at(one: BoundSlot, run: ProcessRun | None, now: int) -> int:
    """When what is not started again here may be placed anew: at once, unless that was tried before."""
    return restart_at(one, run, now) if one.attempts else now


def rejection_backoff_ms(times: int) -> int:
    """How long to wait before the same slot is refused once more, after so many times."""
    return min(PAUSE_MAX_MS, PAUSE_MS << min(times - 1, 10)) if times else 0
