"""Repair: slots on a node whose agent is lost are released, once they cannot run there any more.

    unknown ──fenced──▶ failed ──fenced──▶ released: the ordinal waits to be placed again, or is removed
                                 succeeded, terminating ──fenced──▶ released

It waits for the fence (see `core.region.queries.fence`): by then every guard has ended exclusive work (RULES 4). If
many nodes are lost, slots to be replaced wait for their node's turn (see `node_health`). Only an agent that returned in
time can report what it kept; a late one gets one lease to report, since runs need not end. Breaches are repaired, too
(see `repair_breaches`). An override can pause all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger import reconciler
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.state.ledger_state import Session
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerNode
from holdfast.core.reconcilers.region.node_health import counts_as_gone_at, skips_the_brake
from holdfast.core.reconcilers.region.repair_breaches import (
    breaches_near,
    holding_nodes,
    reconcile_breach,
    useless_holds,
)
from holdfast.core.region.commands import DropHold, Move, MoveSlot
from holdfast.core.region.queries.fence import fenced_at
from holdfast.core.region.state.lookups import slots_on
from holdfast.core.region.state.tables import RegionState

_FENCED = {
    Phase.UNKNOWN: Phase.FAILED,
    Phase.FAILED: Phase.RELEASED,
    Phase.SUCCEEDED: Phase.RELEASED,
    Phase.TERMINATING: Phase.RELEASED,
}
#: Phases in which a slot was to end anyway: releasing it disrupts nothing.
_OVER = (Phase.SUCCEEDED, Phase.TERMINATING)


class RepairReconciler(PerNode):
    """The repair controller, keyed by node uid and by breach. All keys are reconciled when an override has ended."""

    name = "repair"
    watches: tuple[str, ...] = ("node", "override", "platform-override", "assignment", "workload", "breach")

    def keys(self, state: RegionState) -> Iterable[reconciler.ReconcileKey]:
        return [*super().keys(state), *state.breaches.keys()]

    def wake(self, state: RegionState, touched: reconciler.WatchKey) -> Iterable[reconciler.ReconcileKey]:
        kind, key = touched
        if kind in ("override", "platform-override"):
            # An override that opens only removes authority; one that ends may return it.
            overrides = state.overrides if kind == "override" else state.platform_overrides
            return () if overrides.get(key) is not None else reconciler.EVERYTHING  # type: ignore[arg-type]
        nodes = [key] if kind == "node" else holding_nodes(state, touched)
        return [*nodes, *breaches_near(state, touched)]

    def reconcile(self, state: RegionState, key: reconciler.ReconcileKey, now: Instant) -> reconciler.ReconcileResult:
        pause = active_overrides(state, now).repair
        paused = pause.ends if pause is not None else 0
        if isinstance(key, tuple):
            return reconcile_breach(state, key, now, paused)
        node = state.nodes.get(key)  # type: ignore[arg-type]
        if node is None:
            return reconciler.NO_CHANGES
        gone = _fenced_at(state, node) if node.session_ended else []
        held = useless_holds(state, node, now)
        moves = [_fence(slot) for slot, at in gone if now >= max(at, paused)]
        commands: list[Any] = [*(Move(chunk) for chunk in reconciler.chunked(moves))]
        commands += [DropHold(uid) for uid, at in held if now >= max(at, paused)]
        again = [max(at, paused) for _, at in (*gone, *held) if now < max(at, paused)]
        return reconciler.ReconcileResult(
            tuple(reconciler.ProposedCommand(one, node.revision) for one in commands), min(again, default=None)
        )


def _fence(slot: Slot) -> MoveSlot:
    return MoveSlot((slot.workload, slot.ordinal), slot.epoch, _FENCED[slot.phase], "fenced")


def _fenced_at(state: RegionState, node: Node) -> list[tuple[Slot, Instant]]:
    """Return the slots on a node that will be released, each with the time."""
    slots = [slot for slot in slots_on(state, node) if slot.phase in _FENCED]
    if not slots:
        return []
    session = state.sessions.get(state.session_of.get(f"agent/{node.name}") or 0)
    if session is not None:
        said = session.opened + state.info.settings.session_lease
        fenced = [(slot, node.session_ended) for slot in slots if _is_fenced(slot)]
        return fenced + [
            (slot, said) for slot in slots if not (_is_fenced(slot) or _may_be_kept(state, node, session, slot))
        ]
    turn = counts_as_gone_at(state, node)
    return [(s, fenced_at(state, node, turn if _waits(state, s) else 0)) for s in slots]


def _is_fenced(slot: Slot) -> bool:
    return slot.phase is Phase.FAILED and slot.cause == "fenced"


def _may_be_kept(state: RegionState, node: Node, session: Session, slot: Slot) -> bool:
    """Check whether the agent returned in time, or has reported the slot since: then its report decides."""
    return session.opened < fenced_at(state, node) or slot.reported > session.uid


def _waits(state: RegionState, slot: Slot) -> bool:
    """Check whether the slot waits for its node's turn."""
    return not (_is_fenced(slot) or slot.phase in _OVER or skips_the_brake(state, slot))
