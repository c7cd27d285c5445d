"""Charges of a region's accounts, and the protected quota that is still owed."""

from __future__ import annotations

from holdfast.core.ledger.state.sparse_rows import put_or_drop
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.lifecycle import ON_NODE
from holdfast.core.model.records.node_usage import RegionTotals
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import ZERO, Resources, add, clamp_zero, first_exceeded, subtract
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState

_NO_USE = AccountUsage()


def is_shared(account: str) -> bool:
    """Return whether the account may pay for several tenants."""
    return account.startswith(("recovery/", "emergency/"))


def change_shared_use(state: RegionState, account: str, assignment: Revision, charged: Resources) -> None:
    """Charge the tenant of an assignment, if the account may pay for several tenants."""
    if is_shared(account):
        change_tenant_use(state, account, state.assignments[assignment].tenant, charged)


def change_tenant_use(state: RegionState, account: str, tenant: str, charged: Resources) -> None:
    """Charge a tenant, if the account may pay for several tenants."""
    if is_shared(account) and charged != ZERO:
        total = add(state.shared_usage.get(tenant) or ZERO, charged)
        put_or_drop(state.shared_usage, tenant, None if total == ZERO else total)


def change_use(state: RegionState, account: str, charged: Resources, placed: Resources) -> None:
    """Charge an account, and update the amount still owed to its protected tenant."""
    before = state.account_usage.get(account) or _NO_USE
    total = add(before.charged, charged)
    same = charged is placed and before.charged is before.placed
    after = AccountUsage(total, total if same else add(before.placed, placed))
    if after == _NO_USE:
        state.account_usage.drop(account)
    else:
        state.account_usage.put(account, after)
    allowance = state.accepted_grants.get(account)
    if allowance is not None and placed is not ZERO:
        protected = allowance.protected
        if first_exceeded(protected, before.placed) or first_exceeded(protected, after.placed):
            shift_protected(state, _owed(protected, before), _owed(protected, after))


def shift_protected(state: RegionState, before: Resources, after: Resources) -> None:
    """Replace one account's part of the amount owed to protected tenants."""
    if before != after:
        shield = add(subtract(state.totals.shield, before), after)
        state.totals = RegionTotals(state.totals.capacity, state.totals.taken, shield)


def _owed(protected: Resources, use: AccountUsage) -> Resources:
    placed = use.placed
    if not first_exceeded(protected, placed):
        return ZERO
    if protected.extended:
        return clamp_zero(subtract(protected, placed))
    # The usual case, called several times for each placed group.
    cpu, memory = protected.cpu - placed.cpu, protected.memory - placed.memory
    disk, gpu = protected.disk - placed.disk, protected.gpu - placed.gpu
    return Resources(cpu if cpu > 0 else 0, memory if memory > 0 else 0, disk if disk > 0 else 0, gpu if gpu > 0 else 0)


def owed(state: RegionState, account: str, more: Resources = ZERO) -> Resources:
    """Return the unused part of an account's protected amount, with `more` of it placed."""
    allowance = state.accepted_grants.get(account)
    if allowance is None or allowance.protected is ZERO:
        return ZERO
    use = state.account_usage.get(account) or _NO_USE
    if more is not ZERO:
        use = AccountUsage(use.charged, add(use.placed, more))
    return _owed(allowance.protected, use)


def charge_of(state: RegionState, slot: Slot | None) -> tuple[str, Resources, Resources]:
    """Return a slot's account, its charge, and the part of the charge that is placed on a node."""
    if slot is None or not slot.account:
        return "", ZERO, ZERO
    need = state.templates[slot.template].need
    return slot.account, need, need if slot.firm and slot.phase in ON_NODE else ZERO
