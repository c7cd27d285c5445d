"""Invariants of charges, grants, node usage, residency and rights."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_RESIDENCY, REGION_RIGHT
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.values.ranges import contains
from holdfast.core.model.values.resources import ZERO, first_exceeded
from holdfast.core.region.invariants.scan import RegionScan, amounts
from holdfast.core.region.queries.breaches import capacity_overshoots
from holdfast.core.region.state.node_usage import recount_usage
from holdfast.core.region.state.tables import RegionState


def charges_conserved(at: RegionScan) -> Iterator[str]:
    for key, slot in at.slots():
        if not slot.account and slot.phase is not Phase.PENDING:
            yield f"slot {key} is {slot.phase} and not charged"
    for account, needed in at.charged().items():
        charged = amounts((at.state.account_usage.get(account) or AccountUsage()).charged)
        if charged != needed:
            yield f"{account} is charged {charged}, its slots and holds need {needed}"


def within_grants(at: RegionScan) -> Iterator[str]:
    for account, use in at.uses():
        allowance = at.state.accepted_grants.get(account)
        over = first_exceeded(use.charged, allowance.limit if allowance else ZERO)
        if over:
            yield f"{account} is charged more {over} than its settled grant"


def rooms_conserved(at: RegionScan) -> Iterator[str]:
    for uid, usage in at.rooms():
        if recount_usage(at.state, uid, usage.revision) != usage:
            yield f"usage of node {uid} is not the sum of its slots and holds"


def counts_agree(at: RegionScan) -> Iterator[str]:
    return at.miscounts()


def within_capacity(at: RegionScan) -> Iterator[str]:
    for uid, node in at.nodes():
        for key, over in capacity_overshoots(node, at.state.node_usage.get(uid) or EMPTY_USAGE).items():
            yield from _beyond(at.state, key, over)


def where_allowed(at: RegionScan) -> Iterator[str]:
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
            if taint.effect is TaintEffect.EVICT and not {(taint.key, ""), (taint.key, taint.value)} & accepted:
                found[node.uid] += 1
                break
        else:
            found[node.uid] += bool(kept or bare)
            staying[node.uid][tenant] += not (kept or bare)
    for uid, tenants in staying.items():
        if not state.nodes[uid].shares_user and Capability.USERS not in state.nodes[uid].capabilities:
            found[uid] += tenants.total() - max(tenants.values())
    for uid, count in found.items():
        yield from _beyond(state, (REGION_ALLOWED, f"node/{uid}"), count)


def residency_kept(at: RegionScan) -> Iterator[str]:
    for uid, count in at.placed().items():
        allowed = at.state.assignments[uid].jurisdictions if count else ()
        if allowed and at.state.region.jurisdiction not in allowed:
            yield from _beyond(at.state, (REGION_RESIDENCY, f"assignment/{uid}"), count)


def rights_held(at: RegionScan) -> Iterator[str]:
    found: Counter[int] = Counter()
    for _, slot in at.identities():
        assignment = at.state.assignments[slot.assignment]
        found[slot.assignment] += (
            slot.phase in ON_NODE and assignment.exclusive and not contains(assignment.ordinals, slot.ordinal)
        )
    for uid, count in found.items():
        yield from _beyond(at.state, (REGION_RIGHT, f"assignment/{uid}"), count)


def _beyond(state: RegionState, key: tuple[str, str], over: int) -> Iterator[str]:
    """Report an overshoot, unless an open breach covers it."""
    breach = state.breaches.get(key)
    if over > (breach.overshoot if breach else 0):
        yield f"{key[1]} has overshoot {over}, and its breach {breach.overshoot if breach else 'none'}"
