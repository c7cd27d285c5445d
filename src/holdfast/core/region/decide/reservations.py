"""The end of a reservation: bound, refused by a later step, or expired by ledger time.

The end of a binding epoch decides the ordinal's next template, its charge, and whether it is finished:

    succeeded ──released──▶ done                            does not return
    failed    ──given up, for the last time──▶ failed       does not return, of batch work
              ──given up, fenced──▶ pending                 returns, while it is assigned

Batch work that fails everywhere would restart forever. So its ordinal has failed for good after `ATTEMPTS_MAX`
placements, each with all restarts of its template. A lost node is not an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin.overrides import ActiveOverrides, active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import PARTS_MAX, RefusedPart, partial_answer, wrong_count
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import count, each, masks, minus, shared
from holdfast.core.model.values.ranges import contains
from holdfast.core.model.values.resources import first_exceeded
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.commands import Bind, Expire, Unreserve
from holdfast.core.region.events import HoldEnded, OrdinalsFinished, SlotOnNode, SlotRelease, SlotsBound, SlotsReleased
from holdfast.core.region.limits import ATTEMPTS_MAX
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.queries.fence import why_unfenced
from holdfast.core.region.queries.gates import refuse_group, refuse_node
from holdfast.core.region.state.gangs import members_in, members_of, reserved_members, standing_members
from holdfast.core.region.state.node_tenants import tenants_on
from holdfast.core.region.state.tables import RegionState


def bind(state: RegionState, command: Bind, ctx: CommandContext) -> Accepted | Refused:
    """Bind reserved slots whose gates are still open."""
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    overrides = active_overrides(state, ctx.at)
    tenants: dict[Revision, tuple[str, ...]] = {}
    bound: dict[SlotKey, SlotOnNode] = {}
    lost: list[RefusedPart] = []
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in bound)
        if isinstance(found, Slot):
            found = _refuse_binding(state, overrides, found, tenants, ctx) or found
        if isinstance(found, Slot):
            bound[key] = SlotOnNode(key, found.node)
        else:
            lost.append(_lost(index, key, found))
    for key in _of_parted_gangs(state, bound):
        del bound[key]
        parted = Infeasible(Code.GANG, "the reserved members of its gang are bound together")
        lost.append(_lost(command.slots.index(key), key, parted))
    return partial_answer((SlotsBound(tuple(bound.values())),) if bound else (), lost, ctx.envelope.view)


def _of_parted_gangs(state: RegionState, bound: dict[SlotKey, SlotOnNode]) -> list[SlotKey]:
    """Return the slots of gangs that have further reserved members, which are not among these slots."""
    return [
        key
        for assignment, gang, keys in _by_gang(state, bound)
        if len(keys) < members_in(reserved_members(state, assignment.uid), gang, assignment.unit)
        for key in keys
    ]


def _by_gang(state: RegionState, keys: Iterable[SlotKey]) -> list[tuple[Assignment, int, list[SlotKey]]]:
    """Return which of these slots are of a gang, with their assignment and the number of the gang."""
    found: dict[tuple[Revision, int], tuple[Assignment, int, list[SlotKey]]] = {}
    for key in keys:
        assignment = state.assignments[state.slots[key].assignment]
        if assignment.gang is not None:
            gang = key[1] // assignment.gang.size
            found.setdefault((assignment.uid, gang), (assignment, gang, []))[2].append(key)
    return list(found.values())


def _reserved(state: RegionState, key: SlotKey, repeated: bool) -> Slot | Infeasible:
    slot = state.slots.get(key)
    if slot is None:
        return Infeasible(Code.NOT_FOUND, "no such slot")
    if slot.phase is not Phase.RESERVED or repeated:
        return Infeasible(Code.WRONG_PHASE, f"is {slot.phase}, not reserved")
    return slot


def _lost(index: int, key: SlotKey, misfit: Infeasible) -> RefusedPart:
    return RefusedPart(0, index, misfit.code, f"slot {key}: {misfit.detail}")


def _refuse_binding(
    state: RegionState,
    overrides: ActiveOverrides,
    slot: Slot,
    tenants: dict[Revision, tuple[str, ...]],
    ctx: CommandContext,
) -> Infeasible | None:
    """Check the gates of one slot again. `tenants` caches the tenants on each node: binding does not change them."""
    if slot.ends <= ctx.at:
        return Infeasible(Code.EXPIRED, f"its reservation ended at {slot.ends}")
    node, assignment = state.nodes[slot.node], state.assignments[slot.assignment]
    if slot.node not in tenants:
        tenants[slot.node] = tenants_on(state, node)
    there = tenants[slot.node]
    misfit = refuse_node(overrides, node, state.templates[slot.template], assignment.tenant, there)
    if misfit is None and assignment.exclusive:
        misfit = why_unfenced(node, state.info.settings)
    misfit = misfit or refuse_group(state, overrides, assignment, slot.template, ctx)
    if misfit is None and assignment.exclusive and not contains(assignment.ordinals, slot.ordinal):
        return Infeasible(Code.NOT_ASSIGNED, "this region no longer has the right to it")
    return misfit


def unreserve(state: RegionState, command: Unreserve, ctx: CommandContext) -> Accepted | Refused:
    """Make reserved slots pending again; they keep their charge. A gang left too small loses all reserved ones."""
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    releases: dict[SlotKey, SlotRelease] = {}
    lost: list[RefusedPart] = []
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in releases)
        if isinstance(found, Slot):
            releases[key] = release_of(state, found, "refused")
        else:
            lost.append(_lost(index, key, found))
    _release_gangs(state, command.slots, releases, lost)
    return partial_answer((SlotsReleased(tuple(releases.values())),) if releases else (), lost, ctx.envelope.view)


def expire(state: RegionState, command: Expire, ctx: CommandContext) -> Accepted | Refused:
    """End reservations and holds whose time has passed, and no others. A gang that is left with too few members loses
    all that are reserved."""
    refused = wrong_count(len(command.slots) + len(command.holds))
    if refused is not None:
        return refused
    releases: dict[SlotKey, SlotRelease] = {}
    lost: list[RefusedPart] = []
    for index, key in enumerate(command.slots):
        found = _reserved(state, key, key in releases)
        if isinstance(found, Slot):
            found = _refuse_early(found.ends, ctx.at) or found
        if isinstance(found, Slot):
            releases[key] = release_of(state, found, "expired")
        else:
            lost.append(_lost(index, key, found))
    _release_gangs(state, command.slots, releases, lost)
    holds: dict[int, HoldEnded] = {}
    for index, uid in enumerate(command.holds):
        hold = state.holds.get(uid)
        misfit = _refuse_early(hold.ends if hold else 0, ctx.at)
        if misfit is not None or hold is None or uid in holds:
            code, detail = misfit or (Code.NOT_FOUND, "no such hold")
            lost.append(RefusedPart(1, index, code, f"hold {uid}: {detail}"))
        else:
            holds[uid] = HoldEnded(uid, hold.node, hold.assignment, "expired")
    slots_event = (SlotsReleased(tuple(releases.values())),) if releases else ()
    return partial_answer((*slots_event, *holds.values()), lost, ctx.envelope.view)


def _release_gangs(
    state: RegionState, named: tuple[SlotKey, ...], releases: dict[SlotKey, SlotRelease], lost: list[RefusedPart]
) -> None:
    """Release the other reserved members of gangs that these releases leave with too few members.

    One record releases at most `PARTS_MAX` slots: gangs beyond that keep their slots, and the command is sent again.
    """
    for assignment, number, keys in _by_gang(state, list(releases)):
        gang, uid = assignment.gang, assignment.uid
        assert gang is not None
        there = members_in(standing_members(state, uid), number, gang.size) - len(keys)
        if there >= gang.needed:
            continue
        reserved = shared(reserved_members(state, uid), members_of(masks((number,)), gang.size))
        others = minus(reserved, masks(ordinal for _, ordinal in keys))
        if len(releases) + count(others) > PARTS_MAX:
            detail = Infeasible(Code.TOO_LARGE, f"its gang would make more than {PARTS_MAX} releases")
            lost += [_lost(named.index(key), key, detail) for key in keys]
            for key in keys:
                del releases[key]
            continue
        cause = releases[keys[0]].cause
        for slot in state.slots.find((assignment.workload, ordinal) for ordinal in each(others)):
            releases[slot.workload, slot.ordinal] = release_of(state, slot, cause)


def _refuse_early(ends: Instant, at: Instant) -> Infeasible | None:
    return Infeasible(Code.TOO_EARLY, f"ends at {ends}, and the time is {at}") if ends > at else None


def release_of(state: RegionState, slot: Slot, cause: str, detail: str = "") -> SlotRelease:
    """Return the release of a slot. A finished ordinal does not return; an assigned one is pending again.

    A charge belongs to a slot (RULES 7): it is kept, unless the next template needs more.
    """
    key = (slot.workload, slot.ordinal)
    is_over = slot.phase is Phase.SUCCEEDED or _has_failed(state, slot, cause)
    following = "" if is_over else slot.next_template
    if not following:
        return SlotRelease(key, slot.node, cause, "", "", detail)
    kept = slot.account
    if following != slot.template and first_exceeded(
        state.templates[following].need, state.templates[slot.template].need
    ):
        kept = ""
    return SlotRelease(key, slot.node, cause, following, kept, detail)


def finish_events(state: RegionState, ended: Sequence[tuple[Slot, str]]) -> list[OrdinalsFinished]:
    """Return which of these slots, each released for a cause, are finished. Only slots of a template in the shares
    count, or of an ended assignment whose results are not reported yet."""
    done: dict[tuple[Revision, str], list[int]] = {}
    failed: dict[tuple[Revision, str], list[int]] = {}
    why: dict[tuple[Revision, str], str] = {}
    for slot, cause in ended:
        name = slot.assignment, slot.template
        if not _is_final(state, slot):
            continue
        if slot.phase is Phase.SUCCEEDED:
            done.setdefault(name, []).append(slot.ordinal)
        elif _has_failed(state, slot, cause):
            failed.setdefault(name, []).append(slot.ordinal)
            why[name] = slot.cause
    return [
        OrdinalsFinished(
            uid, state.assignments[uid].workload, template,
            tuple(sorted(done.get((uid, template), ()))), tuple(sorted(failed.get((uid, template), ()))),
            why.get((uid, template), ""),
        )
        for uid, template in sorted({*done, *failed})
    ]  # fmt: skip


def _has_failed(state: RegionState, slot: Slot, cause: str) -> bool:
    """Return whether its last attempt was given up. False if the ordinal is withdrawn or gets another template."""
    is_last = cause == "given-up" and slot.attempts + 1 >= ATTEMPTS_MAX
    return is_last and slot.next_template == slot.template and state.assignments[slot.assignment].batch


def _is_final(state: RegionState, slot: Slot) -> bool:
    assignment = state.assignments[slot.assignment]
    return assignment.stage is AssignmentStage.ENDED or any(
        share.template == slot.template for share in assignment.shares
    )
