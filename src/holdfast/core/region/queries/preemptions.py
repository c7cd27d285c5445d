"""Which slots may be preempted, by whom and when. The ledger checks this at commit; a scheduler chooses by it.

    victim ──▶ stoppable, waits for nobody ──▶ reclaimed by recovery
                                          └──▶ strictly lower priority ──▶ has run long enough ──▶ rate ──▶ budget

Priority is that of the class, whatever the age of a request. A strictly greater one cannot be preempted in return, so
preemption has no cycles (RULES 15). Recovery takes reclaimable work without any limit. Reclaimable work has no minimum
run time. A replica that is not serving costs no disruption budget.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.slots import PreemptionReceipt, Slot
from holdfast.core.model.values.structs import Instant, SlotKey
from holdfast.core.region.queries.assignments import disruption_left
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.state.lookups import WINDOW_MS, preemption_window
from holdfast.core.region.state.node_usage import remaining_victims
from holdfast.core.region.state.tables import RegionState

#: The rules of receipts.
BY_PRIORITY, BY_RECOVERY = "priority", "reclaimed"


class Preemptor(Struct, frozen=True):
    """What gives an assignment the right to preempt: its class, and whether it replaces replicas of a lost region."""

    priority: int
    may_preempt: bool
    recovery: bool

    @property
    def is_able(self) -> bool:
        """Whether there may be victims for it."""
        return self.may_preempt or self.recovery


def preemptor_of(state: RegionState, assignment: Assignment) -> Preemptor:
    """Return the rights of an assignment; none if its class is not known here."""
    cls = state.priority_classes.get(assignment.priority_class)
    recovery = assignment.purpose is AssignmentPurpose.RECOVERY
    if cls is None:
        return Preemptor(0, may_preempt=False, recovery=False)
    return Preemptor(cls.spec.priority, cls.spec.may_preempt, recovery)


def priority_of(state: RegionState, assignment: Assignment) -> int | None:
    """Return the priority of an assignment's class; None if the class is not known here."""
    cls = state.priority_classes.get(assignment.priority_class)
    return cls.spec.priority if cls is not None else None


def is_reclaimed(preemptor: Preemptor, victim: Slot) -> bool:
    """Return whether recovery takes back what the victim borrowed."""
    return preemptor.recovery and not victim.firm


def why_not_lower(state: RegionState, preemptor: Preemptor, victim: Slot) -> Infeasible | None:
    """Refuse a victim that is not of strictly lower priority, unless it is reclaimed."""
    if is_reclaimed(preemptor, victim):
        return None
    theirs = priority_of(state, state.assignments[victim.assignment])
    if not preemptor.may_preempt or (theirs is not None and theirs >= preemptor.priority):
        return Infeasible(Code.PRIORITY, f"{_name(victim)} is not of strictly lower priority")
    return None


def why_not_stoppable(state: RegionState, victim: Slot) -> Infeasible | None:
    """Refuse a victim that cannot be stopped now, or waits for victims itself."""
    if victim.phase not in STOPPABLE or remaining_victims(state, victim):
        return Infeasible(Code.WRONG_PHASE, f"{_name(victim)} is {victim.phase} and cannot be preempted")
    return None


def spared_until(state: RegionState, victim: Slot) -> Instant:
    """Return the end of a victim's minimum run time; 0 if it has none."""
    return victim.bound_at + state.info.settings.preempt_after if victim.firm and victim.bound_at else 0


def preemptions_left(state: RegionState, at: Instant, more: int = 0) -> int:
    """Return how many more slots may be preempted in this window, after `more` of them."""
    return state.info.settings.preempt_max - preemption_window(state, at).count - more


def next_window(state: RegionState, at: Instant) -> Instant:
    """Return when the present window of preemptions ends."""
    return preemption_window(state, at).since + WINDOW_MS


def refuse_victim(
    state: RegionState, at: Instant, preemptor: Preemptor, victim: Slot, stopped: int, serving_lost: int
) -> Infeasible | None:
    """Refuse to preempt a slot, after `stopped` others, of which `serving_lost` served for the same assignment."""
    misfit = why_not_stoppable(state, victim) or why_not_lower(state, preemptor, victim)
    if misfit is not None or is_reclaimed(preemptor, victim):
        return misfit
    if at < spared_until(state, victim):
        return Infeasible(Code.TOO_EARLY, f"{_name(victim)} has not run for the minimum time before preemption")
    if preemptions_left(state, at, stopped) <= 0:
        return Infeasible(Code.TOO_EARLY, "the limit of preemptions per minute is reached")
    assignment = state.assignments[victim.assignment]
    if victim.phase is Phase.SERVING and disruption_left(state, assignment, serving_lost) <= 0:
        return Infeasible(Code.DISRUPTION, "the disruption budget of the victim's workload is spent")
    return None


def receipt_for(
    state: RegionState, at: Instant, preemptor: Preemptor, successor: SlotKey, mine: Assignment, victim: Slot
) -> PreemptionReceipt:
    """Return what a victim is told of its successor."""
    rule = BY_RECOVERY if is_reclaimed(preemptor, victim) else BY_PRIORITY
    own = priority_of(state, state.assignments[victim.assignment]) or 0
    return PreemptionReceipt(successor, mine.tenant, mine.workload_name, rule, preemptor.priority, own, at)


def _name(victim: Slot) -> str:
    return f"slot {victim.workload}/{victim.ordinal}"
