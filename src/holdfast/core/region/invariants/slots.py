"""Invariants of slots, devices, ports, epochs, references and finished ordinals.

Each invariant is written once over a scan (see `scan`): all of the region, or the rows near a batch. Each counts from
the stored rows. Node usage and derived tables, which evolve updates step by step, are compared with a recount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import is_well_formed
from holdfast.core.region.invariants.scan import RegionScan
from holdfast.core.region.state.lookups import is_finished
from holdfast.core.region.state.tables import RegionState


def unique_binding(at: RegionScan) -> Iterator[str]:
    listed = Counter((key, uid) for uid, usage in at.rooms() for key in slot_keys(usage))
    for (key, uid), times in listed.items():
        slot = at.state.slots.get(key)
        if times > 1 or slot is None or slot.node != uid:
            yield f"usage of node {uid} lists {key} {times} times"
    for key, slot in at.slots():
        if (slot.phase in ON_NODE) != ((key, slot.node) in listed) or (slot.workload, slot.ordinal) != key:
            yield f"slot {key} is {slot.phase} on {slot.node}"


def _present(state: RegionState, slot: Slot) -> bool:
    """Return whether the slot has its devices and ports to itself: it waits for no victim."""
    return not any(
        (state.slots.get(victim) or slot).successor == (slot.workload, slot.ordinal) for victim in slot.waits_for
    )


def device_ownership(at: RegionScan) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in at.standing():
        if slot.phase in ON_NODE and slot.devices and _present(at.state, slot):
            for index in slot.devices:
                use[slot.node, index] += at.state.templates[slot.template].gpu_milli
    yield from (
        f"device {index} of node {uid} gives {milli} milli" for (uid, index), milli in use.items() if milli > 1000
    )


def port_ownership(at: RegionScan) -> Iterator[str]:
    use: Counter[tuple[int, int]] = Counter()
    for _, slot in at.standing():
        if slot.phase in ON_NODE and slot.ports and _present(at.state, slot):
            use.update((slot.node, port) for port in slot.ports)
    yield from (f"port {port} of node {uid} is given {times} times" for (uid, port), times in use.items() if times > 1)


def epochs_grow(at: RegionScan) -> Iterator[str]:
    head = pack_revision(at.state.info.seq + 1)
    for key, slot in at.slots():
        bound = slot.phase in ON_NODE and slot.phase is not Phase.RESERVED
        if slot.revision >= head or slot.epoch > slot.revision or (slot.epoch > 0) != bound:
            yield f"slot {key} is {slot.phase} with epoch {slot.epoch} and revision {slot.revision}"
    for uid, node in at.nodes():
        if not 0 < uid == node.uid <= node.revision < head or (node.session and node.session not in at.state.sessions):
            yield f"node {node.name} has uid {uid}, revision {node.revision}, session {node.session}"


def references_hold(at: RegionScan) -> Iterator[str]:
    state = at.state
    for key, slot in at.slots():
        templates = [name for name in (slot.template, slot.next_template) if name and name not in state.templates]
        if slot.assignment not in state.assignments or templates or (slot.node and slot.node not in state.nodes):
            yield f"slot {key} refers to an object that does not exist"
        if slot.successor is not None:
            heir = state.slots.get(slot.successor)
            if (
                heir is None
                or key not in heir.waits_for
                or heir.node != slot.node
                or slot.phase is not Phase.TERMINATING
            ):
                yield f"slot {key} names a successor that does not wait for it"
    for uid, hold in at.holds():
        if hold.node not in state.nodes:
            yield f"hold {uid} is on a node that does not exist"
    for uid, _ in at.node_reports():
        if uid not in state.nodes:
            yield f"there is a load report of node {uid}, which does not exist"


def pending_holds_nothing(at: RegionScan) -> Iterator[str]:
    for key, slot in at.slots():
        holds = slot.node or slot.devices or slot.ports or slot.epoch or slot.waits_for or slot.successor
        if slot.phase is Phase.PENDING and holds:
            yield f"slot {key} is pending and holds something"
        if slot.phase is Phase.RELEASED:
            yield f"slot {key} stays in released"


def finished_stays(at: RegionScan) -> Iterator[str]:
    for key, slot in at.slots():
        if is_finished(at.state, slot.assignment, slot.ordinal):
            yield f"slot {key} is {slot.phase}, and finished"
    for uid, rows in at.finished():
        assignment = at.state.assignments[uid]
        asked = [share.template for share in assignment.shares if assignment.batch]
        if assignment.stage is not AssignmentStage.ENDED and not all(row.template in asked for row in rows):
            yield f"assignment {uid} has finished ordinals of a template that it does not have"
        runs = [runs for row in rows for runs in (row.done, row.failed)]
        numbers = [number for one in runs for run in one for number in range(*run)]
        if not numbers or len(set(numbers)) != len(numbers) or not all(map(is_well_formed, runs)):
            yield f"assignment {uid} has finished {runs}"


def lists_kept(at: RegionScan) -> Iterator[str]:
    listing = at.state.region.listing
    kept = sorted(part for part, _ in at.state.listed_names.unordered())
    if kept != list(range(listing.parts if listing is not None else 0)):
        yield f"names of parts {kept} are stored, and the list in progress is {listing}"
