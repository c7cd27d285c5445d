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
    """An empty status: the spec is complete."""


class NodeSpec(Document, frozen=True):
    """The operator's settings of a node; a write replaces all of them. `note` is the reason for a cordon or drain."""

    cordoned: bool = False
    draining: bool = False
    taints: tuple[topology.Taint, ...] = ()
    labels: Labels = ()
    tenancy: tuple[str, ...] = ()
    note: str = ""


class NodeLoadView(Document, frozen=True):
    """Use of a node's processor and memory, in steps of 10 percent, and since when."""

    cpu: Percent = 0
    memory: Percent = 0
    since: Instant = 0


class MachineView(Document, frozen=True):
    """The machine of a node's agent: its id in the agent's folder, its host name, and the id of its current boot."""

    id: str = ""
    host: str = ""
    boot: str = ""


class NodeStatus(Document, frozen=True):
    """What the agent and node health report of a node, and what of it is used.

    Firm work uses `firm`, all work uses `taken`, reservations hold `held`; `free` is left for firm work. Ports are
    reached at `address`. `load` is the current use and `present` what is cached, as last reported by the agent.
    `capabilities` lists what the agent enforces between tenants. A node with a `tenant` accepts work of that tenant
    only. `sharesUser`: several tenants may run as one user there.
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
    """A machine. Its metadata has the labels of operator and agent together, its spec those of the operator."""

    meta: Meta
    spec: NodeSpec
    status: NodeStatus = NodeStatus()


class ReplicaSpec(Document, frozen=True):
    """Workload and ordinal, what the replica runs, and its template after the next release."""

    workload: str
    workload_uid: Revision
    region: str
    ordinal: int
    assignment: str
    template: str
    next_template: str
    account: str = ""


class PreemptionView(Document, frozen=True):
    """One replica took the place of another: by which rule, with which priorities, and when.

    The rule is `priority`, or `reclaimed` for recovery. Names of another tenant are empty in the view of a tenant.
    """

    at: Instant
    rule: str
    successor: str
    victim: str
    priority: int
    victim_priority: int


class ReplicaStatus(Document, frozen=True):
    """The state of a replica. `stage` is request, reservation or binding; `by` made the last change, for `cause`.

    `detail` adds to the cause. `failure` is the last failure, until the replica runs another template. `preempted` is
    the last preemption of this replica; `preempts` are the replicas whose place it took.
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
    preempted: PreemptionView | None = None
    preempts: tuple[PreemptionView, ...] = ()


class ReplicaView(Document, frozen=True, tag="Replica"):
    """One ordinal of a workload in a region (a slot in the region's ledger)."""

    meta: Meta
    spec: ReplicaSpec
    status: ReplicaStatus


class EndpointSpec(Document, frozen=True):
    """The workload and ordinal of an endpoint."""

    workload: str
    workload_uid: Revision
    region: str
    ordinal: int


class EndpointStatus(Document, frozen=True):
    """Where the endpoint is reached: `addresses` are `host:port`, one for each port.

    The replica is serving while a server of the region gets answers to its probes, and ready otherwise.
    """

    phase: Phase
    since: Instant
    addresses: tuple[str, ...] = ()
    node: str = ""
    zone: str = ""
    epoch: Revision = 0


class EndpointView(Document, frozen=True, tag="Endpoint"):
    """The addresses of a replica that is serving or ready."""

    meta: Meta
    spec: EndpointSpec
    status: EndpointStatus


class RequestSpec(Document, frozen=True):
    """Open slots of one assignment and template that wait to be placed."""

    workload: str
    region: str
    purpose: AssignmentPurpose
    template: str
    priority_class: str


class RequestStatus(Document, frozen=True):
    """How many slots are open and since when, the revision that a scheduler examined last, and why they wait."""

    open: int
    since: Instant
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


class SchedulingRequestView(Document, frozen=True, tag="SchedulingRequest"):
    """Replicas that wait to be placed."""

    meta: Meta
    spec: RequestSpec
    status: RequestStatus


class ReservationSpec(Document, frozen=True):
    """Resources reserved on a node without a replica, until an end."""

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
    """Reserved resources on a node."""

    meta: Meta
    spec: ReservationSpec
    status: NoStatus = NoStatus()
