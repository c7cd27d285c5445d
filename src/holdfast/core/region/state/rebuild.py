"""Rebuild of every derived table and sum from the stored ones: after a snapshot, and to check evolve."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from operator import attrgetter

from holdfast.core.ledger.state.sparse_rows import add_to_list
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.domains import domain_of, domain_scopes, has_domain_rules
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.records.node_usage import RegionTotals
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import masks
from holdfast.core.model.values.resources import ZERO, times
from holdfast.core.model.values.sorted_list import SortedList
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.state.account_usage import change_tenant_use, change_use, shift_protected
from holdfast.core.region.state.indexes import count_phases, count_template, index_assignment
from holdfast.core.region.state.node_usage import count_node
from holdfast.core.region.state.slot_kinds import count_kinds, slot_kind
from holdfast.core.region.state.tables import RegionState, SlotKind


def rebuild(state: RegionState) -> None:
    """Rebuild every derived table and sum, from the stored tables alone."""
    for spec in state.TABLES:
        if spec.derived and spec.name not in ("session_of", "keys_of"):
            state.set_table(spec.name, Table(spec.shards))
    state.totals = RegionTotals()
    state.silent = SortedList((node.session_ended, uid) for uid, node in state.nodes.unordered() if not node.session)
    state.unended = SortedList(
        uid for uid, one in state.assignments.unordered() if one.stage is not AssignmentStage.ENDED
    )
    for uid, node in state.nodes.unordered():
        state.node_names.put(node.name, uid)
        count_node(state, node, None)
    for uid, assignment in state.assignments.unordered():
        index_assignment(state, uid, assignment)
    _rebuild_counts(state)


#: Kind of a slot for counting. The phase is its text: hashing an enum member runs Python code.
_kind = attrgetter("assignment", "phase._value_", "template", "next_template", "account", "firm")


def _rebuild_counts(state: RegionState) -> None:
    """Count slots by kind: kinds are few, so each kind is evaluated once."""
    shards = list(state.slots.shard_rows())
    kinds = Counter(map(_kind, chain.from_iterable(map(dict.values, shards))))
    charges: dict[tuple[str, str, str, bool], int] = {}
    templates: dict[str, int] = {}
    for (assignment, text, template, next_template, account, firm), count in kinds.items():
        phase = Phase(text)
        count_phases(state, assignment, {phase: count})
        if account:
            tenant = state.assignments[assignment].tenant
            charge = account, tenant, template, firm and phase in ON_NODE
            charges[charge] = charges.get(charge, 0) + count
        templates[template] = templates.get(template, 0) + count
        templates[next_template] = templates.get(next_template, 0) + count
    _settle(state, charges, templates)
    _rebuild_kinds(state, shards)
    scattered = {digest for digest, template in state.templates.unordered() if has_domain_rules(template)}
    if not scattered.isdisjoint(templates):
        _rebuild_members(state, scattered)


def _rebuild_kinds(state: RegionState, shards: list[dict[SlotKey, Slot]]) -> None:
    """Build the ordinals by assignment and kind. They are collected first, so that each block is written once."""
    ordinals: dict[tuple[Revision, SlotKind], list[int]] = {}
    for shard in shards:
        for slot in shard.values():
            ordinals.setdefault((slot.assignment, slot_kind(slot)), []).append(slot.ordinal)
    for (assignment, kind), found in ordinals.items():
        count_kinds(state, assignment, None, kind, masks(found))


def _rebuild_members(state: RegionState, scattered: set[str]) -> None:
    """Count slots with domain rules by domain: first their nodes, then the domains of these nodes."""
    on_node = {phase.value for phase in ON_NODE}
    standing: dict[tuple[Revision, Revision, str], list[Revision]] = {}
    for shard in state.slots.shard_rows():
        for slot in shard.values():
            if slot.template in scattered and slot.phase._value_ in on_node:
                standing.setdefault((slot.workload, slot.assignment, slot.template), []).append(slot.node)
    domains: dict[str, dict[Revision, str]] = {}
    members: dict[tuple[str, str, str], int] = {}
    for (workload, assignment, template), nodes in standing.items():
        for scope, key in domain_scopes(state.templates[template], workload, state.assignments[assignment].tenant):
            if key not in domains:
                domains[key] = {uid: domain_of(node, key) for uid, node in state.nodes.unordered()}
            for place, count in Counter(map(domains[key].__getitem__, nodes)).items():
                where = scope, key, place
                members[where] = members.get(where, 0) + count
    for where, count in members.items():
        state.domain_members.put(where, count)


def _settle(state: RegionState, charges: dict[tuple[str, str, str, bool], int], templates: dict[str, int]) -> None:
    for _, allowance in state.accepted_grants.unordered():
        shift_protected(state, ZERO, allowance.protected)
    for (account, tenant, template, stands), count in charges.items():
        charged = times(state.templates[template].need, count)
        change_use(state, account, charged, charged if stands else ZERO)
        change_tenant_use(state, account, tenant, charged)
    for _, hold in state.holds.unordered():
        if hold.assignment:
            add_to_list(state.holds_of, hold.assignment, hold.uid)
        change_use(state, hold.account, hold.need, ZERO)
        change_tenant_use(state, hold.account, hold.tenant, hold.need)
    for _, asked in state.assignments.unordered():
        for share in asked.shares:
            templates[share.template] = templates.get(share.template, 0) + 1
    for digest, count in templates.items():
        count_template(state, digest, count)
