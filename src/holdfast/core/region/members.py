"""Who stands where, for spread, apart and near rules: slots counted by scope, topology key and domain."""

from __future__ import annotations

from holdfast.core.model.placement import Slot
from holdfast.core.model.shapes import Revision
from holdfast.core.model.topology import REGION_WIDE, Node, domain
from holdfast.core.model.workload import Template
from holdfast.core.region.state import RegionState


def scopes(template: Template, workload: Revision, tenant: str) -> list[tuple[str, str]]:
    """What a slot of this template is counted under where it stands: (scope, topology key)."""
    spread = {(f"#{workload}", rule.key): None for rule in template.spread}
    names = [*(rule.group for rule in template.apart), *(rule.group for rule in template.near)]
    groups = dict.fromkeys(f"{tenant}/{name}" for name in names)
    members = [(group, key) for group in groups for key in ("node", "zone", "pool", REGION_WIDE)]
    return [*spread, *members]


def count_member(state: RegionState, slot: Slot, template: Template, node: Node, change: int) -> None:
    """Count a slot that came to or left a node in its domains."""
    tenant = state.assignments[slot.assignment].tenant
    for scope, key in scopes(template, slot.workload, tenant):
        where = (scope, key, domain(node, key))
        left = (state.members.get(where) or 0) + change
        if left:
            state.members.put(where, left)
        else:
            state.members.drop(where)
