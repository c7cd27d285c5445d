"""Which old replicas make way for new ones: those whose end lets a slot of the new template be placed.

Without capacity for a surge, a rollout uses its disruption share. The pending reason of the surge decides:

    capacity, device, port, spread, apart    by its node: if a new replica is allowed there and then fits
    over-grant, grant-ended, protected       if its charge, or its resources, suffice for a new replica
    anything else                            no: paused, no node allowed, it never fits, ...

Any other stop would cost a serving replica without placing a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.domains import domain_of, domain_scopes
from holdfast.core.model.records.node_usage import NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import Ranges, count_numbers, numbers, ranges_of
from holdfast.core.model.values.resources import ZERO, first_exceeded, subtract, times
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.accounts import affordable_count
from holdfast.core.region.queries.domains import DomainSubject, check_domains, reachable_domains
from holdfast.core.region.queries.feasibility import fits, picked
from holdfast.core.region.queries.gates import refuse_node
from holdfast.core.region.queries.node_tenants import tenants_on
from holdfast.core.region.state.node_usage import with_slot, without_slot
from holdfast.core.region.state.tables import RegionState

_OF_NODES = frozenset((Code.CAPACITY, Code.DEVICE, Code.PORT, Code.SPREAD, Code.APART))
_OF_PAYERS = frozenset((Code.OVER_GRANT, Code.GRANT_ENDED, Code.PROTECTED))
#: Slots that are examined at most, evenly chosen among all.
LOOKED_MAX = 256


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
