"""Tenants with work on a node that takes one tenant at a time: all of it runs as one user.

    no tenant ──a placement or a hold of some tenant──▶ that tenant's ──its last work ends──▶ no tenant

Computed from slots and holds, so right in every state. A node with isolated tenants may return with an agent that has
one user for all. Then the tenant with most slots keeps it, and the others are stopped as by any breach (RULES 18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage, slot_keys
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.state.tables import RegionState

#: Result for a node without work, or one that takes several tenants.
NO_TENANTS: tuple[str, ...] = ()


def tenants_on(state: RegionState, node: Node) -> tuple[str, ...]:
    """Return the tenants with slots or holds on a node that takes one tenant at a time, sorted; otherwise none."""
    if not takes_one_tenant(node):
        return NO_TENANTS
    usage = state.node_usage.get(node.uid)
    return tenants_in(state, usage) if usage is not None else NO_TENANTS


def tenants_in(state: RegionState, usage: NodeUsage) -> tuple[str, ...]:
    """Return the tenants with slots or holds in this usage, sorted. One slot per workload suffices: they share a
    tenant."""
    slots = {tenant_of(state, state.slots[key]) for key in dict(slot_keys(usage)).items()}
    return tuple(sorted(slots | {state.holds[uid].tenant for uid in usage.holds}))


def tenant_of(state: RegionState, slot: Slot) -> str:
    return state.assignments[slot.assignment].tenant


def keeping_tenant(state: RegionState, node: Node, staying: Iterable[Slot]) -> str:
    """Return the tenant that keeps a node that takes one tenant at a time.

    It is the one with most slots that may stay there, the first by name if equal. On a node without slots it is the
    tenant of the first hold. The result does not change while slots of other tenants leave.
    """
    counts: Counter[str] = Counter()
    for assignment, count in Counter(slot.assignment for slot in staying).items():
        counts[state.assignments[assignment].tenant] += count
    if counts:
        return min(counts, key=lambda tenant: (-counts[tenant], tenant))
    held = (state.node_usage.get(node.uid) or EMPTY_USAGE).holds
    return state.holds[min(held)].tenant if held else ""
