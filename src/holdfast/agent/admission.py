"""The agent's admission: which bindings it refuses, and when it reports that; and what it asks of its driver. Refusals
are counted by slot, since a slot that is placed here again has another binding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec, RunStatus, StartFault
from holdfast.core.agent.bindings import BoundSlot, rejection_reason, tenants_begun
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessRun, ProcessState, rejection_backoff_ms
from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.objects.workloads import DriverKind, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region.commands import RegisterNode

#: Largest number of slots whose refusals are counted; the oldest counts are discarded.
KNOWN_MAX = 1_000
#: By the reason why a process ended: the cause of the edge to `failed`. All other reasons have the cause `exit`.
_CAUSES = dict.fromkeys(
    (ExitReason.OVER_MEMORY, ExitReason.OVER_PIDS, ExitReason.OVER_DISK, ExitReason.DISK_UNKNOWN), "over-limit"
)


class BindingAdmission:
    """The admission of one node, across all sessions of its agent."""

    def __init__(self, node: RegisterNode, drivers: Collection[DriverKind]) -> None:
        #: The node's registration, with the capabilities of its driver once they are known.
        self.node = node
        self._drivers = drivers
        self._times: OrderedDict[SlotKey, int] = OrderedDict()
        #: By binding: the reason, and the time from which it is reported.
        self._refused: dict[RunKey, tuple[str, int]] = {}

    def of(
        self, bound: Iterable[BoundSlot], templates: Mapping[str, Template], now: int
    ) -> Mapping[RunKey, tuple[str, int]]:
        """Return the bindings that the node refuses, each with its reason and the time from which it is reported."""
        found: dict[RunKey, tuple[str, int]] = {}
        bound = list(bound)
        there, is_single = tenants_begun(bound, self.node), takes_one_tenant(self.node)
        for one in bound:
            if one.phase is not Phase.BOUND:
                continue
            key = one.slot, one.epoch
            why = rejection_reason(one, templates[one.template], self.node, self._drivers, tuple(there))
            if not why and is_single:
                there[one.tenant] = None
            if why:
                found[key] = self._refused.get(key) or (why, now + rejection_backoff_ms(self._count(one.slot)))
        self._refused = found
        return found

    def _count(self, slot: SlotKey) -> int:
        """Return the number of earlier refusals of this slot, and count one more."""
        times = self._times.pop(slot, 0)
        self._times[slot] = times + 1
        if len(self._times) > KNOWN_MAX:
            self._times.popitem(last=False)
        return times


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
