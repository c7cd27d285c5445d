"""Regions, node pools and nodes: where work can run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row

#: What no tenant is called.
NO_TENANT = ""


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


def label_value(node: Node, key: str) -> str | None:
    """The node's value of a label; an operator's word wins over the agent's."""
    for labels in (node.labels, node.reported_labels):
        for name, value in labels:
            if name == key:
                return value
    return None


def is_kept_from(node: Node, tenant: str) -> bool:
    """Whether operators or its agent keep a node for others than this tenant."""
    return bool(node.tenancy or node.tenant) and tenant not in kept_for(node)


def kept_for(node: Node) -> tuple[str, ...]:
    """The tenants that operators and its agent keep a node for, sorted; none: any may come. Where these do not agree
    it is `NO_TENANT` alone: nobody's."""
    if not node.tenant:
        return tuple(sorted(node.tenancy))
    return (node.tenant,) if not node.tenancy or node.tenant in node.tenancy else (NO_TENANT,)
