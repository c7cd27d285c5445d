"""Derived tables that evolve updates: phase counts, open counts, node usage, template uses, totals, domain members.

`replace_slot` replaces a slot and updates every count over slots; no other function may.

Size: everything that is counted, in one place.

Domain members, for spread, apart and near rules: slots counted by scope, topology key and domain.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.domains import domain_of, domain_scopes, has_domain_rules
from holdfast.core.model.records.lifecycle import ON_NODE, PENDING, Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import SchedulingRequest, Slot
from holdfast.core.model.values.resources import ZERO, add, subtract
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.account_usage import change_shared_use, change_use, charge_of
from holdfast.core.region.state.node_usage import (
    put_node_usage,
    recount_usage,
    remaining_victims,
    with_slot,
    without_slot,
)
from holdfast.core.region.state.slot_kinds import count_kind
from holdfast.core.region.state.tables import NO_PHASE_COUNTS, PHASE_INDEX, RegionState


def count_phases(state: RegionState, assignment: Revision, changes: dict[Phase, int]) -> None:
    """Add to the number of slots per phase of an assignment."""
    tally = list(state.phase_counts.get(assignment) or NO_PHASE_COUNTS)
    for phase, change in changes.items():
        tally[PHASE_INDEX[phase]] += change
    if any(tally):
        state.phase_counts.put(assignment, tuple(tally))
    else:
        state.phase_counts.drop(assignment)


def shift_phase(state: RegionState, assignment: Revision, source: Phase, target: Phase, count: int) -> None:
    """Move a number of slots of an assignment from one phase to another."""
    tally = list(state.phase_counts.get(assignment) or NO_PHASE_COUNTS)
    tally[PHASE_INDEX[source]] -= count
    tally[PHASE_INDEX[target]] += count
    state.phase_counts.put(assignment, tuple(tally))


def count_open(
    state: RegionState, assignment: Revision, template: str, change: int, revision: Revision, at: Instant
) -> None:
    """Change the number of open slots of a request; a request without open slots is removed."""
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


def replace_slot(state: RegionState, old: Slot | None, new: Slot | None, revision: Revision, at: Instant) -> None:
    """Store, replace or remove a slot, and update every count over slots."""
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
                change_use(state, account, add_or_subtract(ZERO, charged), add_or_subtract(ZERO, placed))
                change_shared_use(state, account, one.assignment, add_or_subtract(ZERO, charged))


def count_template(state: RegionState, digest: str, change: int) -> None:
    """Count a use of a template. A template that the platform no longer ships is deleted with its last use."""
    if not digest or not change:
        return
    left = (state.template_uses.get(digest) or 0) + change
    if left:
        state.template_uses.put(digest, left)
    else:
        state.template_uses.drop(digest)
        if digest in state.leaving_templates:
            state.leaving_templates.drop(digest)
            state.templates.drop(digest)


def count_templates(state: RegionState, old: Slot | None, new: Slot | None) -> None:
    """Count the templates of a slot that is added, changed or removed."""
    for slot, sign in ((new, 1), (old, -1)):
        if slot is not None:
            count_template(state, slot.template, sign)
            count_template(state, slot.next_template, sign)


def _arrive(state: RegionState, slot: Slot, revision: Revision) -> None:
    template = state.templates[slot.template]
    usage = state.node_usage.get(slot.node) or EMPTY_USAGE
    put_node_usage(state, slot.node, with_slot(usage, slot, template.need, template.gpu_milli, revision))
    if has_domain_rules(template):
        count_member(state, slot, template, state.nodes[slot.node], 1)


def _leave(state: RegionState, slot: Slot, revision: Revision) -> None:
    template = state.templates[slot.template]
    key = (slot.workload, slot.ordinal)
    victims = remaining_victims(state, slot) if slot.waits_for else []
    if victims or slot.successor is not None:
        for victim in victims:
            state.slots.put((victim.workload, victim.ordinal), _without_heir(victim))
        state.slots.put(key, _without_heir(slot))
        put_node_usage(state, slot.node, recount_usage(state, slot.node, revision, frozenset((key,))))
    else:
        usage = state.node_usage[slot.node]
        put_node_usage(state, slot.node, without_slot(usage, slot, template.need, template.gpu_milli, revision))
    if has_domain_rules(template):
        count_member(state, slot, template, state.nodes[slot.node], -1)


def _without_heir(slot: Slot) -> Slot:
    return replace(slot, successor=None)


def count_member(state: RegionState, slot: Slot, template: Template, node: Node, change: int) -> None:
    """Count a slot that is placed on a node, or leaves it, in its domains."""
    tenant = state.assignments[slot.assignment].tenant
    for scope, key in domain_scopes(template, slot.workload, tenant):
        where = (scope, key, domain_of(node, key))
        left = (state.domain_members.get(where) or 0) + change
        if left:
            state.domain_members.put(where, left)
        else:
            state.domain_members.drop(where)


def index_assignment(state: RegionState, uid: Revision, assignment: Assignment) -> None:
    """Add an assignment to the index of its workload."""
    others = state.assignments_of.get(assignment.workload) or ()
    state.assignments_of.put(assignment.workload, tuple(sorted((*others, uid))))


def unindex_assignment(state: RegionState, assignment: Assignment) -> None:
    """Remove an assignment from the index; a workload without assignments has no row."""
    others = tuple(uid for uid in state.assignments_of[assignment.workload] if uid != assignment.uid)
    if others:
        state.assignments_of.put(assignment.workload, others)
    else:
        state.assignments_of.drop(assignment.workload)


def index_unended(state: RegionState, assignment: Assignment | None, before: Assignment | None) -> None:
    """Update the list of assignments that have not ended, after a change of one."""
    was = before is not None and before.stage is not AssignmentStage.ENDED
    now = assignment is not None and assignment.stage is not AssignmentStage.ENDED
    one = assignment or before
    if was != now and one is not None:
        state.unended = state.unended.with_(one.uid) if now else state.unended.without(one.uid)


def index_silent(state: RegionState, node: Node | None, before: Node | None) -> None:
    """Update the order of nodes without a session, after a change of one."""
    was = (before.session_ended, before.uid) if before is not None and not before.session else None
    now = (node.session_ended, node.uid) if node is not None and not node.session else None
    if was == now:
        return
    if was is not None:
        state.silent = state.silent.without(was)
    if now is not None:
        state.silent = state.silent.with_(now)
