"""Tenants, their quota, priority classes, and who may do what."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.meta import Meta, Status
from holdfast.core.model.resources import NOTHING, Resources
from holdfast.core.model.shapes import Document, Instant, Percent, Secret


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
    protected: Resources = NOTHING
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


class Right(StrEnum):
    """What a person or a token may do."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    OVERRIDE = "override"
    BREAK_GLASS = "break-glass"
    PROMOTE_POLICY = "promote-policy"
    SEE_OTHER_TENANTS = "see-other-tenants"
    AUDIT = "audit"


class Scope(Document, frozen=True):
    """Where a right holds; an empty field means everywhere."""

    tenant: str = ""
    region: str = ""
    node: str = ""


class PrincipalSpec(Document, frozen=True):
    """Rights of one actor. The name says its kind: `person/`, `tenant/`, `scheduler/`, `agent/` or `region/`.

    An agent and a scheduler work in one region, which its scope names.
    """

    rights: tuple[Right, ...] = ()
    scope: Scope = Scope()
    disabled: bool = False


class Principal(Document, frozen=True, tag="Principal"):
    """Copied to every region, which judges by its own copy while it is cut off."""

    meta: Meta
    spec: PrincipalSpec
    status: Status = Status()


class TokenSpec(Document, frozen=True):
    """A secret's hash, never the secret (see `secrets`); whom it speaks for, and until when.

    `any` says that it is meant for more than one machine in one region: for whichever agent or scheduler a request
    names, or in every region.
    """

    ADDED: ClassVar[dict[str, int]] = {"any": 2}

    principal: str
    hash: Secret
    expires: Instant
    revoked: bool = False
    any: bool = False


class Token(Document, frozen=True, tag="Token"):
    """Revoked by a new generation, forgotten only after its expiry."""

    meta: Meta
    spec: TokenSpec
    status: Status = Status()
