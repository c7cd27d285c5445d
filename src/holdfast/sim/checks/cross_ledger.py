"""Properties that need the logs of all ledgers at one moment.

- The charge of a region to an account is within its grant; the charges of all regions are within the quota.
- Recovery in a region is within its budget there.
- A region with an assignment satisfies the workload's jurisdictions and latency limits.
- One region holds the right to an exclusive identity, and only that region has it placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core.model.records.breaches import PLATFORM_ESCROW
from holdfast.core.model.records.grants import charge_key, grant_key
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_max, first_exceeded
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding


def check_across_ledgers(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    """Yield every violation across ledgers."""
    yield from _within_loans(platform, regions)
    yield from _within_limits(platform, regions)
    yield from _one_region_each(platform, regions)
    yield from _where_it_may_be(platform)


def _within_loans(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    for name, state in regions.items():
        for account, use in state.account_usage.items():
            grant = platform.grants.get(grant_key(name, account))
            over = first_exceeded(use.charged, grant.offered if grant is not None else ZERO)
            if over:
                yield Finding("use-within-grant", f"{name} has charged {account} more {over} than its grant")


def _within_limits(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    used: dict[tuple[str, str], Resources] = {}
    for name, state in regions.items():
        for account, use in state.account_usage.items():
            shared = (charge_key(account, name), account)
            used[shared] = add(used.get(shared, ZERO), use.charged)
    breaches = [key for key, _ in platform.breaches.items()]
    for (key, account), amount in used.items():
        kind, _, owner = account.partition("/")
        # Emergency and reclaimable accounts have no limit of their own: it was checked at the offer.
        limit = platform.offered_of.get(key) or ZERO if kind in ("emergency", "reclaimable") else ZERO
        if kind == "quota" and owner in platform.quotas:
            limit = platform.quotas[owner].spec.hard
        elif kind == "recovery" and owner in platform.recovery_budgets:
            limit = platform.recovery_budgets[owner].spec.each
        # A lowered limit applies only when the grants have shrunk; until then the breach is open.
        open_ = any(invariant == PLATFORM_ESCROW and broken.startswith(f"{key}/") for invariant, broken in breaches)
        over = first_exceeded(amount, elementwise_max(limit, platform.offered_of.get(key) or ZERO) if open_ else limit)
        if over:
            promise = "recovery-within-budget" if kind == "recovery" else "use-within-quota"
            yield Finding(promise, f"{key} is charged more {over} than its limit")


def _where_it_may_be(platform: PlatformState) -> Iterator[Finding]:
    """Check placement rules of all assignments. No run changes these rules or a region's location."""
    for assignment in platform.assignments.values():
        workload, region = platform.workloads.get(assignment.workload), platform.regions.get(assignment.region)
        if workload is None or region is None or not any(share.count for share in assignment.shares):
            continue
        rules, told = workload.spec.placement, f"{assignment.region} has {workload.meta.name}"
        if rules.jurisdictions and region.spec.jurisdiction not in rules.jurisdictions:
            yield Finding("lawful", f"{told}, which may be in {rules.jurisdictions} only")
        far = dict(region.spec.latencies)
        for rule in rules.latency:
            if rule.limit and far.get(rule.client, rule.limit + 1) > rule.limit:
                yield Finding("near-enough", f"{told}, which must be within {rule.limit} ms of {rule.client}")


def _one_region_each(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    placed: dict[SlotKey, str] = {}
    for name, state in regions.items():
        for key, slot in state.slots.items():
            if not slot.epoch or not state.assignments[slot.assignment].exclusive:
                continue
            other = placed.setdefault(key, name)
            until = state.assignments[slot.assignment].right_until
            leased = 0 < until <= max(state.info.at, platform.info.at)
            held = platform.rights.get(key)
            # An expired lease may leave a record in a lost region; no process lives by it.
            if other != name and not leased:
                yield Finding("one-region-each", f"{key} is bound in {other} and in {name}")
            elif not leased and (held is None or held.region != name) and key[0] in platform.workloads:
                yield Finding("right-held", f"{key} is bound in {name}, and its right is held by {held}")
