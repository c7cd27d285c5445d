"""The quota report: limits, grants and usage of quotas by region, and warnings.

It is read from the platform's state; usage is what regions reported last, and when. Warnings name quotas beyond the
existing capacity, and replicas that wait although enough is free, in pieces too small for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from holdfast.core.model.objects.tenants import Quota
from holdfast.core.model.records.grants import grant_key
from holdfast.core.model.records.region_reports import RegionSummary, capacity_of
from holdfast.core.model.values.quantities import format_amount
from holdfast.core.model.values.resources import ZERO, Resources, add, amount_of, first_exceeded, names_in, times, total
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.queries.accounts import account_charge, effective_quota, percent_of, quota_demand
from holdfast.core.platform.state.tables import PlatformState

#: Workloads of one tenant that a warning names; further ones are counted.
NAMED_MAX = 10


class QuotaInRegion(Struct, frozen=True):
    """A quota in one region. `told_at` is the time of the region's last report; None: there is none."""

    region: str
    health: str
    asked: Resources
    target: Resources
    settled: Resources
    protected: Resources
    charged: Resources
    reclaimable: Resources
    ends: Instant | None
    told_at: Instant | None


class QuotaReport(Struct, frozen=True):
    """A tenant's quota. `granted` is what regions may act on, `charged` what they report as used."""

    tenant: str
    hard: Resources
    protected: Resources
    effective: Resources
    asked: Resources
    granted: Resources
    charged: Resources
    percent: int
    parts: tuple[QuotaInRegion, ...]
    warnings: tuple[str, ...]


def quota_report_steps(
    state: PlatformState, tenant: str = "", is_told: Callable[[str], bool] = bool
) -> Iterator[QuotaReport | None]:
    """Yield the reports of the tenants that `is_told` accepts. None stands for work done in between."""
    pieces: dict[str, list[str]] = {}
    yield from _too_small(state, pieces)
    regions = [name for name, region in state.regions.items() if region.status.log_id]
    uses: dict[str, dict[str, Resources]] = {}
    for region in regions:
        told = state.summaries.get(region)
        uses[region] = dict(told.summary.uses) if told is not None else {}
        yield None
    for name, quota in state.quotas.items():
        if tenant not in ("", name) or not is_told(name):
            continue
        found: list[QuotaInRegion] = []
        for region in regions:
            found.append(_part(state, name, region, uses[region]))
            yield None
        yield _standing(state, quota, tuple(found), pieces.get(name, []))


def _standing(state: PlatformState, quota: Quota, found: tuple[QuotaInRegion, ...], warnings: list[str]) -> QuotaReport:
    tenant, account = quota.meta.name, f"quota/{quota.meta.name}"
    more = len(warnings) - NAMED_MAX
    named = [*warnings[:NAMED_MAX], f"and {more} more workloads"] if more > 0 else warnings
    return QuotaReport(
        tenant=tenant,
        hard=quota.spec.hard,
        protected=quota.spec.protected,
        effective=effective_quota(state, quota),
        asked=total(one.asked for one in found),
        granted=account_charge(state, account),
        charged=total(one.charged for one in found),
        percent=quota.spec.reclaimable,
        parts=found,
        warnings=tuple(named),
    )


def _part(state: PlatformState, tenant: str, region: str, uses: Mapping[str, Resources]) -> QuotaInRegion:
    account, told = f"quota/{tenant}", state.summaries.get(region)
    grant = state.grants.get(grant_key(region, account))
    share = state.grants.get(grant_key(region, f"reclaimable/{tenant}"))
    return QuotaInRegion(
        region=region,
        health=state.regions[region].status.health.value,
        asked=quota_demand(state, tenant, region),
        target=grant.target if grant is not None else ZERO,
        settled=grant.settled if grant is not None else ZERO,
        protected=grant.protected if grant is not None else ZERO,
        charged=uses.get(account, ZERO),
        reclaimable=share.target if share is not None else ZERO,
        ends=grant.ends if grant is not None else None,
        told_at=told.at if told is not None else None,
    )


def shortages(state: PlatformState) -> Iterator[str | None]:
    """Yield the quotas and shares that exceed all reported capacity. None stands for work done in between."""
    known = {name: capacity_of(told.summary) for name, told in state.summaries.items() if name in state.regions}
    if not known:
        return
    whole = total(known.values())
    quotas, shares = state.quotas.values(), ZERO
    for capacity in known.values():
        for quota in quotas:
            shares = add(shares, percent_of(capacity, quota.spec.reclaimable)) if quota.spec.reclaimable else shares
            yield None
    promised = add(total(quota.spec.hard for quota in quotas), shares)
    held = total(times(budget.spec.each, len(budget.spec.regions)) for budget in state.recovery_budgets.values())
    kept = add(total(quota.spec.protected for quota in quotas), held)
    who = "the quotas of all tenants" if shares == ZERO else "the quotas of all tenants and their reclaimable shares"
    yield from _more(promised, whole, who + " promise {}; the regions that have reported have {}")
    yield from _more(kept, whole, "{} are protected or held for recovery; the regions that have reported have {}")
    lent, protected = dict.fromkeys(known, ZERO), dict.fromkeys(known, ZERO)
    for _, grant in state.grants.unordered():
        yield None
        kind, _, tenant = grant.account.partition("/")
        if grant.region in known and kind in ("quota", "reclaimable") and tenant in state.quotas:
            lent[grant.region] = add(lent[grant.region], grant.target)
            if kind == "quota":
                protected[grant.region] = add(protected[grant.region], grant.protected)
    for name, capacity in known.items():
        yield from _more(lent[name], capacity, "tenants were granted {} in region " + name + ", which has {}")
        held = total(budget.spec.each for budget in state.recovery_budgets.values() if name in budget.spec.regions)
        sentence = "{} are protected or held for recovery in region " + name + ", which has {}"
        yield from _more(add(held, protected[name]), capacity, sentence)


def _more(promised: Resources, there: Resources, sentence: str) -> list[str]:
    names = [name for name in names_in(promised) if amount_of(promised, name) > amount_of(there, name)]
    return [sentence.format(_one(promised, name), _one(there, name)) for name in names]


def _too_small(state: PlatformState, found: dict[str, list[str]]) -> Iterator[None]:
    """Find, by tenant, workloads whose replicas wait in a region where no free piece is large enough for one."""
    waiting: list[Revision] = []
    for uid, seen in state.workload_reports.unordered():
        yield None
        waiting += [uid] if any(one.seen.waiting for one in seen) else []
    for uid in sorted(waiting):
        yield None
        workload = state.workloads[uid]
        need, name = workload.spec.template.need, workload.meta.name
        for one in state.workload_reports[uid]:
            told = state.summaries.get(one.region)
            if told is not None and one.seen.waiting:
                sentence = _misfit(need, told.summary, one.region, name)
                found.setdefault(workload.meta.tenant, []).extend([sentence] if sentence else [])


def _misfit(need: Resources, summary: RegionSummary, region: str, workload: str) -> str:
    pieces = [piece for nodes in summary.nodes for piece in nodes.largest_free]
    if any(not first_exceeded(need, piece) for piece in pieces):
        return ""
    asks = f"one replica of {workload} requires "
    for name in names_in(need):
        most = max((amount_of(piece, name) for piece in pieces), default=0)
        if amount_of(need, name) > most:
            has = f"the largest free piece in region {region} has {format_with_unit(name, most)}"
            return f"{has}; {asks}{_one(need, name)}"
    wanted = [_one(need, name) for name in names_in(need) if amount_of(need, name)]
    return f"no free piece in region {region} has all of what {asks}at once: {_listed(wanted)}"


def _one(amounts: Resources, name: str) -> str:
    return format_with_unit(name, amount_of(amounts, name))


def format_with_unit(name: str, amount: int) -> str:
    """Format an amount with its resource: `2 cpu`, `500m cpu`, `4Gi memory`."""
    return f"{format_amount(name, amount)} {name}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
