"""What must be told of a row that changed: for each stored table of each ledger, the keys that an event which changes
a row of it has to carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.dedup import remember_answer
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.ledger_state import LedgerState, Session
from holdfast.core.model.records.slots import PreemptionWindow, Slot
from holdfast.core.region.state.tables import RegionInfo

#: (the key of a row, the row, the state it is in) -> the keys under which a change of it is told.
Told = Callable[[Any, Any, Any], list[WatchKey]]

COMMON: dict[str, Told] = {
    "principals": lambda name, _row, _: [("principal", name)],
    "sessions": lambda uid, row, _: [("session", uid), ("principal", row.principal)],
    "overrides": lambda uid, _row, _: [("override", uid)],
    "policies": lambda at, _row, _: [("policy", at)],
    "templates": lambda digest, _row, _: [("template", digest)],
    "tokens": lambda name, _row, _: [("token", name)],
    "servers": lambda name, _row, _: [("server", name)],
}


def _of_hold(uid: int, hold: Any, _: Any) -> list[WatchKey]:
    mine: list[WatchKey] = [("hold", uid), ("node", hold.node)]
    return [*mine, ("assignment", hold.assignment)] if hold.assignment else mine


def _of_slot(key: tuple[int, int], slot: Slot, _: Any) -> list[WatchKey]:
    return [("workload", key[0]), *([("node", slot.node)] if slot.node else [])]


def _of_breach(key: tuple[str, str], _row: Any, _: Any) -> list[WatchKey]:
    kind, uid = key[1].split("/")[:2]
    return [("breach", "/".join(key)), (kind, int(uid))]


REGION_TOLD: dict[str, Told] = {
    **COMMON,
    "nodes": lambda uid, _row, _: [("node", uid)],
    "node_reports": lambda uid, _row, _: [("node-report", uid)],
    "slots": _of_slot,
    "rooms": lambda uid, _row, _: [("node", uid)],
    "requests": lambda uid, _row, state: [("workload", state.assignments[uid].workload)],
    "finished": lambda uid, _row, state: [("workload", state.assignments[uid].workload)],
    "holds": _of_hold,
    "assignments": lambda uid, row, _: [("assignment", uid), ("workload", row.workload)],
    "allowances": lambda account, _row, _: [("grant", account)],
    "classes": lambda name, _row, _: [("priority-class", name)],
    "pools": lambda name, _row, _: [("node-pool", name)],
    "validities": lambda scope, _row, _: [("validity", scope)],
    "breaches": _of_breach,
    "platform_overrides": lambda uid, _row, _: [("platform-override", uid)],
    "platform_servers": lambda name, _row, _: [("platform-server", name)],
    "leaving": lambda digest, _row, _: [("template", digest)],
    "listed": lambda _part, _row, state: [("cursor", state.region.listing.log_id)],
}


def _of_platform_breach(key: tuple[str, str], _row: Any, _: Any) -> list[WatchKey]:
    invariant, what = key
    account = what.rpartition("/")[0].partition("|")[0]  # of a budget: in one region
    about: WatchKey = ("account", account) if invariant == "platform.escrow" else ("workload", int(what))
    return [("breach", f"{invariant}/{what}"), about]


PLATFORM_TOLD: dict[str, Told] = {
    **COMMON,
    "tenants": lambda name, _row, _: [("tenant", name)],
    "quotas": lambda name, _row, _: [("quota", name), ("tenant", name)],
    "priority_classes": lambda name, _row, _: [("priority-class", name)],
    "regions": lambda name, _row, _: [("region", name)],
    "pools": lambda name, _row, _: [("node-pool", name)],
    "budgets": lambda name, _row, _: [("recovery-budget", name)],
    "tombstones": lambda _log_id, region, _: [("region", region)],
    "workloads": lambda uid, row, _: [("workload", uid), ("tenant", row.meta.tenant)],
    "templates_of": lambda uid, _row, _: [("workload", uid)],
    "assignments": lambda uid, a, _: [
        ("assignment", uid), ("workload", a.workload), ("tenant", a.tenant), ("region", a.region)
    ],
    "grants": lambda key, row, _: [("grant", key), ("region", row.region), ("account", row.account)],
    "rights": lambda key, row, _: [("workload", key[0]), ("region", row.region)],
    "leases": lambda uid, _row, _: [("workload", uid)],
    "observed": lambda uid, _row, _: [("observed", uid)],
    "done_before": lambda uid, _row, _: [("workload", uid)],
    "summaries": lambda name, _row, _: [("summary", name)],
    "overflows": lambda uid, _row, _: [("workload", uid)],
    "rebalances": lambda name, _row, _: [("summary", name)],
    "validities": lambda key, row, _: [("validity", key), ("region", row.region)],
    "breaches": _of_platform_breach,
}  # fmt: skip

TOLD = {"region": REGION_TOLD, "platform": PLATFORM_TOLD}
#: What a repeat is answered: kept by the record and not by its events.
BOOKKEEPING = {"answered", "keys", "grant_versions", "windows"}
OF_SCALARS = {"log", "region", "cursor"}


def untold(definition: LedgerDefinition[Any], state: LedgerState, batch: Batch[Any]) -> Iterator[str]:
    """Fold a batch event by event; a sentence for each row that changed and is not told by the event's keys."""
    position = pack_revision(batch.header.seq)
    for record in batch.records:
        first = position
        for event in record.events:
            before = state.fork()
            definition.apply[type(event)](state, event, Stamp(position, record.at, record.actor))
            keys = definition.keys[type(event)](event, position)
            name = type(event).__name__
            assert len({*keys}) == len(keys), f"{name} names a key twice: {keys}"
            assert {kind for kind, _ in keys} <= set(definition.kinds), f"{name} has kinds that are not listed: {keys}"
            for missing in _missing(definition, before, state, keys):
                yield f"{name} at {position} carries {keys}, and not {missing}"
            position += 1
        if record.session or record.key:
            remember_answer(state, record, first)
    facts = replace(state.info, seq=batch.header.seq, digest=batch.digest, at=batch.records[-1].at)
    state.info = facts


def _missing(
    definition: LedgerDefinition[Any], before: LedgerState, after: LedgerState, keys: tuple[WatchKey, ...]
) -> Iterator[str]:
    for spec in after.TABLES:
        if spec.derived or spec.name in BOOKKEEPING:
            continue
        for key, old, new in _changed(before, after, spec.name):
            if _goes_unsaid(spec.name, old, new, keys):
                continue
            of_old = TOLD[definition.name][spec.name](key, old, before) if old is not None else []
            of_new = TOLD[definition.name][spec.name](key, new, after) if new is not None else []
            if _only_heir(old, new):
                of_old, of_new = of_old[1:], of_new[1:]
            for told in {*of_old, *of_new} - {*keys}:
                yield f"{told} of {spec.name}[{key}]"
    for scalar in after.SCALARS:
        if _told(getattr(before, scalar)) != _told(getattr(after, scalar)) and not {k for k, _ in keys} & OF_SCALARS:
            yield f"a key of {scalar}"


def _told(scalar: Any) -> Any:
    """A scalar without counts of placements and preemptions: only schedulers read them, with what they change."""
    return replace(scalar, placed=0, preempted=PreemptionWindow()) if isinstance(scalar, RegionInfo) else scalar


def _changed(before: LedgerState, after: LedgerState, name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Rows that differ. Shards that nobody wrote to are the same object in a fork and need no look."""
    for old, new in zip(before.table(name).shard_rows(), after.table(name).shard_rows(), strict=True):
        if old is not new:
            for key in {**old, **new}:
                if old.get(key) != new.get(key):
                    yield key, old.get(key), new.get(key)


def _only_heir(old: Any, new: Any) -> bool:
    """Who waits for a slot is about the room on its node: told under the node alone."""
    return isinstance(old, Slot) and isinstance(new, Slot) and replace(old, successor=new.successor) == new


def _goes_unsaid(table: str, old: Any, new: Any, keys: tuple[WatchKey, ...]) -> bool:
    """A template that was leaving goes with its last use, which is told under whatever used it. What a list has named
    goes with its end, or with the beginning of another one, which may be of another log."""
    if table == "sessions" and isinstance(old, Session) and isinstance(new, Session):
        # Fences of sessions follow the settings, and are told with them.
        return replace(old, fence=new.fence) == new and ("log", "settings") in keys
    if table == "listed" and old is not None:
        return bool({kind for kind, _ in keys} & {"cursor"})
    with_last_use = table in ("templates", "leaving") and old is not None and new is None
    return with_last_use and any(kind == "workload" for kind, _ in keys)
