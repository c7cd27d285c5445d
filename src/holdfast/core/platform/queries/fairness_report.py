"""How tenants share all regions together, by the regions' last reports.

A report names the charges of each account. Recovery budgets and emergencies pay for several tenants, so their charges
are not among those of a tenant here; the report of a region has them.
"""

from __future__ import annotations

from collections.abc import Generator

from holdfast.core.model.records.fairness import TenantFairness, with_shares
from holdfast.core.model.records.grants import tenant_of
from holdfast.core.model.records.region_reports import capacity_of
from holdfast.core.model.records.usage_windows import recent_share
from holdfast.core.model.values.resources import ZERO, Resources, add, total
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.state.tables import PlatformState

#: Rows between two yields: about a millisecond.
BIT = 100


def platform_fairness(state: PlatformState, now: Instant) -> Generator[None, None, list[TenantFairness]]:
    """Return every tenant that is charged or waits in some region, by name. Yields between pieces of work."""
    charged: dict[str, Resources] = {}
    for told in state.summaries.values():
        yield
        for account, amount in told.summary.uses:
            if tenant := tenant_of(account):
                charged[tenant] = add(charged.get(tenant, ZERO), amount)
    waiting: dict[str, int] = {}
    since: dict[str, Instant] = {}
    for number, (uid, observed) in enumerate(state.workload_reports.items()):
        if number % BIT == 0:
            yield
        workload = state.workloads.get(uid)
        for wait in [wait for one in observed for wait in one.seen.waiting] if workload is not None else ():
            tenant = workload.meta.tenant if workload is not None else ""
            waiting[tenant] = waiting.get(tenant, 0) + wait.count
            since[tenant] = min(wait.since, since.get(tenant, wait.since))
    rows: list[TenantFairness] = []
    for tenant in sorted({*(name for name, used in charged.items() if used != ZERO), *waiting}):
        quota, window = state.quotas.get(tenant), state.usage_windows.get(tenant)
        rows.append(
            TenantFairness(
                tenant=tenant,
                weight=quota.spec.weight if quota is not None else 1,
                charged=charged.get(tenant, ZERO),
                protected=quota.spec.protected if quota is not None else ZERO,
                recent=recent_share(window, now) if window is not None else 0,
                waiting=waiting.get(tenant, 0),
                since=since.get(tenant),
            )
        )
    return with_shares(rows, total(capacity_of(told.summary) for told in state.summaries.values()))
