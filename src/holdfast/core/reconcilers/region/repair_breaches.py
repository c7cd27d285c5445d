"""Repair of breaches: a repaired one is closed, and slots that may not stay are stopped.

    evicted by a taint                                           at once
    too much for the node; on a node that is reserved for        at the deadline, unless repaired before: an agent,
    others or does not isolate enough; against residency;        an assignment or an operator may do so gently
    without a right

Useless holds are dropped. These stops are forced: no disruption budget applies. On a node that is too small, slots are
stopped until the rest fits: reclaimable ones first, then by lowest priority, then the newest.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.reconciler import (
    NO_CHANGES,
    ProposedCommand,
    ReconcileKey,
    ReconcileResult,
    WatchKey,
    chunked,
)
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY, REGION_RIGHT, Breach
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, DeviceUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import bitset_of, each, minus, union
from holdfast.core.model.values.resources import amount_of, names_in
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.reconcilers.region.slot_groups import slot_groups
from holdfast.core.region.commands import CloseBreach, Stop
from holdfast.core.region.queries.accounts import paid_until
from holdfast.core.region.queries.breaches import (
    HOLD_TOO_LARGE,
    excluded,
    is_evicted,
    keeper_of,
    overshoot_now,
    why_displaced,
)
from holdfast.core.region.state.lookups import slots_on
from holdfast.core.region.state.tables import RegionState

#: Phases of slots that are ending already.
_LEAVING = (Phase.TERMINATING, Phase.SUCCEEDED)


def breaches_near(state: RegionState, touched: WatchKey) -> list[ReconcileKey]:
    """Return the breaches that a change of this object may concern, by lookup: all nodes may have one."""
    if state.breaches.is_empty():
        return []
    kind, key = touched
    if kind == "breach":
        invariant, _, rest = str(key).partition("/")
        return [(invariant, rest)]
    if kind == "node":
        return [*_of_node(state, key)]
    uids = [key] if kind == "assignment" else state.assignments_of.get(key) or ()  # type: ignore[arg-type]
    found = [(invariant, f"assignment/{uid}") for uid in uids for invariant in (REGION_RESIDENCY, REGION_RIGHT)]
    return [one for one in found if one in state.breaches]


def _of_node(state: RegionState, uid: ReconcileKey) -> list[tuple[str, str]]:
    """Return the breaches of a node, by its resources and slots; of a removed node, every breach that names it."""
    node = state.nodes.get(uid)  # type: ignore[arg-type]
    if node is None:
        return sorted(one for one, _ in state.breaches.unordered() if f"{one[1]}/".startswith(f"node/{uid}/"))
    room = state.node_usage.get(node.uid) or EMPTY_USAGE
    devices = [f"device/{index}" for index in range(max(len(node.devices), len(room.devices)))]
    parts = (*names_in(node.capacity, room.all, room.firm, room.held), *devices)
    found = [(REGION_ALLOWED, f"node/{uid}"), *((REGION_CAPACITY, f"node/{uid}/{part}") for part in parts)]
    return [one for one in found if one in state.breaches]


def reconcile_breach(state: RegionState, key: ReconcileKey, now: Instant, paused: Instant) -> ReconcileResult:
    """Return the commands for a breach. Nothing is stopped while repair is paused."""
    breach = state.breaches.get(key)  # type: ignore[arg-type]
    if breach is None:
        return NO_CHANGES
    if not overshoot_now(state, breach.invariant, breach.key):
        return ReconcileResult((ProposedCommand(CloseBreach(breach.invariant, breach.key)),))
    due: list[Slot] = []
    again: list[Instant] = []
    for slot, at in _excluded(state, breach):
        if now >= max(at, paused):
            due.append(slot)
        else:
            again.append(max(at, paused))
    stops = [Stop(chunk, "not-allowed") for chunk in chunked([(s.workload, s.ordinal) for s in due])]
    return ReconcileResult(tuple(ProposedCommand(stop) for stop in stops), min(again, default=None))


def useless_holds(state: RegionState, node: Node, now: Instant) -> list[tuple[Revision, Instant]]:
    """Return the holds on a node that have become useless, each with the time to drop it."""
    found: list[tuple[Revision, Instant]] = []
    holds = (state.node_usage.get(node.uid) or EMPTY_USAGE).holds
    kept_by = keeper_of(state, node) if holds else ""
    for uid in holds:
        held = state.holds[uid]
        why, until = why_displaced(state, held, now, kept_by), paid_until(state, held.account)
        if why or until is not None:
            found.append((uid, _too_small_until(state, node) if why == HOLD_TOO_LARGE else 0 if why else until or 0))
    return found


def _too_small_until(state: RegionState, node: Node) -> Instant:
    """Return until when a node that is too small may grow again."""
    found = [state.breaches[one] for one in _of_node(state, node.uid)]
    return min((one.deadline for one in found if one.invariant == REGION_CAPACITY), default=0)


def holding_nodes(state: RegionState, touched: WatchKey) -> list[ReconcileKey]:
    """Return the nodes with holds of an ended assignment. Other useless holds are found by a resync."""
    if touched[0] != "assignment":
        return []
    assignment = state.assignments.get(touched[1])  # type: ignore[arg-type]
    if assignment is not None and assignment.stage is not AssignmentStage.ENDED:
        return []
    held = state.holds_of.get(touched[1]) or ()  # type: ignore[arg-type]
    return [*dict.fromkeys(state.holds[uid].node for uid in held)]


def _excluded(state: RegionState, breach: Breach) -> Iterator[tuple[Slot, Instant]]:
    """Yield the slots that may not stay, each with the time to stop it."""
    kind, uid, *what = breach.key.split("/", 2)
    if kind == "assignment":
        assignment = state.assignments[int(uid)]
        kinds = slot_groups(state, assignment).items()
        running = union(ordinals for kind, ordinals in kinds if kind.phase in STOPPABLE)
        rights = bitset_of(assignment.ordinals) if breach.invariant == REGION_RIGHT else {}
        for ordinal in each(minus(running, rights)):
            yield state.slots[assignment.workload, ordinal], breach.deadline
        return
    node = state.nodes[int(uid)]
    if breach.invariant != REGION_ALLOWED:
        yield from ((slot, breach.deadline) for slot in _too_much(state, node, what[0]))
        return
    for slot in excluded(state, node):
        if slot.phase in STOPPABLE:
            yield slot, breach.opened if is_evicted(state, node, slot) else breach.deadline


def _too_much(state: RegionState, node: Node, what: str) -> list[Slot]:
    """Return the slots that must leave so that the rest fits, for a resource or `device/INDEX`."""
    everything, firm, most = _taken(state, node, what)
    standing = [(slot, _need(state, slot, what)) for slot in slots_on(state, node)]
    found: list[Slot] = []
    leaving = [(slot, need) for slot, need in standing if slot.phase in _LEAVING]
    staying = [(slot, need) for slot, need in standing if slot.phase in STOPPABLE and need]
    for slot, need in (*leaving, *sorted(staying, key=lambda one: _rank(state, one[0]))):
        if max(everything, firm) <= most:
            break
        everything -= need
        firm -= need if slot.firm else 0
        found += [slot] if slot.phase in STOPPABLE else []
    return found


def _taken(state: RegionState, node: Node, what: str) -> tuple[int, int, int]:
    """Return the amount used by all work, by firm work, and the node's capacity. Holds are not included: they are
    dropped first."""
    room = state.node_usage.get(node.uid) or EMPTY_USAGE
    number = _device(what)
    if number is None:
        return amount_of(room.all, what), amount_of(room.firm, what), amount_of(node.capacity, what)
    taken = room.devices[number] if number < len(room.devices) else DeviceUsage()
    return taken.all, taken.firm, node.devices[number].milli if number < len(node.devices) else 0


def _need(state: RegionState, slot: Slot, what: str) -> int:
    template, number = state.templates[slot.template], _device(what)
    if number is not None:
        return template.gpu_milli if number in slot.devices else 0
    return amount_of(template.need, what)


def _device(what: str) -> int | None:
    kind, _, index = what.partition("/")
    return int(index) if kind == "device" and index.isdecimal() else None


def _rank(state: RegionState, slot: Slot) -> tuple[bool, int, int, Revision, int]:
    """Return the sort key of slots to stop."""
    cls = state.priority_classes.get(state.assignments[slot.assignment].priority_class)
    return slot.firm, cls.spec.priority if cls is not None else 0, -slot.epoch, slot.workload, -slot.ordinal
