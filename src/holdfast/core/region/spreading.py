"""Spread, apart and near: the gates that count who else stands in a node's domain."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.ledger.answers import Code
from holdfast.core.model.topology import REGION_WIDE, Node, domain
from holdfast.core.model.workload import Near
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.node_kinds import Reach, Standing

#: How many slots stand in a domain: (scope, topology key, name).
Counting = Callable[[tuple[str, str, str]], int]


def crowded(count: Counting, standing: Standing, reach: Reach, node: Node) -> Misfit | None:
    """Whether one more slot there would be too many of its workload or of a group kept apart, or too far from one."""
    template, tenant = standing.template, standing.tenant
    scope = f"#{standing.workload}"
    for spread in template.spread:
        here = domain(node, spread.key)
        fewest = min([count((scope, spread.key, name)) for name in reach[spread.key]], default=0)
        if count((scope, spread.key, here)) + 1 - fewest > spread.max_skew:
            return Misfit(Code.SPREAD, f"{spread.key} {here} has {spread.max_skew} more than the emptiest")
    for apart in template.apart:
        where = (f"{tenant}/{apart.group}", apart.key, domain(node, apart.key))
        if count(where) >= apart.most:
            return Misfit(Code.APART, f"{apart.key} {where[2]} has {apart.most} of {apart.group}")
    for near in template.near:
        if near.required and _is_far(count, tenant, near, node):
            return Misfit(Code.NEAR, f"{near.key} {domain(node, near.key)} has none of {near.group}")
    return None


def _is_far(count: Counting, tenant: str, near: Near, node: Node) -> bool:
    """Whether members of the group stand in the region, and none in this node's domain."""
    group = f"{tenant}/{near.group}"
    here = count((group, near.key, domain(node, near.key)))
    return not here and count((group, REGION_WIDE, "")) > 0
