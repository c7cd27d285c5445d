"""Controllers of a region, in their plainest form: replicas, rollout, endpoints, node health, repair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted, WatchKey
from holdfast.core.model.allotment import Assignment, Purpose, Stage
from holdfast.core.model.control import Action
from holdfast.core.model.lifecycle import STOPPABLE, Phase
from holdfast.core.model.placement import EMPTY_ROOM, Slot, standing
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Node, NodeHealth
from holdfast.core.region import commands as c
from holdfast.core.region.state import RegionState

#: Ordinals of recovery are apart from those of serving, which another assignment of the same workload may hold here.
RECOVERY_ORDINALS = 1_000_000
_AT_NODE = tuple(phase for phase in STOPPABLE if phase is not Phase.UNKNOWN)


class OfAssignments:
    """Looks at one assignment at a time."""

    watches: tuple[str, ...] = ("assignment", "workload")

    def keys(self, state: RegionState) -> Iterable[Key]:
        return [uid for uid, _ in state.assignments.items()]

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[Key]:
        kind, key = touched
        if kind == "assignment":
            return [key]
        return [uid for uid, one in state.assignments.items() if one.workload == key]


def slots_of(state: RegionState, assignment: Assignment) -> list[Slot]:
    """The slots of an assignment, by ordinal."""
    return [state.slots[(assignment.workload, ordinal)] for ordinal in state.ordinals.get(assignment.uid) or ()]


def wanted_ordinals(assignment: Assignment, now: Instant) -> dict[int, str]:
    """The template of each ordinal that should be there."""
    lapsed = assignment.right_until and assignment.right_until <= now
    if assignment.stage is not Stage.ACTIVE or lapsed:
        return {}
    first = RECOVERY_ORDINALS if assignment.purpose is Purpose.RECOVERY else 0
    total = sum(share.count for share in assignment.shares)
    ordinals = assignment.ordinals if assignment.exclusive else range(first, first + total)
    templates = [share.template for share in assignment.shares for _ in range(share.count)]
    return dict(zip(ordinals, templates, strict=False))


class Replicas(OfAssignments):
    """Slots are what their assignment asks for: opened, retargeted, withdrawn, stopped, forgotten."""

    name = "replica"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NOTHING
        wanted, slots = wanted_ordinals(assignment, now), slots_of(state, assignment)
        commands: list[Any] = []
        by_template: dict[str, list[int]] = {}
        known = {slot.ordinal: slot for slot in slots}
        for ordinal, template in wanted.items():
            slot = known.get(ordinal)
            if slot is None or (slot.next_template != template and slot.phase is not Phase.PENDING):
                by_template.setdefault(template, []).append(ordinal)
        surplus = [slot for slot in slots if slot.ordinal not in wanted]
        stuck = [s for s in slots if s.phase is Phase.PENDING and wanted.get(s.ordinal, s.template) != s.template]
        withdrawn = [slot.ordinal for slot in (*surplus, *stuck) if slot.next_template]
        if withdrawn:
            commands.append(c.WithdrawSlots(assignment.uid, tuple(withdrawn)))
        commands += [c.OpenSlots(assignment.uid, template, tuple(named)) for template, named in by_template.items()]
        stopped = [(s.workload, s.ordinal) for s in surplus if s.phase in STOPPABLE and not s.next_template]
        if stopped:
            cause = "deleted" if assignment.stage is Stage.ENDED else "scaled-down"
            commands.append(c.Stop(tuple(stopped), cause))
        if assignment.stage is Stage.ENDED and not slots:
            commands.append(c.ForgetAssignment(assignment.uid))
        again = assignment.right_until if assignment.right_until > now else None
        return Outcome(tuple(Wanted(command, assignment.revision) for command in commands), again)


class Rollout(OfAssignments):
    """One replica at a time runs what its ordinal is to become."""

    name = "rollout"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        slots = [] if assignment is None else slots_of(state, assignment)
        old = [s for s in slots if s.next_template not in ("", s.template)]
        stoppable = [s for s in old if s.phase in STOPPABLE]
        if not stoppable or len(stoppable) < len(old) or assignment is None:
            return NOTHING
        serving = sum(slot.phase is Phase.SERVING for slot in slots)
        first = min(stoppable, key=lambda slot: (slot.phase is Phase.SERVING, slot.ordinal))
        if first.phase is Phase.SERVING and serving < sum(share.count for share in assignment.shares):
            return NOTHING
        return Outcome((Wanted(c.Stop(((first.workload, first.ordinal),), "rollout"), assignment.revision),))


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
