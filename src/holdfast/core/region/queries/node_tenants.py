"""Whose work is on a node that takes one tenant at a time: all of it runs as one user.

    nobody's ──a placement or a hold of some tenant──▶ that tenant's ──nothing of it is left──▶ nobody's

Nothing of this is stored: it is told from what stands and is held there, so it is true of every state. A node on which
tenants stood apart may come back with an agent that has one user for all: then the tenant that has most there keeps it,
and the others are stopped as any breach says (RULES 18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage, slot_keys
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.state.tables import RegionState

#: Of a node on which nothing is, or that takes any tenants beside one another.
NO_TENANTS: tuple[str, ...] = ()


def tenants_on(state: RegionState, node: Node) -> tuple[str, ...]:
    """Whose work stands or is held on a node that takes one tenant at a time, sorted; of others it makes no
    difference."""
    if not takes_one_tenant(node):
        return NO_TENANTS
    usage = state.node_usage.get(node.uid)
    return tenants_in(state, usage) if usage is not None else NO_TENANTS


def tenants_in(state: RegionState, usage: NodeUsage) -> tuple[str, ...]:
    """Whose work stands or is held in a room, sorted. All slots of a workload are one tenant's: one is looked at."""
    slots = {tenant_of(state, state.slots[key]) for key in dict(slot_keys(usage)).items()}
    return tuple(sorted(slots | {state.holds[uid].tenant for uid in usage.holds}))


def tenant_of(state: RegionState, slot: Slot) -> str:
    """Whose slot it is."""
    return state.assignments[slot.assignment].tenant


def keeping_tenant(state: RegionState, node: Node, staying: Iterable[Slot]) -> str:
    """Who keeps a node that takes one tenant at a time: of those that may stay there who has most, by name where that
    is equal; of a node on which nothing stands, for whom room was held first. However many leave, those beside the
    keeper become no more by it."""
    counts: Counter[str] = Counter()
    for assignment, count in Counter(slot.assignment for slot in staying).items():
        counts[state.assignments[assignment].tenant] += count
    if counts:
        return min(counts, key=lambda tenant: (-counts[tenant], tenant))
    held = (state.node_usage.get(node.uid) or EMPTY_USAGE).holds
    return state.holds[min(held)].tenant if held else ""
