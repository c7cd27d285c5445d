"""Effects of events: the only code that changes a region's state.

It reads the event, its stamp and the rows that the event names; it never decides.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.builtin import overrides, registry
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.records.nodes import NodeReport
from holdfast.core.region import events as e
from holdfast.core.region.state import evolve_slots
from holdfast.core.region.state.evolve_placements import drop_hold, put_hold, slots_placed
from holdfast.core.region.state.evolve_shipments import APPLY_SHIPPED, assignment_forgotten
from holdfast.core.region.state.indexes import index_silent
from holdfast.core.region.state.node_usage import count_node
from holdfast.core.region.state.tables import RegionState


def node_stored(state: RegionState, event: e.NodeStored, stamp: Stamp) -> None:
    node = event.node
    before = state.nodes.get(node.uid)
    state.nodes.put(node.uid, node)
    state.node_names.put(node.name, node.uid)
    count_node(state, node, before)
    index_silent(state, node, before)


def node_reported(state: RegionState, event: e.NodeReported, stamp: Stamp) -> None:
    state.node_reports.put(event.node, NodeReport(event.cpu, event.memory, event.present, stamp.at))


def node_removed(state: RegionState, event: e.NodeRemoved, stamp: Stamp) -> None:
    node = state.nodes[event.node]
    count_node(state, None, node)
    index_silent(state, None, node)
    state.nodes.drop(node.uid)
    state.node_usage.drop(node.uid)
    state.node_reports.drop(node.uid)
    state.node_names.drop(node.name)


def hold_stored(state: RegionState, event: e.HoldStored, stamp: Stamp) -> None:
    put_hold(state, event.hold, stamp.revision)


def hold_ended(state: RegionState, event: e.HoldEnded, stamp: Stamp) -> None:
    drop_hold(state, state.holds[event.hold], stamp.revision)


def breach_opened(state: RegionState, event: e.BreachOpened, stamp: Stamp) -> None:
    state.breaches.put((event.breach.invariant, event.breach.key), event.breach)


def breach_closed(state: RegionState, event: e.RegionBreachClosed, stamp: Stamp) -> None:
    state.breaches.drop((event.invariant, event.key))


APPLY: dict[type, Any] = {
    **registry.APPLY,
    **overrides.APPLY,
    **APPLY_SHIPPED,
    e.NodeStored: node_stored,
    e.NodeReported: node_reported,
    e.NodeRemoved: node_removed,
    e.SlotsOpened: evolve_slots.slots_opened,
    e.SlotsRetargeted: evolve_slots.slots_retargeted,
    e.SlotsPlaced: slots_placed,
    e.SlotsBound: evolve_slots.slots_bound,
    e.SlotsMoved: evolve_slots.slots_moved,
    e.SlotsStopping: evolve_slots.slots_stopping,
    e.SlotsReleased: evolve_slots.slots_released,
    e.OrdinalsFinished: evolve_slots.ordinals_finished,
    e.SlotsAdopted: evolve_slots.slots_adopted,
    e.AssignmentForgotten: assignment_forgotten,
    e.PendingReported: evolve_slots.pending_reported,
    e.HoldStored: hold_stored,
    e.HoldEnded: hold_ended,
    e.BreachOpened: breach_opened,
    e.RegionBreachClosed: breach_closed,
}
