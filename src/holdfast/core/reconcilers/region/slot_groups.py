"""Kinds of slots: those of one assignment that are in one phase, of one template, and to become the same, are alike.

What is wanted of slots follows from their kind, so controllers look at kinds, of which there are few, and at the
ordinals of each, which are kept as bits (`core.region.kinds`). No slot is looked at.
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
    """What slots have in common as far as what is wanted of them goes."""

    phase: Phase
    template: str
    next_template: str

    @property
    def future(self) -> str:
        """The template that they are, or are to be, of."""
        return self.template if self.phase is Phase.SUCCEEDED else self.next_template or self.template

    @property
    def may_stay(self) -> bool:
        """All but those that end for good. One that was given up and still runs can be taken back at no cost."""
        return bool(self.next_template) or self.phase in STOPPABLE or self.phase is Phase.SUCCEEDED

    def runs_another(self, template: str) -> bool:
        """Whether they run something else than this template."""
        return self.template != template and self.phase not in _RUNS_NOTHING


def slot_groups(state: RegionState, assignment: Assignment) -> dict[SlotGroup, Bitset]:
    """The slots of an assignment by kind, whoever pays for them. No slot is looked at."""
    found: dict[SlotGroup, Bitset] = {}
    for (phase, template, following, _), ordinals in kinds_in(state, assignment.uid).items():
        kind = SlotGroup(Phase(phase), template, following)
        found[kind] = union((found[kind], ordinals)) if kind in found else ordinals
    return found
