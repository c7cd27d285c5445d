"""Propose: many placements in one command, and every hard gate.

    valid? -> for each group: assigned? policy? who pays? -> for each placement: slot, node, room, spread, payer, protected

A view may have said anything; what is judged here is the state. Placements are judged one by one, each on what those before
it took, or all or nothing. What is refused is told with its code, and with the revision to wait for when the sender's view
is behind.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import EMPTY_ROOM, Room, Slot
from holdfast.core.model.topology import Node
from holdfast.core.region.commands import Group, Placement, Propose
from holdfast.core.region.events import HoldEnded, SlotsPlaced, SlotsStopping
from holdfast.core.region.feasible import Misfit, admits, fits
from holdfast.core.region.rooms import with_slot
from holdfast.core.region.spreading import crowded
from holdfast.core.region.state import RegionState
from holdfast.core.region.succeeding import succeed
from holdfast.core.region.trial import Terms, Trial, terms_of
from holdfast.core.region.unmet import Unmet, answer, wrong_count

PENDING = Phase.PENDING


def propose(state: RegionState, command: Propose, case: Case) -> Accepted | Refused:
    """Place what can be placed, or all, or nothing."""
    refused = _refuse_command(state, command, case)
    if refused is not None:
        return refused
    trial = Trial(state, case)
    events: list[SlotsPlaced | SlotsStopping | HoldEnded] = []
    lost: list[Unmet] = []
    for number, group in enumerate(command.groups):
        terms = terms_of(trial, group)
        if isinstance(terms, Misfit):
            lost.extend(Unmet(number, i, terms.code, terms.detail) for i in range(len(group.placements)))
        else:
            events.extend(_place_group(trial, terms, number, group, lost, command))
    return answer(tuple(events), lost, case.envelope.view, all_or_nothing=command.all_or_nothing)


def _refuse_command(state: RegionState, command: Propose, case: Case) -> Refused | None:
    if case.at >= command.valid_until or command.valid_until > case.at + state.facts.settings.proposal_life:
        facts = {"at": case.at, "valid_until": command.valid_until}
        return Refused(Code.EXPIRED, "a proposal is valid until a time that is near and has not passed", facts)
    return wrong_count(sum(len(group.placements) for group in command.groups)) or wrong_count(len(command.groups))


def _place_group(
    trial: Trial, terms: Terms, number: int, group: Group, lost: list[Unmet], command: Propose
) -> list[SlotsPlaced | SlotsStopping | HoldEnded]:
    """The events of one group, its placements in their order, one event for each account that pays."""
    events: list[SlotsPlaced | SlotsStopping | HoldEnded] = []
    by_account: dict[str, list[Placement]] = {}
    for index, placement in enumerate(group.placements):
        judged = _place(trial, terms, placement)
        if isinstance(judged, str):
            by_account.setdefault(judged, []).append(placement)
            if placement.after or placement.hold:
                events.extend(trial.take_side_events())
        else:
            lost.append(_lost(trial, terms, number, index, placement, judged))
    settings, case, assignment = trial.state.facts.settings, trial.case, terms.assignment
    ends = 0 if command.bind else case.at + settings.reservation_life
    trial.close_group(terms)
    events.extend(
        SlotsPlaced(
            assignment.uid, assignment.workload, group.template, account, command.bind, terms.firm, ends,
            case.envelope.view, tuple(placements),
        )
        for account, placements in by_account.items()
    )  # fmt: skip
    return events


def _place(trial: Trial, terms: Terms, placement: Placement) -> str | Misfit:
    """The account that pays for the placement, taken in the trial; or the gate that is shut."""
    key = (terms.workload, placement.ordinal)
    slot = trial.slot_of(key)
    if slot is None:
        return Misfit(Code.NOT_FOUND, f"slot {key}")
    if slot.phase is not PENDING or slot.template != terms.digest or key in trial.taken:
        return Misfit(Code.WRONG_PHASE, f"slot {key} is {slot.phase}")
    if terms.ordinals is not None and placement.ordinal not in terms.ordinals:
        return Misfit(Code.NOT_ASSIGNED, f"this region has no right to {key}")
    node = trial.node_of(placement.node)
    if node is None:
        return Misfit(Code.NOT_FOUND, f"node {placement.node}")
    misfit = admits(node, terms.template, terms.tenant)
    if misfit is not None:
        return misfit
    if node.zone in trial.avoided:
        return Misfit(Code.NODE_UNAVAILABLE, f"zone {node.zone} is avoided by an override")
    if terms.scattered:
        misfit = crowded(trial, terms, node)
        if misfit is not None:
            return misfit
    if placement.after or placement.hold:
        return succeed(trial, terms, slot, node, placement)
    return _place_plainly(trial, terms, slot, node, placement)


def _place_plainly(trial: Trial, terms: Terms, slot: Slot, node: Node, placement: Placement) -> str | Misfit:
    uid = placement.node
    room: Room = trial.rooms.get(uid) or trial.room_of(uid) or EMPTY_ROOM
    template = terms.template
    misfit = fits(node, room, template, placement.devices, placement.ports, firm=terms.firm)
    if misfit is not None:
        return misfit
    if terms.firm and terms.spare <= 0:
        return Misfit(Code.PROTECTED, "what is left is kept for protected tenants")
    account = slot.account or terms.payer()
    if not account:
        return terms.cannot_pay()
    if not slot.account:
        terms.pay(account)
    if terms.firm:
        terms.spare -= 1
    terms.plain += 1
    if placement.devices or placement.ports or template.need.extended:
        standing = Slot(
            slot.workload, slot.ordinal, 0, "", "", PENDING, 0, 0, "", devices=placement.devices,
            ports=placement.ports, firm=terms.firm,
        )  # fmt: skip
        trial.rooms[uid] = with_slot(room, standing, template.need, template.gpu_milli, room.revision)
    else:
        trial.rooms[uid] = terms.added_to(room)
    trial.taken.add((slot.workload, slot.ordinal))
    if terms.scattered:
        trial.count_members(terms, node)
    return account


def _lost(trial: Trial, terms: Terms, group: int, index: int, placement: Placement, misfit: Misfit) -> Unmet:
    """Why it was not placed. If what it ran into changed after the sender's view, that is the reason: it is stale."""
    view = trial.case.envelope.view
    if view:
        slot = trial.slot_of((terms.workload, placement.ordinal))
        if slot is not None and slot.revision > view:
            return Unmet(group, index, Code.STALE, f"slot {terms.workload}/{placement.ordinal}", slot.revision)
        node, room = trial.node_of(placement.node), trial.room_of(placement.node)
        if node is not None and node.revision > view:
            return Unmet(group, index, Code.STALE, f"node {node.name}", node.revision)
        if misfit.code in (Code.CAPACITY, Code.DEVICE, Code.PORT) and room is not None and room.revision > view:
            return Unmet(group, index, Code.STALE, f"node/{placement.node}: {misfit.code}", room.revision)
    return Unmet(group, index, misfit.code, misfit.detail)
