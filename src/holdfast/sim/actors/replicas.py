"""Controllers of a region, in their plainest form: endpoints, node health, repair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted, WatchKey
from holdfast.core.model.control import Action
from holdfast.core.model.lifecycle import STOPPABLE, Phase
from holdfast.core.model.placement import EMPTY_ROOM, Slot, standing
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Node, NodeHealth
from holdfast.core.reconcilers.assigned import OfAssignments, slots_of
from holdfast.core.region import commands as c
from holdfast.core.region.state import RegionState

_AT_NODE = tuple(phase for phase in STOPPABLE if phase is not Phase.UNKNOWN)


class Endpoints(OfAssignments):
    """What is ready is published."""

    name = "endpoints"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        slots = [] if assignment is None else slots_of(state, assignment)
        ready = [
            c.MoveSlot((slot.workload, slot.ordinal), slot.epoch, Phase.SERVING, "published")
            for slot in slots
            if slot.phase is Phase.READY
        ]
        return Outcome((Wanted(c.Move(tuple(ready))),)) if ready else NOTHING


class OfNodes:
    """Looks at one node at a time."""

    watches: tuple[str, ...] = ("node",)

    def keys(self, state: RegionState) -> Iterable[Key]:
        return [uid for uid, _ in state.nodes.items()]

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[Key]:
        return [touched[1]]


def _slots_on(state: RegionState, node: Node) -> list[Slot]:
    return [state.slots[key] for key in standing(state.rooms.get(node.uid) or EMPTY_ROOM)]


class Health(OfNodes):
    """A node without a session is silent, and what its agent held is unknown."""

    name = "node-health"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        node = state.nodes.get(key)  # type: ignore[arg-type]
        if node is None:
            return NOTHING
        commands: list[Any] = []
        health = NodeHealth.READY if node.session else NodeHealth.SILENT
        if node.health is not health:
            commands.append(c.JudgeNode(node.uid, health))
        lost = [
            c.MoveSlot((slot.workload, slot.ordinal), slot.epoch, Phase.UNKNOWN, "session-ended")
            for slot in _slots_on(state, node)
            if slot.phase in _AT_NODE and slot.cause != "fenced"
            if not node.session or slot.reported <= node.session
        ]
        if lost:
            commands.append(c.Move(tuple(lost)))
        return Outcome(tuple(Wanted(command, node.revision) for command in commands))


class Repair(OfNodes):
    """What stood on a node whose agent is gone is given up, once the fence time has passed and nobody pauses repair."""

    name = "repair"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        node = state.nodes.get(key)  # type: ignore[arg-type]
        if node is None:
            return NOTHING
        deadline = node.session_ended + state.facts.settings.fence_time
        session = state.sessions.get(state.session_of.get(f"agent/{node.name}") or 0)
        lost: list[c.MoveSlot] = []
        for slot in _slots_on(state, node):
            theirs = session is not None and (session.opened < deadline or slot.reported > session.uid)
            target = _FENCED.get(slot.phase)
            fenced = slot.phase is Phase.FAILED and slot.cause == "fenced"
            if target is not None and (fenced or not theirs):
                lost.append(c.MoveSlot((slot.workload, slot.ordinal), slot.epoch, target, "fenced"))
        if not lost:
            return NOTHING
        not_before = max(deadline, _paused_until(state))
        if now < not_before:
            return Outcome((), not_before)
        return Outcome((Wanted(c.Move(tuple(lost)), node.revision),))


def _paused_until(state: RegionState) -> Instant:
    """When the last override that keeps repair from acting ends."""
    overrides = (*state.overrides.values(), *state.platform_overrides.values())
    return max([one.ends for one in overrides if one.action is Action.PAUSE_REPAIR], default=0)


_FENCED = {
    Phase.UNKNOWN: Phase.FAILED,
    Phase.FAILED: Phase.RELEASED,
    Phase.SUCCEEDED: Phase.RELEASED,
    Phase.TERMINATING: Phase.RELEASED,
}
