"""The derived tables, kept in step by evolve: tallies, requests' open counts, rooms, uses, sums, members.

One function replaces a slot and settles everything that is counted over slots; nothing else may.

Size: everything that is counted, in one place.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from holdfast.core.ledger.table import Table
from holdfast.core.model.lifecycle import ON_NODE, PENDING, PHASES, Phase
from holdfast.core.model.placement import EMPTY_ROOM, Room, SchedulingRequest, Slot, Sums, Use
from holdfast.core.model.resources import NOTHING, Resources, above_zero, add, exceeded, subtract
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.topology import Node, usable
from holdfast.core.model.workload import is_counted
from holdfast.core.region.kinds import count_kind
from holdfast.core.region.members import count_member
from holdfast.core.region.node_kinds import kind_of, labels_of
from holdfast.core.region.node_sizes import amounts_in, counted
from holdfast.core.region.rooms import recount, victims_left, with_slot, without_slot
from holdfast.core.region.state import RegionState

K = TypeVar("K")

PHASE_INDEX = {phase: index for index, phase in enumerate(PHASES)}
_NO_TALLY = (0,) * len(PHASES)
_NO_USE = Use()


def count_phases(state: RegionState, assignment: Revision, changes: dict[Phase, int]) -> None:
    """Add to the number of slots per phase of an assignment."""
    tally = list(state.tallies.get(assignment) or _NO_TALLY)
    for phase, change in changes.items():
        tally[PHASE_INDEX[phase]] += change
    if any(tally):
        state.tallies.put(assignment, tuple(tally))
    else:
        state.tallies.drop(assignment)


def shift_phase(state: RegionState, assignment: Revision, source: Phase, target: Phase, count: int) -> None:
    """Move a number of slots of an assignment from one phase to another."""
    tally = list(state.tallies.get(assignment) or _NO_TALLY)
    tally[PHASE_INDEX[source]] -= count
    tally[PHASE_INDEX[target]] += count
    state.tallies.put(assignment, tuple(tally))


def in_phase(state: RegionState, assignment: Revision, phase: Phase) -> int:
    """How many slots of the assignment are in this phase."""
    return (state.tallies.get(assignment) or _NO_TALLY)[PHASE_INDEX[phase]]


def count_open(
    state: RegionState, assignment: Revision, template: str, change: int, revision: Revision, at: Instant
) -> None:
    """Open or close slots of the request; one without open slots is gone."""
    requests = state.requests.get(assignment) or ()
    if len(requests) == 1 and requests[0].template == template and requests[0].open + change > 0:
        state.requests.put(assignment, (replace(requests[0], open=requests[0].open + change),))
        return
    mine = next((request for request in requests if request.template == template), None)
    others = tuple(request for request in requests if request.template != template)
    if mine is None:
        mine = SchedulingRequest(revision, assignment, template, 0, at)
    left = mine.open + change
    assert left >= 0, (assignment, template, left)
    if left:
        kept = replace(mine, open=left)
        state.requests.put(assignment, tuple(sorted((*others, kept), key=lambda request: request.template)))
    elif others:
        state.requests.put(assignment, others)
    else:
        state.requests.drop(assignment)


def change_use(state: RegionState, account: str, charged: Resources, placed: Resources) -> None:
    """Charge an account, and settle what its tenant is still owed of its protected amount."""
    before = state.uses.get(account) or _NO_USE
    total = add(before.charged, charged)
    same = charged is placed and before.charged is before.placed
    after = Use(total, total if same else add(before.placed, placed))
    if after == _NO_USE:
        state.uses.drop(account)
    else:
        state.uses.put(account, after)
    allowance = state.allowances.get(account)
    if allowance is not None and placed is not NOTHING:
        protected = allowance.protected
        if exceeded(protected, before.placed) or exceeded(protected, after.placed):
            shift_shield(state, _owed(protected, before), _owed(protected, after))


def shift_shield(state: RegionState, before: Resources, after: Resources) -> None:
    """Replace one account's part of what protected tenants are owed."""
    if before != after:
        shield = add(subtract(state.sums.shield, before), after)
        state.sums = Sums(state.sums.capacity, state.sums.taken, shield)


def _owed(protected: Resources, use: Use) -> Resources:
    placed = use.placed
    if not exceeded(protected, placed):
        return NOTHING
    if protected.extended:
        return above_zero(subtract(protected, placed))
    # The usual case: asked for several times for each group that is placed.
    cpu, memory = protected.cpu - placed.cpu, protected.memory - placed.memory
    disk, gpu = protected.disk - placed.disk, protected.gpu - placed.gpu
    return Resources(cpu if cpu > 0 else 0, memory if memory > 0 else 0, disk if disk > 0 else 0, gpu if gpu > 0 else 0)


def owed(state: RegionState, account: str, more: Resources = NOTHING) -> Resources:
    """What of its protected amount the account does not use yet, once `more` of it stands."""
    allowance = state.allowances.get(account)
    if allowance is None or allowance.protected is NOTHING:
        return NOTHING
    use = state.uses.get(account) or _NO_USE
    if more is not NOTHING:
        use = Use(use.charged, add(use.placed, more))
    return _owed(allowance.protected, use)


def put_room(state: RegionState, node: Revision, room: Room) -> None:
    """Replace a node's room and settle the region's sums."""
    before = state.rooms.get(node) or EMPTY_ROOM
    state.rooms.put(node, room)
    if usable(state.nodes[node]):
        change = subtract(add(room.firm, room.held), add(before.firm, before.held))
        if change != NOTHING:
            state.sums = Sums(state.sums.capacity, add(state.sums.taken, change), state.sums.shield)


def put_node(state: RegionState, node: Node | None, before: Node | None) -> None:
    """Count a node that came, changed or went into the sums, the domains and the kinds."""
    for one, sign in ((before, -1), (node, 1)):
        if one is None or not usable(one):
            continue
        room = state.rooms.get(one.uid) or EMPTY_ROOM
        taken = add(room.firm, room.held)
        change = add if sign > 0 else subtract
        sums = state.sums
        state.sums = Sums(change(sums.capacity, one.capacity), change(sums.taken, taken), sums.shield)
        _count(state.domains, ("zone", one.zone), sign)
        _count(state.domains, ("pool", one.pool), sign)
        kind = kind_of(one)
        _count(state.node_kinds, kind, sign)
        for label in labels_of(one, kind):
            _count(state.node_labels, label, sign)
        for name, amount in amounts_in(one.capacity):
            left = counted(state.node_amounts.get((name, kind)) or (), amount, sign)
            state.node_amounts.put((name, kind), left) if left else state.node_amounts.drop((name, kind))


def _count(table: Table[K, int], key: K, change: int) -> None:
    """Count in a table; none leave no row."""
    left = (table.get(key) or 0) + change
    table.put(key, left) if left else table.drop(key)


def replace_slot(state: RegionState, old: Slot | None, new: Slot | None, revision: Revision, at: Instant) -> None:
    """Store, replace or remove a slot, and settle everything that is counted over slots."""
    one = new or old
    assert one is not None
    key = (one.workload, one.ordinal)
    stood = old is not None and old.phase in ON_NODE
    stands = new is not None and new.phase in ON_NODE
    if old is not None and stood and not stands:
        _leave(state, old, revision)
    if new is None:
        state.slots.drop(key)
    else:
        state.slots.put(key, new)
    if new is not None and stands and not stood:
        _arrive(state, new, revision)
    _count_slots(state, old, new, revision, at)
    count_kind(state, old, new)
    if old is None or new is None or (old.template, old.next_template) != (new.template, new.next_template):
        count_templates(state, old, new)


def _count_slots(state: RegionState, old: Slot | None, new: Slot | None, revision: Revision, at: Instant) -> None:
    phases: dict[Phase, int] = {}
    for slot, sign in ((old, -1), (new, 1)):
        if slot is not None:
            phases[slot.phase] = phases.get(slot.phase, 0) + sign
            if slot.phase is PENDING:
                count_open(state, slot.assignment, slot.template, sign, revision, at)
    one = new or old
    assert one is not None
    count_phases(state, one.assignment, phases)
    before, after = charge_of(state, old), charge_of(state, new)
    if before != after:
        for (account, charged, placed), add_or_subtract in ((before, subtract), (after, add)):
            if account:
                change_use(state, account, add_or_subtract(NOTHING, charged), add_or_subtract(NOTHING, placed))


def charge_of(state: RegionState, slot: Slot | None) -> tuple[str, Resources, Resources]:
    """Who pays for a slot, what it is charged, and what of that stands on a node."""
    if slot is None or not slot.account:
        return "", NOTHING, NOTHING
    need = state.templates[slot.template].need
    return slot.account, need, need if slot.firm and slot.phase in ON_NODE else NOTHING


def count_template(state: RegionState, digest: str, change: int) -> None:
    """Count who needs a template; one that the platform ships no more goes with its last use."""
    if not digest or not change:
        return
    left = (state.template_uses.get(digest) or 0) + change
    if left:
        state.template_uses.put(digest, left)
    else:
        state.template_uses.drop(digest)
        if digest in state.leaving:
            state.leaving.drop(digest)
            state.templates.drop(digest)


def count_templates(state: RegionState, old: Slot | None, new: Slot | None) -> None:
    """Count the templates of a slot that came, changed or went."""
    for slot, sign in ((new, 1), (old, -1)):
        if slot is not None:
            count_template(state, slot.template, sign)
            count_template(state, slot.next_template, sign)


def _arrive(state: RegionState, slot: Slot, revision: Revision) -> None:
    template = state.templates[slot.template]
    room = state.rooms.get(slot.node) or EMPTY_ROOM
    put_room(state, slot.node, with_slot(room, slot, template.need, template.gpu_milli, revision))
    if is_counted(template):
        count_member(state, slot, template, state.nodes[slot.node], 1)


def _leave(state: RegionState, slot: Slot, revision: Revision) -> None:
    template = state.templates[slot.template]
    key = (slot.workload, slot.ordinal)
    victims = victims_left(state, slot) if slot.after else []
    if victims or slot.heir is not None:
        for victim in victims:
            state.slots.put((victim.workload, victim.ordinal), _without_heir(victim))
        state.slots.put(key, _without_heir(slot))
        put_room(state, slot.node, recount(state, slot.node, revision, frozenset((key,))))
    else:
        room = state.rooms[slot.node]
        put_room(state, slot.node, without_slot(room, slot, template.need, template.gpu_milli, revision))
    if is_counted(template):
        count_member(state, slot, template, state.nodes[slot.node], -1)


def _without_heir(slot: Slot) -> Slot:
    return replace(slot, heir=None)
