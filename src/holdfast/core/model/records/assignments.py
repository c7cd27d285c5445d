"""Assignments of workloads to regions, and rights to exclusive identities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.values.ranges import Ordinals, expanded, ranges_of
from holdfast.core.model.values.structs import Instant, Revision, Row


class AssignmentPurpose(StrEnum):
    """Why replicas are in a region: to serve, or to replace those of a lost region."""

    SERVING = "serving"
    RECOVERY = "recovery"


class AssignmentStage(StrEnum):
    """A standby only holds capacity; an active assignment runs; an ended one is being released."""

    STANDBY = "standby"
    ACTIVE = "active"
    ENDED = "ended"


ACTIVE = AssignmentStage.ACTIVE
RECOVERY = AssignmentPurpose.RECOVERY


class Share(Row, frozen=True):
    """The number of replicas of one template."""

    template: str
    count: int


class Assignment(Row, frozen=True):
    """A workload in one region for one purpose, with everything that the region needs to run it.

    The region holds the right to the identities in `ordinals`, which it is to run, and to those in `returning`, which
    it is to release. `right_until` is the end of a leased right, 0 without a lease; in a region's copy it is in the
    region's time, recorded in the term `right_term` of its log. `disruption` is the region's share of the disruption
    budget. `accounts` are charged in this order of preference. `deadline` is when the work should have finished, 0:
    none; in a region's copy it is in the region's time. With `fails_late`, unfinished work fails at the deadline and is
    not placed any more. With `stops_cut`, a replica stops when its node is cut off. With `gang`, ordinals from
    `k * gang.size` on, `gang.size` of them, are gang k.
    """

    ADDED: ClassVar[Mapping[str, int]] = {"gang": 3}
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
    gang: Gang | None = None

    def __post_init__(self) -> None:
        if self.ordinals:
            force_setattr(self, "ordinals", ranges_of(self.ordinals))
        if self.returning:
            force_setattr(self, "returning", ranges_of(self.returning))

    @property
    def unit(self) -> int:
        """The number of slots that are opened and ended together: the size of a gang, or 1."""
        return self.gang.size if self.gang is not None else 1


class HeldRight(Row, frozen=True):
    """The region that holds the live right to one exclusive identity, and the revision since which it does.

    The field `latest_lease_end` is the latest lease end ever sent to the region, which may rely on it whatever was sent
    later.
    """

    workload: Revision
    ordinal: int
    region: str
    since: Revision
    latest_lease_end: Instant = 0
