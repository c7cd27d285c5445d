"""Objects of a region as the API shows them: nodes, replicas, endpoints, requests, reservations."""

from __future__ import annotations

from holdfast.core.model.objects import topology
from holdfast.core.model.objects.isolation import Capability
from holdfast.core.model.records import nodes
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Failure, PendingReason, ReservationPurpose
from holdfast.core.model.values.conditions import Condition
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Instant, Percent, Revision


class NoStatus(Document, frozen=True):
    """There is nothing to say beside the spec."""


class NodeSpec(Document, frozen=True):
    """What operators say of a node: all of it, each time. A cordon or a drain says why in `note`."""

    cordoned: bool = False
    draining: bool = False
    taints: tuple[topology.Taint, ...] = ()
    labels: Labels = ()
    tenancy: tuple[str, ...] = ()
    note: str = ""


class NodeLoadView(Document, frozen=True):
    """What is used of a node's processor and memory, in steps of 10 percent, since when."""

    cpu: Percent = 0
    memory: Percent = 0
    since: Instant = 0


class MachineView(Document, frozen=True):
    """What a node's agent runs on: its id in the agent's folder, the host's, and that of this life of it."""

    id: str = ""
    host: str = ""
    boot: str = ""


class NodeStatus(Document, frozen=True):
    """What the agent and node health say of a node, and what of it is taken.

    `firm` is taken by work that stays, `taken` by all work, `held` by reservations; `free` is left for firm work. Its
    ports are reached under `address`. `load` is what is used now, `present` what lies ready, as the agent said last.
    `capabilities` is what the agent enforces between tenants, `tenant` the one that it takes work of; empty: any.
    `sharesUser`: several tenants may run as one user there.
    """

    pool: str = ""
    zone: str = ""
    health: nodes.NodeHealth = nodes.READY
    usable: bool = False
    capacity: Resources = ZERO
    firm: Resources = ZERO
    taken: Resources = ZERO
    held: Resources = ZERO
    free: Resources = ZERO
    devices: tuple[nodes.Device, ...] = ()
    ports: tuple[int, int] = (0, 0)
    reported_labels: Labels = ()
    session: Revision = 0
    session_ended: Instant = 0
    replicas: int = 0
    reservations: int = 0
    waiting: int = 0
    address: str = ""
    load: NodeLoadView = NodeLoadView()
    present: tuple[str, ...] = ()
    machine: MachineView = MachineView()
    capabilities: tuple[Capability, ...] = ()
    tenant: str = ""
    shares_user: bool = False
    conditions: tuple[Condition, ...] = ()


class NodeView(Document, frozen=True, tag="Node"):
    """A machine. Its metadata's labels are the operator's and the agent's together; the spec has the operator's."""

    meta: Meta
    spec: NodeSpec
    status: NodeStatus = NodeStatus()


class ReplicaSpec(Document, frozen=True):
    """Which ordinal of which workload it is, what it runs, and what it becomes once it is released."""

    workload: str
    workload_uid: Revision
    region: str
    ordinal: int
    assignment: str
    template: str
    next_template: str
    account: str = ""


class ReplicaStatus(Document, frozen=True):
    """Where it is in its life. `stage` is request, reservation or binding; `by` made the last move, for `cause`.

    `detail` is what was said besides; `failure` is how it failed last, until it runs another template.
    """

    stage: str
    phase: Phase
    since: Instant
    by: str
    cause: str = ""
    node: str = ""
    epoch: Revision = 0
    evidence: Revision = 0
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    ends: Instant = 0
    restarts: int = 0
    waits_for: int = 0
    firm: bool = True
    detail: str = ""
    failure: Failure | None = None


class ReplicaView(Document, frozen=True, tag="Replica"):
    """One ordinal of a workload in a region: a slot."""

    meta: Meta
    spec: ReplicaSpec
    status: ReplicaStatus


class EndpointSpec(Document, frozen=True):
    """Of which ordinal of which workload it is."""

    workload: str
    workload_uid: Revision
    region: str
    ordinal: int


class EndpointStatus(Document, frozen=True):
    """Where it is reached: `addresses` are `host:port`, one for each of its ports.

    It serves once one of the region's servers has asked it and was answered, and is only ready when it answers no more.
    """

    phase: Phase
    since: Instant
    addresses: tuple[str, ...] = ()
    node: str = ""
    zone: str = ""
    epoch: Revision = 0


class EndpointView(Document, frozen=True, tag="Endpoint"):
    """Where a replica that serves, or is ready to, is reached."""

    meta: Meta
    spec: EndpointSpec
    status: EndpointStatus


class RequestSpec(Document, frozen=True):
    """What waits to be placed: the open slots of one assignment and template."""

    workload: str
    region: str
    purpose: AssignmentPurpose
    template: str
    priority_class: str


class RequestStatus(Document, frozen=True):
    """How many are open and since when, up to where a scheduler looked, and why they wait."""

    open: int
    since: Instant
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


class SchedulingRequestView(Document, frozen=True, tag="SchedulingRequest"):
    """Replicas that wait for room."""

    meta: Meta
    spec: RequestSpec
    status: RequestStatus


class ReservationSpec(Document, frozen=True):
    """Room held on a node without a replica, until an end."""

    purpose: ReservationPurpose
    owner: str
    node: str
    need: Resources
    account: str
    ends: Instant
    tenant: str = ""
    assignment: str = ""
    template: str = ""
    devices: tuple[int, ...] = ()
    device_milli: int = 1000


class ReservationView(Document, frozen=True, tag="Reservation"):
    """Room that is kept."""

    meta: Meta
    spec: ReservationSpec
    status: NoStatus = NoStatus()
