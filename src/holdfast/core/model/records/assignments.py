"""What the platform gives to a region: assignments, grants, budgets and the right to an identity."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from holdfast.core.model.values.ranges import Ordinals, expanded, ranges_of
from holdfast.core.model.values.structs import Instant, Revision, Row


class AssignmentPurpose(StrEnum):
    """Why replicas are in a region: to serve, or to stand in for a lost one."""

    SERVING = "serving"
    RECOVERY = "recovery"


class AssignmentStage(StrEnum):
    """A standby holds room only; an active assignment runs; an ended one is being released."""

    STANDBY = "standby"
    ACTIVE = "active"
    ENDED = "ended"


ACTIVE = AssignmentStage.ACTIVE
RECOVERY = AssignmentPurpose.RECOVERY


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
    purpose: AssignmentPurpose
    stage: AssignmentStage
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
            force_setattr(self, "ordinals", ranges_of(self.ordinals))
        if self.returning:
            force_setattr(self, "returning", ranges_of(self.returning))


class HeldRight(Row, frozen=True):
    """Which region holds the live right to one exclusive identity, and since which revision.

    `told` is the latest end of a lease that the region was ever told: it may act on it, whatever was said later.
    """

    workload: Revision
    ordinal: int
    region: str
    since: Revision
    latest_lease_end: Instant = 0
