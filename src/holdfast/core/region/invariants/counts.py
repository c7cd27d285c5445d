"""Counts and indexes, compared with their rows: in a full scan with a rebuild, near a batch by the difference.

A batch changes each count exactly as the rows that it wrote require. Both changes become one list of numbers, one per
counted value, and are compared. A count of zero may have a row or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.core.ledger.state.invariants import BatchScan, miscounts, present
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.domains import domain_of, domain_scopes, has_domain_rules
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.lifecycle import ON_NODE, PHASES, Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage, RegionTotals
from holdfast.core.model.records.nodes import Node, usable
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import each
from holdfast.core.model.values.resources import Resources, add, clamp_zero, nonzero_amounts, subtract
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.state.account_usage import is_shared
from holdfast.core.region.state.node_kinds import node_kind as node_kind_of
from holdfast.core.region.state.node_kinds import node_labels
from holdfast.core.region.state.rebuild import rebuild
from holdfast.core.region.state.slot_kinds import slot_kind
from holdfast.core.region.state.tables import RegionState, SlotKind

#: Numbers by what they count: table, key, part of the row.
Counts = Counter[tuple[object, ...]]

_EMPTY: dict[str, object] = {"uses": AccountUsage()}
#: Tables that are counts or indexes. Requests are stored rows that contain a count of open slots.
_COUNTS = (
    "node_names", "assignments_of", "blocks", "kinds", "holds_of", "tallies", "uses", "shared_uses", "template_uses",
    "domains", "node_kinds", "node_labels", "node_amounts", "members", "requests",
)  # fmt: skip
#: Tables on which the counts of a slot depend, beside its own row.
_COUNTED_BY = ("templates", "assignments", "nodes")
#: Count tables whose rows are sorted lists of numbers.
_LISTS = ("assignments_of", "blocks", "holds_of")


def miscounted_anywhere(state: RegionState) -> Iterator[str]:
    """Find tables and sums that differ from a rebuild of the stored rows."""
    fresh = state.fork()
    rebuild(fresh)
    for spec in state.TABLES:
        if spec.derived and spec.name not in ("session_of", "keys_of"):
            mine = {key: row for key, row in state.table(spec.name).unordered() if row != _EMPTY.get(spec.name)}
            theirs = {key: row for key, row in fresh.table(spec.name).unordered() if row != _EMPTY.get(spec.name)}
            if mine != theirs:
                yield f"{spec.name} does not agree with its rows"
    if state.totals != fresh.totals:
        yield f"totals are {state.totals}, from the rows {fresh.totals}"
    if state.silent != fresh.silent:
        yield f"silent nodes are {state.silent}, from the rows {fresh.silent}"
    if state.unended != fresh.unended:
        yield f"assignments that have not ended are {state.unended}, from the rows {fresh.unended}"
    pending = Counter((s.assignment, s.template) for _, s in state.slots.unordered() if s.phase is Phase.PENDING)
    opened = {(r.assignment, r.template): r.open for _, rs in state.requests.unordered() for r in rs}
    if dict(pending) != opened:
        yield "open counts of requests do not agree with the pending slots"


def miscounted_near(near: BatchScan[RegionState], changed: Counts) -> Iterator[str]:
    """Find counts whose change differs from the change of their rows."""
    kept: Counts = Counter()
    for table in _COUNTS:
        for key, old, new in near.change.rows(table):
            if table == "kinds":
                _keep_bits(kept, key, dict(old or ()), dict(new or ()))
                if list(new or ()) != sorted(new or ()):
                    kept[table, key, "out of order"] += 1
            elif table in _LISTS:
                _keep_listed(kept, table, key, tuple(old or ()), tuple(new or ()))
            else:
                _keep(kept, table, key, old, -1)
                _keep(kept, table, key, new, 1)
    for sums, sign in ((near.before.totals, -1), (near.state.totals, 1)):
        _keep_sums(kept, sums, sign)
    _keep_listed(kept, "unended", "", tuple(near.before.unended), tuple(near.state.unended))
    _keep_listed(kept, "silent", "", tuple(near.before.silent), tuple(near.state.silent))
    yield from miscounts(kept, changed)


def changed_counts(near: BatchScan[RegionState]) -> Counts:
    """Return the change of each count by the scanned rows; unchanged rows cancel out."""
    found: Counts = Counter()
    slots = _differing(near)
    for state, sign in ((near.before, -1), (near.state, 1)):
        for _, slot in present(state, "slots", slots):
            _count_slot(found, state, slot, sign)
        for _, hold in present(state, "holds", near.keys("holds")):
            _count_amounts(found, ("charged", hold.account), hold.need, sign)
            if is_shared(hold.account):
                _count_amounts(found, ("shared", hold.tenant), hold.need, sign)
            if hold.assignment:
                found["holds_of", hold.assignment, hold.uid] += sign
        for uid, assignment in present(state, "assignments", near.keys("assignments")):
            found["assignments_of", assignment.workload, uid] += sign
            found["unended", "", uid] += sign * (assignment.stage is not AssignmentStage.ENDED)
            for share in assignment.shares:
                found["template_uses", share.template] += sign
        for uid, node in present(state, "nodes", near.keys("nodes")):
            _count_node(found, node, uid, state.node_usage.get(node.uid) or EMPTY_USAGE, sign)
        for account, allowance in present(state, "allowances", near.keys("uses")):
            placed = (state.account_usage.get(account) or AccountUsage()).placed
            _count_amounts(found, ("shield",), clamp_zero(subtract(allowance.protected, placed)), sign)
    for (assignment, block), was, now in near.change.rows("kinds"):
        found["blocks", assignment, block] += (now is not None) - (was is not None)
    return found


def _differing(near: BatchScan[RegionState]) -> list[SlotKey]:
    """Return the scanned slots without unchanged rows: those count as before, unless a row that they depend on has
    changed."""
    keys, touched = near.keys("slots"), near.change.touched
    if any(touched.get(table) for table in _COUNTED_BY):
        return keys
    written = set(touched.get("slots", ()))
    return [key for key in keys if key in written]


def _count_slot(found: Counts, state: RegionState, slot: Slot, sign: int) -> None:
    template = state.templates[slot.template]
    stands = slot.phase in ON_NODE
    found["tallies", slot.assignment, slot.phase] += sign
    found["kinds", slot.assignment, slot_kind(slot), slot.ordinal] += sign
    for digest in (slot.template, slot.next_template):
        if digest:
            found["template_uses", digest] += sign
    if slot.phase is Phase.PENDING:
        found["requests", slot.assignment, slot.template] += sign
    if slot.account:
        _count_amounts(found, ("charged", slot.account), template.need, sign)
        if is_shared(slot.account):
            _count_amounts(found, ("shared", state.assignments[slot.assignment].tenant), template.need, sign)
        if slot.firm and stands:
            _count_amounts(found, ("placed", slot.account), template.need, sign)
    if stands and has_domain_rules(template):
        tenant, node = state.assignments[slot.assignment].tenant, state.nodes[slot.node]
        for scope, key in domain_scopes(template, slot.workload, tenant):
            found["members", scope, key, domain_of(node, key)] += sign


def _count_node(found: Counts, node: Node, uid: Revision, usage: NodeUsage, sign: int) -> None:
    found["node_names", node.name, uid] += sign
    if not node.session:
        found["silent", "", (node.session_ended, uid)] += sign
    if usable(node):
        found["domains", "zone", node.zone] += sign
        found["domains", "pool", node.pool] += sign
        kind = node_kind_of(node)
        found["node_kinds", *kind] += sign
        found.update({("node_labels", *label): sign for label in node_labels(node, kind)})
        found.update({("node_amounts", (name, kind), amount): sign for name, amount in nonzero_amounts(node.capacity)})
        _count_amounts(found, ("capacity",), node.capacity, sign)
        _count_amounts(found, ("taken",), add(usage.firm, usage.held), sign)


def _count_amounts(found: Counts, what: tuple[object, ...], amounts: Resources, sign: int) -> None:
    found[*what, "cpu"] += sign * amounts.cpu
    found[*what, "memory"] += sign * amounts.memory
    found[*what, "disk"] += sign * amounts.disk
    found[*what, "gpu"] += sign * amounts.gpu
    for name, amount in amounts.extended:
        found[(*what, name)] += sign * amount


def _keep(kept: Counts, table: str, key: Any, row: Any, sign: int) -> None:
    """Add a row of a count table, as numbers."""
    if row is None:
        return
    match table:
        case "uses":
            _count_amounts(kept, ("charged", key), row.charged, sign)
            _count_amounts(kept, ("placed", key), row.placed, sign)
        case "shared_uses":
            _count_amounts(kept, ("shared", key), row, sign)
        case "tallies":
            _keep_each(kept, ((table, key, phase, count) for phase, count in zip(PHASES, row, strict=True)), sign)
        case "requests":
            _keep_each(kept, ((table, request.assignment, request.template, request.open) for request in row), sign)
        case "node_amounts":
            _keep_each(kept, ((table, key, amount, count) for amount, count in row), sign)
        case "node_names":
            kept[table, key, row] += sign
        case "template_uses":
            kept[table, key] += sign * row
        case _:
            kept[(table, *key)] += sign * row


def _keep_listed(kept: Counts, table: str, key: Any, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    """Add the numbers that a list gained or lost: a list may be long."""
    was, now = set(old), set(new)
    kept.update({(table, key, number): -1 for number in sorted(was - now)})
    kept.update({(table, key, number): 1 for number in sorted(now - was)})
    if list(new) != sorted(now):
        kept[table, key, "out of order"] += 1


def _keep_bits(kept: Counts, key: tuple[Revision, int], old: dict[SlotKind, int], new: dict[SlotKind, int]) -> None:
    """Add the ordinals that a kind gained or lost."""
    assignment, block = key
    for kind in sorted({*old, *new}):
        was, now = old.get(kind, 0), new.get(kind, 0)
        for bits, sign in ((was & ~now, -1), (now & ~was, 1)):
            kept.update({("kinds", assignment, kind, number): sign for number in each({block: bits})})


def _keep_each(kept: Counts, parts: Iterable[tuple[str, Any, Any, int]], sign: int) -> None:
    for table, key, part, count in parts:
        kept[table, key, part] += sign * count


def _keep_sums(kept: Counts, sums: RegionTotals, sign: int) -> None:
    for name in ("capacity", "taken", "shield"):
        _count_amounts(kept, (name,), getattr(sums, name), sign)
