"""Invariants of grants: no unit is granted twice (RULES 7).

The charge of each resource is compared with quotas, budgets and overrides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.grants import Grant
from holdfast.core.model.values.resources import BUILT_IN, Resources
from holdfast.core.platform.state.tables import PlatformState

Amounts = dict[str, int]

#: By account, and by region if the account has a limit in each: the amounts granted.
Charged = dict[tuple[str, str], Amounts]


def shared(grant: Grant) -> tuple[str, str]:
    """Return the limit that a grant counts towards: its account, with the region if the account has a limit in each."""
    return grant.account, grant.region if grant.account.partition("/")[0] in ("recovery", "reclaimable") else ""


def charged_anew(state: PlatformState) -> Charged:
    """Sum up all grants."""
    charged: Charged = {}
    for grant in state.grants.values():
        total = charged.setdefault(shared(grant), {})
        for name, amount in named(grant.offered).items():
            total[name] = total.get(name, 0) + amount
    return charged


def escrow(state: PlatformState, charged: Charged) -> Iterator[str]:
    for (account, where), total in sorted(charged.items()):
        limit = limits(state, account, where) if total else None
        for name, amount in sorted(total.items()):
            over = amount - limit.get(name, 0) if limit is not None else 0
            owed = state.breaches.get(
                ("platform.escrow", f"{account}|{where}/{name}" if where else f"{account}/{name}")
            )
            if over > (owed.overshoot if owed else 0):
                yield f"{account} {where} has granted {amount} {name}, {over} more than its limit"


def limits(state: PlatformState, account: str, where: str) -> Amounts | None:
    """Return the limit of an account; None if grants above it are merely called back.

    That applies to an ended emergency and to a share of a region's capacity, which may shrink.
    """
    kind, _, name = account.partition("/")
    if kind == "quota":
        quota = state.quotas.get(name)
        return named(quota.spec.hard) if quota is not None else {}
    if kind == "recovery":
        budget = state.recovery_budgets.get(name)
        return named(budget.spec.each) if budget is not None and where in budget.spec.regions else {}
    if kind == "reclaimable":
        return None
    opened = state.overrides.get(int(name))
    if opened is None or opened.action is not OverrideAction.EMERGENCY_QUOTA:
        return None
    return {key: int(value) for key, value in opened.facts if key in BUILT_IN and value.isascii() and value.isdigit()}


def charge(grants: Iterable[tuple[str, Grant]]) -> Iterator[str]:
    for key, grant in grants:
        versions = [offer.version for offer in grant.offers]
        if versions != list(range(grant.acknowledged + 1, grant.version + 1)):
            yield f"grant {key} at version {grant.version}, acknowledged {grant.acknowledged}, keeps offers {versions}"
        if grant.offers and grant.offers[-1].target != grant.target:
            yield f"grant {key} was last offered at another target than it has"
        may_act_on = [named(grant.settled), *(named(offer.target) for offer in grant.offers)]
        names = sorted({name for amounts in may_act_on for name in amounts})
        largest = {name: max(amounts.get(name, 0) for amounts in may_act_on) for name in names}
        if {name: amount for name, amount in largest.items() if amount} != named(grant.offered):
            yield f"grant {key} is charged {grant.offered}, its region may act on {largest}"


def named(amounts: Resources) -> Amounts:
    """Return the amounts that are not zero, by name."""
    standard = (("cpu", amounts.cpu), ("memory", amounts.memory), ("disk", amounts.disk), ("gpu", amounts.gpu))
    return {name: amount for name, amount in (*standard, *amounts.extended) if amount}
