"""Whether this region may run a template now, until when, and under which policy.

A leased right ends at a time of this region's ledger. Ledger time may stand still between two terms, if an old leader's
clock was ahead. So a lease is valid in the term in which it was received:

    received ── term 1 ──▶ its end           in term 1: starts and runs until its end
             ── term 1 ──╳── term 2          in term 2: nothing starts; runs have one session lease until it is renewed
             ── term 1 ──╳── 2 ──╳── term 3  in term 3: everything ends at once

The platform waits for one gap between terms, in which a guarded process lives for one session lease, and for the lease
of the second term (see `core.platform.queries.identities`). It could not count more gaps.
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
    """Refuse to run this template now.

    It needs an active assignment with a share, a valid right, a deadline that is not missed, and an allowed
    jurisdiction.
    """
    for share in assignment.shares:
        if share.template == template and share.count > 0 and assignment.stage is ACTIVE:
            break
    else:
        return Infeasible(
            Code.NOT_ASSIGNED, f"assignment {assignment.uid} is {assignment.stage} and has no share of it"
        )
    if not may_start(state, assignment, at):
        return Infeasible(Code.NOT_ASSIGNED, "this region's right to it has lapsed, or was not shipped in this term")
    if is_abandoned(assignment, at):
        return Infeasible(Code.DEADLINE_MISSED, "its deadline has passed, and its spec makes late work fail")
    return why_not_allowed(state, assignment)


def why_not_allowed(state: RegionState, assignment: Assignment) -> Infeasible | None:
    """Refuse if residency forbids the assignment here."""
    here, allowed = state.region.jurisdiction, assignment.jurisdictions
    if not allowed or here in allowed:
        return None
    return Infeasible(Code.RESIDENCY, f"{here or 'nowhere'} is not {'/'.join(allowed)}")


def is_late(assignment: Assignment, at: Instant) -> bool:
    """Return whether its deadline has passed."""
    return 0 < assignment.deadline <= at


def is_abandoned(assignment: Assignment, at: Instant) -> bool:
    """Return whether nothing of it may start: it is late, and late work fails. Runs continue until ended."""
    return assignment.fails_late and is_late(assignment, at)


def may_start(state: RegionState, assignment: Assignment, at: Instant) -> bool:
    """Return whether this region's right permits a start: a leased one must be received in this term and not have
    ended."""
    is_told = assignment.right_term == state.info.term
    return not assignment.right_until or (is_told and at < assignment.right_until)


def may_run_until(state: RegionState, assignment: Assignment) -> Instant | None:
    """Return until when this region's right permits runs; None: without end."""
    facts = state.info
    if not assignment.right_until:
        return None
    if assignment.right_term == facts.term:
        return assignment.right_until
    if assignment.right_term < facts.term - 1:
        return facts.term_at
    return min(assignment.right_until, facts.term_at + facts.settings.session_lease)


def has_stale_lease(state: RegionState) -> bool:
    """Return whether a lease here was received in an earlier term, and needs a renewal."""
    rows = (assignment for _, assignment in state.assignments.unordered())
    return any(row.ordinals and row.right_until and row.right_term != state.info.term for row in rows)


def has_lapsed(state: RegionState, assignment: Assignment, now: Instant) -> bool:
    """Return whether this region's leased right has ended."""
    until = may_run_until(state, assignment)
    return until is not None and until <= now


def disruption_left(state: RegionState, assignment: Assignment, lost: int = 0) -> int:
    """Return how many more serving replicas may be stopped voluntarily after `lost` of them.

    It is the share of the budget, less the assigned replicas that do not serve. Replicas that serve beyond the assigned
    number add to it: they cost nothing, even if the share is zero.
    """
    wanted = sum(share.count for share in assignment.shares)
    serving = phase_count(state, assignment.uid, Phase.SERVING) - lost
    return assignment.disruption + serving - wanted
