"""How the tenants of a region share it, as operators and tenants see it: computed from the state on request."""

from __future__ import annotations

from collections.abc import Generator

from holdfast.core.model.records.fairness import TenantFairness, with_shares
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.tenant_shares import tenant_usage

#: Rows between two yields: about a millisecond.
BIT = 100


def region_fairness(state: RegionState) -> Generator[None, None, list[TenantFairness]]:
    """Return every tenant that is charged or waits, by name. Yields between pieces of work."""
    waiting: dict[str, int] = {}
    since: dict[str, Instant] = {}
    for number, (uid, requests) in enumerate(state.requests.items()):
        if number % BIT == 0:
            yield
        assignment = state.assignments.get(uid)
        for request in requests if assignment is not None else ():
            tenant = assignment.tenant if assignment is not None else ""
            waiting[tenant] = waiting.get(tenant, 0) + request.open
            since[tenant] = min(request.since, since.get(tenant, request.since))
    accounts = [account.partition("/") for account in (*state.account_usage.keys(), *state.accepted_grants.keys())]
    names = {name for kind, _, name in accounts if kind in ("quota", "reclaimable")}
    names.update(state.shared_usage.keys())
    rows: list[TenantFairness] = []
    for number, tenant in enumerate(sorted(names | waiting.keys())):
        if number % BIT == 0:
            yield
        grant, charged = state.accepted_grants.get(f"quota/{tenant}"), tenant_usage(state, tenant)
        if charged != ZERO or tenant in waiting:
            rows.append(
                TenantFairness(
                    tenant=tenant,
                    weight=grant.weight if grant is not None else 1,
                    charged=charged,
                    protected=grant.protected if grant is not None else ZERO,
                    waiting=waiting.get(tenant, 0),
                    since=since.get(tenant),
                )
            )
    return with_shares(rows, state.totals.capacity)
