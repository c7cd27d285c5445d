"""Nodes: their machines, health, load reports and tenants."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row

#: No tenant has this name.
NO_TENANT = ""


class Device(Row, frozen=True):
    """One GPU of a node. Its index is its position in the node's list."""

    model: str
    milli: int = 1000


class NodeHealth(StrEnum):
    """Health of a node: ready (it has a session), silent, or lost."""

    READY = "ready"
    SILENT = "silent"
    LOST = "lost"


READY = NodeHealth.READY


class Machine(Row, frozen=True):
    """The machine of an agent. `id` is random, created once in the agent's folder; `host` and `boot` are the names of
    the machine and of its current boot. Empty: not reported."""

    id: str = ""
    host: str = ""
    boot: str = ""


NO_MACHINE = Machine()
#: The longest name of a machine, for each of its names.
MACHINE_NAME_MAX = 64
#: How long an exclusive run may outlive its lease if its agent does not report it: the grace and the kill margin that
#: agents used before they received the region's.
OVERRUN_MS = 11_000


class Node(Row, frozen=True):
    """A node. Its agent registers its properties, operators its use, and node health whether it is alive.

    The session epoch of the agent is `session`, 0 without a session; `session_ended` is the ledger time at which the
    last one ended, from which fences count. `ports` are the first and last port for replicas; 0 to 0: none. `address`
    is the host name or IP of its ports; empty: they cannot be reached.

    The agent first registered on `machine` at revision `machine_since`: earlier bindings and reports belong to another
    machine or boot. `machine_before` is that one, until the agent opens another session on the current machine;
    `machine_changed` is the time of the change. `overrun` is how long an exclusive run may outlive its lease at most.
    `fence` is the fence time by which the last session ended; 0: that of the settings. `capabilities`, `tenant` and
    `shares_user` tell how the agent isolates tenants (see `isolation`).
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


#: Load is reported in steps of this many percent: smaller changes are not worth a record.
LOAD_STEP = 10


class NodeReport(Row, frozen=True):
    """Load of a node, as its agent reported it at `at`: it ranks nodes and never excludes them.

    Use is `cpu` and `memory`, in percent. `present` names the artifacts that are cached on the node, sorted.
    """

    cpu: int = 0
    memory: int = 0
    present: tuple[str, ...] = ()
    at: Instant = 0


NO_REPORT = NodeReport()


def usable(node: Node) -> bool:
    """Whether new work may be placed on the node at all."""
    return node.health is READY and node.session != 0 and not node.cordoned and not node.draining


def ports_of(node: Node) -> range:
    """Return the ports that a node assigns. Port 0 is never one of them: to a listener it means any port."""
    first, last = node.ports
    return range(max(1, first), last + 1)


def label_value(node: Node, key: str) -> str | None:
    """Return the node's value of a label; an operator's value takes precedence over the agent's."""
    for labels in (node.labels, node.reported_labels):
        for name, value in labels:
            if name == key:
                return value
    return None


def is_kept_from(node: Node, tenant: str) -> bool:
    """Whether operators or the agent reserve a node for tenants other than this one."""
    return bool(node.tenancy or node.tenant) and tenant not in kept_for(node)


def kept_for(node: Node) -> tuple[str, ...]:
    """Return the tenants that a node is reserved for, sorted; none: any. If operators and the agent contradict each
    other, `NO_TENANT` alone."""
    if not node.tenant:
        return tuple(sorted(node.tenancy))
    return (node.tenant,) if not node.tenancy or node.tenant in node.tenancy else (NO_TENANT,)
