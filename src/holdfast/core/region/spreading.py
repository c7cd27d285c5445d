"""Spread, apart and near: the gates that count who else stands in a node's domain."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.topology import REGION_WIDE, Node, domain
from holdfast.core.model.workload import Near
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.terms import Terms
from holdfast.core.region.trial import Trial


def crowded(trial: Trial, terms: Terms, node: Node) -> Misfit | None:
    """Whether one more slot there would be too many of its workload or of a group kept apart, or too far from one."""
    for spread in terms.template.spread:
        scope = f"#{terms.workload}"
        here = domain(node, spread.key)
        fewest = min(
            (trial.member_count((scope, spread.key, name)) for name in trial.domain_names(spread.key)), default=0
        )
        if trial.member_count((scope, spread.key, here)) + 1 - fewest > spread.max_skew:
            return Misfit(Code.SPREAD, f"{spread.key} {here} has {spread.max_skew} more than the emptiest")
    for apart in terms.template.apart:
        where = (f"{terms.tenant}/{apart.group}", apart.key, domain(node, apart.key))
        if trial.member_count(where) >= apart.most:
            return Misfit(Code.APART, f"{apart.key} {where[2]} has {apart.most} of {apart.group}")
    for near in terms.template.near:
        if near.required and _is_far(trial, terms, near, node):
            return Misfit(Code.NEAR, f"{near.key} {domain(node, near.key)} has none of {near.group}")
    return None


def _is_far(trial: Trial, terms: Terms, near: Near, node: Node) -> bool:
    """Whether members of the group stand in the region, and none in this node's domain."""
    group = f"{terms.tenant}/{near.group}"
    here = trial.member_count((group, near.key, domain(node, near.key)))
    return not here and trial.member_count((group, REGION_WIDE, "")) > 0
