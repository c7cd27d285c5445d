"""Gates that must have acted in a swarm: if a gate never excludes anything, the runs do not test it.

A gate has acted in one of these cases: a scheduler excluded a node by it (`shut`); it is a pending reason (`waits`);
the ledger refused something by it (`refused`); a rollout waits for its budget (`held`); or work missed its deadline
(`late`; a region ends such work so soon that its own gate seldom acts). Tests list all other codes, with the reason why
no simulated world meets them.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.state.tables import RegionState

#: Gates that a swarm of the standing scenarios must have met, with what each excludes.
GATES: dict[Code, str] = {
    Code.NODE_UNAVAILABLE: "nodes that are silent, closed, or in a zone that is avoided",
    Code.LABELS: "nodes without a label that is required",
    Code.TAINT: "nodes with a taint that is not tolerated",
    Code.TENANCY: "nodes that are reserved for other tenants",
    Code.ONE_TENANT: "nodes of one user with another tenant",
    Code.ISOLATION: "nodes without the required isolation",
    Code.CAPACITY: "nodes without free capacity",
    Code.DEVICE: "nodes without a free device of its kind",
    Code.PORT: "nodes without free ports",
    Code.SPREAD: "domains with too many already",
    Code.APART: "domains in which others of the group are",
    Code.NEAR: "domains in which none of the group is",
    Code.OVER_GRANT: "work beyond its quota",
    Code.PROTECTED: "capacity that is protected for other tenants",
    Code.POLICY: "decisions under a policy that is not valid",
    Code.DISRUPTION: "replicas whose disruption budget is used up",
    Code.PAUSED: "work whose scheduling is paused",
    Code.DEADLINE_MISSED: "work that missed its deadline",
    Code.FENCE: "identities whose process may still live",
    Code.STALE: "proposals from a stale view",
    Code.NO_SESSION: "machines whose session had ended",
    Code.WRONG_PHASE: "moves from a phase that a slot had left",
    Code.NOT_FOUND: "reports about deleted objects",
    Code.NOT_ASSIGNED: "work that is not assigned to this region, or no longer",
    Code.ALREADY: "repeated reports",
}

#: Rollouts that wait for their budgets, counted at each examination.
HELD = "held.disruption"
#: Additional counters that show that a gate acted.
BESIDES = {Code.DISRUPTION: (HELD,), Code.DEADLINE_MISSED: ("late.missed",)}
#: Counters of a run: whether a quota, or a disruption budget, delayed anything in it.
QUOTA_BOUND, BUDGET_BOUND, BOUND = "bound.quota", "bound.budget", "bound.any"


def counters(code: Code) -> tuple[str, ...]:
    """Return the counters of a code; one of them must have increased."""
    return (f"shut.{code.value}", f"waits.{code.value}", f"refused.{code.value}", *BESIDES.get(code, ()))


def bound_counters(counts: Mapping[str, int]) -> dict[str, int]:
    """Return, by a run's counters, whether quotas and budgets were binding."""
    quota = any(counts.get(name) for name in counters(Code.OVER_GRANT))
    budget = any(counts.get(name) for name in counters(Code.DISRUPTION))
    return {QUOTA_BOUND: int(quota), BUDGET_BOUND: int(budget), BOUND: int(quota or budget)}


def held_back(state: RegionState) -> int:
    """Return the number of a region's assignments whose old replicas may not be stopped, since the disruption budget is
    used up."""
    serving: dict[int, int] = {}
    old: dict[int, int] = {}
    for slot in state.slots.values():
        if slot.phase is Phase.SERVING:
            serving[slot.assignment] = serving.get(slot.assignment, 0) + 1
            shares = state.assignments[slot.assignment].shares
            if not any(share.template == slot.template and share.count for share in shares):
                old[slot.assignment] = old.get(slot.assignment, 0) + 1
    held = 0
    for uid in old:
        assignment = state.assignments[uid]
        asked = sum(share.count for share in assignment.shares)
        held += serving[uid] <= asked - assignment.disruption and asked > 0
    return held
