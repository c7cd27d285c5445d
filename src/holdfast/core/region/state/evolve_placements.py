"""Placement of slots and holds on nodes: the hot part of evolve.

Rows are written slot by slot. Counts are updated once for all placements of an event, or of a series of events.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import add_to_list, remove_from_list
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.lifecycle import BOUND, PENDING, RESERVED
from holdfast.core.model.records.node_usage import EMPTY_USAGE, RegionTotals, with_key
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.bitsets import masks
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.account_usage import change_shared_use, change_tenant_use, change_use
from holdfast.core.region.state.indexes import count_member, count_open, shift_phase
from holdfast.core.region.state.lookups import RECEIPTS_SINCE
from holdfast.core.region.state.node_usage import (
    put_node_usage,
    recount_usage,
    with_hold,
    with_plain_slot,
    with_slot,
    without_hold,
)
from holdfast.core.region.state.slot_kinds import count_kinds
from holdfast.core.region.state.tables import RegionState

#: Since this level of the log, placements are counted.
PLACED_SINCE = 3
#: Placed ordinals, by their next template and the account charged before.
Placed = dict[tuple[str, str], list[int]]


def slots_placed(state: RegionState, event: SlotsPlaced, stamp: Stamp) -> None:
    count_placed(state, event, place_slots(state, event, stamp), stamp)


def place_slots(state: RegionState, event: SlotsPlaced, stamp: Stamp) -> Placed:
    """Put the slots of an event on their nodes; `count_placed` updates the counts."""
    template = state.templates[event.template]
    phase = BOUND if event.bound else RESERVED
    cause, epoch = ("bound", stamp.revision) if event.bound else ("placed", 0)
    workload, firm = event.workload, event.firm
    slot_of, put = state.slots.get, state.slots.put
    room_of, put_room_row = state.node_usage.get, state.node_usage.put
    need = template.need
    plain = not (template.gpus or template.ports or need.extended or has_domain_rules(template))
    at, actor, revision = stamp.at, stamp.actor, stamp.revision
    has_receipts = state.info.level >= RECEIPTS_SINCE
    bound_at = at if event.bound and has_receipts else 0
    placed: Placed = {}
    for placement in event.placements:
        key = (workload, placement.ordinal)
        old = slot_of(key)
        assert old is not None, key
        account = old.account or event.account
        waited = old.next_template, old.account
        if waited in placed:
            placed[waited].append(placement.ordinal)
        else:
            placed[waited] = [placement.ordinal]
        slot = Slot(
            workload, placement.ordinal, event.assignment, event.template, old.next_template, phase, revision, at,
            actor, cause, event.evidence, epoch, placement.node, placement.devices, placement.ports, account,
            event.ends, 0, placement.waits_for, None, firm, epoch, "", old.failure, old.attempts,
            bound_at, old.preempted, placement.waits_for if has_receipts else (),
        )  # fmt: skip
        put(key, slot)
        if plain and not placement.waits_for:
            usage = room_of(placement.node) or EMPTY_USAGE
            put_room_row(placement.node, with_plain_slot(usage, key, need, revision, firm=firm))
        else:
            _stand(state, slot, placement, template, revision)
    return placed


def _stand(state: RegionState, slot: Slot, placement: SlotPlacement, template: Template, revision: Revision) -> None:
    """Put a slot that is not plain on its node. The caller updates the sums, unless the slot waits for victims."""
    uid, need = placement.node, template.need
    usage = state.node_usage.get(uid) or EMPTY_USAGE
    key = (slot.workload, slot.ordinal)
    if placement.waits_for:
        for victim in placement.waits_for:
            state.slots.put(victim, replace(state.slots[victim], successor=key))
        state.node_usage.put(uid, replace(usage, slots=with_key(usage.slots, key)))
        counted = recount_usage(state, uid, revision)
        state.node_usage.put(uid, usage)
        put_node_usage(state, uid, counted)
        _untake(state, slot, need)
    else:
        state.node_usage.put(uid, with_slot(usage, slot, need, template.gpu_milli, revision))
    if has_domain_rules(template):
        count_member(state, slot, template, state.nodes[uid], 1)


def _untake(state: RegionState, slot: Slot, need: Resources) -> None:
    """Exclude a waiting slot from what the caller adds for the whole event: the recount has added it already."""
    if slot.firm:
        sums = state.totals
        state.totals = RegionTotals(sums.capacity, add(sums.taken, times(need, -1)), sums.shield)


def count_placed(state: RegionState, event: SlotsPlaced, placed: Placed, stamp: Stamp) -> None:
    """Count placed slots of one assignment and template. One account is charged for those without a charge."""
    need, template, count = state.templates[event.template].need, event.template, sum(map(len, placed.values()))
    phase, kept = BOUND if event.bound else RESERVED, dict[str, int]()
    for (following, account), ordinals in placed.items():
        if account:
            kept[account] = kept.get(account, 0) + len(ordinals)
        waited = PENDING.value, template, following, account
        stands = phase.value, template, following, account or event.account
        count_kinds(state, event.assignment, waited, stands, masks(ordinals))
    shift_phase(state, event.assignment, PENDING, phase, count)
    count_open(state, event.assignment, template, -count, stamp.revision, stamp.at)
    taken = need if count == 1 else times(need, count)
    new = count - sum(kept.values()) if kept else count
    charged = taken if new == count else times(need, new)
    if new:
        change_use(state, event.account, charged, charged if event.firm else ZERO)
        change_shared_use(state, event.account, event.assignment, charged)
    if event.firm:
        for account, number in sorted(kept.items()):
            change_use(state, account, ZERO, times(need, number))
        sums = state.totals
        state.totals = RegionTotals(sums.capacity, add(sums.taken, taken), sums.shield)
    if state.info.level >= PLACED_SINCE:
        state.region = replace(state.region, placed=state.region.placed + count)


def put_hold(state: RegionState, hold: Reservation, revision: Revision) -> None:
    """Store a hold, or its later end."""
    known = state.holds.get(hold.uid)
    state.holds.put(hold.uid, hold)
    if known is None:
        if hold.assignment:
            add_to_list(state.holds_of, hold.assignment, hold.uid)
        usage = state.node_usage.get(hold.node) or EMPTY_USAGE
        put_node_usage(state, hold.node, with_hold(usage, hold, revision))
        change_use(state, hold.account, hold.need, ZERO)
        change_tenant_use(state, hold.account, hold.tenant, hold.need)


def drop_hold(state: RegionState, hold: Reservation, revision: Revision) -> None:
    """End a hold and return its charge."""
    put_node_usage(state, hold.node, without_hold(state.node_usage[hold.node], hold, revision))
    change_use(state, hold.account, subtract(ZERO, hold.need), ZERO)
    change_tenant_use(state, hold.account, hold.tenant, subtract(ZERO, hold.need))
    if hold.assignment:
        remove_from_list(state.holds_of, hold.assignment, hold.uid)
    state.holds.drop(hold.uid)
