"""Placements after victims that must end first, or out of a hold that they use up.

Victims stop and the successor is bound in one commit. It inherits exactly the capacity that they free, on that node and
those devices (RULES 15). A victim has at most one successor, and gets a receipt. Which slots may be victims is decided
in `region.queries.preemptions`.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import DeviceUsage, NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.resources import ZERO, Resources, clamp_zero, elementwise_max, subtract, total
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.decide.proposal_scratch import ProposalScratch
from holdfast.core.region.decide.proposal_terms import GroupTerms
from holdfast.core.region.events import HoldEnded, SlotsStopping, SlotStop
from holdfast.core.region.queries.feasibility import Infeasible, fits
from holdfast.core.region.queries.preemptions import is_reclaimed, preemptor_of, receipt_for, refuse_victim
from holdfast.core.region.state.node_usage import remaining_victims, with_slot, without_hold


def place_after(
    trial: ProposalScratch, terms: GroupTerms, slot: Slot, node: Node, placement: SlotPlacement
) -> str | Infeasible:
    """Return the charged account, with victims and hold taken in the scratch; or the gate that refuses."""
    victims = _victims(trial, terms, placement)
    if isinstance(victims, Infeasible):
        return victims
    hold = _hold(trial, terms, placement)
    if isinstance(hold, Infeasible):
        return hold
    usage = trial.room(node.uid)
    if hold is not None:
        usage = without_hold(usage, hold, usage.revision)
    misfit = fits(
        node, _less(trial, usage, victims), terms.template, placement.devices, placement.ports, firm=terms.firm
    )
    if misfit is not None:
        return misfit
    extra = _extra(trial, terms, victims, hold)
    if terms.firm and terms.plain:
        terms.stood(trial, ZERO)
    if terms.firm and terms.leaves(trial, clamp_zero(extra)) < 1:
        return Infeasible(Code.PROTECTED, "the remaining capacity is protected for other tenants")
    if hold is not None:
        terms.refund(trial, hold.account, hold.need)
    account = slot.account or terms.pay(trial)
    if not account:
        if hold is not None:
            terms.refund(trial, hold.account, subtract(ZERO, hold.need))
        return terms.cannot_pay(trial)
    _take(trial, terms, slot, node, placement, victims, hold, usage, extra)
    return account


def _victims(trial: ProposalScratch, terms: GroupTerms, placement: SlotPlacement) -> list[Slot] | Infeasible:
    found = []
    if len({*placement.waits_for}) != len(placement.waits_for):
        return Infeasible(Code.MALFORMED, "a victim is named twice")
    serving_lost, stopped = dict(trial.succession.serving_lost), trial.succession.preempted
    preemptor = preemptor_of(trial.state, terms.assignment)
    for key in placement.waits_for:
        victim = trial.slot_of(key)
        if victim is None or victim.node != placement.node:
            return Infeasible(Code.NOT_FOUND, f"slot {key} is not on that node")
        if victim.successor is not None or key in trial.succession.victims:
            return Infeasible(Code.IN_USE, f"another slot already waits for {key}")
        if victim.phase is not Phase.TERMINATING:
            lost = serving_lost.get(victim.assignment, 0)
            misfit = refuse_victim(trial.state, trial.case.at, preemptor, victim, stopped, lost)
            if misfit is not None:
                return misfit
            stopped += not is_reclaimed(preemptor, victim)
            if victim.phase is Phase.SERVING:
                serving_lost[victim.assignment] = serving_lost.get(victim.assignment, 0) + 1
        elif remaining_victims(trial.state, victim):
            return Infeasible(Code.IN_USE, f"slot {key} itself waits for victims")
        found.append(victim)
    return found


def _hold(trial: ProposalScratch, terms: GroupTerms, placement: SlotPlacement) -> Reservation | Infeasible | None:
    if not placement.hold:
        return None
    hold = trial.state.holds.get(placement.hold)
    if hold is None or placement.hold in trial.succession.holds or hold.node != placement.node:
        return Infeasible(Code.NOT_FOUND, f"hold {placement.hold} on that node")
    mine = hold.assignment == terms.assignment.uid if hold.assignment else hold.tenant == terms.tenant
    if not mine:
        return Infeasible(Code.NOT_OWNER, f"hold {placement.hold} is not held for this workload")
    if hold.ends <= trial.case.at:
        return Infeasible(Code.EXPIRED, f"hold {placement.hold} has ended")
    return hold


def _needs(trial: ProposalScratch, victims: list[Slot], *, firm: bool) -> Resources:
    templates = trial.state.templates
    return total(templates[victim.template].need for victim in victims if victim.firm or not firm)


def _less(trial: ProposalScratch, usage: NodeUsage, victims: list[Slot]) -> NodeUsage:
    """Return the usage without the victims: the successor must fit beside it."""
    if not victims:
        return usage
    devices = list(usage.devices)
    ports = list(usage.ports)
    for victim in victims:
        milli = trial.state.templates[victim.template].gpu_milli
        for index in victim.devices:
            d = devices[index]
            devices[index] = DeviceUsage(d.firm - (milli if victim.firm else 0), d.all - milli, d.held)
        for port in victim.ports:
            ports.remove(port)
    firm = subtract(usage.firm, _needs(trial, victims, firm=True))
    everything = subtract(usage.all, _needs(trial, victims, firm=False))
    return replace(usage, firm=firm, all=everything, devices=tuple(devices), ports=tuple(ports))


def _extra(trial: ProposalScratch, terms: GroupTerms, victims: list[Slot], hold: Reservation | None) -> Resources:
    """Return the region capacity that the placement takes beyond its victims and its hold.

    Negative if the hold reserved more than the slot needs.
    """
    before = _needs(trial, victims, firm=True)
    after = elementwise_max(before, terms.template.need)
    held = hold.need if hold is not None else ZERO
    return subtract(subtract(after, before), held)


def _take(
    trial: ProposalScratch,
    terms: GroupTerms,
    slot: Slot,
    node: Node,
    placement: SlotPlacement,
    victims: list[Slot],
    hold: Reservation | None,
    usage: NodeUsage,
    extra: Resources,
) -> None:
    key = (slot.workload, slot.ordinal)
    trial.taken.add(key)
    if terms.firm:
        terms.stood(trial, extra)
    if hold is not None:
        trial.succession.holds.add(hold.uid)
        trial.succession.events.append(HoldEnded(hold.uid, hold.node, hold.assignment, "used"))
    stops: dict[str, list[SlotStop]] = {}
    preemptor = preemptor_of(trial.state, terms.assignment)
    for victim in victims:
        trial.succession.victims.add((victim.workload, victim.ordinal))
        if victim.phase is Phase.SERVING:
            lost = trial.succession.serving_lost.get(victim.assignment, 0)
            trial.succession.serving_lost[victim.assignment] = lost + 1
        if victim.phase is not Phase.TERMINATING:
            reclaimed = is_reclaimed(preemptor, victim)
            cause = "reclaimed" if reclaimed else "preempted"
            trial.succession.preempted += not reclaimed
            receipt = receipt_for(trial.state, trial.case.at, preemptor, key, terms.assignment, victim)
            again = SlotStop((victim.workload, victim.ordinal), victim.node, victim.next_template, receipt)
            stops.setdefault(cause, []).append(again)
    trial.succession.events.extend(SlotsStopping(cause, tuple(stopped)) for cause, stopped in sorted(stops.items()))
    standing = replace(slot, devices=placement.devices, ports=placement.ports, firm=terms.firm)
    joined = with_slot(
        _less(trial, usage, victims), standing, terms.template.need, terms.template.gpu_milli, usage.revision
    )
    trial.rooms[node.uid] = _at_least(joined, usage)
    if terms.scattered:
        trial.count_members(terms, node)


def _at_least(joined: NodeUsage, before: NodeUsage) -> NodeUsage:
    """Combine by the larger amount: until the victims end, only the capacity that they free may be used."""
    devices = []
    for index in range(max(len(joined.devices), len(before.devices))):
        a = joined.devices[index] if index < len(joined.devices) else DeviceUsage()
        b = before.devices[index] if index < len(before.devices) else DeviceUsage()
        devices.append(DeviceUsage(max(a.firm, b.firm), max(a.all, b.all), a.held))
    return replace(
        joined,
        firm=elementwise_max(joined.firm, before.firm),
        all=elementwise_max(joined.all, before.all),
        devices=tuple(devices),
        ports=tuple(sorted((*joined.ports, *(port for port in before.ports if port not in joined.ports)))),
    )
