"""Which ordinals an assignment wants, under which template: a function of the assignment and of its slots.

    slots, what costs most to lose first
      1. each stays with the template that it is, or is to be, of, up to that template's count; one whose template
         nobody asks for any more takes up one that lacks slots: it keeps its ordinal and is retargeted
      2. while slots that stay run something else, a few more stay or are opened beside them: the surge, as many as
         the disruption share, and one at least
      3. what is too much of one template takes up another that lacks slots
      4. what still lacks gets new ordinals, the smallest that are free; whoever was not chosen goes

Of batch work, ordinals that are done or have failed for good count as there, and are not opened again.

So scaling touches only what comes or goes: whatever stays keeps its ordinal, its template and its process. To keep the
lowest ordinals instead, whatever they do, would stop one that serves for one that waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct

from holdfast.core.model.allotment import ACTIVE, RECOVERY, Assignment
from holdfast.core.model.lifecycle import PENDING, STOPPABLE, Phase
from holdfast.core.model.placement import Finished, Slot
from holdfast.core.model.runs import size
from holdfast.core.model.shapes import Instant
from holdfast.core.reconcilers.assigned import has_lapsed, slots_of
from holdfast.core.region.releasing import is_finished
from holdfast.core.region.state import RegionState

#: Ordinals of recovery are apart from those of serving, which another assignment of the same workload may hold here.
RECOVERY_ORDINALS = 1_000_000

#: What is given up first, in this order: what waits or stands still, then what starts, then what serves. Work that is
#: done is not given up at all.
_CHEAPEST_FIRST = (
    Phase.PENDING, Phase.TERMINATING, Phase.RESERVED, Phase.BOUND, Phase.FAILED, Phase.UNKNOWN,
    Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.SUCCEEDED,
)  # fmt: skip
_COST = {phase: cost for cost, phase in enumerate(_CHEAPEST_FIRST)}
#: Phases in which a slot does not run its template: not yet, or not for much longer.
_RUNS_NOTHING = (PENDING, Phase.TERMINATING, Phase.SUCCEEDED)


class Plan(Struct, frozen=True):
    """What is wanted: the template of each ordinal. Of its slots, those that run another one yet, and those that go."""

    templates: dict[int, str] = {}
    old: tuple[Slot, ...] = ()
    surplus: tuple[Slot, ...] = ()


def plan(state: RegionState, assignment: Assignment, now: Instant) -> Plan:
    """What this assignment wants now. Nothing, if it does not run here or its right has lapsed."""
    slots = slots_of(state, assignment)
    if assignment.stage is not ACTIVE or has_lapsed(state, assignment, now):
        return Plan(surplus=tuple(slots))
    choice = _Choice(assignment, slots, state.finished.get(assignment.uid) or ())
    choice.keep()
    choice.keep_surge()
    choice.even_out()
    choice.open_new(_free_ordinals(state, assignment))
    chosen = choice.templates
    old = tuple(slot for slot in slots if slot.ordinal in chosen and _runs_another(slot, chosen[slot.ordinal]))
    return Plan(chosen, old, tuple(slot for slot in slots if slot.ordinal not in chosen))


def asked(assignment: Assignment) -> int:
    """How many replicas the assignment asks for, of all templates together."""
    return sum(share.count for share in assignment.shares)


def future(slot: Slot) -> str:
    """The template that a slot is, or is to be, of."""
    return slot.template if slot.phase is Phase.SUCCEEDED else slot.next_template or slot.template


def _runs_another(slot: Slot, template: str) -> bool:
    return slot.template != template and slot.phase not in _RUNS_NOTHING


def _may_stay(slot: Slot) -> bool:
    """All but those that end for good. One that was given up and still runs can be taken back at no cost."""
    return bool(slot.next_template) or slot.phase in STOPPABLE or slot.phase is Phase.SUCCEEDED


class _Choice:
    """Slots being chosen, one step after the other."""

    def __init__(self, assignment: Assignment, slots: list[Slot], finished: Sequence[Finished]) -> None:
        mine = [slot for slot in slots if _may_stay(slot)]
        if assignment.exclusive:
            listed = {*assignment.ordinals}
            mine = [slot for slot in mine if slot.ordinal in listed]
        self.templates: dict[int, str] = {}
        #: By template: how many slots it lacks, and how many that stay run something else and have no surge yet.
        over = {row.template: size(row.done) + size(row.failed) for row in finished}
        shares = [share for share in assignment.shares if share.count]
        self._lacks = {share.template: max(0, share.count - over.get(share.template, 0)) for share in shares}
        self._old = dict.fromkeys(self._lacks, 0)
        # Also where nothing may be disrupted: what is opened beside the others disrupts none of them.
        self._surge = 0 if assignment.exclusive else max(1, assignment.disruption)
        self._rest = sorted(mine, key=self._worth)
        #: By template: how many that are to be of it are not looked at yet.
        self._own = dict.fromkeys(self._lacks, 0)
        for slot in self._rest:
            if future(slot) in self._own:
                self._own[future(slot)] += 1

    def _worth(self, slot: Slot) -> tuple[int, int, int]:
        """What costs most to lose first; among equals what is as it should be, then what knows what it is to become,
        then what runs already what it could become again; and the lowest ordinals."""
        if future(slot) in self._lacks:
            changes = 1 if _runs_another(slot, future(slot)) else 0
        else:
            changes = 2 if slot.template in self._lacks else 3
        return -_COST[slot.phase], changes, slot.ordinal

    def keep(self) -> None:
        for slot in self._rest:
            template = future(slot)
            if template in self._lacks:
                self._own[template] -= 1
            else:
                template = self._template_for(slot)
            if self._lacks.get(template):
                self._choose(slot, template)
        self._drop_chosen()

    def _template_for(self, slot: Slot) -> str:
        """What one that nobody asks for is to become: what it runs, else what would lack most."""
        if self._lacks.get(slot.template):
            return slot.template
        lacking = [template for template, lacks in self._lacks.items() if lacks]
        return max(lacking, key=lambda template: self._lacks[template] - self._own[template], default="")

    def keep_surge(self) -> None:
        for slot in self._rest:
            template = future(slot)
            if template in self._old and self._surge > 0:
                # An old one that is too much stays for the rollout to stop, which counts what serves.
                self._old[template] += _runs_another(slot, template)
                if self._old[template] > 0:
                    self.templates[slot.ordinal] = template
                    self._count_surge(template)
        self._drop_chosen()

    def even_out(self) -> None:
        for slot in self._rest:
            template = self._template_for(slot)
            if template:
                self._choose(slot, template)
        self._drop_chosen()

    def open_new(self, free: Iterator[int]) -> None:
        for template, lacking in self._lacks.items():
            for _ in range(lacking):
                ordinal = next(free, None)
                if ordinal is not None:
                    self.templates[ordinal] = template
        for template in self._old:
            while self._surge > 0 and self._old[template] > 0:
                self.templates[next(free)] = template
                self._count_surge(template)

    def _choose(self, slot: Slot, template: str) -> None:
        self.templates[slot.ordinal] = template
        self._lacks[template] -= 1
        self._old[template] += _runs_another(slot, template)

    def _count_surge(self, template: str) -> None:
        self._surge -= 1
        self._old[template] -= 1

    def _drop_chosen(self) -> None:
        self._rest = [slot for slot in self._rest if slot.ordinal not in self.templates]


def _free_ordinals(state: RegionState, assignment: Assignment) -> Iterator[int]:
    """Ordinals to open, in the order in which they are taken.

    Of an exclusive one those it has the right to, and at last those that are ending here: no other will do. Else the
    smallest without a slot, also of another assignment, that are not over for good.
    """
    workload, uid = assignment.workload, assignment.uid
    if not assignment.exclusive:
        first = RECOVERY_ORDINALS if assignment.purpose is RECOVERY else 0
        free = (ordinal for ordinal in count(first) if (workload, ordinal) not in state.slots)
        yield from (ordinal for ordinal in free if not is_finished(state, uid, ordinal))
        return
    known = [(ordinal, state.slots.get((workload, ordinal))) for ordinal in assignment.ordinals]
    yield from (ordinal for ordinal, slot in known if slot is None)
    yield from (n for n, slot in known if slot is not None and slot.assignment == uid and not _may_stay(slot))
