"""Rollout: slots that run an old template are stopped carefully, and their ordinals return under the new one.

    does not serve, and will not soon ──▶ at once: it costs nothing
    serves ──▶ as many as serve beyond the requested number, once the surge serves
           ──▶ without a surge (identities, or no capacity): as many as the disruption share allows, of those whose
               end frees capacity (`freeing`, below); otherwise it waits, and the condition `Updated` says why

It computes the plan of the replica controller: nothing is stopped for an outdated template, and slots that end anyway
do not count as serving. The ledger checks every stop again.

Without capacity for a surge, a rollout uses its disruption share. The pending reason of the surge decides:

    capacity, device, port, spread, apart    by its node: if a new replica is allowed there and then fits
    over-grant, grant-ended, protected       if its charge, or its resources, suffice for a new replica
    anything else                            no: paused, no node allowed, it never fits, ...

Any other stop would cost a serving replica without placing a new one.

Gangs are stopped as a whole, each for as many serving replicas as it has. Without capacity for a surge, one gang within
the share makes way for the gang that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, chunked
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.domains import domain_of, domain_scopes
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import Bitset, as_ranges, count, each, masks, shared, union
from holdfast.core.model.values.ranges import Ranges, count_numbers, first_of, numbers, ranges_of, with_numbers, without
from holdfast.core.model.values.resources import ZERO, first_exceeded, subtract, times
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.reconcilers.region.keyed import PerAssignment
from holdfast.core.reconcilers.region.replica_plan import ReplicaPlan, StayingSlots, replica_plan, replicas_asked
from holdfast.core.region.commands import Stop
from holdfast.core.region.queries.accounts import affordable_count
from holdfast.core.region.queries.domains import DomainSubject, check_domains, reachable_domains
from holdfast.core.region.queries.feasibility import fits, picked
from holdfast.core.region.queries.gates import refuse_node
from holdfast.core.region.state.gangs import gangs_of, members_of
from holdfast.core.region.state.node_tenants import tenants_on
from holdfast.core.region.state.node_usage import with_slot, without_slot
from holdfast.core.region.state.tables import RegionState

#: Time for running or ready slots to begin to serve. After an outage all slots are in these phases; stopping them then
#: would make the outage complete.
SETTLES_MS = 30_000
_SETTLING = (Phase.RUNNING, Phase.READY)
#: Unknown slots are not stopped: the agent may return with them, or the node is fenced, which frees the ordinal.
_NEVER_SERVED = (Phase.BOUND, Phase.STARTING, Phase.FAILED)
_OF_NODES = frozenset((Code.CAPACITY, Code.DEVICE, Code.PORT, Code.SPREAD, Code.APART))
_OF_PAYERS = frozenset((Code.OVER_GRANT, Code.GRANT_ENDED, Code.PROTECTED))
_OF_GANGS = _OF_NODES | _OF_PAYERS | {Code.GANG}
#: Slots that are examined at most, evenly chosen among all.
LOOKED_MAX = 256


class RolloutReconciler(PerAssignment):
    """The rollout controller, keyed by assignment uid."""

    name = "rollout"

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NO_CHANGES
        found = replica_plan(state, assignment, now)
        if assignment.gang is not None:
            return _by_gang(state, assignment, found, assignment.gang.size, now)
        old = [one for one in found.old if one.kind.next_template == one.template]
        settling = [slot for one in old if one.kind.phase in _SETTLING for slot in _slots(state, assignment, one)]
        free = [as_ranges(one.ordinals) for one in old if one.kind.phase in _NEVER_SERVED]
        free.append(ranges_of(slot.ordinal for slot in settling if slot.since + SETTLES_MS <= now))
        serving = as_ranges(union(one.ordinals for one in old if one.kind.phase is Phase.SERVING))
        stopped = _to_stop(state, assignment, found, serving, now) if serving else ()
        ordinals = (*numbers(ranges_of(run for runs in free for run in runs)), *numbers(stopped))
        again = min((slot.since + SETTLES_MS for slot in settling if slot.since + SETTLES_MS > now), default=None)
        return _stops(assignment, ordinals, again)


def _stops(assignment: Assignment, ordinals: Iterable[int], again: Instant | None) -> ReconcileResult:
    stops = [Stop(chunk, "rollout") for chunk in chunked([(assignment.workload, n) for n in ordinals])]
    return ReconcileResult(
        tuple(ProposedCommand(stop, assignment.revision, expect=assignment.revision) for stop in stops), again
    )


def _by_gang(
    state: RegionState, assignment: Assignment, found: ReplicaPlan, size: int, now: Instant
) -> ReconcileResult:
    """Stop old gangs that do not serve, those beyond the requested number, and one that makes way within the share."""
    old = [one for one in found.old if one.kind.next_template == one.template]
    mine = union(one.ordinals for one in old)
    serving = union(one.ordinals for one in old if one.kind.phase is Phase.SERVING)
    settling = [slot for one in old if one.kind.phase in _SETTLING for slot in _slots(state, assignment, one)]
    young = {slot.ordinal // size: slot.since + SETTLES_MS for slot in settling if slot.since + SETTLES_MS > now}
    beyond = sum(count(one.ordinals) for one in found.staying if one.kind.phase is Phase.SERVING)
    beyond -= replicas_asked(assignment)
    share = assignment.disruption if _makes_way(state, assignment) else 0
    gone: list[Bitset] = []
    for gang in each(gangs_of(mine, size)):
        members = shared(mine, members_of(masks((gang,)), size))
        cost = count(shared(members, serving))
        if cost > beyond + share if cost else gang in young:
            continue
        gone.append(members)
        share = 0 if cost > beyond else share
        beyond -= cost
    return _stops(assignment, each(union(gone)), min(young.values(), default=None))


def _makes_way(state: RegionState, assignment: Assignment) -> bool:
    """Check whether a new gang waits for nodes, or for quota, that an old one uses."""
    wanted = [share.template for share in assignment.shares if share.count]
    waiting = [one for one in state.requests.get(assignment.uid) or () if one.template in wanted]
    return any(reason.code in _OF_GANGS for one in waiting for reason in one.reasons)


def _slots(state: RegionState, assignment: Assignment, some: StayingSlots) -> list[Slot]:
    return state.slots.find((assignment.workload, ordinal) for ordinal in each(some.ordinals))


def _to_stop(state: RegionState, assignment: Assignment, found: ReplicaPlan, old: Ranges, now: Instant) -> Ranges:
    """Return the serving slots to stop now: those beyond the requested number, then candidates within the share."""
    serving = sum(count(one.ordinals) for one in found.staying if one.kind.phase is Phase.SERVING)
    beyond = serving - replicas_asked(assignment)
    if assignment.exclusive:
        return first_of(old, max(0, beyond + assignment.disruption))
    spare = first_of(old, max(0, beyond))
    share = assignment.disruption + min(0, beyond)
    return (
        with_numbers(spare, rollout_candidates(state, assignment, without(old, spare), share, now))
        if share > 0
        else spare
    )


def rollout_candidates(state: RegionState, assignment: Assignment, old: Ranges, most: int, now: Instant) -> Ranges:
    """Return up to `most` of these ordinals, all of which serve, whose end lets a waiting slot be placed."""
    wanted = [share.template for share in assignment.shares if share.count]
    waiting = [one for one in state.requests.get(assignment.uid) or () if one.reasons and one.template in wanted]
    if not waiting or not old:
        return ()
    every = max(1, -(-count_numbers(old) // LOOKED_MAX))
    slots = state.slots.find((assignment.workload, ordinal) for ordinal in islice(numbers(old), 0, None, every))
    for request in waiting:
        codes = {reason.code for reason in request.reasons}
        template = state.templates[request.template]
        found: list[int] = []
        if not codes.isdisjoint(_OF_PAYERS):
            found = [slot.ordinal for slot in slots if _pays(state, slot, template, most, now)][:most]
        elif not codes.isdisjoint(_OF_NODES):
            found = _Making(state, assignment, template, now).room(slots, most)
        if found:
            return ranges_of(sorted(found))
    return ()


def _pays(state: RegionState, slot: Slot, template: Template, most: int, now: Instant) -> bool:
    """Check whether a slot's charge covers one of the template, by itself or together with others."""
    mine = state.templates[slot.template].need
    if not first_exceeded(template.need, mine):
        return True
    return affordable_count(state, slot.account, now, template.need, subtract(ZERO, times(mine, most))) > 0


class _Making:
    """Nodes on which slots make way for those of a template."""

    def __init__(self, state: RegionState, assignment: Assignment, template: Template, now: Instant) -> None:
        self._state, self._template = state, template
        self._overrides = active_overrides(state, now)
        self._standing = DomainSubject(template, assignment.workload, assignment.tenant, assignment.exclusive)
        self._reach = reachable_domains(state, self._standing, self._overrides.zones)
        cls = state.priority_classes.get(assignment.priority_class)
        self._firm = cls is None or not cls.spec.reclaimable
        self._is_for: dict[Revision, bool] = {}

    def room(self, slots: Sequence[Slot], most: int) -> list[int]:
        """Return up to `most` ordinals without which their nodes have enough free capacity; a node may need several."""
        found: list[int] = []
        rooms: dict[Revision, NodeUsage] = {}
        gathered: dict[Revision, list[Slot]] = {}
        for slot in slots:
            node = self._state.nodes[slot.node]
            if slot.waits_for or slot.successor is not None or not self._admits(node):
                continue
            mine = gathered.setdefault(node.uid, [])
            if len(found) + len(mine) >= most:
                continue
            mine.append(slot)
            room, old = rooms.get(node.uid) or self._state.node_usage[node.uid], self._state.templates[slot.template]
            room = rooms[node.uid] = without_slot(room, slot, old.need, old.gpu_milli, room.revision)
            devices, ports = picked(node, room, self._template, firm=self._firm)
            if self._is_shut(node, mine) or fits(node, room, self._template, devices, ports, firm=self._firm):
                continue
            coming = replace(slot, devices=devices, ports=ports, firm=self._firm)
            rooms[node.uid] = with_slot(room, coming, self._template.need, self._template.gpu_milli, room.revision)
            found += [one.ordinal for one in mine]
            gathered[node.uid] = []
        return found

    def _admits(self, node: Node) -> bool:
        known = self._is_for.get(node.uid)
        if known is None:
            there, tenant = tenants_on(self._state, node), self._standing.tenant
            known = refuse_node(self._overrides, node, self._template, tenant, there) is None
            self._is_for[node.uid] = known
        return known

    def _is_shut(self, node: Node, gone: list[Slot]) -> bool:
        """Check whether domain rules exclude a node that these slots have left."""
        left: dict[tuple[str, str, str], int] = {}
        for slot in gone:
            for scope, key in domain_scopes(self._state.templates[slot.template], slot.workload, self._standing.tenant):
                where = (scope, key, domain_of(node, key))
                left[where] = left.get(where, 0) + 1
        members = self._state.domain_members.get
        return (
            check_domains(lambda where: (members(where) or 0) - left.get(where, 0), self._standing, self._reach, node)
            is not None
        )
