"""Node health: a node without a session is silent, then lost; its agent's slots are unknown until their end is certain.

    ready ──session ended──▶ silent ──lost, and past the fence──▶ lost ──for a day, and empty──▶ removed
      ▲                        │                                  │
      └────── its agent registers it, in a new session ───────────┘

The leader ends sessions (RULES 5); this controller draws the consequences. Slots of an agent's earlier session are
unknown until its new session has reported them. A node with an operator's settings is not removed, since they would be
lost.

The mass-loss brake: when a silent node counts as lost.

    sessions end ──▶ the first fifth of the region's nodes     counts as lost at once
                 ──▶ the next fifth                            a minute later, and so on

If very many nodes are silent, they may be healthy, and the leader is cut off, although it has doubted each end of a
session (RULES 5). So at most a fifth of all nodes, and at least two, count as lost per minute. The order follows from
the nodes; nothing is stored between cycles. Work that may preempt and is merely replaced does not wait (RULES 21).
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, chunked
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Node, NodeHealth
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerNode
from holdfast.core.region import commands as c
from holdfast.core.region.queries.fence import fenced_at
from holdfast.core.region.state.lookups import slots_on
from holdfast.core.region.state.tables import RegionState

#: A lost and empty node is removed after this time.
FORGOTTEN_MS = 86_400_000
#: Phases in which an agent reports on a slot.
_ANSWERED_FOR = tuple(phase for phase in STOPPABLE if phase is not Phase.UNKNOWN)
#: Percentage of all nodes, and smallest number of nodes, that count as lost in one window.
GONE_PERCENT = 20
GONE_LEAST = 2
WINDOW_MS = 60_000


class NodeHealthReconciler(PerNode):
    """The node health controller, keyed by node uid."""

    name = "node-health"

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        node = state.nodes.get(key)  # type: ignore[arg-type]
        if node is None:
            return NO_CHANGES
        if node.session:
            return _sent(node, [*_judged(node, NodeHealth.READY), *_unknown(_of_another_life(state, node))], [])
        gone = counts_as_gone_at(state, node)
        lost, forgotten = fenced_at(state, node, gone), node.session_ended + FORGOTTEN_MS
        if now >= forgotten and _may_be_removed(state, node):
            return _sent(node, [c.RemoveNode(node.uid)], [])
        held = [slot for slot in slots_on(state, node) if _is_answered_for(slot)]
        unknown = held if now >= gone else [slot for slot in held if skips_the_brake(state, slot)]
        health = NodeHealth.LOST if now >= lost else NodeHealth.SILENT
        again = [at for at in (gone, lost, forgotten) if at > now]
        return _sent(node, [*_judged(node, health), *_unknown(unknown)], again)


def _sent(node: Node, commands: list[Any], again: list[Instant]) -> ReconcileResult:
    return ReconcileResult(
        tuple(ProposedCommand(command, node.revision) for command in commands), min(again, default=None)
    )


def _judged(node: Node, health: NodeHealth) -> list[Any]:
    return [] if node.health is health else [c.JudgeNode(node.uid, health)]


def _unknown(slots: list[Slot]) -> list[Any]:
    moves = [c.MoveSlot((s.workload, s.ordinal), s.epoch, Phase.UNKNOWN, "session-ended") for s in slots]
    return [c.Move(chunk) for chunk in chunked(moves)]


def _of_another_life(state: RegionState, node: Node) -> list[Slot]:
    """Return the slots of an earlier session that the agent has not reported in this one."""
    if not node.session_ended:  # no earlier session, as for most nodes
        return []
    return [slot for slot in slots_on(state, node) if slot.reported <= node.session and _is_answered_for(slot)]


def _is_answered_for(slot: Slot) -> bool:
    """Check whether the slot's agent must report on it. A fenced slot has certainly ended."""
    return slot.phase in _ANSWERED_FOR and slot.cause != "fenced"


def _may_be_removed(state: RegionState, node: Node) -> bool:
    room = state.node_usage.get(node.uid) or EMPTY_USAGE
    administered = node.cordoned or node.draining or node.taints or node.labels or node.tenancy
    return not (room.slots or administered)


def counts_as_gone_at(state: RegionState, node: Node) -> Instant:
    """Return when a node without a session counts as lost: at the session's end, or later if many have ended.

    A window has a fixed number of nodes, a fifth of all; a node counts one window later than the node that many places
    before. So there are at most five steps.
    """
    most, silent = max(GONE_LEAST, len(state.nodes) * GONE_PERCENT // 100), state.silent
    assert (node.session_ended, node.uid) in silent, f"node {node.name} has a session"
    before = silent.each(range(silent.place_of((node.session_ended, node.uid)), -1, -most))
    return max(ended + windows * WINDOW_MS for windows, (ended, _) in enumerate(before))


def skips_the_brake(state: RegionState, slot: Slot) -> bool:
    """Check whether a slot is replaced without the brake: it is critical, and another one may run at the same time."""
    assignment = state.assignments[slot.assignment]
    cls = state.priority_classes.get(assignment.priority_class)
    return cls is not None and cls.spec.may_preempt and not assignment.exclusive
