"""Every derived table and sum, built anew from the stored ones: after a snapshot, and to check what evolve keeps."""

from __future__ import annotations

from holdfast.core.ledger.table import Table
from holdfast.core.model.lifecycle import ON_NODE
from holdfast.core.model.placement import Sums
from holdfast.core.model.resources import NOTHING
from holdfast.core.model.shapes import Revision
from holdfast.core.region.index import (
    change_use,
    charge_of,
    count_phases,
    count_template,
    count_templates,
    put_node,
    shift_shield,
)
from holdfast.core.region.members import count_member
from holdfast.core.region.state import RegionState


def rebuild(state: RegionState) -> None:
    """Every derived table and sum, from the stored tables alone."""
    for spec in state.TABLES:
        if spec.derived and spec.name not in ("session_of", "keys_of"):
            setattr(state, spec.name, Table(spec.shards))
    state.sums = Sums()
    for uid, node in state.nodes.unordered():
        state.node_names.put(node.name, uid)
        put_node(state, node, None)
    _rebuild_counts(state)


def _rebuild_counts(state: RegionState) -> None:
    ordinals: dict[Revision, list[int]] = {}
    for _, allowance in state.allowances.unordered():
        shift_shield(state, NOTHING, allowance.protected)
    for (_, ordinal), slot in state.slots.unordered():
        ordinals.setdefault(slot.assignment, []).append(ordinal)
        count_phases(state, slot.assignment, {slot.phase: 1})
        template = state.templates[slot.template]
        account, charged, placed = charge_of(state, slot)
        if account:
            change_use(state, account, charged, placed)
        if slot.phase in ON_NODE and (template.spread or template.apart):
            count_member(state, slot, template, state.nodes[slot.node], 1)
        count_templates(state, None, slot)
    for _, hold in state.holds.unordered():
        change_use(state, hold.account, hold.need, NOTHING)
    for _, asked in state.assignments.unordered():
        for share in asked.shares:
            count_template(state, share.template, 1)
    for assignment, found in ordinals.items():
        state.ordinals.put(assignment, tuple(sorted(found)))
