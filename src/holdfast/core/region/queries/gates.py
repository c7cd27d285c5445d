"""Gates for every command that takes capacity: proposals, bindings and holds.

    refuse_group    may this be placed at all now?     assigned, not paused, under the valid policy
    refuse_node     may it be placed on this node?     what the node is for, not in an avoided zone

Every such command checks both, in addition to its own gates. Repair checks `refuse_repair`. `active_overrides` returns
the overrides, once per command.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import ActiveOverrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.nodes import Node
from holdfast.core.region.queries.assignments import why_not_runnable
from holdfast.core.region.queries.feasibility import Infeasible, admits
from holdfast.core.region.state.lookups import valid_policy
from holdfast.core.region.state.tables import RegionState

#: The controller that operators pause with repair.
REPAIR = "controller/repair"


def refuse_group(
    state: RegionState, overrides: ActiveOverrides, assignment: Assignment, template: str, ctx: CommandContext
) -> Infeasible | None:
    """Refuse slots of an assignment and template that may not start now on any node."""
    misfit = why_not_runnable(state, assignment, template, ctx.at) or refuse_paused(overrides, assignment.tenant)
    if misfit is not None:
        return misfit
    valid = valid_policy(state, assignment.tenant)
    if ctx.envelope.policy != valid:
        return Infeasible(Code.POLICY, f"policy revision {valid} is valid here, not {ctx.envelope.policy}")
    return None


def refuse_node(
    overrides: ActiveOverrides, node: Node, template: Template, tenant: str, there: tuple[str, ...]
) -> Infeasible | None:
    """Refuse a node that may not take such work now. `there` are its tenants. Capacity is not checked."""
    misfit = admits(node, template, tenant, there)
    return misfit if misfit is not None else refuse_zone(overrides, node)


def refuse_paused(overrides: ActiveOverrides, tenant: str) -> Infeasible | None:
    pause = overrides.pause_of(tenant)
    if pause is None:
        return None
    return Infeasible(Code.PAUSED, f"scheduling is paused by an override until {pause.ends}")


def refuse_zone(overrides: ActiveOverrides, node: Node) -> Infeasible | None:
    """Refuse if an override avoids the node's zone."""
    if node.zone not in overrides.zones:
        return None
    return Infeasible(Code.NODE_UNAVAILABLE, f"zone {node.zone} is avoided by an override")


def refuse_repair(overrides: ActiveOverrides) -> Infeasible | None:
    """Refuse if an override has paused repair: then repair releases nothing and stops nothing."""
    if overrides.repair is None:
        return None
    return Infeasible(Code.PAUSED, f"repair is paused by an override until {overrides.repair.ends}")
