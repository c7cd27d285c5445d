"""Gates that a swarm must have seen acting: a world in which nothing is ever kept out says nothing of what keeps out.

A gate has acted when a scheduler left a node out for it (`shut`), when somebody waits for it (`waits`), when the ledger
refused something for it (`refused`), when a rollout waits for its budget (`held`), or when work was not done by its
deadline (`late`: a region is told so soon that it seldom says it first). Every code of the ledgers stands here: what no
simulated world meets is a written list, with what keeps it instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.state.tables import RegionState

#: What a swarm of the standing scenarios must have seen, and what each keeps.
GATES: dict[Code, str] = {
    Code.NODE_UNAVAILABLE: "nodes that are silent, closed, or in a zone that is avoided",
    Code.LABELS: "nodes without a label that is required",
    Code.TAINT: "nodes with a taint that is not tolerated",
    Code.TENANCY: "nodes that are kept for other tenants",
    Code.ONE_TENANT: "nodes of one user on which another tenant is",
    Code.ISOLATION: "nodes that do not keep tenants apart as strictly as asked",
    Code.CAPACITY: "nodes without room",
    Code.DEVICE: "nodes without a free device of its kind",
    Code.PORT: "nodes without free ports",
    Code.SPREAD: "domains with too many already",
    Code.APART: "domains in which others of the group are",
    Code.NEAR: "domains in which none of the group is",
    Code.OVER_GRANT: "work that nobody can pay for",
    Code.PROTECTED: "room that is kept for other tenants",
    Code.POLICY: "decisions under a policy that is not valid",
    Code.DISRUPTION: "replicas of which no more may be gone now",
    Code.PAUSED: "work whose scheduling somebody has paused",
    Code.DEADLINE_MISSED: "work that is not done by its deadline",
    Code.FENCE: "identities whose process may still live",
    Code.STALE: "proposals from a view that was too old",
    Code.NO_SESSION: "machines whose session had ended",
    Code.WRONG_PHASE: "moves from a phase that a slot had left",
    Code.NOT_FOUND: "words about what is gone",
    Code.NOT_ASSIGNED: "work that this region is not to run, or not any more",
    Code.ALREADY: "words that were said before",
}

_CLIENTS = "the clients of a simulated world are the real ones, which send nothing of the kind"
_OPERATORS = "people of a simulated world ask for nothing of the kind"
_PLATFORM = "the platform assigns nothing where that would be so"
_RACES = "controllers see it in the state that is asked, or in one a batch before: some runs meet it, and few"
#: What a swarm need not have seen, and why. Tests of the ledgers' tables and models hold these.
NOT_REQUIRED: dict[Code, str] = {
    Code.MALFORMED: _CLIENTS,
    Code.TOO_LARGE: _CLIENTS,
    Code.TOO_OLD_TO_RETRY: "nobody repeats anything after a day, and runs take minutes",
    Code.TOO_MANY_IN_FLIGHT: _CLIENTS,
    Code.TOO_MANY_KEYS: "nobody has sent so many commands within minutes",
    Code.KEY_REUSED: _CLIENTS,
    Code.NO_RIGHT: _OPERATORS,
    Code.WRONG_SCOPE: _OPERATORS,
    Code.LEVEL: "all servers that lead write the same level",
    Code.EXPIRED: "a proposal is dated by the time of the leader that is heard, and is seldom late",
    Code.EXISTS: f"{_OPERATORS}; {_RACES}",
    Code.IN_USE: _OPERATORS,
    Code.CONTRADICTORY: _OPERATORS,
    Code.NOT_OWNER: "controllers send what is theirs to send",
    Code.TOO_EARLY: f"controllers wait for the time that they were told; {_RACES}",
    Code.RESIDENCY: _PLATFORM,
    Code.LATENCY: _PLATFORM,
    Code.GRANT_ENDED: "what an emergency paid for is stopped when that ends, which is counted as stopped.grant-ended",
    Code.PRIORITY: "no scheduler proposes to end a replica for another one yet",
    Code.OVER_QUOTA: f"nobody has as many workloads as a tenant may have; what is left to lend {_RACES}",
    Code.TOO_MANY_PENDING: "nobody waits with as many replicas as a tenant may have waiting",
    Code.REGION_UNAVAILABLE: _RACES,
    Code.RIGHT_HELD: _RACES,
    Code.GAP: "a stream begins where the region's cursor is",
    Code.DIVERGED: "no store of a simulated world goes backwards",
    Code.TOMBSTONED: "no region of a simulated world is retired",
}

#: Rollouts that wait for their budgets, at each look.
HELD = "held.disruption"
#: Other counters by which a gate is seen to act.
BESIDES = {Code.DISRUPTION: (HELD,), Code.DEADLINE_MISSED: ("late.missed",)}
#: Counters of a run: whether a quota, or a disruption budget, kept anything waiting in it.
QUOTA_BOUND, BUDGET_BOUND, BOUND = "bound.quota", "bound.budget", "bound.any"


def counters(code: Code) -> tuple[str, ...]:
    """The counters of which one must have moved."""
    return (f"shut.{code.value}", f"waits.{code.value}", f"refused.{code.value}", *BESIDES.get(code, ()))


def bound_counters(counts: Mapping[str, int]) -> dict[str, int]:
    """Whether quotas and budgets have bound in a run, by what was counted in it."""
    quota = any(counts.get(name) for name in counters(Code.OVER_GRANT))
    budget = any(counts.get(name) for name in counters(Code.DISRUPTION))
    return {QUOTA_BOUND: int(quota), BUDGET_BOUND: int(budget), BOUND: int(quota or budget)}


def held_back(state: RegionState) -> int:
    """In how many assignments of a region replicas of an old template serve that may not be stopped now, for as many
    are gone as may be."""
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
