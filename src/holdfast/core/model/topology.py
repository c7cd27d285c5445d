"""Regions, node pools and nodes: where work can run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.isolation import Capabilities
from holdfast.core.model.meta import Condition, Labels, Meta, Status
from holdfast.core.model.resources import Resources
from holdfast.core.model.shapes import Document, Duration, Instant, Revision, Row


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


class Effect(StrEnum):
    """What a taint does: refuse what comes new, or also end what is there."""

    REFUSE = "refuse"
    EVICT = "evict"


class Taint(Row, frozen=True):
    """A mark that keeps work away unless it tolerates the mark."""

    key: str
    value: str = ""
    effect: Effect = Effect.REFUSE


class Toleration(Row, frozen=True):
    """Which taints a template accepts; an empty value accepts every value of the key."""

    key: str
    value: str = ""


class Device(Row, frozen=True):
    """One GPU of a node. Its place in the node's list is its index."""

    model: str
    milli: int = 1000


class NodeHealth(StrEnum):
    """What node health says of a node: it lives in a session, it is silent, or it is given up."""

    READY = "ready"
    SILENT = "silent"
    LOST = "lost"


READY = NodeHealth.READY


class Machine(Row, frozen=True):
    """What an agent runs on. `id` is random, made once in its agent's folder; `host` and `boot` are its names for
    itself and for this life. Empty: not told."""

    id: str = ""
    host: str = ""
    boot: str = ""


NO_MACHINE = Machine()
#: What a machine is called, each of its names: so long at most.
MACHINE_NAME_MAX = 64
#: For so long what is exclusive lives on after its lease where an agent does not say: the grace and the kill margin
#: that agents kept before they were told the region's.
OVERRUN_MS = 11_000


class Node(Row, frozen=True):
    """A machine. The agent says what it is; operators say what it is for; node health says whether it lives.

    `session` is the epoch of the agent's present life, 0 when there is none; `session_ended` is the ledger time at
    which the last one ended, from which fences are counted. `ports` are the first and the last that it hands out; 0 to
    0: none. `address` is the host name or IP under which its ports are reached; empty: they are not.

    `machine` is what its agent runs on, registered first at the revision `machine_since`: what was bound or spoken of
    before that another machine had, or another life of it. `machine_before` is that one, until the agent is back in
    another session on the same, and `machine_changed` when it changed. `overrun` is how long at most what is exclusive
    lives on there after its lease, `fence` the fence time by which its last session ended; 0: that of the settings.
    `capabilities`, `tenant` and `shares_user`: how its agent keeps tenants apart (see `isolation`).
    """

    name: str
    uid: Revision
    revision: Revision
    pool: str
    zone: str
    capacity: Resources
    devices: tuple[Device, ...] = ()
    ports: tuple[int, int] = (0, 0)
    reported_labels: Labels = ()
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    tenancy: tuple[str, ...] = ()
    cordoned: bool = False
    draining: bool = False
    note: str = ""
    health: NodeHealth = READY
    session: Revision = 0
    session_ended: Instant = 0
    address: str = ""
    machine: Machine = NO_MACHINE
    machine_since: Revision = 0
    machine_before: Machine = NO_MACHINE
    machine_changed: Instant = 0
    overrun: Duration = OVERRUN_MS
    fence: Duration = 0
    capabilities: Capabilities = ()
    tenant: str = ""
    shares_user: bool = True

    ADDED: ClassVar[Mapping[str, int]] = {
        "machine": 2, "machine_since": 2, "machine_before": 2, "machine_changed": 2, "overrun": 2, "fence": 2,
        "capabilities": 2, "tenant": 2, "shares_user": 2,
    }  # fmt: skip


#: Of what lies ready on a node: how many names, and how long each may be.
PRESENT_MAX, PRESENT_NAME_MAX = 128, 200
#: Load is told in steps of so many percent: what changes less is not worth a record.
LOAD_STEP = 10


class NodeReport(Row, frozen=True):
    """How a node fares, as its agent said at `at`: by this nodes are ranked and never kept out.

    `cpu` and `memory` are what is used of each, in percent. `present` names what lies ready there, sorted.
    """

    cpu: int = 0
    memory: int = 0
    present: tuple[str, ...] = ()
    at: Instant = 0


NO_REPORT = NodeReport()


def usable(node: Node) -> bool:
    """Whether new work may be placed there at all."""
    return node.health is READY and node.session != 0 and not node.cordoned and not node.draining


def ports_of(node: Node) -> range:
    """The ports that a node hands out. Port 0 is none of them, whatever it says: it means any port to who listens."""
    first, last = node.ports
    return range(max(1, first), last + 1)


#: The topology key of the one domain in which all nodes of a region are.
REGION_WIDE = ""


def domain(node: Node, key: str) -> str:
    """Which domain of a topology key (node, zone or pool) the node is in. It is fixed while work stands there."""
    if key == "zone":
        return node.zone
    if key == REGION_WIDE:
        return ""
    return node.name if key == "node" else node.pool


def label(node: Node, key: str) -> str | None:
    """The node's value of a label; an operator's word wins over the agent's."""
    for labels in (node.labels, node.reported_labels):
        for name, value in labels:
            if name == key:
                return value
    return None
