"""The agent's admission: which bindings it refuses, and when it reports that. Refusals are counted by slot, since a
slot that is placed here again has another binding."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from holdfast.core.agent.bindings import BoundSlot, rejection_reason, tenants_begun
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.restarts import rejection_backoff_ms
from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.objects.workloads import DriverKind, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region.commands import RegisterNode

#: Largest number of slots whose refusals are counted; the oldest counts are discarded.
KNOWN_MAX = 1_000


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
