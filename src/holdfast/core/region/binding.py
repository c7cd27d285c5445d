"""A reservation's next step: bound, refused by a later step, or expired by ledger time."""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.overrides import InForce, in_force
from holdfast.core.ledger.registry import Case
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.core.model.runs import has
from holdfast.core.model.shapes import Instant, Revision, SlotKey
from holdfast.core.region.commands import Bind, Expire, Unreserve
from holdfast.core.region.events import HoldEnded, Released, SlotsBound, SlotsReleased, Standing
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.fence import unfenced
from holdfast.core.region.gates import refuse_group, refuse_node
from holdfast.core.region.occupancy import tenants_on
from holdfast.core.region.releasing import released
from holdfast.core.region.state import RegionState
from holdfast.core.region.unmet import Unmet, answer, wrong_count


def bind(state: RegionState, command: Bind, case: Case) -> Accepted | Refused:
    """Bind what is reserved, if what it was reserved for still holds."""
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    overrides = in_force(state, case.at)
    tenants: dict[Revision, tuple[str, ...]] = {}
    bound: dict[SlotKey, Standing] = {}
    lost: list[Unmet] = []
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in bound)
        if isinstance(found, Slot):
            found = _refuse_binding(state, overrides, found, tenants, case) or found
        if isinstance(found, Slot):
            bound[key] = Standing(key, found.node)
        else:
            lost.append(_lost(index, key, found))
    return answer((SlotsBound(tuple(bound.values())),) if bound else (), lost, case.envelope.view)


def _reserved(state: RegionState, key: SlotKey, repeated: bool) -> Slot | Misfit:
    slot = state.slots.get(key)
    if slot is None:
        return Misfit(Code.NOT_FOUND, "no such slot")
    if slot.phase is not Phase.RESERVED or repeated:
        return Misfit(Code.WRONG_PHASE, f"is {slot.phase}, not reserved")
    return slot


def _lost(index: int, key: SlotKey, misfit: Misfit) -> Unmet:
    return Unmet(0, index, misfit.code, f"slot {key}: {misfit.detail}")


def _refuse_binding(
    state: RegionState, overrides: InForce, slot: Slot, tenants: dict[Revision, tuple[str, ...]], case: Case
) -> Misfit | None:
    """`tenants` is whose work is on each node that was asked about: binding changes nothing of it."""
    if slot.ends <= case.at:
        return Misfit(Code.EXPIRED, f"its reservation ended at {slot.ends}")
    node, assignment = state.nodes[slot.node], state.assignments[slot.assignment]
    if slot.node not in tenants:
        tenants[slot.node] = tenants_on(state, node)
    there = tenants[slot.node]
    misfit = refuse_node(overrides, node, state.templates[slot.template], assignment.tenant, there)
    if misfit is None and assignment.exclusive:
        misfit = unfenced(node, state.facts.settings)
    misfit = misfit or refuse_group(state, overrides, assignment, slot.template, case)
    if misfit is None and assignment.exclusive and not has(assignment.ordinals, slot.ordinal):
        return Misfit(Code.NOT_ASSIGNED, "this region has no right to it any more")
    return misfit


def unreserve(state: RegionState, command: Unreserve, case: Case) -> Accepted | Refused:
    """Reserved slots wait again; they keep their charge."""
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    releases: list[Released] = []
    lost: list[Unmet] = []
    seen: set[SlotKey] = set()
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in seen)
        if isinstance(found, Slot):
            seen.add(key)
            releases.append(released(state, found, "refused"))
        else:
            lost.append(_lost(index, key, found))
    return answer((SlotsReleased(tuple(releases)),) if releases else (), lost, case.envelope.view)


def expire(state: RegionState, command: Expire, case: Case) -> Accepted | Refused:
    """End what has ended by ledger time, and nothing before."""
    refused = wrong_count(len(command.slots) + len(command.holds))
    if refused is not None:
        return refused
    releases: dict[SlotKey, Released] = {}
    lost: list[Unmet] = []
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in releases)
        if isinstance(found, Slot):
            found = _refuse_early(found.ends, case.at) or found
        if isinstance(found, Slot):
            releases[key] = released(state, found, "expired")
        else:
            lost.append(_lost(index, key, found))
    holds: dict[int, HoldEnded] = {}
    for index, uid in enumerate(command.holds):
        hold = state.holds.get(uid)
        misfit = _refuse_early(hold.ends if hold else 0, case.at)
        if misfit is not None or hold is None or uid in holds:
            code, detail = misfit or (Code.NOT_FOUND, "no such hold")
            lost.append(Unmet(1, index, code, f"hold {uid}: {detail}"))
        else:
            holds[uid] = HoldEnded(uid, hold.node, hold.assignment, "expired")
    slots_event = (SlotsReleased(tuple(releases.values())),) if releases else ()
    return answer((*slots_event, *holds.values()), lost, case.envelope.view)


def _refuse_early(ends: Instant, at: Instant) -> Misfit | None:
    return Misfit(Code.TOO_EARLY, f"ends at {ends}, now is {at}") if ends > at else None
