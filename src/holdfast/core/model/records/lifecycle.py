"""The lifecycle of a slot: the edge table. Code, tests and documents all read this table.

    pending -> reserved -> bound -> starting -> running -> ready -> serving
                                        \\________ failed, unknown, terminating, succeeded ________/ -> released

An edge is (from, to, cause) and has exactly one owner. `released` is final for a binding epoch. The commit that
releases a slot either makes its ordinal pending again under the next epoch, with its charge, or deletes it and returns
the charge. So a state never contains a released slot; the log does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """The phase of a slot."""

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
#: An enum member costs twenty times as much to look up as a module's name: hot paths use these names.
PENDING, RESERVED, BOUND = Phase.PENDING, Phase.RESERVED, Phase.BOUND


class StopKind(StrEnum):
    """What a stop is charged to: a voluntary one to the disruption budget, the others are only counted."""

    VOLUNTARY = "voluntary"
    ASKED = "asked"
    FORCED = "forced"


class StopCause(NamedTuple):
    """Why a slot is stopped, the component that may do so, and whether its ordinal is still wanted afterwards."""

    name: str
    kind: StopKind
    owner: str
    again: bool
    sentence: str


_STOPS = (
    StopCause("rollout", StopKind.VOLUNTARY, "controller/rollout", True, "A newer template replaces it."),
    StopCause("superseded", StopKind.VOLUNTARY, "controller/replica", False, "Another slot already does its work."),
    StopCause("drain", StopKind.VOLUNTARY, "controller/drain", True, "Its node is being drained."),
    StopCause("preempted", StopKind.VOLUNTARY, "scheduler", True, "Work of strictly higher priority needs its node."),
    StopCause("rebalanced", StopKind.VOLUNTARY, "controller/rebalance", True, "A better node was reserved for it."),
    StopCause("evacuated", StopKind.VOLUNTARY, "controller/evacuation", False, "Its region is being evacuated."),
    StopCause("failed-back", StopKind.VOLUNTARY, "controller/failback", False, "Its work is back in its own region."),
    StopCause("repaired", StopKind.VOLUNTARY, "controller/repair", True, "Repair restarts it elsewhere."),
    StopCause("scaled-down", StopKind.ASKED, "controller/replica", False, "Its tenant reduced the replicas."),
    StopCause("deleted", StopKind.ASKED, "controller/replica", False, "Its tenant deleted the workload."),
    StopCause("suspended", StopKind.ASKED, "controller/replica", False, "Its tenant suspended the workload."),
    StopCause("deadline-missed", StopKind.ASKED, "controller/replica", False, "Its deadline has passed: it fails."),
    StopCause("gang-broken", StopKind.FORCED, "controller/replica", True, "Its gang lost members for too long."),
    StopCause("gang-failed", StopKind.ASKED, "controller/replica", False, "A member of its gang failed for good."),
    StopCause("reclaimed", StopKind.FORCED, "scheduler", True, "Recovery needs the capacity that it borrowed."),
    StopCause("right-lapsed", StopKind.FORCED, "controller/rights", False, "This region's right to it has ended."),
    StopCause("grant-ended", StopKind.FORCED, "controller/grant", False, "The grant that it is charged to has ended."),
    StopCause("provisional-ended", StopKind.FORCED, "controller/provisional", False, "It was never confirmed."),
    StopCause("not-allowed", StopKind.FORCED, "controller/repair", True, "It may no longer run on its node."),
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
    ((_P.PENDING,), _P.RESERVED, "placed", "scheduler", "Capacity of a node is reserved, and the tenant is charged."),
    ((_P.RESERVED,), _P.BOUND, "bound", "scheduler", "The slot is given to the node's agent under a new epoch."),
    ((_P.RESERVED,), _P.PENDING, "refused", "scheduler", "A later step of the placement failed."),
    ((_P.RESERVED,), _P.PENDING, "expired", "ledger", "The reservation's end has passed."),
    ((_P.PENDING, _P.RESERVED), _P.RELEASED, "withdrawn", "controller/replica", "The ordinal is no longer wanted."),
    ((_P.BOUND,), _P.STARTING, "started", "agent", "The agent starts the process."),
    ((_P.STARTING,), _P.RUNNING, "running", "agent", "The process runs."),
    ((_P.RUNNING,), _P.READY, "probe-passed", "agent", "The readiness probe passes."),
    ((_P.READY, _P.SERVING), _P.RUNNING, "probe-lost", "agent", "The readiness probe fails; its address is withdrawn."),
    ((_P.READY,), _P.SERVING, "published", "controller/endpoints", "Its address is published and answers."),
    ((_P.SERVING,), _P.READY, "withdrawn", "controller/endpoints", "Its address is withdrawn."),
    ((_P.BOUND,), _P.RELEASED, "declined", "agent", "The agent refuses the binding; the request is open again."),
    (_ALIVE, _P.FAILED, "exit", "agent", "The process ended by itself."),
    ((_P.STARTING,), _P.FAILED, "cannot-start", "agent", "The command, the user or a secret is missing."),
    (_ALIVE, _P.FAILED, "probe-failed", "agent", "The startup or liveness probe failed and the agent ended it."),
    (_ALIVE, _P.FAILED, "over-limit", "agent", "It exceeded a limit and was ended."),
    ((_P.FAILED,), _P.STARTING, "restarted", "agent", "The agent restarts it, within its restart policy."),
    ((_P.FAILED,), _P.RELEASED, "given-up", "agent", "The restart policy is exhausted."),
    ((_P.RUNNING, _P.READY, _P.SERVING), _P.SUCCEEDED, "completed", "agent", "Batch work has succeeded."),
    ((_P.SUCCEEDED,), _P.RELEASED, "collected", "agent", "Its result is stored and its capacity is free."),
    (_AT_NODE, _P.UNKNOWN, "session-ended", "controller/node-health", "Its agent's session has ended."),
    ((_P.UNKNOWN,), _P.RUNNING, "found-again", "agent", "The agent is back and reports that it runs."),
    ((_P.UNKNOWN,), _P.FAILED, "gone", "agent", "The agent is back and reports that nothing of it runs."),
    ((_P.UNKNOWN,), _P.FAILED, "fenced", "controller/repair", "The fence time has passed: it cannot run any more."),
    ((_P.FAILED,), _P.RELEASED, "fenced", "controller/repair", "Its node is lost and the fence time has passed."),
    ((_P.SUCCEEDED,), _P.RELEASED, "fenced", "controller/repair", "Its node is lost; the work had succeeded."),
    ((_P.TERMINATING,), _P.RELEASED, "stopped", "agent", "The agent has ended the process."),
    ((_P.TERMINATING,), _P.RELEASED, "fenced", "controller/repair", "Its node is lost and the fence time has passed."),
    *((STOPPABLE, _P.TERMINATING, stop.name, stop.owner, stop.sentence) for stop in _STOPS),
)  # fmt: skip

EDGES: tuple[PhaseEdge, ...] = tuple(
    PhaseEdge(source, target, cause, owner, sentence)
    for sources, target, cause, owner, sentence in _ROWS
    for source in sources
)
EDGE_BY_KEY: dict[tuple[Phase, Phase, str], PhaseEdge] = {(e.source, e.target, e.cause): e for e in EDGES}
assert len(EDGE_BY_KEY) == len(EDGES), "an edge is listed twice"

#: Phases in which a slot is placed on a node and uses its resources.
ON_NODE = frozenset((_P.RESERVED, *STOPPABLE, _P.SUCCEEDED, _P.TERMINATING))
