"""Every derived table and sum, built anew from the stored ones: after a snapshot, and to check what evolve keeps."""

from __future__ import annotations

from collections import Counter

from holdfast.core.ledger.table import Table
from holdfast.core.model.lifecycle import ON_NODE, Phase
from holdfast.core.model.placement import Sums
from holdfast.core.model.resources import NOTHING, times
from holdfast.core.model.shapes import Revision
from holdfast.core.region.index import (
    change_use,
    count_phases,
    count_template,
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
    """One pass over the slots that only counts; what the counts mean is settled once for each kind of slot."""
    ordinals: dict[Revision, list[int]] = {}
    phases: Counter[tuple[Revision, Phase]] = Counter()
    charges: Counter[tuple[str, str, bool]] = Counter()
    templates: Counter[str] = Counter()
    scattered = {digest for digest, t in state.templates.unordered() if t.spread or t.apart}
    for (_, ordinal), slot in state.slots.unordered():
        ordinals.setdefault(slot.assignment, []).append(ordinal)
        phase, template = slot.phase, slot.template
        phases[slot.assignment, phase] += 1
        stands = phase in ON_NODE
        if slot.account:
            charges[slot.account, template, stands and slot.firm] += 1
        templates[template] += 1
        templates[slot.next_template] += 1
        if stands and template in scattered:
            count_member(state, slot, state.templates[template], state.nodes[slot.node], 1)
    for (assignment, phase), count in phases.items():
        count_phases(state, assignment, {phase: count})
    _settle(state, charges, templates)
    for assignment, found in ordinals.items():
        state.ordinals.put(assignment, tuple(sorted(found)))


def _settle(state: RegionState, charges: Counter[tuple[str, str, bool]], templates: Counter[str]) -> None:
    for _, allowance in state.allowances.unordered():
        shift_shield(state, NOTHING, allowance.protected)
    for (account, template, stands), count in charges.items():
        charged = times(state.templates[template].need, count)
        change_use(state, account, charged, charged if stands else NOTHING)
    for _, hold in state.holds.unordered():
        change_use(state, hold.account, hold.need, NOTHING)
    for _, asked in state.assignments.unordered():
        templates.update(share.template for share in asked.shares)
    for digest, count in templates.items():
        count_template(state, digest, count)
