"""The kinds that people read and do not write, and nodes, of which they write a part.

Each is a struct with metadata, spec and status, so that its form and its schema come from its type as those of all
other kinds do. Uids inside the log are names here, wherever the state knows one.

Size: one list of what can be seen, in one place.
"""

from __future__ import annotations

from holdfast.core.model import topology
from holdfast.core.model.allotment import Purpose, Share, Stage
from holdfast.core.model.control import Action, PolicyDocument, PolicyStage
from holdfast.core.model.isolation import Capability
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.meta import Condition, Labels, Meta
from holdfast.core.model.placement import Failure, HoldPurpose, PendingReason
from holdfast.core.model.resources import NOTHING, Resources
from holdfast.core.model.shapes import Document, Instant, Percent, Revision


class NoStatus(Document, frozen=True):
    """There is nothing to say beside the spec."""


class AssignmentSpec(Document, frozen=True):
    """A workload in one region for one purpose, as the platform asked for it."""

    workload: str
    workload_uid: Revision
    region: str
    purpose: Purpose
    stage: Stage
    generation: int
    shares: tuple[Share, ...]
    accounts: tuple[str, ...]
    priority_class: str
    disruption: int = 0
    exclusive: bool = False
    ordinals: tuple[str, ...] = ()
    right_until: Instant = 0
    jurisdictions: tuple[str, ...] = ()
    batch: bool = False
    deadline: Instant = 0
    fails_late: bool = False


class AssignmentStatus(Document, frozen=True):
    """How many replicas it asks for and, in its region, how many are in each phase."""

    replicas: int = 0
    phases: tuple[tuple[str, int], ...] = ()
    #: How many rights to identities the region holds of it, those that it is to give back included.
    rights: int = 0


class Assignment(Document, frozen=True, tag="Assignment"):
    """What the platform gives a region of one workload."""

    meta: Meta
    spec: AssignmentSpec
    status: AssignmentStatus = AssignmentStatus()


class GrantSpec(Document, frozen=True):
    """A slice of an account, lent to one region until an end."""

    account: str
    region: str
    version: int
    target: Resources
    ends: Instant
    protected: Resources = NOTHING


class GrantStatus(Document, frozen=True):
    """On the platform `charged` is what counts against the account; in a region it is what work is charged there.

    `settled` is the limit that the region has settled on, `acknowledged` the version it has logged.
    """

    charged: Resources = NOTHING
    settled: Resources = NOTHING
    acknowledged: int = 0


class Grant(Document, frozen=True, tag="Grant"):
    """A grant as the platform lends it, or as its region holds it."""

    meta: Meta
    spec: GrantSpec
    status: GrantStatus = GrantStatus()


class Valid(Document, frozen=True):
    """Where a policy is valid: a region, and a tenant or, when empty, all who have none of their own."""

    region: str
    tenant: str = ""


class PolicyStatus(Document, frozen=True):
    """Who published a policy, when, how far it has come and where it is valid."""

    stage: PolicyStage = PolicyStage.DRAFT
    author: str = ""
    at: Instant = 0
    valid: tuple[Valid, ...] = ()


class SchedulerPolicy(Document, frozen=True, tag="SchedulerPolicy"):
    """One immutable revision of the policy that it is named after; 0.0 is built in.

    It is found by its revision, and the newest of a policy also by its name. Each document that differs from the newest
    of its name is a new revision.
    """

    meta: Meta
    spec: PolicyDocument = PolicyDocument()
    status: PolicyStatus = PolicyStatus()


class OverrideSpec(Document, frozen=True):
    """What a person decided, for whom, why and until when."""

    action: Action
    region: str
    target: str
    reason: str
    ends: Instant
    facts: Labels = ()


class OverrideStatus(Document, frozen=True):
    """Who opened it, when, and in which ledger: `platform` or `region`."""

    owner: str
    opened: Instant
    source: str


class Override(Document, frozen=True, tag="Override"):
    """A human decision in force."""

    meta: Meta
    spec: OverrideSpec
    status: OverrideStatus


class BreachSpec(Document, frozen=True):
    """Which promise is broken, for what."""

    invariant: str
    key: str


class BreachStatus(Document, frozen=True):
    """What it is about by name, by how much it is broken, who must cure it and until when."""

    subject: str
    overshoot: int
    owner: str
    opened: Instant
    deadline: Instant


class Breach(Document, frozen=True, tag="Breach"):
    """A promise that a fact from outside has broken."""

    meta: Meta
    spec: BreachSpec
    status: BreachStatus


class SessionSpec(Document, frozen=True):
    """Whose life it is."""

    principal: str


class SessionStatus(Document, frozen=True):
    """Since when it lives, and the highest number of a command in it."""

    opened: Instant
    high: int = 0


class Session(Document, frozen=True, tag="Session"):
    """One life of a machine. Its uid is its epoch."""

    meta: Meta
    spec: SessionSpec
    status: SessionStatus


class NodeSpec(Document, frozen=True):
    """What operators say of a node: all of it, each time. A cordon or a drain says why in `note`."""

    cordoned: bool = False
    draining: bool = False
    taints: tuple[topology.Taint, ...] = ()
    labels: Labels = ()
    tenancy: tuple[str, ...] = ()
    note: str = ""


class Load(Document, frozen=True):
    """What is used of a node's processor and memory, in steps of 10 percent, since when."""

    cpu: Percent = 0
    memory: Percent = 0
    since: Instant = 0


class MachineTold(Document, frozen=True):
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
    health: topology.NodeHealth = topology.READY
    usable: bool = False
    capacity: Resources = NOTHING
    firm: Resources = NOTHING
    taken: Resources = NOTHING
    held: Resources = NOTHING
    free: Resources = NOTHING
    devices: tuple[topology.Device, ...] = ()
    ports: tuple[int, int] = (0, 0)
    reported_labels: Labels = ()
    session: Revision = 0
    session_ended: Instant = 0
    replicas: int = 0
    reservations: int = 0
    waiting: int = 0
    address: str = ""
    load: Load = Load()
    present: tuple[str, ...] = ()
    machine: MachineTold = MachineTold()
    capabilities: tuple[Capability, ...] = ()
    tenant: str = ""
    shares_user: bool = False
    conditions: tuple[Condition, ...] = ()


class Node(Document, frozen=True, tag="Node"):
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


class Replica(Document, frozen=True, tag="Replica"):
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


class Endpoint(Document, frozen=True, tag="Endpoint"):
    """Where a replica that serves, or is ready to, is reached."""

    meta: Meta
    spec: EndpointSpec
    status: EndpointStatus


class RequestSpec(Document, frozen=True):
    """What waits to be placed: the open slots of one assignment and template."""

    workload: str
    region: str
    purpose: Purpose
    template: str
    priority_class: str


class RequestStatus(Document, frozen=True):
    """How many are open and since when, up to where a scheduler looked, and why they wait."""

    open: int
    since: Instant
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


class SchedulingRequest(Document, frozen=True, tag="SchedulingRequest"):
    """Replicas that wait for room."""

    meta: Meta
    spec: RequestSpec
    status: RequestStatus


class ReservationSpec(Document, frozen=True):
    """Room held on a node without a replica, until an end."""

    purpose: HoldPurpose
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


class Reservation(Document, frozen=True, tag="Reservation"):
    """Room that is kept."""

    meta: Meta
    spec: ReservationSpec
    status: NoStatus = NoStatus()
