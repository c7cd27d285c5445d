"""Tenants, their quota, priority classes, and who may do what."""

from __future__ import annotations

from holdfast.core.model.values.conditions import Status
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Percent


class TenantSpec(Document, frozen=True):
    """A customer of the platform. Its priority classes are the only ones its workloads may name.

    `pending_max` is how many replicas may be wanted and not bound, over all its workloads. `submits_per_minute` is
    judged by the API in the leader's memory, and not by the ledger.
    """

    priority_classes: tuple[str, ...] = ()
    workloads_max: int = 10_000
    pending_max: int = 20_000
    submits_per_minute: int = 600


class Tenant(Document, frozen=True, tag="Tenant"):
    """Written by an operator; removal is refused while anything refers to it."""

    meta: Meta
    spec: TenantSpec
    status: Status = Status()


class QuotaSpec(Document, frozen=True):
    """What a tenant may be charged over all regions, and what of it no other tenant may crowd out.

    `reclaimable` is what its reclaimable work may have beside that, in percent of what each region has.
    """

    hard: Resources
    protected: Resources = ZERO
    reclaimable: Percent = 0


class Quota(Document, frozen=True, tag="Quota"):
    """Named as its tenant. `effective = max(hard, sum charged)`: lowering a quota waits for what is lent out."""

    meta: Meta
    spec: QuotaSpec
    status: Status = Status()


class PriorityClassSpec(Document, frozen=True):
    """A static priority. Preemption compares it, strictly; reclaimable work may borrow held room and lose it again."""

    priority: int
    reclaimable: bool = False
    may_preempt: bool = False


class PriorityClass(Document, frozen=True, tag="PriorityClass"):
    """Written by an operator; removal is refused while a workload names it."""

    meta: Meta
    spec: PriorityClassSpec
    status: Status = Status()


class RecoveryBudgetSpec(Document, frozen=True):
    """Room held for failover in each named region, and who may use it."""

    regions: tuple[str, ...]
    each: Resources
    tenants: tuple[str, ...] = ()


class RecoveryBudget(Document, frozen=True, tag="RecoveryBudget"):
    """Written by an operator; removal is refused while it is lent out."""

    meta: Meta
    spec: RecoveryBudgetSpec
    status: Status = Status()
