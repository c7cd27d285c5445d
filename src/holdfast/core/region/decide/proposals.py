"""Propose: many placements in one command, and every hard gate.

    valid? -> for each group: assigned? policy? account? -> for each placement: slot, node, capacity, spread, account,
    protected capacity

Gates check the state, whatever the sender's view was. Placements are decided one by one, each after those before it, or
all or nothing. Those of a gang are decided together: if the gang would then have fewer members than it needs, all of
them are refused. A refusal has a code and, if the sender's view is stale, the revision to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import RefusedPart, partial_answer, wrong_count
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.records.lifecycle import PENDING
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import contains
from holdfast.core.region.commands import PlacementGroup, Propose, SlotPlacement
from holdfast.core.region.decide.preemption import place_after
from holdfast.core.region.decide.proposal_scratch import ProposalScratch
from holdfast.core.region.decide.proposal_terms import GroupTerms, group_terms
from holdfast.core.region.events import HoldEnded, SlotsPlaced, SlotsStopping
from holdfast.core.region.queries.domains import check_domains
from holdfast.core.region.queries.feasibility import Infeasible, fits
from holdfast.core.region.queries.fence import why_unfenced
from holdfast.core.region.queries.gates import refuse_node
from holdfast.core.region.state.gangs import failed_gangs, members_in
from holdfast.core.region.state.node_tenants import NO_TENANTS
from holdfast.core.region.state.node_usage import with_slot
from holdfast.core.region.state.tables import RegionState

#: Codes that another placement on the node can cause.
_OF_ROOMS = (Code.CAPACITY, Code.DEVICE, Code.PORT, Code.ONE_TENANT)


def propose(state: RegionState, command: Propose, ctx: CommandContext) -> Accepted | Refused:
    """Place all placements that pass their gates; or all or none."""
    refused = refuse_proposal(state, command, ctx)
    if refused is not None:
        return refused
    trial = ProposalScratch(state, ctx)
    events: list[SlotsPlaced | SlotsStopping | HoldEnded] = []
    lost: list[RefusedPart] = []
    for number, group in enumerate(command.groups):
        terms = group_terms(trial, group)
        if isinstance(terms, Infeasible):
            lost.extend(RefusedPart(number, i, terms.code, terms.detail) for i in range(len(group.placements)))
        else:
            events.extend(_place_group(trial, terms, number, group, lost, command))
    if not lost:
        return Accepted(tuple(events))
    return partial_answer(tuple(events), lost, ctx.envelope.view, all_or_nothing=command.all_or_nothing)


def refuse_proposal(state: RegionState, command: Propose, ctx: CommandContext) -> Refused | None:
    """Refuse a proposal that is not valid now, or is too large."""
    if ctx.at >= command.valid_until or command.valid_until > ctx.at + state.info.settings.proposal_life:
        facts = {"at": ctx.at, "valid_until": command.valid_until}
        return Refused(Code.EXPIRED, "valid_until has passed, or is later than proposal_life allows", facts)
    count = 0
    for group in command.groups:
        count += len(group.placements)
    return wrong_count(count) or wrong_count(len(command.groups))


def _place_group(
    trial: ProposalScratch,
    terms: GroupTerms,
    number: int,
    group: PlacementGroup,
    lost: list[RefusedPart],
    command: Propose,
) -> list[SlotsPlaced | SlotsStopping | HoldEnded]:
    """Return the events of one group, its placements in their order, one event for each charged account."""
    events: list[SlotsPlaced | SlotsStopping | HoldEnded] = []
    by_account: dict[str, list[SlotPlacement]] = {}
    judge = _one_by_one if terms.assignment.gang is None else _gang_by_gang
    for placement, account in judge(trial, terms, number, group, lost):
        by_account.setdefault(account, []).append(placement)
        if placement.waits_for or placement.hold:
            events.extend(trial.succession.take_events())
    if number + 1 < len(command.groups):
        trial.close_group(terms, {account: len(placed) for account, placed in by_account.items()})
    for account, placements in by_account.items():
        events.append(placed_event(terms, group, account, tuple(placements), command, trial.case))
    return events


def _one_by_one(
    trial: ProposalScratch, terms: GroupTerms, number: int, group: PlacementGroup, lost: list[RefusedPart]
) -> Iterator[tuple[SlotPlacement, str]]:
    """Yield each placement that is accepted, with the charged account."""
    for index, placement in enumerate(group.placements):
        judged = check_placement(trial, terms, placement)
        if isinstance(judged, str):
            yield placement, judged
        else:
            lost.append(_lost(trial, terms, number, index, placement, judged))


def _gang_by_gang(
    trial: ProposalScratch, terms: GroupTerms, number: int, group: PlacementGroup, lost: list[RefusedPart]
) -> Iterator[tuple[SlotPlacement, str]]:
    """Yield the accepted placements of each gang that then has enough members; of any other gang, refuse all."""
    gang = terms.assignment.gang
    assert gang is not None
    by_gang: dict[int, list[tuple[int, SlotPlacement]]] = {}
    for index, placement in enumerate(group.placements):
        by_gang.setdefault(placement.ordinal // gang.size, []).append((index, placement))
    for which, members in by_gang.items():
        before, placed, refused = trial.save(terms), dict[int, tuple[SlotPlacement, str]](), list[RefusedPart]()
        for index, placement in members:
            judged = check_placement(trial, terms, placement)
            if isinstance(judged, str):
                placed[index] = placement, judged
            else:
                refused.append(_lost(trial, terms, number, index, placement, judged))
        lost.extend(refused)
        short = _too_few(trial, terms, gang, which, len(placed))
        if short:
            trial.restore(before, terms)
            lost.extend(RefusedPart(number, index, Code.GANG, short) for index in placed)
        else:
            trial.add_members(terms.assignment, [placement.ordinal for placement, _ in placed.values()])
            yield from placed.values()


def _too_few(trial: ProposalScratch, terms: GroupTerms, gang: Gang, number: int, placed: int) -> str:
    """Return why a gang may not have these placements; empty: it may."""
    uid = terms.assignment.uid
    if members_in(failed_gangs(trial.state, uid, gang), number, 1):
        return f"gang {number}: a member has failed for good"
    there = members_in(trial.gang_members(terms.assignment), number, gang.size) + placed
    return f"gang {number}: {there} of {gang.needed} members" if there < gang.needed else ""


def placed_event(
    terms: GroupTerms,
    group: PlacementGroup,
    account: str,
    placements: tuple[SlotPlacement, ...],
    command: Propose,
    ctx: CommandContext,
) -> SlotsPlaced:
    """Return the event for placements charged to one account."""
    assignment = terms.assignment
    ends = 0 if command.bind else ctx.at + terms.reservation_life
    return SlotsPlaced(
        assignment.uid, assignment.workload, group.template, account, command.bind, terms.firm, ends,
        ctx.envelope.view, placements,
    )  # fmt: skip


def check_placement(
    trial: ProposalScratch, terms: GroupTerms, placement: SlotPlacement
) -> str | Infeasible:  # long: one gate after another
    """Return the charged account, with the placement taken in the scratch; or the gate that refuses."""
    key = (terms.workload, placement.ordinal)
    slot = trial.slot_of(key)
    if slot is None:
        return Infeasible(Code.NOT_FOUND, f"slot {key}")
    if slot.phase is not PENDING or slot.template != terms.digest or key in trial.taken:
        return Infeasible(Code.WRONG_PHASE, f"slot {key} is {slot.phase}")
    if slot.assignment != terms.assignment.uid:
        return Infeasible(Code.NOT_ASSIGNED, f"slot {key} belongs to another assignment")
    if terms.ordinals is not None and not contains(terms.ordinals, placement.ordinal):
        return Infeasible(Code.NOT_ASSIGNED, f"this region has no right to {key}")
    node = trial.node_of(placement.node)
    if node is None:
        return Infeasible(Code.NOT_FOUND, f"node {placement.node}")
    there = NO_TENANTS if node.shares_user else trial.tenants_on(node)
    misfit = refuse_node(trial.overrides, node, terms.template, terms.tenant, there)
    if misfit is not None:
        return misfit
    if terms.ordinals is not None:
        misfit = why_unfenced(node, trial.state.info.settings)
        if misfit is not None:
            return misfit
    if terms.standing is not None:
        misfit = check_domains(trial.member_count, terms.standing, terms.reach, node)
        if misfit is not None:
            return misfit
    if placement.waits_for or placement.hold:
        return place_after(trial, terms, slot, node, placement)
    uid = placement.node
    again = uid in trial.once or uid in trial.rooms
    usage = trial.room(uid) if again else trial.room_of(uid) or EMPTY_USAGE
    misfit = fits(node, usage, terms.template, placement.devices, placement.ports, firm=terms.firm)
    if misfit is not None:
        return misfit
    if terms.spare <= 0:
        return Infeasible(Code.PROTECTED, "the remaining capacity is protected for other tenants")
    account = slot.account or terms.pay(trial)
    if not account:
        return terms.cannot_pay(trial)
    terms.spare -= 1
    terms.plain += 1
    trial.taken.add(key)
    if trial.tenants and uid in trial.tenants:
        trial.tenants[uid] = (terms.tenant,)
    if terms.simple and not again:
        trial.once[uid] = terms
    else:
        _join(trial, terms, slot, placement, usage)
    if terms.scattered:
        trial.count_members(terms, node)
    return account


def _join(trial: ProposalScratch, terms: GroupTerms, slot: Slot, placement: SlotPlacement, usage: NodeUsage) -> None:
    """Count the placement in the scratch's usage of its node."""
    if terms.simple:
        trial.rooms[placement.node] = terms.added_to(usage)
    else:
        coming = replace(slot, devices=placement.devices, ports=placement.ports, firm=terms.firm)
        joined = with_slot(usage, coming, terms.need, terms.template.gpu_milli, usage.revision)
        trial.rooms[placement.node] = joined


def _lost(
    trial: ProposalScratch, terms: GroupTerms, group: int, index: int, placement: SlotPlacement, misfit: Infeasible
) -> RefusedPart:
    """Return why a placement was refused. `STALE` if the row that it conflicts with changed after the sender's view."""
    view = trial.case.envelope.view
    if view:
        slot = trial.slot_of((terms.workload, placement.ordinal))
        if slot is not None and slot.revision > view:
            return RefusedPart(group, index, Code.STALE, f"slot {terms.workload}/{placement.ordinal}", slot.revision)
        node, usage = trial.node_of(placement.node), trial.room_of(placement.node)
        if node is not None and node.revision > view:
            return RefusedPart(group, index, Code.STALE, f"node {node.name}", node.revision)
        for key in placement.waits_for:
            victim = trial.slot_of(key)
            if victim is not None and victim.revision > view:
                return RefusedPart(group, index, Code.STALE, f"slot {key}: {misfit.code}", victim.revision)
        if misfit.code in _OF_ROOMS and usage is not None and usage.revision > view:
            return RefusedPart(group, index, Code.STALE, f"node/{placement.node}: {misfit.code}", usage.revision)
    return RefusedPart(group, index, misfit.code, misfit.detail)
