"""What the platform gives to a region: assignments, grants, budgets and the right to an identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from holdfast.core.model.meta import Meta, Status
from holdfast.core.model.resources import NOTHING, Resources
from holdfast.core.model.runs import Ordinals, expanded, runs_of
from holdfast.core.model.shapes import Document, Instant, Revision, Row


class Purpose(StrEnum):
    """Why replicas are in a region: to serve, or to stand in for a lost one."""

    SERVING = "serving"
    RECOVERY = "recovery"


class Stage(StrEnum):
    """A standby holds room only; an active assignment runs; an ended one is being released."""

    STANDBY = "standby"
    ACTIVE = "active"
    ENDED = "ended"


ACTIVE = Stage.ACTIVE
RECOVERY = Purpose.RECOVERY


class Share(Row, frozen=True):
    """How many replicas of one template."""

    template: str
    count: int


class Assignment(Row, frozen=True):
    """A workload in one region for one purpose. Everything the region must know of the workload is in it.

    `ordinals` are the identities of an exclusive workload that this region holds the right to and is to run;
    `returning` those whose right it still holds and is to give back. `right_until` is the end of the right where it is
    leased, 0 where it is not; in a region's copy by the region's time, told in the term `right_term` of its log.
    `disruption` is the region's share of the disruption budget. `accounts` are the accounts that pay, in the order in
    which they are asked. `deadline` is until when its work is to be done, 0: it has none; in a region's copy by the
    region's time. `fails_late`: what is not done by then is given up, and not placed any more. `stops_cut`: a replica
    whose node is cut off ends there.
    """

    LOWERED: ClassVar[dict[str, Callable[[Any], Any]]] = {"ordinals": expanded, "returning": expanded}

    uid: Revision
    revision: Revision
    workload: Revision
    workload_name: str
    tenant: str
    region: str
    purpose: Purpose
    stage: Stage
    generation: int
    shares: tuple[Share, ...]
    accounts: tuple[str, ...]
    priority_class: str
    disruption: int = 0
    exclusive: bool = False
    ordinals: Ordinals = ()
    right_until: Instant = 0
    jurisdictions: tuple[str, ...] = ()
    batch: bool = False
    returning: Ordinals = ()
    right_term: int = 0
    deadline: Instant = 0
    fails_late: bool = False
    stops_cut: bool = False

    def __post_init__(self) -> None:
        if self.ordinals:
            force_setattr(self, "ordinals", runs_of(self.ordinals))
        if self.returning:
            force_setattr(self, "returning", runs_of(self.returning))


class Offer(Row, frozen=True):
    """One version of a grant that its region has not acknowledged yet."""

    version: int
    target: Resources


class Grant(Row, frozen=True):
    """A slice of an account, lent to one region. The account is `quota/T`, `recovery/B` or `emergency/UID`.

    `offered` is the largest target since the last acknowledged version: that is what the platform charges (RULES 7). It
    is the greatest of `settled` and of every target in `offers`, the versions not acknowledged, oldest first.
    `position` is where its region's log was when it said so, and `session` the one in which it did.
    """

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}

    uid: Revision
    revision: Revision
    account: str
    region: str
    version: int
    target: Resources
    offered: Resources
    ends: Instant
    protected: Resources = NOTHING
    acknowledged: int = 0
    settled: Resources = NOTHING
    offers: tuple[Offer, ...] = ()
    position: Revision = 0
    session: Revision = 0


class Demand(Row, frozen=True):
    """What is asked of an account in one region: how many replicas run or are to run on it, and what they need."""

    count: int = 0
    amount: Resources = NOTHING


class Allowance(Row, frozen=True):
    """A grant as its region holds it: the version it has logged, the limit it settled on, and until when."""

    account: str
    version: int
    target: Resources
    limit: Resources
    ends: Instant
    protected: Resources = NOTHING


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


class RightHeld(Row, frozen=True):
    """Which region holds the live right to one exclusive identity, and since which revision.

    `told` is the latest end of a lease that the region was ever told: it may act on it, whatever was said later.
    """

    workload: Revision
    ordinal: int
    region: str
    since: Revision
    told: Instant = 0
