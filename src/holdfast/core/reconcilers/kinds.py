"""Kinds of slots: those of one assignment that are in one phase, of one template, and to become the same, are alike.

What is wanted of slots follows from their kind, so controllers look at kinds, of which there are few, and at the runs
of ordinals that each has. Of an assignment whose slots all wait, which is what every assignment begins as and what one
without room stays, the request says everything: no slot is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.allotment import Assignment
from holdfast.core.model.lifecycle import PENDING, STOPPABLE, Phase
from holdfast.core.model.runs import Runs, numbers, size
from holdfast.core.region.kinds import ordinals_of
from holdfast.core.region.state import RegionState

#: Phases in which a slot does not run its template: not yet, or not for much longer.
_RUNS_NOTHING = (PENDING, Phase.TERMINATING, Phase.SUCCEEDED)


class Kind(NamedTuple):
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


def kinds_of(state: RegionState, assignment: Assignment) -> dict[Kind, Runs]:
    """The slots of an assignment by kind. Those that wait are known from their request, if all of them do."""
    ordinals, requests = ordinals_of(state, assignment.uid), state.requests.get(assignment.uid) or ()
    if len(requests) == 1 and requests[0].open == size(ordinals):
        template = requests[0].template
        return {Kind(PENDING, template, template): ordinals}
    workload, found = assignment.workload, dict[tuple[str, str, str], list[list[int]]]()
    slots = state.slots.find((workload, ordinal) for ordinal in numbers(ordinals))
    for ordinal, slot in zip(numbers(ordinals), slots, strict=True):
        kind = slot.phase._value_, slot.template, slot.next_template  # a member of an enum is hashed in Python
        runs = found.get(kind)
        if runs is None:
            found[kind] = [[ordinal, ordinal + 1]]
        elif runs[-1][1] == ordinal:
            runs[-1][1] = ordinal + 1
        else:
            runs.append([ordinal, ordinal + 1])
    return {
        Kind(Phase(phase), template, following): tuple((first, after) for first, after in runs)
        for (phase, template, following), runs in found.items()
    }
