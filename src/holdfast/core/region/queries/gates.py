"""The gates that every way to take room shares: proposals, bindings and holds.

    refuse_group    may this be placed at all now?   assigned, not paused, under the valid policy
    refuse_node     may it be placed on this node?   what the node is for, not in a zone that is avoided

A command that takes room asks both, whatever else it asks: so none of them can forget one. Repair asks
`refuse_repair`. What overrides say comes from `active_overrides`, once for each command.
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

#: The controller that people pause with repair.
REPAIR = "controller/repair"


def refuse_group(
    state: RegionState, overrides: ActiveOverrides, assignment: Assignment, template: str, ctx: CommandContext
) -> Infeasible | None:
    """Whether slots of an assignment and template may begin now, wherever that is."""
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
    """Whether a node may take such work now, beside what is there, if it has the room."""
    misfit = admits(node, template, tenant, there)
    return misfit if misfit is not None else refuse_zone(overrides, node)


def refuse_paused(overrides: ActiveOverrides, tenant: str) -> Infeasible | None:
    """Whether people have paused scheduling for the tenant."""
    pause = overrides.pause_of(tenant)
    if pause is None:
        return None
    return Infeasible(Code.PAUSED, f"scheduling is paused by an override until {pause.ends}")


def refuse_zone(overrides: ActiveOverrides, node: Node) -> Infeasible | None:
    """Whether people say to avoid the node's zone."""
    if node.zone not in overrides.zones:
        return None
    return Infeasible(Code.NODE_UNAVAILABLE, f"zone {node.zone} is avoided by an override")


def refuse_repair(overrides: ActiveOverrides) -> Infeasible | None:
    """Whether people have paused repair: then it gives up nothing, and stops nothing."""
    if overrides.repair is None:
        return None
    return Infeasible(Code.PAUSED, f"repair is paused by an override until {overrides.repair.ends}")
