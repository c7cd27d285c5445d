"""Breaches: invariants that a fact broke, with owner and deadline; they may never grow (RULES 18).

A node that shrinks or isolates less, a taint that evicts, a new jurisdiction: these are facts, and cannot be refused.
The commit that records the fact opens the breach. Gates add nothing to it. Its owner closes it once it is cured.
"""

from __future__ import annotations

from holdfast.core.model.objects.isolation import missing_capabilities, takes_one_tenant
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.objects.workloads import Template, tolerates
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY, REGION_RIGHT
from holdfast.core.model.records.lifecycle import ON_NODE, PHASES
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage, slot_keys
from holdfast.core.model.records.nodes import Node, NodeHealth, is_kept_from
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.ranges import numbers, without
from holdfast.core.model.values.resources import DEVICE, add, amount_of, first_exceeded, names_in
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.accounts import paid_until
from holdfast.core.region.state.lookups import phase_count
from holdfast.core.region.state.node_tenants import keeping_tenant, tenant_of
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState

#: Why a hold on a node that has become too small is released.
HOLD_TOO_LARGE = "no-room"

Overshoots = dict[tuple[str, str], int]


def capacity_overshoots(node: Node, usage: NodeUsage) -> Overshoots:
    """Return by how much a node's usage exceeds its capacity, per resource and device."""
    found: Overshoots = {}
    for name in names_in(usage.all, usage.firm, usage.held):
        firm = amount_of(usage.firm, name) + amount_of(usage.held, name)
        over = max(amount_of(usage.all, name), firm) - amount_of(node.capacity, name)
        if over > 0:
            found[REGION_CAPACITY, f"node/{node.uid}/{name}"] = over
    for index, taken in enumerate(usage.devices):
        milli = node.devices[index].milli if index < len(node.devices) else 0
        over = max(taken.all, taken.firm + taken.held) - milli
        if over > 0:
            found[REGION_CAPACITY, f"node/{node.uid}/{DEVICE}{index}"] = over
    return found


def allowed_overshoots(state: RegionState, node: Node) -> Overshoots:
    """Return the number of slots on a node where they are not allowed."""
    count = len(excluded(state, node))
    return {(REGION_ALLOWED, f"node/{node.uid}"): count} if count else {}


def excluded(state: RegionState, node: Node) -> list[Slot]:
    """Return slots that may not stay on a node.

    A taint evicts them, the node is reserved for others or isolates them too little, or another tenant keeps it.
    """
    slots, staying = _standing(state, node)
    if takes_one_tenant(node):
        kept_by = keeping_tenant(state, node, staying)
        staying = [slot for slot in staying if tenant_of(state, slot) == kept_by]
    if len(staying) == len(slots):
        return []
    keys = {(slot.workload, slot.ordinal) for slot in staying}
    return [slot for slot in slots if (slot.workload, slot.ordinal) not in keys]


def keeper_of(state: RegionState, node: Node) -> str:
    """Return the tenant that keeps a node that takes one tenant at a time; empty: none."""
    return keeping_tenant(state, node, _standing(state, node)[1])


def _standing(state: RegionState, node: Node) -> tuple[list[Slot], list[Slot]]:
    """Return the slots on a node, and those that may stay, decided once per assignment and template."""
    slots = [state.slots[key] for key in slot_keys(state.node_usage.get(node.uid) or EMPTY_USAGE)]
    alike = {(slot.assignment, slot.template): slot for slot in slots}
    staying = {key for key, slot in alike.items() if _may_stay(state, node, slot)}
    return slots, [slot for slot in slots if (slot.assignment, slot.template) in staying]


def _may_stay(state: RegionState, node: Node, slot: Slot) -> bool:
    """Return whether the slot may stay on the node, other tenants there aside."""
    is_foreign = is_kept_from(node, tenant_of(state, slot))
    return not (is_evicted(state, node, slot) or is_foreign or _is_exposed(state, node, slot))


def is_evicted(state: RegionState, node: Node, slot: Slot) -> bool:
    """Return whether a taint of the node evicts the slot, and its template does not tolerate it."""
    template = state.templates[slot.template]
    return any(taint.effect is TaintEffect.EVICT and not tolerates(template, taint) for taint in node.taints)


def _is_exposed(state: RegionState, node: Node, slot: Slot) -> bool:
    """Return whether it requires isolation that the node's agent no longer enforces."""
    return bool(missing_capabilities(state.templates[slot.template].isolation, node.capabilities))


def node_overshoots(state: RegionState, node: Node) -> Overshoots:
    usage = state.node_usage.get(node.uid) or EMPTY_USAGE
    return {**capacity_overshoots(node, usage), **allowed_overshoots(state, node)}


def assignment_overshoots(state: RegionState, assignment: Assignment, jurisdiction: str) -> Overshoots:
    """Return the number of an assignment's slots that are here against its residency, or without a right."""
    found: Overshoots = {}
    here = sum(phase_count(state, assignment.uid, phase) for phase in PHASES if phase in ON_NODE)
    if assignment.jurisdictions and jurisdiction not in assignment.jurisdictions and here:
        found[REGION_RESIDENCY, f"assignment/{assignment.uid}"] = here
    if assignment.exclusive and here:
        bare = numbers(without(ordinals_of(state, assignment.uid), assignment.ordinals))
        count = sum(state.slots[assignment.workload, ordinal].phase in ON_NODE for ordinal in bare)
        if count:
            found[REGION_RIGHT, f"assignment/{assignment.uid}"] = count
    return found


def overshoot_now(state: RegionState, invariant: str, key: str) -> int:
    """Return the present overshoot of one breach."""
    return overshoots_of(state, key).get((invariant, key), 0)


def breach_object(key: str) -> str:
    """Return the object of a breach: `node/UID` or `assignment/UID`, without its part."""
    kind, uid, *_ = key.split("/", 2)
    return f"{kind}/{uid}"


def overshoots_of(state: RegionState, key: str) -> Overshoots:
    """Return all present overshoots of a breach's object; empty if the object is deleted."""
    kind, _, uid = breach_object(key).partition("/")
    if kind == "node":
        node = state.nodes.get(int(uid))
        return {} if node is None else node_overshoots(state, node)
    assignment = state.assignments.get(int(uid))
    return {} if assignment is None else assignment_overshoots(state, assignment, state.region.jurisdiction)


def why_displaced(state: RegionState, held: Reservation, at: Instant, kept_by: str | None = None) -> str:
    """Return why a hold serves no purpose, so that repair releases it; empty: it does.

    Its node is lost, evicts the held work, is reserved for or kept by other tenants, isolates too little, or is too
    small for its holds. Or its assignment no longer has its template, or its emergency grant has ended. `kept_by` is
    the tenant that keeps the node, if known.
    """
    node, assignment = state.nodes[held.node], state.assignments.get(held.assignment)
    if node.health is NodeHealth.LOST:
        return "node-lost"
    until = paid_until(state, held.account)
    if until is not None and until <= at:
        return "grant-ended"
    shares = assignment.shares if assignment is not None and assignment.stage is not AssignmentStage.ENDED else ()
    if held.assignment and held.template not in {share.template for share in shares}:
        return "not-assigned"
    template = state.templates[held.template] if held.template else Template()
    evicts = any(taint.effect is TaintEffect.EVICT and not tolerates(template, taint) for taint in node.taints)
    if evicts or is_kept_from(node, held.tenant) or missing_capabilities(template.isolation, node.capabilities):
        return "not-allowed"
    if takes_one_tenant(node) and (keeper_of(state, node) if kept_by is None else kept_by) != held.tenant:
        return "not-allowed"
    usage = state.node_usage.get(node.uid) or EMPTY_USAGE
    over = bool(first_exceeded(add(usage.firm, usage.held), node.capacity)) or any(
        taken.firm + taken.held > (node.devices[index].milli if index < len(node.devices) else 0)
        for index, taken in enumerate(usage.devices)
    )
    return HOLD_TOO_LARGE if over else ""
