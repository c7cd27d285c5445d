"""Gangs: which members are there, which gangs are broken, and which are over.

    ordinals ──▶ gang k: k * size up to (k + 1) * size
    standing ──▶ members on a node that do not end, and finished ones: they count as there
    needed   ──▶ a placement leaves a gang with none, or with at least so many
    broken   ──▶ fewer than needed stand, and at least one: its time runs from the loss that took it below
    over     ──▶ all members are done, or one has failed for good

Sets of ordinals and of gangs are bits, and are converted by ranges, so the cost is that of the ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.records.slots import FinishedOrdinals
from holdfast.core.model.values.bitsets import Bitset, as_ranges, bitset_of, count, each, masks, minus, shared, union
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.slot_kinds import kinds_in
from holdfast.core.region.state.tables import RegionState

_STANDING = frozenset(phase.value for phase in ON_NODE if phase is not Phase.TERMINATING)
_SUCCEEDED = Phase.SUCCEEDED.value


def gangs_of(ordinals: Bitset, size: int) -> Bitset:
    """Return the gangs that have a member in the set."""
    return bitset_of([(first // size, -(-after // size)) for first, after in as_ranges(ordinals)])


def whole_gangs(ordinals: Bitset, size: int) -> Bitset:
    """Return the gangs whose members are all in the set."""
    runs = [(-(-first // size), after // size) for first, after in as_ranges(ordinals)]
    return bitset_of([(first, after) for first, after in runs if first < after])


def members_of(gangs: Bitset, size: int) -> Bitset:
    """Return all members of these gangs."""
    return bitset_of([(first * size, after * size) for first, after in as_ranges(gangs)])


def members_in(ordinals: Bitset, gang: int, size: int) -> int:
    """Return how many members of a gang are in the set."""
    return count(shared(members_of(masks((gang,)), size), ordinals))


def finished_rows(state: RegionState, assignment: Revision) -> tuple[FinishedOrdinals, ...]:
    """Return the finished ordinals of an assignment, by template."""
    return state.finished.get(assignment) or ()


def failed_gangs(state: RegionState, assignment: Revision, gang: Gang) -> Bitset:
    """Return the gangs of which a member has failed for good: nothing of them is placed any more."""
    return gangs_of(bitset_of([run for row in finished_rows(state, assignment) for run in row.failed]), gang.size)


def failed_members(state: RegionState, assignment: Assignment) -> Bitset:
    """Return all members of gangs of which a member has failed for good."""
    gang = assignment.gang
    return members_of(failed_gangs(state, assignment.uid, gang), gang.size) if gang is not None else {}


def finished_ordinals(state: RegionState, assignment: Assignment) -> Bitset:
    """Return the ordinals that are done or have failed for good."""
    return bitset_of([run for row in finished_rows(state, assignment.uid) for run in (*row.done, *row.failed)])


def standing_members(state: RegionState, assignment: Revision) -> Bitset:
    """Return the members that are there: on a node without ending, or finished with success."""
    placed = [ordinals for kind, ordinals in kinds_in(state, assignment).items() if kind[0] in _STANDING]
    done = [run for row in finished_rows(state, assignment) for run in row.done]
    return union((*placed, bitset_of(done))) if done else union(placed)


def reserved_members(state: RegionState, assignment: Revision) -> Bitset:
    """Return the members that are reserved and not bound yet."""
    reserved = Phase.RESERVED.value
    return union([ordinals for kind, ordinals in kinds_in(state, assignment).items() if kind[0] == reserved])


class BrokenGang(NamedTuple):
    """A gang with fewer standing members than it needs: its number, what stands, and when it ends as a whole."""

    number: int
    standing: Bitset
    ends: Instant


def broken_gangs(state: RegionState, assignment: Assignment, now: Instant) -> Iterator[BrokenGang]:
    """Yield the broken gangs of an assignment, in order.

    The time runs from the loss that left fewer members than the gang needs. Members that are not open yet are as if
    they were lost now.
    """
    gang = assignment.gang
    if gang is None:
        return
    standing = standing_members(state, assignment.uid)
    for number in each(minus(gangs_of(standing, gang.size), whole_gangs(standing, gang.size))):
        there = shared(members_of(masks((number,)), gang.size), standing)
        if count(there) < gang.needed:
            yield BrokenGang(number, there, _broken_since(state, assignment, gang, number, there, now))


def _broken_since(
    state: RegionState, assignment: Assignment, gang: Gang, number: int, there: Bitset, now: Instant
) -> Instant:
    """Return when a broken gang ends: as many members may be absent as it does not need, the next loss broke it."""
    members = range(number * gang.size, (number + 1) * gang.size)
    present = set(each(there))
    slots = (state.slots.get((assignment.workload, ordinal)) for ordinal in members if ordinal not in present)
    lost = sorted(slot.since if slot is not None else now for slot in slots)
    return lost[gang.size - gang.needed] + gang.replace_within


def finished_counts(state: RegionState, assignment: Assignment) -> dict[str, tuple[int, int]]:
    """Return by template how many replicas are done, and how many have failed for good.

    Gangs count as a whole: done once all members are, failed once one has.
    """
    size = assignment.gang.size if assignment.gang is not None else 1
    found: dict[str, tuple[int, int]] = {}
    rows = {row.template: row for row in finished_rows(state, assignment.uid)}
    succeeded: dict[str, list[Bitset]] = {template: [bitset_of(row.done)] for template, row in rows.items()}
    for (phase, template, *_), ordinals in kinds_in(state, assignment.uid).items():
        if phase == _SUCCEEDED:
            succeeded.setdefault(template, []).append(ordinals)
    for template, sets in sorted(succeeded.items()):
        failed = gangs_of(bitset_of(rows[template].failed), size) if template in rows else {}
        found[template] = count(whole_gangs(union(sets), size)) * size, count(failed) * size
    return found


def waiting_whole(state: RegionState, assignment: Assignment, ordinals: Bitset) -> int:
    """Return how many of these ordinals, which wait, are of gangs without a standing member."""
    gang = assignment.gang
    assert gang is not None
    started = members_of(gangs_of(standing_members(state, assignment.uid), gang.size), gang.size)
    return count(minus(ordinals, started)) // gang.size * gang.size
