"""Which ordinals an assignment has, under which template: a function of the assignment and of its slots.

    slots, most expensive to lose first
      1. each stays with its present or next template, up to that template's count; one whose template is not
         requested takes a template that lacks slots: it keeps its ordinal and is retargeted
      2. while slots that stay run another template, a surge of additional slots stays or is opened: as many as the
         disruption share, and at least one
      3. surplus slots of one template take another that lacks slots
      4. templates that still lack slots get new ordinals, the smallest free ones; slots not chosen go

Finished ordinals of batch work count as present and are not opened again.

Slots of one group (phase, template, next template) are equal: a set of ordinals, as bits. Whole groups are chosen, the
lowest ordinals first, so the number of steps is that of groups.

Gangs are chosen as slots are, as a whole: a gang has the group of its member that is most expensive to lose. All
members of a chosen gang get its template, and those without a slot are opened. A gang of which a member has failed for
good is over, and its other slots are surplus.

Scaling changes only slots that are added or removed; the others keep ordinal, template and process. Always keeping the
lowest ordinals would stop a serving slot for a waiting one.

Size: one choice, whose steps are read one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from holdfast.core.model.records.assignments import ACTIVE, RECOVERY, Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.bitsets import Bitset, bitset_of, count, each, lowest, lowest_free, minus, shared, union
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.slot_groups import SlotGroup, slot_groups
from holdfast.core.region.queries.assignments import has_lapsed
from holdfast.core.region.state.gangs import (
    failed_members,
    finished_ordinals,
    gangs_of,
    members_of,
    whole_gangs,
)
from holdfast.core.region.state.slot_kinds import ordinals_in
from holdfast.core.region.state.tables import RegionState

#: Ordinals of recovery are separate from those of serving, which another assignment of the workload may hold here.
RECOVERY_ORDINALS = 1_000_000

#: Order of giving slots up: waiting or inactive ones first, then starting, then serving. Finished ones are never given
#: up.
_CHEAPEST_FIRST = (
    Phase.PENDING, Phase.TERMINATING, Phase.RESERVED, Phase.BOUND, Phase.FAILED, Phase.UNKNOWN,
    Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.SUCCEEDED,
)  # fmt: skip
_COST = {phase: cost for cost, phase in enumerate(_CHEAPEST_FIRST)}


class StayingSlots(NamedTuple):
    """Slots of one group that stay, and their template."""

    kind: SlotGroup
    template: str
    ordinals: Bitset


class ReplicaPlan(Struct, frozen=True):
    """The plan of an assignment: slots that stay, slots that go, and by template the ordinals to open.

    The set `failed` has the ordinals of gangs of which a member has failed for good.
    """

    staying: tuple[StayingSlots, ...] = ()
    surplus: tuple[tuple[SlotGroup, Bitset], ...] = ()
    new: dict[str, Bitset] = {}
    failed: Bitset = {}

    @property
    def old(self) -> tuple[StayingSlots, ...]:
        """Staying slots that still run another template."""
        return tuple(one for one in self.staying if one.kind.runs_another(one.template))

    def templates(self) -> dict[int, str]:
        """Return the template of each planned ordinal."""
        named = [(one.template, one.ordinals) for one in self.staying]
        found = {n: template for template, ordinals in (*named, *self.new.items()) for n in each(ordinals)}
        return dict(sorted(found.items()))


def replica_plan(state: RegionState, assignment: Assignment, now: Instant) -> ReplicaPlan:
    """Return the plan of an assignment; it is empty if the assignment does not run here or its right has lapsed."""
    kinds = slot_groups(state, assignment)
    if assignment.stage is not ACTIVE or has_lapsed(state, assignment, now):
        return ReplicaPlan(surplus=tuple(kinds.items()))
    failed = failed_members(state, assignment)
    mine = {kind: minus(ordinals, failed) for kind, ordinals in kinds.items()} if failed else kinds
    choice = _Choice(assignment, _as_units(mine, assignment.unit), _finished_units(state, assignment))
    choice.keep()
    choice.keep_surge()
    choice.even_out()
    lacking = choice.lacking()
    new = _opened(lacking, _free_units(state, assignment, kinds, sum(lacks for _, lacks in lacking)))
    staying = tuple(StayingSlots(kind, template, ordinals) for (kind, template), ordinals in choice.chosen.items())
    if assignment.gang is not None:
        staying, new = _members(state, assignment, mine, staying, new)
    wanted = union((*(one.ordinals for one in staying), *new.values()))
    left = ((kind, minus(ordinals, wanted)) for kind, ordinals in kinds.items())
    return ReplicaPlan(staying, tuple((kind, ordinals) for kind, ordinals in left if ordinals), new, failed)


def _finished_units(state: RegionState, assignment: Assignment) -> dict[str, int]:
    """Return by template how many replicas, or gangs, are finished and have no slots."""
    size = assignment.unit
    return {
        row.template: count(whole_gangs(bitset_of(row.done), size)) + count(gangs_of(bitset_of(row.failed), size))
        for row in state.finished.get(assignment.uid) or ()
    }


def _as_units(kinds: dict[SlotGroup, Bitset], size: int) -> dict[SlotGroup, Bitset]:
    """Return slots, or gangs by number: each in the group of its member that is most expensive to lose."""
    if size == 1:
        return kinds
    found: dict[SlotGroup, Bitset] = {}
    known: Bitset = {}
    for kind in sorted(kinds, key=lambda kind: (not kind.may_stay, -_COST[kind.phase], kind)):
        gangs = minus(gangs_of(kinds[kind], size), known)
        if gangs:
            found[kind] = gangs
            known = union((known, gangs))
    return found


def _members(
    state: RegionState,
    assignment: Assignment,
    kinds: dict[SlotGroup, Bitset],
    gangs: tuple[StayingSlots, ...],
    new: dict[str, Bitset],
) -> tuple[tuple[StayingSlots, ...], dict[str, Bitset]]:
    """Return the slots of chosen gangs, and by template the members to open, of chosen and of new gangs."""
    size = assignment.unit
    taken = union((*kinds.values(), finished_ordinals(state, assignment)))
    chosen: dict[str, Bitset] = {}
    for _, template, numbers in gangs:
        chosen[template] = union((chosen.get(template, {}), members_of(numbers, size)))
    staying = [
        StayingSlots(kind, template, here)
        for template, ordinals in chosen.items()
        for kind, mine in kinds.items()
        if (here := shared(mine, ordinals))
    ]
    opened = {
        template: minus(union((chosen.get(template, {}), members_of(new.get(template, {}), size))), taken)
        for template in {**chosen, **new}
    }
    return tuple(staying), {template: ordinals for template, ordinals in opened.items() if ordinals}


def replicas_asked(assignment: Assignment) -> int:
    """Return how many replicas the assignment requests, of all templates together."""
    return sum(share.count for share in assignment.shares)


class _Choice:
    """The choice of slots, step by step: from one group at a time, in the order of what they cost to lose."""

    def __init__(self, assignment: Assignment, kinds: dict[SlotGroup, Bitset], finished: Mapping[str, int]) -> None:
        self.chosen: dict[tuple[SlotGroup, str], Bitset] = {}
        #: By template: how many slots it lacks, and how many staying ones run another template and have no surge yet.
        unit = assignment.unit
        counts = {share.template: share.count // unit for share in assignment.shares if share.count}
        self._lacks = {template: max(0, most - finished.get(template, 0)) for template, most in counts.items()}
        self._old = dict.fromkeys(self._lacks, 0)
        # At least one, even if nothing may be disrupted: an additional slot disrupts none.
        self._surge = 0 if assignment.exclusive else max(1, assignment.disruption // unit)
        mine = {kind: ordinals for kind, ordinals in kinds.items() if kind.may_stay}
        if assignment.exclusive:
            listed = bitset_of(assignment.ordinals)
            mine = {kind: shared(ordinals, listed) for kind, ordinals in mine.items()}
        #: Slots not chosen, by group, the most expensive to lose first.
        order = sorted(mine, key=lambda kind: (self._worth(kind), kind))
        self._rest = {kind: mine[kind] for kind in order if mine[kind]}
        #: By template: its own slots that are not examined yet.
        self._own = dict.fromkeys(self._lacks, 0)
        for kind, ordinals in self._rest.items():
            if kind.future in self._own:
                self._own[kind.future] += count(ordinals)

    def _worth(self, kind: SlotGroup) -> tuple[int, int]:
        """Return the sort key of a group: most expensive to lose first.

        Among equals, correct slots come first, then those with a next template, then those of a requested one; then low
        ordinals.
        """
        if kind.future in self._lacks:
            changes = 1 if kind.runs_another(kind.future) else 0
        else:
            changes = 2 if kind.template in self._lacks else 3
        return -_COST[kind.phase], changes

    def _alike(self) -> Iterator[list[SlotGroup]]:
        """Yield what is left, in lists of groups with the same key."""
        for _, kinds in groupby([*self._rest], key=self._worth):
            yield [*kinds]

    def keep(self) -> None:
        """Keep each slot with its template, up to the count; one whose template is not requested takes another."""
        for kinds in self._alike():
            own = {kind.future: [one for one in kinds if one.future == kind.future] for kind in kinds}
            for template, its in own.items():
                if template in self._lacks:
                    self._own[template] -= sum(count(self._rest[kind]) for kind in its)
                    self._choose(its, template, self._lacks[template])
            self._take_up([kind for kind in kinds if kind.future not in self._lacks])

    def keep_surge(self) -> None:
        """Keep surplus old slots as the surge: the rollout stops them, which counts the serving ones."""
        for kind in [*self._rest]:
            template = kind.future
            if template in self._old and self._surge > 0 and kind in self._rest:
                is_old = kind.runs_another(template)
                most = self._surge if is_old else min(self._surge, self._old[template])
                kept = self._stay([kind], template, most)
                self._old[template] -= 0 if is_old else kept
                self._surge -= kept

    def even_out(self) -> None:
        """Give surplus slots another template that lacks slots."""
        for kinds in self._alike():
            self._take_up(kinds)

    def lacking(self) -> list[tuple[str, int]]:
        """Return how many slots to open of each template: those it lacks, and its surge."""
        wanted = [(template, lacking) for template, lacking in self._lacks.items() if lacking]
        for template, old in self._old.items():
            beside = max(0, min(old, self._surge))
            self._surge -= beside
            wanted += [(template, beside)] if beside else []
        return wanted

    def _take_up(self, kinds: Sequence[SlotGroup]) -> None:
        """Give slots of equal key the template that they run, else the one that would lack most."""
        for template in dict.fromkeys(kind.template for kind in kinds):
            if self._lacks.get(template):
                self._choose([kind for kind in kinds if kind.template == template], template, self._lacks[template])
        left = sum(count(self._rest.get(kind, {})) for kind in kinds)
        for template, most in levelled(self._lacks, self._own, left).items():
            self._choose(kinds, template, most)

    def _choose(self, kinds: Sequence[SlotGroup], template: str, most: int) -> None:
        """Choose up to `most` slots of these groups for a template that lacks them."""
        old = [kind for kind in kinds if kind.runs_another(template)]
        before = sum(count(self._rest.get(kind, {})) for kind in old)
        self._lacks[template] -= self._stay(kinds, template, most)
        self._old[template] += before - sum(count(self._rest.get(kind, {})) for kind in old)

    def _stay(self, kinds: Sequence[SlotGroup], template: str, most: int) -> int:
        """Keep the lowest ordinals of these groups, at most `most`; return how many."""
        found = lowest(union(self._rest.get(kind, {}) for kind in kinds), most)
        for kind in kinds if found else ():
            mine = shared(self._rest.get(kind, {}), found)
            if mine:
                self.chosen[kind, template] = union((self.chosen.get((kind, template), {}), mine))
                left = minus(self._rest[kind], mine)
                if left:
                    self._rest[kind] = left
                else:
                    del self._rest[kind]
        return count(found)


def levelled(lacks: Mapping[str, int], own: Mapping[str, int], slots: int) -> dict[str, int]:
    """Distribute slots to templates, each to the one that would lack most after its own unexamined slots.

    The first one wins ties.
    """
    given = dict.fromkeys((template for template, lacking in lacks.items() if lacking), 0)
    while slots and given:
        open_ = [template for template in given if lacks[template] > given[template]]
        if not open_:
            break
        would = {template: lacks[template] - given[template] - own[template] for template in open_}
        most = max(would.values())
        first = [template for template in open_ if would[template] == most]
        below = [most - one for one in would.values() if one < most]
        step = min([lacks[template] - given[template] for template in first] + below + [max(1, slots // len(first))])
        for template in first[:slots]:
            given[template] += step
        slots -= step * len(first[:slots])
    return {template: number for template, number in given.items() if number}


def _opened(lacking: Sequence[tuple[str, int]], free: Iterable[Bitset]) -> dict[str, Bitset]:
    """Return the ordinals to open, by template."""
    wanted, new = [*lacking], dict[str, Bitset]()
    for ordinals in free:
        for place, (template, lacks) in enumerate(wanted):
            taken = lowest(ordinals, lacks)
            if taken:
                ordinals = minus(ordinals, taken)
                wanted[place] = template, lacks - count(taken)
                new[template] = union((new.get(template, {}), taken))
    return new


def _free_units(
    state: RegionState, assignment: Assignment, kinds: dict[SlotGroup, Bitset], most: int
) -> Iterator[Bitset]:
    """Yield ordinals to open, or numbers of gangs, at most `most`, in order.

    An exclusive workload uses those that it has the right to, at last those ending here. Others use the smallest ones
    that no assignment has a slot of and that are not finished.
    """
    if not most:
        return
    uids = state.assignments_of.get(assignment.workload) or (assignment.uid,)
    taken = union(ordinals_in(state, uid) for uid in uids)
    if assignment.exclusive:
        listed = bitset_of(assignment.ordinals)
        yield minus(listed, taken)
        ending = union(ordinals for kind, ordinals in kinds.items() if not kind.may_stay)
        yield shared(ending, listed)
        return
    first = RECOVERY_ORDINALS if assignment.purpose is RECOVERY else 0
    size = assignment.unit
    all_taken = union((taken, finished_ordinals(state, assignment)))
    yield lowest_free(gangs_of(all_taken, size) if size > 1 else all_taken, -(-first // size), most)
