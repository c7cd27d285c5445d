"""Whether this region may run a template now, until when, and under which policy.

A leased right ends at a time of this region's ledger, which stands still between two terms if an old leader's clock was
ahead. So a lease holds in the term in which it was told:

    told ── term 1 ──▶ its end            in term 1: begun and run until its end
         ── term 1 ──╳── term 2           in term 2: nothing is begun; what runs has one session lease to be told again
         ── term 1 ──╳── 2 ──╳── term 3   in term 3: everything ends at once

The platform waits for the gap between two terms, in which a guarded process lives for one session lease, and for that
of the second term (see `core.platform.rights.lapsed_at`); more gaps it could not count.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import ACTIVE, Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.state.lookups import phase_count
from holdfast.core.region.state.tables import RegionState


def why_not_runnable(state: RegionState, assignment: Assignment, template: str, at: Instant) -> Infeasible | None:
    """Whether this region may begin to run this template now.

    It is assigned and active, its right has not lapsed, it is not given up, and the law allows it here.
    """
    for share in assignment.shares:
        if share.template == template and share.count > 0 and assignment.stage is ACTIVE:
            break
    else:
        return Infeasible(
            Code.NOT_ASSIGNED, f"assignment {assignment.uid} is {assignment.stage} and does not ask for it"
        )
    if not may_start(state, assignment, at):
        return Infeasible(Code.NOT_ASSIGNED, "this region's right to it has lapsed, or was not told in this term")
    if is_abandoned(assignment, at):
        return Infeasible(Code.DEADLINE_MISSED, "its deadline has passed, and it was to fail then")
    return why_not_allowed(state, assignment)


def why_not_allowed(state: RegionState, assignment: Assignment) -> Infeasible | None:
    """Whether the law forbids it here."""
    here, allowed = state.region.jurisdiction, assignment.jurisdictions
    if not allowed or here in allowed:
        return None
    return Infeasible(Code.RESIDENCY, f"{here or 'nowhere'} is not {'/'.join(allowed)}")


def is_late(assignment: Assignment, at: Instant) -> bool:
    """Whether its deadline has passed."""
    return 0 < assignment.deadline <= at


def is_abandoned(assignment: Assignment, at: Instant) -> bool:
    """Whether nothing more of it is begun: it is late, and was to fail then. What runs goes on until it is ended."""
    return assignment.fails_late and is_late(assignment, at)


def may_start(state: RegionState, assignment: Assignment, at: Instant) -> bool:
    """Whether something may be begun by this region's right: one that is leased was told in this term, and lasts."""
    is_told = assignment.right_term == state.info.term
    return not assignment.right_until or (is_told and at < assignment.right_until)


def may_run_until(state: RegionState, assignment: Assignment) -> Instant | None:
    """Until when what runs may run by this region's right; None: that does not end by itself."""
    facts = state.info
    if not assignment.right_until:
        return None
    if assignment.right_term == facts.term:
        return assignment.right_until
    if assignment.right_term < facts.term - 1:
        return facts.term_at
    return min(assignment.right_until, facts.term_at + facts.settings.session_lease)


def has_stale_lease(state: RegionState) -> bool:
    """Whether a lease here was told in an earlier term: it is to be told again."""
    rows = (assignment for _, assignment in state.assignments.unordered())
    return any(row.ordinals and row.right_until and row.right_term != state.info.term for row in rows)


def has_lapsed(state: RegionState, assignment: Assignment, now: Instant) -> bool:
    """Whether this region's leased right to what it names is over."""
    until = may_run_until(state, assignment)
    return until is not None and until <= now


def disruption_left(state: RegionState, assignment: Assignment, lost: int = 0) -> int:
    """How many serving replicas may be stopped voluntarily once `lost` of them are.

    The share, less those that are wanted and do not serve, and more by what serves beyond the wanted number: that
    costs nothing, also where the share is nothing.
    """
    wanted = sum(share.count for share in assignment.shares)
    serving = phase_count(state, assignment.uid, Phase.SERVING) - lost
    return assignment.disruption + serving - wanted
