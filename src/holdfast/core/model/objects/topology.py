"""Regions and their health, node pools, taints and tolerations."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.values.conditions import Condition, Status
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.structs import Document, Duration, Instant, Revision, Row

#: Limits for the artifacts that a node reports as cached: their number, and the length of a name.
PRESENT_MAX, PRESENT_NAME_MAX = 128, 200


class RegionHealth(StrEnum):
    """The state of a region. Suspect, lost and retired are different states, not degrees of one (RULES 8)."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    LOST = "lost"
    RETIRED = "retired"


class RegionSpec(Document, frozen=True):
    """The location of a region, for residency and latency rules, and its `address`, for requests to it.

    The address is a URL, `https://HOST:PORT`. Empty: the platform sends no requests there.
    """

    ADDED: ClassVar[dict[str, int]] = {"address": 2}

    jurisdiction: str = ""
    latencies: tuple[tuple[str, Duration], ...] = ()
    address: str = ""


class RegionStatus(Document, frozen=True):
    """What the platform has recorded about a region, from the region's own log.

    The `session` is the one that joined with that log: only in it may the region report its state. `address` is where
    the region reported that its servers are reached; empty: not reported. It is only shown; requests go to the spec's
    address. `digest` is the start of the digest of the batch at `position`: a log with another digest there is not the
    one that was acknowledged. `unreleased` is, for a retired region, the number of assignments, rights and grants that
    it still counts as having. `session_lease`, `grace` and `fence_time` are the values that the region fences by, as
    reported when it joined; a fence time of 0: not reported.
    """

    ADDED: ClassVar[dict[str, int]] = {"unreleased": 2, "session_lease": 2, "grace": 2, "fence_time": 2}

    health: RegionHealth = RegionHealth.HEALTHY
    since: Instant = 0
    log_id: str = ""
    position: Revision = 0
    digest: str = ""
    cursor: Revision = 0
    heard_at: Instant = 0
    tombstones: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    session: Revision = 0
    address: str = ""
    unreleased: int = 0
    session_lease: Duration = 0
    grace: Duration = 0
    fence_time: Duration = 0


class Region(Document, frozen=True, tag="Region"):
    """A region. An operator writes it; the link sets its health, and an operator declares it lost or retired."""

    meta: Meta
    spec: RegionSpec
    status: RegionStatus = RegionStatus()


class NodePoolSpec(Document, frozen=True):
    """Nodes of one kind in one region, and the range that an autoscaler may choose from."""

    region: str
    minimum: int = 0
    maximum: int = 0
    cost: int = 0


class NodePool(Document, frozen=True, tag="NodePool"):
    """A pool of nodes. An operator writes it, the autoscaler its status."""

    meta: Meta
    spec: NodePoolSpec
    status: Status = Status()


class TaintEffect(StrEnum):
    """What a taint does: refuse new replicas, or also end those on the node."""

    REFUSE = "refuse"
    EVICT = "evict"


class Taint(Row, frozen=True):
    """A mark on a node that excludes replicas without a matching toleration."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.REFUSE


class Toleration(Row, frozen=True):
    """A taint that a template accepts; an empty value accepts every value of the key."""

    key: str
    value: str = ""
