"""Slot groups: the slots of one assignment with equal phase, template and next template.

Decisions about slots depend only on their group. Controllers read the few groups and their ordinals, stored as bits
(`core.region.state.slot_kinds`), and no slots.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import PENDING, STOPPABLE, Phase
from holdfast.core.model.values.bitsets import Bitset, union
from holdfast.core.region.state.slot_kinds import kinds_in
from holdfast.core.region.state.tables import RegionState

#: Phases in which a slot does not run its template: not yet, or not for much longer.
_RUNS_NOTHING = (PENDING, Phase.TERMINATING, Phase.SUCCEEDED)


class SlotGroup(NamedTuple):
    """Phase, template and next template of equal slots."""

    phase: Phase
    template: str
    next_template: str

    @property
    def future(self) -> str:
        """The template that the slots have, or are to have."""
        return self.template if self.phase is Phase.SUCCEEDED else self.next_template or self.template

    @property
    def may_stay(self) -> bool:
        """Whether slots may stay: all but those that end for good. A slot that was given up and still runs is kept at
        no cost."""
        return bool(self.next_template) or self.phase in STOPPABLE or self.phase is Phase.SUCCEEDED

    def runs_another(self, template: str) -> bool:
        """Check whether the slots run another template."""
        return self.template != template and self.phase not in _RUNS_NOTHING


def slot_groups(state: RegionState, assignment: Assignment) -> dict[SlotGroup, Bitset]:
    """Return the ordinals of an assignment's slots by group, whichever account pays for them."""
    found: dict[SlotGroup, Bitset] = {}
    for (phase, template, following, _), ordinals in kinds_in(state, assignment.uid).items():
        kind = SlotGroup(Phase(phase), template, following)
        found[kind] = union((found[kind], ordinals)) if kind in found else ordinals
    return found
