"""Whether this region may run a template now, and under which policy."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.allotment import ACTIVE, Assignment
from holdfast.core.model.control import EVERYWHERE
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.state import RegionState


def not_assigned(state: RegionState, assignment: Assignment, template: str, at: Instant) -> Misfit | None:
    """Whether this region may run this template now: assigned, active, its right not lapsed, its residency allowed."""
    for share in assignment.shares:
        if share.template == template and share.count > 0 and assignment.stage is ACTIVE:
            break
    else:
        return Misfit(Code.NOT_ASSIGNED, f"assignment {assignment.uid} is {assignment.stage} and does not ask for it")
    if assignment.right_until and assignment.right_until <= at:
        return Misfit(Code.NOT_ASSIGNED, "this region's right to it has lapsed")
    if assignment.jurisdictions and state.place.jurisdiction not in assignment.jurisdictions:
        return Misfit(
            Code.RESIDENCY, f"{state.place.jurisdiction or 'nowhere'} is not {'/'.join(assignment.jurisdictions)}"
        )
    return None


def valid_policy(state: RegionState, tenant: str) -> Revision:
    """The one policy revision that is valid for the tenant; 0 is built in."""
    mine = state.validities.get(tenant)
    if mine is not None:
        return mine
    return state.validities.get(EVERYWHERE) or 0
