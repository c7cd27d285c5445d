"""From a binding and its template to what a driver starts, and from what a driver sees to the report."""

from __future__ import annotations

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec, RunState, RunStatus, StartFault
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import ProcessRun, ProcessState
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.settings import DEFAULTS

_HERE = {
    RunState.RUNNING: ProcessState.RUNNING,
    RunState.STOPPING: ProcessState.STOPPING,
    RunState.ENDED: ProcessState.ENDED,
}
#: By why a process ended: the cause of the edge to `failed`. Whatever is not here ended by itself.
_CAUSES = dict.fromkeys(
    (ExitReason.OVER_MEMORY, ExitReason.OVER_PIDS, ExitReason.OVER_DISK, ExitReason.DISK_UNKNOWN), "over-limit"
)


def run_of(live: RunStatus, since: int) -> ProcessRun:
    """A process as a plan sees it, so since then. What was ended has no code: it may have said 0, and was not done."""
    code = live.code if live.why is ExitReason.EXIT else None
    return ProcessRun(_HERE[live.state], since, code, _CAUSES.get(live.why, "exit"), live.detail)


def failed_start(error: CannotStart, now: int) -> ProcessRun:
    """What could not be started, as if it had ended at once."""
    return ProcessRun(ProcessState.ENDED, now, None, "cannot-start", str(error))


def as_start_failure(error: Exception) -> CannotStart:
    """Why a driver could not start something, in its own words, or where it had none: such as no room, no descriptor.

    Of the machine's errors the message is known to hold no secret; of others only the kind is told.
    """
    if isinstance(error, CannotStart):
        return error
    kind = type(error).__name__
    return CannotStart(StartFault.DRIVER, f"{kind}: {error}" if isinstance(error, OSError) else kind)


def run_spec_of(one: BoundSlot, template: Template, lease: int, most_ms: int = DEFAULTS.grace) -> RunSpec:
    """What is to run in a slot. Leased work has no longer to stop than its fence allows for, which is `most_ms`."""
    grace_ms = template.grace or most_ms
    return RunSpec(
        slot=one.slot,
        epoch=one.epoch,
        name=one.name,
        command=template.command,
        environment=template.environment,
        folder=template.folder,
        user=template.user,
        need=template.need,
        pids=template.pids,
        ports=one.ports,
        devices=one.devices,
        secrets=template.secrets,
        leased=one.leased,
        deadline=lease if one.leased else 0,
        grace_ms=min(grace_ms, most_ms) if one.leased else grace_ms,
        tenant=one.tenant,
    )
