"""What must hold in every state of a region: one table that tests, simulator, documents and review read.

Each promise is written once, over the places where it is looked at (see `invariants_places`): all of the region, or what
lies near a batch. Each counts from the stored rows. Rooms and derived tables, which evolve keeps step by step, are
compared with what a recount gives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from holdfast.core.ledger.invariants import Class, Invariant, Kind
from holdfast.core.ledger.revision import revision
from holdfast.core.model.allotment import Stage
from holdfast.core.model.isolation import STRICT, Capability, Isolation
from holdfast.core.model.lifecycle import ON_NODE, Phase
from holdfast.core.model.placement import EMPTY_ROOM, Slot, Use, standing
from holdfast.core.model.resources import NOTHING, exceeded
from holdfast.core.model.runs import has, is_well_formed
from holdfast.core.model.topology import Effect
from holdfast.core.region.breaches import ALLOWED, CAPACITY, RESIDENCY, RIGHT, capacity_overshoots
from holdfast.core.region.invariants_places import Everywhere, Nearby, Places, amounts
from holdfast.core.region.releasing import is_finished
from holdfast.core.region.rooms import recount
from holdfast.core.region.state import RegionState


def unique_binding(at: Places) -> Iterator[str]:
    listed = Counter((key, uid) for uid, room in at.rooms() for key in standing(room))
    for (key, uid), times in listed.items():
        slot = at.state.slots.get(key)
        if times > 1 or slot is None or slot.node != uid:
            yield f"room {uid} lists {key} {times} times"
    for key, slot in at.slots():
        if (slot.phase in ON_NODE) != ((key, slot.node) in listed) or (slot.workload, slot.ordinal) != key:
            yield f"slot {key} is {slot.phase} on {slot.node}"


def _present(state: RegionState, slot: Slot) -> bool:
    """Whether the slot has its devices and ports to itself: it waits for nobody."""
    return not any((state.slots.get(victim) or slot).heir == (slot.workload, slot.ordinal) for victim in slot.after)


def device_ownership(at: Places) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in at.standing():
        if slot.phase in ON_NODE and slot.devices and _present(at.state, slot):
            for index in slot.devices:
                use[slot.node, index] += at.state.templates[slot.template].gpu_milli
    yield from (
        f"device {index} of node {uid} gives {milli} milli" for (uid, index), milli in use.items() if milli > 1000
    )


def port_ownership(at: Places) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in at.standing():
        if slot.phase in ON_NODE and slot.ports and _present(at.state, slot):
            use.update((slot.node, port) for port in slot.ports)
    yield from (f"port {port} of node {uid} is given {times} times" for (uid, port), times in use.items() if times > 1)


def charges_conserved(at: Places) -> Iterator[str]:
    for key, slot in at.slots():
        if not slot.account and slot.phase is not Phase.PENDING:
            yield f"slot {key} is {slot.phase} and charged to nobody"
    for account, needed in at.charged().items():
        charged = amounts((at.state.uses.get(account) or Use()).charged)
        if charged != needed:
            yield f"{account} is charged {charged}, its slots and holds need {needed}"


def within_grants(at: Places) -> Iterator[str]:
    for account, use in at.uses():
        allowance = at.state.allowances.get(account)
        over = exceeded(use.charged, allowance.limit if allowance else NOTHING)
        if over:
            yield f"{account} is charged more {over} than it settled on"


def rooms_conserved(at: Places) -> Iterator[str]:
    for uid, room in at.rooms():
        if recount(at.state, uid, room.revision) != room:
            yield f"room {uid} is not the sum of what stands there"


def epochs_grow(at: Places) -> Iterator[str]:
    head = revision(at.state.facts.seq + 1)
    for key, slot in at.slots():
        bound = slot.phase in ON_NODE and slot.phase is not Phase.RESERVED
        if slot.revision >= head or slot.epoch > slot.revision or (slot.epoch > 0) != bound:
            yield f"slot {key} is {slot.phase} with epoch {slot.epoch} and revision {slot.revision}"
    for uid, node in at.nodes():
        if not 0 < uid == node.uid <= node.revision < head or (node.session and node.session not in at.state.sessions):
            yield f"node {node.name} has uid {uid}, revision {node.revision}, session {node.session}"


def references_hold(at: Places) -> Iterator[str]:
    state = at.state
    for key, slot in at.slots():
        templates = [name for name in (slot.template, slot.next_template) if name and name not in state.templates]
        if slot.assignment not in state.assignments or templates or (slot.node and slot.node not in state.nodes):
            yield f"slot {key} refers to what is not there"
        if slot.heir is not None:
            heir = state.slots.get(slot.heir)
            if heir is None or key not in heir.after or heir.node != slot.node or slot.phase is not Phase.TERMINATING:
                yield f"slot {key} names an heir that does not wait for it"
    for uid, hold in at.holds():
        if hold.node not in state.nodes:
            yield f"hold {uid} is on a node that is gone"
    for uid, _ in at.node_reports():
        if uid not in state.nodes:
            yield f"a node is reported of that is gone: {uid}"


def pending_holds_nothing(at: Places) -> Iterator[str]:
    for key, slot in at.slots():
        holds = slot.node or slot.devices or slot.ports or slot.epoch or slot.after or slot.heir
        if slot.phase is Phase.PENDING and holds:
            yield f"slot {key} waits and yet holds something"
        if slot.phase is Phase.RELEASED:
            yield f"slot {key} rests in released"


def finished_stays(at: Places) -> Iterator[str]:
    for key, slot in at.slots():
        if is_finished(at.state, slot.assignment, slot.ordinal):
            yield f"slot {key} is {slot.phase}, and over for good"
    for uid, rows in at.finished():
        assignment = at.state.assignments[uid]
        asked = [share.template for share in assignment.shares if assignment.batch]
        if assignment.stage is not Stage.ENDED and not all(row.template in asked for row in rows):
            yield f"assignment {uid} has finished what it does not ask for"
        runs = [runs for row in rows for runs in (row.done, row.failed)]
        numbers = [number for one in runs for run in one for number in range(*run)]
        if not numbers or len(set(numbers)) != len(numbers) or not all(map(is_well_formed, runs)):
            yield f"assignment {uid} has finished {runs}"


def lists_kept(at: Places) -> Iterator[str]:
    listing = at.state.place.listing
    kept = sorted(part for part, _ in at.state.listed.unordered())
    if kept != list(range(listing.parts if listing is not None else 0)):
        yield f"names of parts {kept} are kept, and of the list under way is known: {listing}"


def counts_agree(at: Places) -> Iterator[str]:
    return at.miscounts()


def within_capacity(at: Places) -> Iterator[str]:
    for uid, node in at.nodes():
        for key, over in capacity_overshoots(node, at.state.rooms.get(uid) or EMPTY_ROOM).items():
            yield from _beyond(at.state, key, over)


def where_allowed(at: Places) -> Iterator[str]:
    state, found, staying = at.state, Counter[int](), defaultdict[int, Counter[str]](Counter)
    for _, slot in at.standing():
        if slot.phase not in ON_NODE:
            continue
        node, template = state.nodes[slot.node], state.templates[slot.template]
        tenant = state.assignments[slot.assignment].tenant
        bare = template.isolation is Isolation.STRICT and not set(STRICT) <= set(node.capabilities)
        kept = (node.tenancy and tenant not in node.tenancy) or node.tenant not in ("", tenant)
        accepted = {(t.key, t.value) for t in template.tolerate}
        for taint in node.taints:
            if taint.effect is Effect.EVICT and not {(taint.key, ""), (taint.key, taint.value)} & accepted:
                found[node.uid] += 1
                break
        else:
            found[node.uid] += bool(kept or bare)
            staying[node.uid][tenant] += not (kept or bare)
    for uid, tenants in staying.items():
        if not state.nodes[uid].shares_user and Capability.USERS not in state.nodes[uid].capabilities:
            found[uid] += tenants.total() - max(tenants.values())
    for uid, count in found.items():
        yield from _beyond(state, (ALLOWED, f"node/{uid}"), count)


def residency_kept(at: Places) -> Iterator[str]:
    for uid, count in at.placed().items():
        allowed = at.state.assignments[uid].jurisdictions if count else ()
        if allowed and at.state.place.jurisdiction not in allowed:
            yield from _beyond(at.state, (RESIDENCY, f"assignment/{uid}"), count)


def rights_held(at: Places) -> Iterator[str]:
    found: Counter[int] = Counter()
    for _, slot in at.identities():
        assignment = at.state.assignments[slot.assignment]
        found[slot.assignment] += (
            slot.phase in ON_NODE and assignment.exclusive and not has(assignment.ordinals, slot.ordinal)
        )
    for uid, count in found.items():
        yield from _beyond(at.state, (RIGHT, f"assignment/{uid}"), count)


def _beyond(state: RegionState, key: tuple[str, str], over: int) -> Iterator[str]:
    """Holds, or is open as a breach and has not grown."""
    breach = state.breaches.get(key)
    if over > (breach.overshoot if breach else 0):
        yield f"{key[1]} is over by {over}, and {breach.overshoot if breach else 'nothing'} is open"


def _promise(
    name: str, sentence: str, kind: Kind, needs: Class, look: Callable[[Places], Iterator[str]]
) -> Invariant[RegionState]:
    def everywhere(state: RegionState) -> Iterator[str]:
        return look(Everywhere(state))

    return Invariant(name, sentence, kind, needs, everywhere, lambda change: look(change.places(Nearby)))


ALWAYS, AT_COMMIT = Kind.ALWAYS, Kind.AT_COMMIT
INVARIANTS: tuple[Invariant[RegionState], ...] = (
    _promise("region.unique-binding", "A slot stands on at most one node, and only its node lists it.", ALWAYS, Class.LEDGER, unique_binding),
    _promise("region.device-ownership", "A device gives no more than it is to those that use it.", ALWAYS, Class.LEDGER, device_ownership),
    _promise("region.port-ownership", "A port of a node is given to one slot.", ALWAYS, Class.LEDGER, port_ownership),
    _promise("region.charges", "Every placed slot is charged exactly once, and charges are what slots and holds need.", ALWAYS, Class.LEDGER, charges_conserved),
    _promise("region.grants", "No account is charged more than this region settled on.", ALWAYS, Class.ESCROW, within_grants),
    _promise("region.rooms", "What is taken of a node is the sum of what stands there.", ALWAYS, Class.LEDGER, rooms_conserved),
    _promise("region.epochs", "Uids and epochs are revisions of this log and only grow.", ALWAYS, Class.LEDGER, epochs_grow),
    _promise("region.references", "What a slot, hold or report refers to exists.", ALWAYS, Class.LEDGER, references_hold),
    _promise("region.pending", "What waits holds nothing but its charge, and nothing rests in released.", ALWAYS, Class.LEDGER, pending_holds_nothing),
    _promise("region.finished", "What is done, or has failed for good, has no slot, and is kept while it is asked for.", ALWAYS, Class.LEDGER, finished_stays),
    _promise("region.lists", "What each part of a full list has named is known until the list ends, and no longer.", ALWAYS, Class.LEDGER, lists_kept),
    _promise("region.counts", "Every count and index is what its rows add up to.", ALWAYS, Class.MERGEABLE, counts_agree),
    _promise(CAPACITY, "What stands on a node is no more than the node has.", AT_COMMIT, Class.LEDGER, within_capacity),
    _promise(ALLOWED, "Nothing stands where a taint evicts it, the node is kept for others, or tenants are not as far apart as they have to be.", AT_COMMIT, Class.LEDGER, where_allowed),
    _promise(RESIDENCY, "Nothing stands outside the jurisdictions that its workload allows.", AT_COMMIT, Class.LEDGER, residency_kept),
    _promise(RIGHT, "An exclusive identity stands only where this region holds its right.", AT_COMMIT, Class.ESCROW, rights_held),
)  # fmt: skip
