"""Which ordinals an assignment wants, under which template: a function of the assignment and of its slots.

    slots, what costs most to lose first
      1. each stays with the template that it is, or is to be, of, up to that template's count; one whose template
         nobody asks for any more takes up one that lacks slots: it keeps its ordinal and is retargeted
      2. while slots that stay run something else, a few more stay or are opened beside them: the surge, as many as
         the disruption share, and one at least
      3. what is too much of one template takes up another that lacks slots
      4. what still lacks gets new ordinals, the smallest that are free; whoever was not chosen goes

Of batch work, ordinals that are done or have failed for good count as there, and are not opened again.

Slots are not looked at one by one: those of one kind (phase, template, what it becomes) are alike, and are runs of
ordinals. Where all of an assignment's slots wait, no slot is looked at at all.

So scaling touches only what comes or goes: whatever stays keeps its ordinal, its template and its process. To keep the
lowest ordinals instead, whatever they do, would stop one that serves for one that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from holdfast.core.model.allotment import ACTIVE, RECOVERY, Assignment
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Finished
from holdfast.core.model.runs import Run, Runs, common, first_of, joined, numbers, runs_of, size, without
from holdfast.core.model.shapes import Instant
from holdfast.core.reconcilers.assigned import has_lapsed
from holdfast.core.reconcilers.kinds import Kind, kinds_of
from holdfast.core.region.kinds import ordinals_of
from holdfast.core.region.slots import ORDINAL_MAX
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


class Staying(NamedTuple):
    """Slots of one kind that stay, and the template that they are to be of."""

    kind: Kind
    template: str
    ordinals: Runs


class Plan(Struct, frozen=True):
    """What is wanted: the slots that stay, those that go, and by template the ordinals to open besides."""

    staying: tuple[Staying, ...] = ()
    surplus: tuple[tuple[Kind, Runs], ...] = ()
    new: dict[str, Runs] = {}

    @property
    def old(self) -> tuple[Staying, ...]:
        """Of those that stay, those that run another template yet."""
        return tuple(one for one in self.staying if one.kind.runs_another(one.template))

    def templates(self) -> dict[int, str]:
        """By ordinal that is wanted: its template."""
        named = [(one.template, one.ordinals) for one in self.staying]
        found = {n: template for template, ordinals in (*named, *self.new.items()) for n in numbers(ordinals)}
        return dict(sorted(found.items()))


def plan(state: RegionState, assignment: Assignment, now: Instant) -> Plan:
    """What this assignment wants now. Nothing, if it does not run here or its right has lapsed."""
    kinds = kinds_of(state, assignment)
    if assignment.stage is not ACTIVE or has_lapsed(state, assignment, now):
        return Plan(surplus=tuple(kinds.items()))
    choice = _Choice(assignment, kinds, state.finished.get(assignment.uid) or ())
    choice.keep()
    choice.keep_surge()
    choice.even_out()
    new = choice.open_new(_free_ordinals(state, assignment, kinds))
    staying = tuple(Staying(kind, template, runs_of(runs)) for (kind, template), runs in choice.chosen.items())
    wanted = runs_of(run for ordinals in (*(one.ordinals for one in staying), *new.values()) for run in ordinals)
    left = ((kind, without(ordinals, wanted)) for kind, ordinals in kinds.items())
    return Plan(staying, tuple((kind, ordinals) for kind, ordinals in left if ordinals), new)


def asked(assignment: Assignment) -> int:
    """How many replicas the assignment asks for, of all templates together."""
    return sum(share.count for share in assignment.shares)


class _Choice:
    """Slots being chosen, one step after the other: runs of one kind each, in the order of what they cost to lose."""

    def __init__(self, assignment: Assignment, kinds: dict[Kind, Runs], finished: Sequence[Finished]) -> None:
        self.chosen: dict[tuple[Kind, str], list[Run]] = {}
        #: By template: how many slots it lacks, and how many that stay run something else and have no surge yet.
        over = {row.template: size(row.done) + size(row.failed) for row in finished}
        shares = [share for share in assignment.shares if share.count]
        self._lacks = {share.template: max(0, share.count - over.get(share.template, 0)) for share in shares}
        self._old = dict.fromkeys(self._lacks, 0)
        # Also where nothing may be disrupted: what is opened beside the others disrupts none of them.
        self._surge = 0 if assignment.exclusive else max(1, assignment.disruption)
        mine = [(kind, ordinals) for kind, ordinals in kinds.items() if kind.may_stay]
        if assignment.exclusive:
            mine = [(kind, common(ordinals, assignment.ordinals)) for kind, ordinals in mine]
        worth = {kind: self._worth(kind) for kind, _ in mine}
        self._rest = [(run, kind) for kind, ordinals in mine for run in ordinals]
        self._rest.sort(key=lambda one: (worth[one[1]], one[0]))
        #: By template: how many that are to be of it are not looked at yet.
        self._own = dict.fromkeys(self._lacks, 0)
        for (first, after), kind in self._rest:
            if kind.future in self._own:
                self._own[kind.future] += after - first

    def _worth(self, kind: Kind) -> tuple[int, int]:
        """What costs most to lose first; among equals what is as it should be, then what knows what it is to become,
        then what runs already what it could become again. After that the lowest ordinals."""
        if kind.future in self._lacks:
            changes = 1 if kind.runs_another(kind.future) else 0
        else:
            changes = 2 if kind.template in self._lacks else 3
        return -_COST[kind.phase], changes

    def keep(self) -> None:
        """Each stays with its template, up to its count; one whose template nobody asks for takes up another."""
        rest, self._rest = self._rest, []
        for (first, after), kind in rest:
            template = kind.future
            if template in self._lacks:
                self._own[template] -= after - first
                first = self._choose(kind, template, first, min(after, first + self._lacks[template]))
            else:
                first = self._take_up(kind, first, after)
            self._leave(kind, first, after)

    def keep_surge(self) -> None:
        """An old one that is too much stays for the rollout to stop, which counts what serves."""
        rest, self._rest = self._rest, []
        for (first, after), kind in rest:
            template = kind.future
            if template in self._old and self._surge > 0:
                beside = after - first if kind.runs_another(template) else self._old[template]
                count = max(0, min(beside, self._surge, after - first))
                self._old[template] -= 0 if kind.runs_another(template) else count
                self._surge -= count
                self._stay(kind, template, first, first + count)
                first += count
            self._leave(kind, first, after)

    def even_out(self) -> None:
        """What is too much of one template takes up another that lacks slots."""
        rest, self._rest = self._rest, []
        for (first, after), kind in rest:
            self._leave(kind, self._take_up(kind, first, after), after)

    def open_new(self, free: Iterable[Runs]) -> dict[str, Runs]:
        """The ordinals to open for what still lacks, and beside what is old."""
        wanted = [(template, lacking) for template, lacking in self._lacks.items() if lacking]
        for template, old in self._old.items():
            count = max(0, min(old, self._surge))
            self._surge -= count
            wanted += [(template, count)] if count else []
        new: dict[str, Runs] = {}
        for ordinals in free:
            for place, (template, lacking) in enumerate(wanted):
                taken = first_of(ordinals, lacking)
                ordinals = without(ordinals, taken)
                wanted[place] = template, lacking - size(taken)
                new |= {template: joined(new.get(template, ()), taken)} if taken else {}
        return new

    def _take_up(self, kind: Kind, first: int, after: int) -> int:
        """Slots of a kind become what they run, else what would lack most; from where on nothing lacks any more."""
        while first < after:
            lacking = [template for template, lacks in self._lacks.items() if lacks]
            if kind.template in lacking:
                template = kind.template
            elif lacking:
                template = max(lacking, key=lambda template: self._lacks[template] - self._own[template])
            else:
                break
            most = self._lacks[template] if template == kind.template or len(lacking) == 1 else 1
            first = self._choose(kind, template, first, min(after, first + most))
        return first

    def _choose(self, kind: Kind, template: str, first: int, after: int) -> int:
        self._stay(kind, template, first, after)
        self._lacks[template] -= after - first
        self._old[template] += after - first if kind.runs_another(template) else 0
        return after

    def _stay(self, kind: Kind, template: str, first: int, after: int) -> None:
        if first < after:
            self.chosen.setdefault((kind, template), []).append((first, after))

    def _leave(self, kind: Kind, first: int, after: int) -> None:
        if first < after:
            self._rest.append(((first, after), kind))


def _free_ordinals(state: RegionState, assignment: Assignment, kinds: dict[Kind, Runs]) -> Iterator[Runs]:
    """Ordinals to open, in the order in which they are taken.

    Of an exclusive one those it has the right to, and at last those that are ending here: no other will do. Else the
    smallest without a slot, also of another assignment, that are not over for good.
    """
    taken: Runs = ()
    for uid in state.assignments_of.get(assignment.workload) or (assignment.uid,):
        taken = joined(taken, ordinals_of(state, uid))
    if assignment.exclusive:
        yield without(assignment.ordinals, taken)
        ending = runs_of(run for kind, ordinals in kinds.items() if not kind.may_stay for run in ordinals)
        yield common(ending, assignment.ordinals)
        return
    for row in state.finished.get(assignment.uid) or ():
        taken = joined(joined(taken, row.done), row.failed)
    yield without(((RECOVERY_ORDINALS if assignment.purpose is RECOVERY else 0, ORDINAL_MAX),), taken)
