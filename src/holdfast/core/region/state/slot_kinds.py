"""Slots by kind: the ordinals of an assignment by phase, template, next template and account.

Controllers decide by kind, so they read kinds, which are few, and no slots. Ordinals are bits in blocks
(`model.values.bitsets`), one row per block. A change of a slot copies one block, in any order of ordinals, and an
assignment of any size is read block by block.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import BLOCK, Bitset, as_ranges, union
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import BlockKinds, RegionState, SlotKind

#: The kind of a slot. The phase is its text: hashing an enum member runs Python code.
slot_kind = attrgetter("phase._value_", "template", "next_template", "account")


def count_kind(state: RegionState, old: Slot | None, new: Slot | None) -> None:
    """Update the kinds after a slot is added, removed or changed."""
    one = new or old
    assert one is not None
    was, now = slot_kind(old) if old is not None else None, slot_kind(new) if new is not None else None
    if was != now:
        block, bit = one.ordinal // BLOCK, 1 << one.ordinal % BLOCK
        _turn(state, one.assignment, block, [(kind, bit) for kind in (was, now) if kind is not None])


def count_kinds(state: RegionState, assignment: Revision, was: SlotKind | None, now: SlotKind, slots: Bitset) -> None:
    """Update the kinds after slots of one kind are added, or change to another."""
    for block, bits in slots.items():
        _turn(state, assignment, block, [(kind, bits) for kind in (was, now) if kind is not None])


def _turn(state: RegionState, assignment: Revision, block: int, turned: Iterable[tuple[SlotKind, int]]) -> None:
    """Flip ordinals in kinds: members leave, others join. A kind without slots has no entry, a block without kinds no
    row."""
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
    """Return the ordinals of an assignment by kind."""
    found: dict[SlotKind, Bitset] = {}
    for block, row in block_kinds(state, assignment):
        for kind, bits in row:
            found.setdefault(kind, {})[block] = bits
    return found


def has_slots(state: RegionState, assignment: Revision) -> bool:
    """Return whether an assignment has a slot."""
    return state.blocks.get(assignment) is not None


def ordinals_in(state: RegionState, assignment: Revision) -> Bitset:
    """Return the ordinals of an assignment that have a slot, as bits."""
    return union({block: bits} for block, row in block_kinds(state, assignment) for _, bits in row)


def ordinals_of(state: RegionState, assignment: Revision) -> Ranges:
    """Return the ordinals of an assignment that have a slot, as runs."""
    return as_ranges(ordinals_in(state, assignment))


def block_kinds(state: RegionState, assignment: Revision) -> list[tuple[int, BlockKinds]]:
    """Return the blocks in which an assignment has slots, each with its kinds."""
    return [(block, state.kinds[assignment, block]) for block in state.blocks.get(assignment) or ()]
