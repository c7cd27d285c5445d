"""Slots by kind: which ordinals of an assignment are in one phase, of one template, to become one, and paid for by one.

What is wanted of slots follows from their kind, so whoever looks at an assignment looks at kinds, of which there are
few, and at no slot. Ordinals are bits in blocks (`model.values.bitsets`), a row for each block: a slot that comes, goes
or changes costs the copy of one block, in whatever order they do, and an assignment of any size is looked at block by
block.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import BLOCK, Bitset, as_ranges, union
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import BlockKinds, RegionState, SlotKind

#: The kind of a slot. A phase is told by its text: a member of an enum is hashed in Python.
slot_kind = attrgetter("phase._value_", "template", "next_template", "account")


def count_kind(state: RegionState, old: Slot | None, new: Slot | None) -> None:
    """A slot has come, gone or become of another kind."""
    one = new or old
    assert one is not None
    was, now = slot_kind(old) if old is not None else None, slot_kind(new) if new is not None else None
    if was != now:
        block, bit = one.ordinal // BLOCK, 1 << one.ordinal % BLOCK
        _turn(state, one.assignment, block, [(kind, bit) for kind in (was, now) if kind is not None])


def count_kinds(state: RegionState, assignment: Revision, was: SlotKind | None, now: SlotKind, slots: Bitset) -> None:
    """Slots of one kind have come, or become of another one."""
    for block, bits in slots.items():
        _turn(state, assignment, block, [(kind, bits) for kind in (was, now) if kind is not None])


def _turn(state: RegionState, assignment: Revision, block: int, turned: Iterable[tuple[SlotKind, int]]) -> None:
    """Who is of a kind leaves it, who is not comes to it. A kind of nobody is not kept, nor a block without kinds."""
    known = state.kinds.get((assignment, block))
    row = dict(known or ())
    for kind, bits in turned:
        left = row.get(kind, 0) ^ bits
        if left:
            row[kind] = left
        else:
            row.pop(kind, None)
    if row:
        state.kinds.put((assignment, block), tuple(sorted(row.items())))
    else:
        state.kinds.drop((assignment, block))
    if (known is None) == bool(row):
        _list_block(state, assignment, block, present=bool(row))


def _list_block(state: RegionState, assignment: Revision, block: int, *, present: bool) -> None:
    others = state.blocks.get(assignment) or ()
    blocks = tuple(sorted({*others, block})) if present else tuple(one for one in others if one != block)
    if blocks:
        state.blocks.put(assignment, blocks)
    else:
        state.blocks.drop(assignment)


def kinds_in(state: RegionState, assignment: Revision) -> dict[SlotKind, Bitset]:
    """By kind: the ordinals of an assignment that are of it."""
    found: dict[SlotKind, Bitset] = {}
    for block, row in block_kinds(state, assignment):
        for kind, bits in row:
            found.setdefault(kind, {})[block] = bits
    return found


def has_slots(state: RegionState, assignment: Revision) -> bool:
    """Whether an assignment has a slot."""
    return state.blocks.get(assignment) is not None


def ordinals_in(state: RegionState, assignment: Revision) -> Bitset:
    """The ordinals of an assignment that have a slot, as bits."""
    return union({block: bits} for block, row in block_kinds(state, assignment) for _, bits in row)


def ordinals_of(state: RegionState, assignment: Revision) -> Ranges:
    """The ordinals of an assignment that have a slot, as runs."""
    return as_ranges(ordinals_in(state, assignment))


def block_kinds(state: RegionState, assignment: Revision) -> list[tuple[int, BlockKinds]]:
    """The blocks in which an assignment has slots, with which of them are of which kind."""
    return [(block, state.kinds[assignment, block]) for block in state.blocks.get(assignment) or ()]
