"""What is asked of an account in a region: by what is assigned there, and not by what has been placed yet.

Reclaimable work asks its share of the region's room first and the quota for the rest. A replica is paid by one account
or by the other, never by both, so the rest is counted in replicas.

    asked of reclaimable/T: 5 replicas, 1 cpu each      lent of it there: 2.5 cpu --> 2 replicas
    asked of quota/T:       what is not reclaimable, and 3 cpu
"""

from __future__ import annotations

from holdfast.core.model.allotment import Demand
from holdfast.core.model.resources import NOTHING, Resources, add, amount_of, names_in, of_amounts
from holdfast.core.platform.state import PlatformState, grant_key

_NONE = Demand()


def asked_of_quota(state: PlatformState, tenant: str, region: str) -> Resources:
    """What a tenant's quota is asked for in a region."""
    mine = state.demand_of.get(grant_key(region, f"quota/{tenant}")) or _NONE
    share = grant_key(region, f"reclaimable/{tenant}")
    borrowing = state.demand_of.get(share)
    if borrowing is None:
        return mine.amount
    grant = state.grants.get(share)
    return add(mine.amount, beyond(borrowing, grant.target if grant is not None else NOTHING))


def beyond(demand: Demand, share: Resources) -> Resources:
    """What is asked for beyond a share: as if all replicas were alike."""
    count = demand.count
    names = [name for name in names_in(demand.amount) if amount_of(demand.amount, name)]
    paid = min((count * amount_of(share, name) // amount_of(demand.amount, name) for name in names), default=count)
    left = count - min(paid, count)
    return of_amounts({name: -(-amount_of(demand.amount, name) * left // count) for name in names})
