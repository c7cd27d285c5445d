"""Regions and their health, node pools, taints and tolerations."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.values.conditions import Condition, Status
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.structs import Document, Duration, Instant, Revision, Row

#: Of what lies ready on a node: how many names, and how long each may be.
PRESENT_MAX, PRESENT_NAME_MAX = 128, 200


class RegionHealth(StrEnum):
    """Three different words, not three degrees of one (RULES 8), and the ordinary state."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    LOST = "lost"
    RETIRED = "retired"


class RegionSpec(Document, frozen=True):
    """Where a region is: for residency and latency rules, and, by its `address`, for whoever sends something there.

    The address is a URL, `https://HOST:PORT`. Empty: the platform sends nothing there.
    """

    ADDED: ClassVar[dict[str, int]] = {"address": 2}

    jurisdiction: str = ""
    latencies: tuple[tuple[str, Duration], ...] = ()
    address: str = ""


class RegionStatus(Document, frozen=True):
    """What the platform knows of a region, from the region's own log.

    `session` is the session that has joined with that log: only in it may the region speak for what it holds. `address`
    is where it then said that its servers are reached; empty: it did not say. It is shown, and nothing is ever sent
    there: that is for the spec's to say. `digest` is how that of the batch at
    `position` begins: a log that has another one there is not the one that was acknowledged. `unreleased`, of a retired
    one: how many assignments, rights and grants it still counts as having, until its retirement has come to them.
    `session_lease`, `grace` and `fence_time` are those that the region fences by, as it said when it joined; a fence
    time of 0: it did not say.
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
    """Written by an operator; its health by the link and, for the heavier words, by an operator."""

    meta: Meta
    spec: RegionSpec
    status: RegionStatus = RegionStatus()


class NodePoolSpec(Document, frozen=True):
    """Nodes of one kind in one region, and how many an autoscaler may keep."""

    region: str
    minimum: int = 0
    maximum: int = 0
    cost: int = 0


class NodePool(Document, frozen=True, tag="NodePool"):
    """Written by an operator, its status by the autoscaler."""

    meta: Meta
    spec: NodePoolSpec
    status: Status = Status()


class TaintEffect(StrEnum):
    """What a taint does: refuse what comes new, or also end what is there."""

    REFUSE = "refuse"
    EVICT = "evict"


class Taint(Row, frozen=True):
    """A mark that keeps work away unless it tolerates the mark."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.REFUSE


class Toleration(Row, frozen=True):
    """Which taints a template accepts; an empty value accepts every value of the key."""

    key: str
    value: str = ""
