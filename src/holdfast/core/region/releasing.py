"""The end of a binding epoch: what an ordinal becomes, and whether it keeps its charge."""

from __future__ import annotations

from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.core.model.resources import exceeded
from holdfast.core.region.events import Released
from holdfast.core.region.state import RegionState


def released(state: RegionState, slot: Slot, cause: str) -> Released:
    """The release of a slot. Work that succeeded does not come back; what is still wanted waits again.

    A charge belongs to a slot (RULES 7): it is kept unless the next template needs more than was paid for.
    """
    key = (slot.workload, slot.ordinal)
    following = "" if slot.phase is Phase.SUCCEEDED else slot.next_template
    if not following:
        return Released(key, slot.node, cause, "", "")
    kept = slot.account
    if following != slot.template and exceeded(state.templates[following].need, state.templates[slot.template].need):
        kept = ""
    return Released(key, slot.node, cause, following, kept)
