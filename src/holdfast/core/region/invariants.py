"""What must hold in every state of a region: one table that tests, simulator, documents and review read.

Each predicate counts from the stored rows. Rooms and derived tables, which evolve keeps step by step, are compared with
what a recount gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.core.ledger.invariants import Class, Invariant, Kind
from holdfast.core.ledger.revision import revision
from holdfast.core.model.lifecycle import ON_NODE, Phase
from holdfast.core.model.placement import EMPTY_ROOM, Slot, Use, standing
from holdfast.core.model.resources import NOTHING, Resources, add, exceeded
from holdfast.core.model.topology import Effect
from holdfast.core.region.breaches import ALLOWED, CAPACITY, RESIDENCY, RIGHT, capacity_overshoots
from holdfast.core.region.rebuild import rebuild
from holdfast.core.region.rooms import recount
from holdfast.core.region.state import RegionState


def unique_binding(state: RegionState) -> Iterator[str]:
    listed = Counter((key, uid) for uid, room in state.rooms.unordered() for key in standing(room))
    for (key, uid), times in listed.items():
        slot = state.slots.get(key)
        if times > 1 or slot is None or slot.node != uid:
            yield f"room {uid} lists {key} {times} times"
    for key, slot in state.slots.unordered():
        if (slot.phase in ON_NODE) != ((key, slot.node) in listed) or (slot.workload, slot.ordinal) != key:
            yield f"slot {key} is {slot.phase} on {slot.node}"


def _present(state: RegionState, slot: Slot) -> bool:
    """Whether the slot has its devices and ports to itself: it waits for nobody."""
    return not any((state.slots.get(victim) or slot).heir == (slot.workload, slot.ordinal) for victim in slot.after)


def device_ownership(state: RegionState) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in state.slots.unordered():
        if slot.phase in ON_NODE and slot.devices and _present(state, slot):
            for index in slot.devices:
                use[slot.node, index] += state.templates[slot.template].gpu_milli
    yield from (
        f"device {index} of node {uid} gives {milli} milli" for (uid, index), milli in use.items() if milli > 1000
    )


def port_ownership(state: RegionState) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in state.slots.unordered():
        if slot.phase in ON_NODE and slot.ports and _present(state, slot):
            use.update((slot.node, port) for port in slot.ports)
    yield from (f"port {port} of node {uid} is given {times} times" for (uid, port), times in use.items() if times > 1)


def charges_conserved(state: RegionState) -> Iterator[str]:
    charged: dict[str, Resources] = {}
    for _, slot in state.slots.unordered():
        if slot.account:
            need = state.templates[slot.template].need
            charged[slot.account] = add(charged.get(slot.account, NOTHING), need)
        elif slot.phase is not Phase.PENDING:
            yield f"slot {slot.workload}/{slot.ordinal} is {slot.phase} and charged to nobody"
    for _, hold in state.holds.unordered():
        charged[hold.account] = add(charged.get(hold.account, NOTHING), hold.need)
    for account, use in state.uses.unordered():
        if use.charged != charged.get(account, NOTHING):
            yield f"{account} is charged {use.charged}, its slots and holds need {charged.get(account)}"
    yield from (f"{account} is charged and not counted" for account in sorted(charged) if account not in state.uses)


def within_grants(state: RegionState) -> Iterator[str]:
    for account, use in state.uses.unordered():
        allowance = state.allowances.get(account)
        over = exceeded(use.charged, allowance.limit if allowance else NOTHING)
        if over:
            yield f"{account} is charged more {over} than it settled on"


def rooms_conserved(state: RegionState) -> Iterator[str]:
    for uid, room in state.rooms.unordered():
        if recount(state, uid, room.revision) != room:
            yield f"room {uid} is not the sum of what stands there"


def epochs_grow(state: RegionState) -> Iterator[str]:
    head = revision(state.facts.seq + 1)
    for key, slot in state.slots.unordered():
        bound = slot.phase in ON_NODE and slot.phase is not Phase.RESERVED
        if slot.revision >= head or slot.epoch > slot.revision or (slot.epoch > 0) != bound:
            yield f"slot {key} is {slot.phase} with epoch {slot.epoch} and revision {slot.revision}"
    for uid, node in state.nodes.unordered():
        if not 0 < uid <= node.revision < head or (node.session and node.session not in state.sessions):
            yield f"node {node.name} has uid {uid}, revision {node.revision}, session {node.session}"


def references_hold(state: RegionState) -> Iterator[str]:
    for key, slot in state.slots.unordered():
        templates = [name for name in (slot.template, slot.next_template) if name and name not in state.templates]
        if slot.assignment not in state.assignments or templates:
            yield f"slot {key} refers to what is not there"
        if slot.heir is not None:
            heir = state.slots.get(slot.heir)
            if heir is None or key not in heir.after or heir.node != slot.node or slot.phase is not Phase.TERMINATING:
                yield f"slot {key} names an heir that does not wait for it"
    for uid, hold in state.holds.unordered():
        if hold.node not in state.nodes:
            yield f"hold {uid} is on a node that is gone"


def pending_holds_nothing(state: RegionState) -> Iterator[str]:
    for key, slot in state.slots.unordered():
        holds = slot.node or slot.devices or slot.ports or slot.epoch or slot.after or slot.heir
        if slot.phase is Phase.PENDING and holds:
            yield f"slot {key} waits and yet holds something"
        if slot.phase is Phase.RELEASED:
            yield f"slot {key} rests in released"


def counts_agree(state: RegionState) -> Iterator[str]:
    fresh = state.fork()
    rebuild(fresh)
    for spec in state.TABLES:
        if spec.derived and spec.name not in ("session_of", "keys_of"):
            mine = {key: row for key, row in state.table(spec.name).unordered() if row != _EMPTY.get(spec.name)}
            theirs = {key: row for key, row in fresh.table(spec.name).unordered() if row != _EMPTY.get(spec.name)}
            if mine != theirs:
                yield f"{spec.name} is not what its rows add up to"
    if state.sums != fresh.sums:
        yield f"sums are {state.sums}, the rows add up to {fresh.sums}"
    pending = Counter((s.assignment, s.template) for _, s in state.slots.unordered() if s.phase is Phase.PENDING)
    opened = {(r.assignment, r.template): r.open for _, rs in state.requests.unordered() for r in rs}
    if dict(pending) != opened:
        yield "requests do not count the open slots"


#: A count of nothing may be kept or left out.
_EMPTY = {"uses": Use()}


def within_capacity(state: RegionState) -> Iterator[str]:
    for uid, node in state.nodes.unordered():
        for key, over in capacity_overshoots(node, state.rooms.get(uid) or EMPTY_ROOM).items():
            yield from _beyond(state, key, over)


def where_allowed(state: RegionState) -> Iterator[str]:
    found: Counter[int] = Counter()
    for _, slot in state.slots.unordered():
        if slot.phase not in ON_NODE:
            continue
        node, template = state.nodes[slot.node], state.templates[slot.template]
        accepted = {(t.key, t.value) for t in template.tolerate}
        for taint in node.taints:
            if taint.effect is Effect.EVICT and not {(taint.key, ""), (taint.key, taint.value)} & accepted:
                found[node.uid] += 1
                break
        else:
            found[node.uid] += bool(node.tenancy) and state.assignments[slot.assignment].tenant not in node.tenancy
    for uid, count in found.items():
        yield from _beyond(state, (ALLOWED, f"node/{uid}"), count)


def residency_kept(state: RegionState) -> Iterator[str]:
    found: Counter[int] = Counter()
    for _, slot in state.slots.unordered():
        allowed = state.assignments[slot.assignment].jurisdictions
        found[slot.assignment] += slot.phase in ON_NODE and bool(allowed) and state.place.jurisdiction not in allowed
    for uid, count in found.items():
        yield from _beyond(state, (RESIDENCY, f"assignment/{uid}"), count)


def rights_held(state: RegionState) -> Iterator[str]:
    found: Counter[int] = Counter()
    for _, slot in state.slots.unordered():
        assignment = state.assignments[slot.assignment]
        found[slot.assignment] += (
            slot.phase in ON_NODE and assignment.exclusive and slot.ordinal not in assignment.ordinals
        )
    for uid, count in found.items():
        yield from _beyond(state, (RIGHT, f"assignment/{uid}"), count)


def _beyond(state: RegionState, key: tuple[str, str], over: int) -> Iterator[str]:
    """Holds, or is open as a breach and has not grown."""
    breach = state.breaches.get(key)
    if over > (breach.overshoot if breach else 0):
        yield f"{key[1]} is over by {over}, and {breach.overshoot if breach else 'nothing'} is open"


ALWAYS, AT_COMMIT = Kind.ALWAYS, Kind.AT_COMMIT
INVARIANTS: tuple[Invariant[RegionState], ...] = (
    Invariant("region.unique-binding", "A slot stands on at most one node, and only its node lists it.", ALWAYS, Class.LEDGER, unique_binding),
    Invariant("region.device-ownership", "A device gives no more than it is to those that use it.", ALWAYS, Class.LEDGER, device_ownership),
    Invariant("region.port-ownership", "A port of a node is given to one slot.", ALWAYS, Class.LEDGER, port_ownership),
    Invariant("region.charges", "Every placed slot is charged exactly once, and charges are what slots and holds need.", ALWAYS, Class.LEDGER, charges_conserved),
    Invariant("region.grants", "No account is charged more than this region settled on.", ALWAYS, Class.ESCROW, within_grants),
    Invariant("region.rooms", "What is taken of a node is the sum of what stands there.", ALWAYS, Class.LEDGER, rooms_conserved),
    Invariant("region.epochs", "Uids and epochs are revisions of this log and only grow.", ALWAYS, Class.LEDGER, epochs_grow),
    Invariant("region.references", "What a slot or hold refers to exists.", ALWAYS, Class.LEDGER, references_hold),
    Invariant("region.pending", "What waits holds nothing but its charge, and nothing rests in released.", ALWAYS, Class.LEDGER, pending_holds_nothing),
    Invariant("region.counts", "Every count and index is what its rows add up to.", ALWAYS, Class.MERGEABLE, counts_agree),
    Invariant(CAPACITY, "What stands on a node is no more than the node has.", AT_COMMIT, Class.LEDGER, within_capacity),
    Invariant(ALLOWED, "Nothing stands where a taint evicts it or the node is kept for others.", AT_COMMIT, Class.LEDGER, where_allowed),
    Invariant(RESIDENCY, "Nothing stands outside the jurisdictions that its workload allows.", AT_COMMIT, Class.LEDGER, residency_kept),
    Invariant(RIGHT, "An exclusive identity stands only where this region holds its right.", AT_COMMIT, Class.ESCROW, rights_held),
)  # fmt: skip
