"""Node health: a node without a session is silent, then lost; what its agent held is unknown until somebody knows.

    ready ──session ended──▶ silent ──gone past the fence──▶ lost ──for a day, and empty──▶ removed
      ▲                        │                                  │
      └────── its agent registers it, in a new session ───────────┘

Silence itself is judged elsewhere: a session has ended when the leader has listened for long enough (RULES 5). Here it
is only drawn what follows. An agent in a new session has yet to say what it kept of what it was given before: until
then that is unknown, too. A node of which operators have said something is not removed: their word would go with it.
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
from holdfast.core.reconcilers.region.mass_loss import counts_as_gone_at, skips_the_brake
from holdfast.core.region import commands as c
from holdfast.core.region.queries.fence import fenced_at
from holdfast.core.region.state.lookups import slots_on
from holdfast.core.region.state.tables import RegionState

#: A node that is gone for so long, and empty, is removed.
FORGOTTEN_MS = 86_400_000
#: Phases in which an agent answers for a slot.
_ANSWERED_FOR = tuple(phase for phase in STOPPABLE if phase is not Phase.UNKNOWN)


class NodeHealthReconciler(PerNode):
    """Looks at one node at a time, by uid."""

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
    """What the agent was given in an earlier session, and has said nothing of in this one."""
    if not node.session_ended:  # there was no earlier one, as of most nodes that something happens to
        return []
    return [slot for slot in slots_on(state, node) if slot.reported <= node.session and _is_answered_for(slot)]


def _is_answered_for(slot: Slot) -> bool:
    """Whether its agent is asked about it. What was fenced is known to be dead."""
    return slot.phase in _ANSWERED_FOR and slot.cause != "fenced"


def _may_be_removed(state: RegionState, node: Node) -> bool:
    room = state.node_usage.get(node.uid) or EMPTY_USAGE
    administered = node.cordoned or node.draining or node.taints or node.labels or node.tenancy
    return not (room.slots or administered)
