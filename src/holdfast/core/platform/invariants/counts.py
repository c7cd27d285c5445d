"""Derived tables, compared with their rows: by a rebuild in a full scan, by differences in a batch scan.

A batch must change each index and sum by exactly as much as its rows. Both changes are counted, one number for each
listed or summed item, and compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.core.ledger.state.invariants import BatchScan, miscounts, present
from holdfast.core.ledger.state.ledger_state import KEY
from holdfast.core.model.objects.workloads import Workload, name_key
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.grants import charge_key
from holdfast.core.model.values.ranges import is_well_formed, numbers
from holdfast.core.platform.invariants.grants import named
from holdfast.core.platform.state.tables import PlatformState

#: An item (its table, key and part of the row) and how much of it is listed or summed.
Counts = Counter[tuple[object, ...]]

#: Tables with a long list for each key.
_LONG = ("paid_by", "assigned_in", "rights_in", "granted_in")
_LISTS = ("assignments_of", "rights_of", *_LONG)
_SUMS = ("workload_counts", "pending_of", "right_counts")
_INDEXES = ("session_of", "workload_names", "template_uses", "offered_of", "demand_of", *_SUMS, *_LISTS)


def miscounted_anywhere(state: PlatformState) -> Iterator[str]:
    """Yield the derived tables that differ from a rebuild."""
    rebuilt = state.fork()
    rebuilt.rebuild()
    for spec in state.TABLES:
        if spec.derived and state.table(spec.name).items() != rebuilt.table(spec.name).items():
            yield f"{spec.name} is not what a rebuild makes of it"


def miscounted_near(near: BatchScan[PlatformState], changed: Counts) -> Iterator[str]:
    """Yield the derived rows of a batch that have not changed as their rows have."""
    kept: Counts = Counter()
    for table in _INDEXES:
        for key, old, new in near.change.rows(table):
            if table in _LONG:
                _keep_changed(kept, table, key, set(old or ()), set(new or ()))
            else:
                _keep(kept, table, key, old, -1)
                _keep(kept, table, key, new, 1)
            if new is not None and (not new or (table in _LISTS and not _is_ordered(table, new))):
                yield f"{table} {key} is {new}"
    yield from miscounts(kept, changed)
    yield from _keys_out_of_order(near)


def changed_counts(near: BatchScan[PlatformState]) -> Counts:
    """Return how the rows of a batch have changed their derived items; unchanged rows cancel out."""
    found: Counts = Counter()
    for state, sign in ((near.before, -1), (near.state, 1)):
        for uid, workload in present(state, "workloads", near.keys("workloads")):
            meta = workload.meta
            found["workload_counts", meta.tenant] += sign
            if meta.deletion is None:
                found["workload_names", name_key(meta.tenant, meta.name), uid] += sign
                found["pending_of", meta.tenant] += sign * _waiting(workload)
            for digest in state.templates_of.get(uid) or ():
                found["template_uses", digest, meta.tenant] += sign
        for uid, assignment in present(state, "assignments", near.keys("assignments")):
            found["assignments_of", assignment.workload, uid] += sign
            found["assigned_in", assignment.region, (assignment.workload, uid)] += sign
            for account in sorted({one for one in assignment.accounts if one.split("/")[0] == "emergency"}):
                found["paid_by", account, uid] += sign
            for what, amount in _asked(state, assignment):
                found["demand_of", f"{assignment.region}|{assignment.accounts[0]}", what] += sign * amount
        for _, grant in present(state, "grants", near.keys("grants")):
            found["granted_in", grant.region, grant.account] += sign
            for resource, amount in named(grant.offered).items():
                found["offered_of", charge_key(grant.account, grant.region), resource] += sign * amount
        for (workload, ordinal), held in present(state, "rights", near.keys("rights")):
            found["rights_of", workload, held.region, ordinal] += sign
            found["right_counts", held.region] += sign
        for uid, session in present(state, "sessions", near.keys("sessions")):
            found["session_of", session.principal, uid] += sign
    for uid, *rows in near.change.rows("rights_of"):
        for row, sign in zip(rows, (-1, 1), strict=True):
            for region, _ in row or ():
                found["rights_in", region, uid] += sign
    return found


def _waiting(workload: Workload) -> int:
    """Return how many replicas are neither bound nor finished."""
    status = workload.status
    return max(workload.spec.replicas - status.bound - status.succeeded - status.failed, 0)


def _asked(state: PlatformState, assignment: Assignment) -> Iterator[tuple[str, int]]:
    """Yield the demand of an assignment on its first account: replicas, and what they need."""
    if assignment.stage is not AssignmentStage.ACTIVE or not assignment.accounts:
        return
    said = [
        one.seen for one in state.workload_reports.get(assignment.workload) or () if one.region == assignment.region
    ]
    told = [count for seen in said for count in seen.counts if assignment.batch and assignment.purpose == "serving"]
    for share in assignment.shares:
        template = state.templates.get(share.template)
        if template is not None:
            over = sum(count.done + count.failed for count in told if count.template == share.template)
            asked = max(0, share.count - over)
            yield "replicas", asked
            yield from ((resource, amount * asked) for resource, amount in named(template.need).items())


def _is_ordered(table: str, row: Any) -> bool:
    if table != "rights_of":
        return list(row) == sorted(row)
    names = [region for region, _ in row]
    return names == sorted({*names}) and all(ordinals and is_well_formed(ordinals) for _, ordinals in row)


def _keep(kept: Counts, table: str, key: Any, row: Any, sign: int) -> None:
    """Add a derived row to the counts."""
    if row is None:
        return
    match table:
        case "workload_names" | "session_of":
            kept[table, key, row] += sign
        case "workload_counts" | "pending_of" | "right_counts":
            kept[table, key] += sign * row
        case "template_uses":
            for tenant, count in row:
                kept[table, key, tenant] += sign * count
        case "offered_of":
            for resource, amount in named(row).items():
                kept[table, key, resource] += sign * amount
        case "demand_of":
            kept[table, key, "replicas"] += sign * row.count
            for resource, amount in named(row.amount).items():
                kept[table, key, resource] += sign * amount
        case "rights_of":
            for region, ordinals in row:
                for ordinal in numbers(ordinals):
                    kept[table, key, region, ordinal] += sign
        case _:
            for part in row:
                kept[table, key, part] += sign


def _keep_changed(kept: Counts, table: str, key: Any, old: set[Any], new: set[Any]) -> None:
    """Add only the changed parts of a long list."""
    kept.update({(table, key, part): -1 for part in sorted(old - new)})
    kept.update({(table, key, part): 1 for part in sorted(new - old)})


def _keys_out_of_order(near: BatchScan[PlatformState]) -> Iterator[str]:
    """Check that an actor's keys are the old ones without removed and with new keys, in order of their end."""
    gone: dict[str, set[int]] = {}
    come: dict[str, list[int]] = {actor: [] for actor in near.keys("keys_of")}
    for key, old, new in near.change.rows("keys"):
        if old is not None and new is not None and (old.actor, old.revision) == (new.actor, new.revision):
            continue
        if old is not None:
            gone.setdefault(old.actor, set()).add(key)
            come.setdefault(old.actor, [])
        if new is not None:
            come.setdefault(new.actor, []).append(key)
    for actor, new_keys in come.items():
        lost, row_of = gone.get(actor, set()), near.state.idempotency_keys.get
        old_keys = [
            key
            for (key,) in KEY.iter_unpack(near.before.idempotency_keys_by_actor.get(actor) or b"")
            if key not in lost
        ]
        rows = [(key, row_of(key)) for key in (*old_keys, *new_keys)]
        ends = sorted((row.at, row.revision, key) for key, row in rows if row is not None)
        if (near.state.idempotency_keys_by_actor.get(actor) or b"") != b"".join(KEY.pack(key) for _, _, key in ends):
            yield f"keys_of {actor} does not list its keys in the order in which they end"
