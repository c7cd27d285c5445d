"""Conversions: from binding and template to a driver's `RunSpec`, and from a driver's `RunStatus` to the report."""

from __future__ import annotations

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec, RunStatus, StartFault
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import ProcessRun, ProcessState
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.settings import DEFAULTS

#: By the reason why a process ended: the cause of the edge to `failed`. All other reasons have the cause `exit`.
_CAUSES = dict.fromkeys(
    (ExitReason.OVER_MEMORY, ExitReason.OVER_PIDS, ExitReason.OVER_DISK, ExitReason.DISK_UNKNOWN), "over-limit"
)


def run_of(live: RunStatus, since: int) -> ProcessRun:
    """Return a run as the plan sees it, in its state since then. A run that was ended has no exit code: 0 would not
    mean success."""
    code = live.code if live.why is ExitReason.EXIT else None
    return ProcessRun(live.state, since, code, _CAUSES.get(live.why, "exit"), live.detail)


def failed_start(error: CannotStart, now: int) -> ProcessRun:
    """Return a start that failed, as a run that ended at once."""
    return ProcessRun(ProcessState.ENDED, now, None, "cannot-start", str(error))


def as_start_failure(error: Exception) -> CannotStart:
    """Return why a driver could not start a run: its own error, or another one such as a full disk.

    Messages of operating system errors contain no secrets. Of other errors only the type is reported.
    """
    if isinstance(error, CannotStart):
        return error
    kind = type(error).__name__
    return CannotStart(StartFault.DRIVER, f"{kind}: {error}" if isinstance(error, OSError) else kind)


def run_spec_of(one: BoundSlot, template: Template, lease: int, most_ms: int = DEFAULTS.grace) -> RunSpec:
    """Return what is to run in a slot. Leased work has at most `most_ms` to stop, since its fence allows no more."""
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
