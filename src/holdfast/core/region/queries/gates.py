"""The gates that every way to take room shares: proposals, bindings and holds.

    refuse_group    may this be placed at all now?   assigned, not paused, under the valid policy
    refuse_node     may it be placed on this node?   what the node is for, not in a zone that is avoided

A command that takes room asks both, whatever else it asks: so none of them can forget one. Repair asks
`refuse_repair`. What overrides say comes from `in_force`, once for each command.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import InForce
from holdfast.core.ledger.commit.rules import Case
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.nodes import Node
from holdfast.core.region.queries.assignments import not_assigned
from holdfast.core.region.queries.feasibility import Misfit, admits
from holdfast.core.region.state.lookups import valid_policy
from holdfast.core.region.state.tables import RegionState

#: The controller that people pause with repair.
REPAIR = "controller/repair"


def refuse_group(
    state: RegionState, overrides: InForce, assignment: Assignment, template: str, case: Case
) -> Misfit | None:
    """Whether slots of an assignment and template may begin now, wherever that is."""
    misfit = not_assigned(state, assignment, template, case.at) or refuse_paused(overrides, assignment.tenant)
    if misfit is not None:
        return misfit
    valid = valid_policy(state, assignment.tenant)
    if case.envelope.policy != valid:
        return Misfit(Code.POLICY, f"policy revision {valid} is valid here, not {case.envelope.policy}")
    return None


def refuse_node(
    overrides: InForce, node: Node, template: Template, tenant: str, there: tuple[str, ...]
) -> Misfit | None:
    """Whether a node may take such work now, beside what is there, if it has the room."""
    misfit = admits(node, template, tenant, there)
    return misfit if misfit is not None else refuse_zone(overrides, node)


def refuse_paused(overrides: InForce, tenant: str) -> Misfit | None:
    """Whether people have paused scheduling for the tenant."""
    pause = overrides.pause_of(tenant)
    if pause is None:
        return None
    return Misfit(Code.PAUSED, f"scheduling is paused by an override until {pause.ends}")


def refuse_zone(overrides: InForce, node: Node) -> Misfit | None:
    """Whether people say to avoid the node's zone."""
    if node.zone not in overrides.zones:
        return None
    return Misfit(Code.NODE_UNAVAILABLE, f"zone {node.zone} is avoided by an override")


def refuse_repair(overrides: InForce) -> Misfit | None:
    """Whether people have paused repair: then it gives up nothing, and stops nothing."""
    if overrides.repair is None:
        return None
    return Misfit(Code.PAUSED, f"repair is paused by an override until {overrides.repair.ends}")
