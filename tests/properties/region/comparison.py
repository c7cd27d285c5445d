"""Where a ledger and the model do not say, or do not hold, the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import seq_of
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.properties.region.expected_answers import Verdict
from tests.properties.region.model.records import Amounts, Over, amounts
from tests.properties.region.model.region import Model


class Disagreement(AssertionError):
    """The ledger and the model gave different answers, or hold different states."""


def compare_answers(answer: Committed | Refused | Repeated, verdict: Verdict) -> None:
    if isinstance(answer, Repeated):
        if verdict.repeats != (answer.revision, answer.answer):
            raise Disagreement(f"the ledger repeats {answer}, the model expects {verdict}")
        return
    parts: list[Any]
    if isinstance(answer, Committed):
        code, parts = None, msgspec.msgpack.decode(answer.answer) if answer.answer else []
    else:
        code, parts = answer.code, answer.facts.get("refused", [])
    told = {(group, index): Code(why) for group, index, why, _, _ in parts}
    if (code, told) != (verdict.code, verdict.parts) or (code is None and verdict.repeats is not None):
        raise Disagreement(f"the ledger answers {answer}, told {told}; the model expects {verdict}")
    for _, _, why, _, catch_up_to in parts:
        if (why == Code.STALE and isinstance(catch_up_to, int) and catch_up_to > 0) != (catch_up_to > 0):
            raise Disagreement(f"only what is stale is told what to wait for: {parts}")


def adopt_epochs(model: Model, state: RegionState) -> None:
    """An epoch is the revision of its binding: it is new in the batch that bound the slot, and stays after that."""
    for key, slot in model.slots.items():
        bound = slot.phase in ON_NODE and slot.phase is not Phase.RESERVED
        theirs = state.slots.get(key)
        if bound and not slot.epoch and theirs is not None:
            if seq_of(theirs.epoch) != model.seq:
                raise Disagreement(f"slot {key} was bound in batch {model.seq} and has epoch {theirs.epoch}")
            slot.epoch = theirs.epoch


def differences(model: Model, state: RegionState) -> list[str]:
    """Where what the ledger holds is not what the model holds."""
    place = state.region
    pairs: dict[str, tuple[Any, Any]] = {
        "seq": (model.seq, state.info.seq),
        "slots": (
            {s.key: (s.following, *_slot(s)) for s in model.slots.values()},
            {key: (s.next_template, *_slot(s)) for key, s in state.slots.items()},
        ),
        "rooms": (
            {uid: _room(model, uid) for uid in model.nodes},
            {uid: _ledger_room(state, uid) for uid in model.nodes},
        ),
        "charges": (
            _charges(model),
            {account: amounts(use.charged) for account, use in state.account_usage.items() if amounts(use.charged)},
        ),
        "requests": (
            model.open_requests(),
            {(r.assignment, r.template): r.open for _, many in state.requests.items() for r in many},
        ),
        "preemptions": (model.preempted, (place.preempted.since, place.preempted.count)),
        "over": (model.over, set(_ledger_over(state))),
        "breaches": (model.breaches, {key: (b.overshoot, b.opened) for key, b in state.breaches.items()}),
        "nodes": (
            {uid: (*_said(n.said), n.session, n.ended, n.fence, n.health, n.usable) for uid, n in model.nodes.items()},
            {
                uid: (*_said(n), n.session, n.session_ended, n.fence, n.health, _usable(n))
                for uid, n in state.nodes.items()
            },
        ),
        "reports": (
            {n.uid: (n.fares[0].cpu, n.fares[0].memory, n.fares[0].present, n.fares[1])
             for n in model.nodes.values() if n.fares is not None},
            {uid: (one.cpu, one.memory, one.present, one.at) for uid, one in state.node_reports.items()},
        ),
        "holds": (
            {h.uid: (h.node, h.account, h.ends, h.tenant) for h in model.holds.values()},
            {uid: (h.node, h.account, h.ends, h.tenant) for uid, h in state.holds.items()},
        ),
        "grants": (
            {a: (g.version, g.target, g.limit, g.ends, g.weight) for a, g in model.grants.items()},
            {
                a: (g.version, amounts(g.target), amounts(g.limit), g.ends, g.weight)
                for a, g in state.accepted_grants.items()
            },
        ),
        "templates": (set(model.templates), {digest for digest, _ in state.templates.items()}),
        "leaving": (model.leaving, {digest for digest, _ in state.leaving_templates.items()}),
        "pools": (model.pools, dict(state.pool_costs.items())),
        "assignments": (model.assignments, dict(state.assignments.items())),
        "sessions": (
            {uid: (s.principal, s.high) for uid, s in model.sessions.items()},
            {uid: (s.principal, s.high) for uid, s in state.sessions.items()},
        ),
        "cursor": (
            (model.platform_log, model.platform_term, model.cursor, model.proof, model.jurisdiction),
            (place.platform_log, place.platform_term, place.cursor, place.proof, place.jurisdiction),
        ),
        "list": ((model.listing, model.swept, model.listed), _ledger_list(state)),
        "servers": (model.servers, dict(state.servers.items())),
        "platform servers": (model.platform_servers, dict(state.platform_servers.items())),
        "overrides": (set(model.overrides), {uid for uid, _ in state.overrides.items()}),
    }  # fmt: skip
    return [_told(name, mine, theirs) for name, (mine, theirs) in pairs.items() if mine != theirs]


def _told(name: str, mine: Any, theirs: Any) -> str:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        return f"{name}: " + ", ".join(f"{key}: model {mine.get(key)}, ledger {theirs.get(key)}" for key in keys)
    return f"{name}: model {mine}, ledger {theirs}"


def _slot(s: Any) -> tuple[Any, ...]:
    bound = (s.phase, s.node, s.epoch, s.devices, s.ports, s.firm)
    attempts = s.given_up if hasattr(s, "given_up") else s.attempts
    told = s.receipt if hasattr(s, "receipt") else s.preempted
    kept = (s.ends, s.restarts, attempts, s.detail, s.failure, s.bound_at, told)
    return (*bound, s.assignment, s.template, s.account, *kept)


def _ledger_over(state: RegionState) -> Iterator[Over]:
    for uid, rows in state.finished.items():
        for row in rows:
            for runs, done in ((row.done, True), (row.failed, False)):
                for run in runs:
                    yield from (Over(uid, ordinal, row.template, done) for ordinal in range(*run))


def _said(node: Any) -> tuple[str, str]:
    return node.name, node.address


def _usable(node: Any) -> bool:
    return bool(node.health == "ready" and node.session and not node.cordoned and not node.draining)


def _room(model: Model, uid: int) -> tuple[Amounts, Amounts, Amounts, list[int]]:
    room = model.room(uid)
    return room.firm, room.all, room.held, sorted(room.ports)


def _ledger_room(state: RegionState, uid: int) -> tuple[Amounts, Amounts, Amounts, list[int]]:
    room = state.node_usage.get(uid)
    if room is None:
        return {}, {}, {}, []
    parts = []
    for name in ("firm", "all", "held"):
        devices = {f"device/{i}": getattr(d, name) for i, d in enumerate(room.devices) if getattr(d, name)}
        parts.append({**amounts(getattr(room, name)), **devices})
    return parts[0], parts[1], parts[2], sorted(room.ports)


def _ledger_list(state: RegionState) -> tuple[Any, ...]:
    listing = state.region.listing
    if listing is None:
        return None, None, ()
    names = tuple(frozenset(state.listed_names[part]) for part in range(listing.parts))
    return (listing.log_id, listing.term, listing.to), listing.swept, names


def _charges(model: Model) -> dict[str, Amounts]:
    accounts = {s.account for s in model.slots.values()} | {h.account for h in model.holds.values()}
    return {account: model.charged(account) for account in accounts if account and model.charged(account)}


def same_rows(state: RegionState, other: RegionState, how: str) -> None:
    """Every table and every sum, the derived ones too, is the same."""
    for spec in state.TABLES:
        mine, theirs = dict(state.table(spec.name).unordered()), dict(other.table(spec.name).unordered())
        assert mine == theirs, f"{how}: {spec.name}"
    for name in (*state.SCALARS, *state.DERIVED_SCALARS, *state.ORDERS):
        assert getattr(state, name) == getattr(other, name), f"{how}: {name}"


def violations(state: RegionState) -> list[str]:
    """Promises of the ledger that do not hold in this state."""
    found = check(state, REGION.invariants)
    return [f"{one.invariant}: {one.detail}" for one in found]
