"""The share of each tenant in a region: what it is charged above its protected amount, over all accounts, by weight.

    quota and in flight, above what is protected ─┐
    reclaimable, recovery, emergency ─────────────┴──▶ largest part of any resource ──▶ divided by the weight

Use of the quota within the protected amount does not count: the ledger keeps that capacity free of other tenants, so
its use takes nothing from them. All else competes for the same capacity, and is divided by weights.

A quantum is how many slots a tenant may place before shares are compared again: until its share passes that of the next
tenant, and at least a thousandth of the region, so that a large region is not filled slot by slot.

Shares are whole numbers, so that every machine computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.model.records.node_usage import RegionTotals
from holdfast.core.model.values.resources import ZERO, Resources, add, amount_of, names_in
from holdfast.core.region.queries.accounts import UNLIMITED
from holdfast.core.region.state.tables import RegionState

WHOLE = 1_000_000
#: A region, in the parts that weighted shares are counted in.
_PARTS = WHOLE * 10_000
#: A quantum is at least this part of the region.
_STEP = 1_000
_NONE: Mapping[str, Resources] = {}
#: A resource of the region; use that protection covers, the protected amount, and all other use.
_Use = tuple[int, int, int, int]


class TenantShares:
    """The shares of tenants by one state. `taken` is in flight, by tenant."""

    def __init__(self, state: RegionState, taken: Mapping[str, Resources] = _NONE) -> None:
        self._state = state
        self._taken = taken

    def share(self, tenant: str) -> int:
        """Return the tenant's weighted share; the smallest comes first."""
        has, own, kept, rest, weight = self._use(tenant)
        most = 0
        for all_, mine, free, more in (
            (has.cpu, own.cpu, kept.cpu, rest.cpu),
            (has.memory, own.memory, kept.memory, rest.memory),
            (has.disk, own.disk, kept.disk, rest.disk),
            (has.gpu, own.gpu, kept.gpu, rest.gpu),
            *_extended(has, own, kept, rest),
        ):
            if all_:
                above = more + mine - free if mine > free else more
                most = max(most, above * _PARTS // all_)
        return most // weight

    def quantum(self, tenant: str, need: Resources, other: int) -> int:
        """Return how many slots of this need a tenant may place until its share passes another one; at least one."""
        has, own, kept, rest, weight = self._use(tenant)
        reach, most = other * weight + _PARTS // _STEP, UNLIMITED
        for each, all_, free in (
            (need.cpu, has.cpu, kept.cpu - own.cpu - rest.cpu),
            (need.memory, has.memory, kept.memory - own.memory - rest.memory),
            (need.disk, has.disk, kept.disk - own.disk - rest.disk),
            (need.gpu, has.gpu, kept.gpu - own.gpu - rest.gpu),
            *[
                (each, amount_of(has, name), amount_of(kept, name) - amount_of(own, name) - amount_of(rest, name))
                for name, each in need.extended
            ],
        ):
            if each and all_:
                most = min(most, (reach * all_ // _PARTS + free) // each)
        return max(1, most)

    def _use(self, tenant: str) -> tuple[Resources, Resources, Resources, Resources, int]:
        """Return the region's capacity; the use that protection covers, the protected amount, all other use; and the
        weight."""
        state = self._state
        grant = state.accepted_grants.get(f"quota/{tenant}")
        kept, weight = (grant.protected, grant.weight) if grant is not None else (ZERO, 1)
        use, taken = state.account_usage.get(f"quota/{tenant}"), self._taken.get(tenant)
        own = use.charged if use is not None else ZERO
        return state.totals.capacity, add(own, taken) if taken else own, kept, other_usage(state, tenant), weight


def _extended(has: Resources, own: Resources, kept: Resources, rest: Resources) -> list[_Use]:
    names = {name for amounts in (own, rest) for name, _ in amounts.extended} if own.extended or rest.extended else ()
    return [
        (amount_of(has, name), amount_of(own, name), amount_of(kept, name), amount_of(rest, name))
        for name in sorted(names)
    ]


def other_usage(state: RegionState, tenant: str) -> Resources:
    """Return the charges for a tenant of all accounts but its quota."""
    reclaimable, shared = state.account_usage.get(f"reclaimable/{tenant}"), state.shared_usage.get(tenant)
    if reclaimable is None:
        return shared or ZERO
    return reclaimable.charged if shared is None else add(reclaimable.charged, shared)


def tenant_usage(state: RegionState, tenant: str) -> Resources:
    """Return the charges of all accounts for a tenant."""
    use, rest = state.account_usage.get(f"quota/{tenant}"), other_usage(state, tenant)
    return rest if use is None else add(use.charged, rest)


def dominant_share(sums: RegionTotals, used: Resources) -> int:
    """Return the largest part of any resource of the region, in millionths."""
    has = sums.capacity
    parts = [amount_of(used, name) * WHOLE // amount_of(has, name) for name in names_in(used) if amount_of(has, name)]
    return max(parts, default=0)
