"""Tenants, quotas, priority classes and recovery budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.model.values.conditions import Status
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Percent


class TenantSpec(Document, frozen=True):
    """Limits of a tenant. Its workloads may name only its priority classes.

    The field `pending_max` limits the replicas that are wanted and not bound, over all its workloads.
    `submits_per_minute` is enforced by the API in the leader's memory, not by the ledger.
    """

    priority_classes: tuple[str, ...] = ()
    workloads_max: int = 10_000
    pending_max: int = 20_000
    submits_per_minute: int = 600


class Tenant(Document, frozen=True, tag="Tenant"):
    """A customer of the platform. An operator writes it; deletion is refused while other objects refer to it."""

    meta: Meta
    spec: TenantSpec
    status: Status = Status()


class QuotaSpec(Document, frozen=True):
    """What a tenant may be charged over all regions, and the part that other tenants must leave free.

    The field `reclaimable` is the additional share for its reclaimable work, in percent of each region's capacity.
    Where capacity is scarce, a tenant gets as many times more than one of weight 1 as its `weight` says.
    """

    ADDED: ClassVar[Mapping[str, int]] = {"weight": 3}

    hard: Resources
    protected: Resources = ZERO
    reclaimable: Percent = 0
    weight: int = 1


class Quota(Document, frozen=True, tag="Quota"):
    """A tenant's quota, with the tenant's name. A quota lowered below what is granted takes effect as grants are
    returned: until then `effective = max(hard, sum charged)`."""

    meta: Meta
    spec: QuotaSpec
    status: Status = Status()


class PriorityClassSpec(Document, frozen=True):
    """A static priority, compared strictly by preemption. Reclaimable work may use held capacity until it is needed."""

    priority: int
    reclaimable: bool = False
    may_preempt: bool = False


class PriorityClass(Document, frozen=True, tag="PriorityClass"):
    """A priority for workloads. An operator writes it; deletion is refused while a workload names it."""

    meta: Meta
    spec: PriorityClassSpec
    status: Status = Status()


class RecoveryBudgetSpec(Document, frozen=True):
    """Capacity held for failover in each named region, and the tenants that may use it."""

    regions: tuple[str, ...]
    each: Resources
    tenants: tuple[str, ...] = ()


class RecoveryBudget(Document, frozen=True, tag="RecoveryBudget"):
    """Capacity held for failover. An operator writes it; deletion is refused while it is granted."""

    meta: Meta
    spec: RecoveryBudgetSpec
    status: Status = Status()
