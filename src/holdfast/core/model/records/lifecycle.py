"""A slot's life: the edge table. Code, tests and documents read this file and no other.

    pending -> reserved -> bound -> starting -> running -> ready -> serving
                                        \\________ failed, unknown, terminating, succeeded ________/ -> released

An edge is (from, to, cause) and has exactly one owner. `released` is final for a binding epoch: in the commit that
releases a slot its ordinal becomes pending again under the next epoch, keeping its charge, or is removed and its charge
returned. A released slot therefore never rests in state; the log keeps it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """Where a slot is."""

    PENDING = "pending"
    RESERVED = "reserved"
    BOUND = "bound"
    STARTING = "starting"
    RUNNING = "running"
    READY = "ready"
    SERVING = "serving"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    UNKNOWN = "unknown"
    TERMINATING = "terminating"
    RELEASED = "released"


PHASES = tuple(Phase)
#: Looking a member up on its class costs twenty times as much as a module's name: the hot paths use these.
PENDING, RESERVED, BOUND = Phase.PENDING, Phase.RESERVED, Phase.BOUND


class StopKind(StrEnum):
    """What a stop costs: voluntary ones the disruption budget, the others nothing but a count."""

    VOLUNTARY = "voluntary"
    ASKED = "asked"
    FORCED = "forced"


class StopCause(NamedTuple):
    """Why a slot is stopped, who may say so, and whether its ordinal is still wanted afterwards."""

    name: str
    kind: StopKind
    owner: str
    again: bool
    sentence: str


_STOPS = (
    StopCause("rollout", StopKind.VOLUNTARY, "controller/rollout", True, "A newer template takes its place."),
    StopCause("superseded", StopKind.VOLUNTARY, "controller/replica", False, "Another slot already does its work."),
    StopCause("drain", StopKind.VOLUNTARY, "controller/drain", True, "Its node is being emptied."),
    StopCause("preempted", StopKind.VOLUNTARY, "scheduler", True, "Work of strictly higher priority needs its room."),
    StopCause("rebalanced", StopKind.VOLUNTARY, "controller/rebalance", True, "A better place was reserved for it."),
    StopCause("evacuated", StopKind.VOLUNTARY, "controller/evacuation", False, "Its region is being emptied."),
    StopCause("failed-back", StopKind.VOLUNTARY, "controller/failback", False, "Its work has returned home."),
    StopCause("repaired", StopKind.VOLUNTARY, "controller/repair", True, "Repair restarts it elsewhere."),
    StopCause("scaled-down", StopKind.ASKED, "controller/replica", False, "Its owner wants fewer."),
    StopCause("deleted", StopKind.ASKED, "controller/replica", False, "Its owner deleted the workload."),
    StopCause("suspended", StopKind.ASKED, "controller/replica", False, "Its owner suspended the workload."),
    StopCause("deadline-missed", StopKind.ASKED, "controller/replica", False, "It was to fail at its deadline."),
    StopCause("reclaimed", StopKind.FORCED, "scheduler", True, "Recovery takes back the room it borrowed."),
    StopCause("right-lapsed", StopKind.FORCED, "controller/rights", False, "This region's right to it has ended."),
    StopCause("grant-ended", StopKind.FORCED, "controller/grant", False, "What paid for it has ended."),
    StopCause("provisional-ended", StopKind.FORCED, "controller/provisional", False, "It was never confirmed."),
    StopCause("not-allowed", StopKind.FORCED, "controller/repair", True, "It may no longer be where it is."),
)  # fmt: skip
STOP_CAUSES: dict[str, StopCause] = {stop.name: stop for stop in _STOPS}


class PhaseEdge(NamedTuple):
    """One allowed move of a slot."""

    source: Phase
    target: Phase
    cause: str
    owner: str
    sentence: str


_P = Phase
_AT_NODE = (_P.BOUND, _P.STARTING, _P.RUNNING, _P.READY, _P.SERVING, _P.FAILED)
_ALIVE = (_P.STARTING, _P.RUNNING, _P.READY, _P.SERVING)
#: Phases from which a slot can be stopped.
STOPPABLE = (*_AT_NODE, _P.UNKNOWN)

_ROWS: tuple[tuple[tuple[Phase, ...], Phase, str, str, str], ...] = (
    ((_P.PENDING,), _P.RESERVED, "placed", "scheduler", "Room on a node and the tenant's charge are taken."),
    ((_P.RESERVED,), _P.BOUND, "bound", "scheduler", "The slot is given to the node's agent under a new epoch."),
    ((_P.RESERVED,), _P.PENDING, "refused", "scheduler", "A later step of the placement said no."),
    ((_P.RESERVED,), _P.PENDING, "expired", "ledger", "The reservation's end has passed."),
    ((_P.PENDING, _P.RESERVED), _P.RELEASED, "withdrawn", "controller/replica", "The ordinal is not wanted any more."),
    ((_P.BOUND,), _P.STARTING, "started", "agent", "The agent starts the process."),
    ((_P.STARTING,), _P.RUNNING, "running", "agent", "The process runs."),
    ((_P.RUNNING,), _P.READY, "probe-passed", "agent", "The readiness probe passes."),
    ((_P.READY, _P.SERVING), _P.RUNNING, "probe-lost", "agent", "The readiness probe fails; it serves no more."),
    ((_P.READY,), _P.SERVING, "published", "controller/endpoints", "Its address is listed and answered."),
    ((_P.SERVING,), _P.READY, "withdrawn", "controller/endpoints", "Its address is taken from the list."),
    ((_P.BOUND,), _P.RELEASED, "declined", "agent", "The agent refuses the binding; the request is open again."),
    (_ALIVE, _P.FAILED, "exit", "agent", "The process ended by itself."),
    ((_P.STARTING,), _P.FAILED, "cannot-start", "agent", "There is nothing to run, nobody to run it as, or no secret."),
    (_ALIVE, _P.FAILED, "probe-failed", "agent", "The startup or liveness probe failed and the agent ended it."),
    (_ALIVE, _P.FAILED, "over-limit", "agent", "It took more than its limits allow and was ended."),
    ((_P.FAILED,), _P.STARTING, "restarted", "agent", "The agent starts it again here, within its restart policy."),
    ((_P.FAILED,), _P.RELEASED, "given-up", "agent", "The restart policy is exhausted."),
    ((_P.RUNNING, _P.READY, _P.SERVING), _P.SUCCEEDED, "completed", "agent", "Batch work is done."),
    ((_P.SUCCEEDED,), _P.RELEASED, "collected", "agent", "Its result is kept and its room is free."),
    (_AT_NODE, _P.UNKNOWN, "session-ended", "controller/node-health", "Its agent's session has ended."),
    ((_P.UNKNOWN,), _P.RUNNING, "found-again", "agent", "The agent came back and it still runs."),
    ((_P.UNKNOWN,), _P.FAILED, "gone", "agent", "The agent came back and nothing of it runs."),
    ((_P.UNKNOWN,), _P.FAILED, "fenced", "controller/repair", "The fence time has passed: it cannot run any more."),
    ((_P.FAILED,), _P.RELEASED, "fenced", "controller/repair", "Its node is gone past the fence time."),
    ((_P.SUCCEEDED,), _P.RELEASED, "fenced", "controller/repair", "Its node is gone; the work was done."),
    ((_P.TERMINATING,), _P.RELEASED, "stopped", "agent", "The agent has ended the process."),
    ((_P.TERMINATING,), _P.RELEASED, "fenced", "controller/repair", "Its node is gone past the fence time."),
    *((STOPPABLE, _P.TERMINATING, stop.name, stop.owner, stop.sentence) for stop in _STOPS),
)  # fmt: skip

EDGES: tuple[PhaseEdge, ...] = tuple(
    PhaseEdge(source, target, cause, owner, sentence)
    for sources, target, cause, owner, sentence in _ROWS
    for source in sources
)
EDGE_BY_KEY: dict[tuple[Phase, Phase, str], PhaseEdge] = {(e.source, e.target, e.cause): e for e in EDGES}
assert len(EDGE_BY_KEY) == len(EDGES), "an edge is listed twice"

#: Phases in which a slot stands on a node and takes room there.
ON_NODE = frozenset((_P.RESERVED, *STOPPABLE, _P.SUCCEEDED, _P.TERMINATING))
