"""Commands of a region's ledger. `definition` has one rule for each: owners, side effect, what undoes it.

Size: one list of everything that can be asked, in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.registry import BuiltinCommand
from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.policies import Override, SchedulerPolicy, Validity
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NO_MACHINE, OVERRUN_MS, Device, Machine, NodeHealth
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row, SlotKey

# Nodes


class RegisterNode(Row, frozen=True, tag="register-node"):
    """Register an agent's node in its present session.

    `overrun` is the longest time that exclusive work outlives the agent's lease, by the agent's settings.
    `capabilities` lists the isolation between tenants that it enforces. `tenant` is the only tenant that it accepts;
    empty: any. `shares_user`: tenants without users of their own may run under one user.
    """

    name: str
    pool: str
    zone: str
    capacity: Resources
    devices: tuple[Device, ...] = ()
    ports: tuple[int, int] = (0, 0)
    labels: Labels = ()
    address: str = ""
    machine: Machine = NO_MACHINE
    overrun: Duration = OVERRUN_MS
    capabilities: Capabilities = ()
    tenant: str = ""
    shares_user: bool = True


class ReportNode(Row, frozen=True, tag="report-node"):
    """Report the load of a node: used cpu and memory in percent, and the artifacts cached there."""

    name: str
    cpu: int
    memory: int
    present: tuple[str, ...] = ()


class AdministerNode(Row, frozen=True, tag="administer-node"):
    """Set an operator's attributes of a node. A cordon or a drain requires a note."""

    node: Revision
    cordoned: bool = False
    draining: bool = False
    taints: tuple[Taint, ...] = ()
    labels: Labels = ()
    tenancy: tuple[str, ...] = ()
    note: str = ""


class JudgeNode(Row, frozen=True, tag="judge-node"):
    """Set the health of a node, as node health has determined it."""

    node: Revision
    health: NodeHealth


class RemoveNode(Row, frozen=True, tag="remove-node"):
    """Remove a drained node whose agent has no session."""

    node: Revision


# Slots


class OpenSlots(Row, frozen=True, tag="open-slots"):
    """Open these ordinals under this template: new ones become pending, others return as it after their release."""

    assignment: Revision
    template: str
    ordinals: tuple[int, ...]


class WithdrawSlots(Row, frozen=True, tag="withdraw-slots"):
    """Withdraw these ordinals: pending and reserved slots are released, bound ones do not return after their end."""

    assignment: Revision
    ordinals: tuple[int, ...]


class ForgetAssignment(Row, frozen=True, tag="forget-assignment"):
    """Delete an ended assignment without slots from the region."""

    assignment: Revision


class AdoptSlots(Row, frozen=True, tag="adopt-slots"):
    """Move the charge of recovered slots to the accounts that their assignment names now."""

    assignment: Revision
    ordinals: tuple[int, ...]


class SlotPlacement(Row, frozen=True):
    """One slot on one node: its devices and ports, the victims it waits for, and the hold it uses."""

    ordinal: int
    node: Revision
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    waits_for: tuple[SlotKey, ...] = ()
    hold: Revision = 0


class PlacementGroup(Row, frozen=True):
    """Placements of one scheduling request."""

    assignment: Revision
    template: str
    placements: tuple[SlotPlacement, ...]


class Propose(Row, frozen=True, tag="propose"):
    """Place many slots: each decided alone, or all or nothing. `bind` reserves and binds in one commit."""

    groups: tuple[PlacementGroup, ...]
    valid_until: Instant
    all_or_nothing: bool = False
    bind: bool = True


class Bind(Row, frozen=True, tag="bind"):
    """Give reserved slots to their agents."""

    slots: tuple[SlotKey, ...]


class Unreserve(Row, frozen=True, tag="unreserve"):
    """Make reserved slots pending again, after a later placement step rejected them."""

    slots: tuple[SlotKey, ...]


class Expire(Row, frozen=True, tag="expire"):
    """End slot reservations and holds whose time has passed."""

    slots: tuple[SlotKey, ...] = ()
    holds: tuple[Revision, ...] = ()


class MoveSlot(Row, frozen=True):
    """One edge of one slot under one binding epoch. `detail` adds to the cause, for example `exit code 3`."""

    slot: SlotKey
    epoch: Revision
    target: Phase
    cause: str
    detail: str = ""


class Move(Row, frozen=True, tag="move"):
    """Move slots along edges that the sender owns: agents, endpoints, node health, repair."""

    moves: tuple[MoveSlot, ...]


class Stop(Row, frozen=True, tag="stop"):
    """Stop slots for a cause from the closed list. `template` is what their ordinals become; empty: unchanged."""

    slots: tuple[SlotKey, ...]
    cause: str
    template: str = ""


class ReportPending(Row, frozen=True, tag="report-pending"):
    """Report why a request is pending, as a tree, and the revision at which the scheduler examined it."""

    assignment: Revision
    template: str
    examined: Revision
    reasons: tuple[PendingReason, ...]


# Holds


class Hold(Row, frozen=True, tag="hold"):
    """Hold capacity on a node without a slot, until a given time. A placeholder names its standby assignment and
    template."""

    purpose: ReservationPurpose
    node: Revision
    account: str
    ends: Instant
    need: Resources = ZERO
    devices: tuple[int, ...] = ()
    device_milli: int = 1000
    tenant: str = ""
    assignment: Revision = 0
    template: str = ""


class ExtendHold(Row, frozen=True, tag="extend-hold"):
    """Move the end of a hold to a later time."""

    hold: Revision
    ends: Instant


class DropHold(Row, frozen=True, tag="drop-hold"):
    """Release held capacity before the hold ends."""

    hold: Revision


class CloseBreach(Row, frozen=True, tag="close-breach"):
    """Close a breach whose overshoot is gone."""

    invariant: str
    key: str


# The link


class ShippedRegion(Row, frozen=True, tag="region"):
    """This region: its jurisdiction, for residency, and the platform's grace, by which work is admitted here."""

    name: str
    jurisdiction: str
    grace: Duration = 0

    ADDED: ClassVar[Mapping[str, int]] = {"grace": 2}


class ShippedTemplate(Row, frozen=True, tag="template"):
    digest: str
    template: Template


class ShippedAssignment(Row, frozen=True, tag="assignment"):
    assignment: Assignment


class ShippedGrant(Row, frozen=True, tag="grant"):
    ADDED: ClassVar[Mapping[str, int]] = {"weight": 3}

    account: str
    version: int
    target: Resources
    ends: Instant
    protected: Resources = ZERO
    weight: int = 1


class ShippedPriorityClass(Row, frozen=True, tag="priority-class"):
    priority_class: PriorityClass


class ShippedPrincipal(Row, frozen=True, tag="principal"):
    principal: Principal


class ShippedToken(Row, frozen=True, tag="token"):
    token: Token


class ShippedPool(Row, frozen=True, tag="node-pool"):
    """Cost of a node of this pool, relative to other pools."""

    name: str
    cost: int


class ShippedPolicy(Row, frozen=True, tag="policy"):
    policy: SchedulerPolicy


class ShippedValidity(Row, frozen=True, tag="validity"):
    validity: Validity


class ShippedOverride(Row, frozen=True, tag="override"):
    override: Override


class ShippedServer(Row, frozen=True, tag="server"):
    """A server of the platform, with its token."""

    server: ServerToken


ShippedItem = (
    ShippedRegion | ShippedTemplate | ShippedAssignment | ShippedGrant | ShippedPriorityClass | ShippedPrincipal
    | ShippedToken | ShippedPool | ShippedPolicy | ShippedValidity | ShippedOverride | ShippedServer
)  # fmt: skip


class RemovedObject(Row, frozen=True):
    """An object that is no longer shipped: the tag of its kind and its key as text (uids in decimal)."""

    kind: str
    key: str


class Ship(Row, frozen=True, tag="ship"):
    """Apply a step of the platform's log, filtered for this region: the changes between two cursors.

    A full list replaces everything: objects that it does not name are deleted. It comes in parts, counted from 0, all
    with the position of the complete list. A part contains an object's dependencies, or an earlier part does. `proof`
    is the platform's signature over the end of its log at that time. The region stores it with the cursor and
    presents it again (ADR 0028).
    """

    log_id: str
    term: int
    after: Revision
    to: Revision
    puts: tuple[ShippedItem, ...] = ()
    gone: tuple[RemovedObject, ...] = ()
    full: bool = False
    part: int = 0
    last: bool = True
    proof: str = ""


class StandDown(Row, frozen=True, tag="stand-down"):
    """End all assignments and grants of a region that the platform has retired."""

    reason: str


RegionCommand = (
    BuiltinCommand | OpenOverride | EndOverride
    | RegisterNode | ReportNode | AdministerNode | JudgeNode | RemoveNode
    | OpenSlots | WithdrawSlots | ForgetAssignment | AdoptSlots
    | Propose | Bind | Unreserve | Expire | Move | Stop | ReportPending
    | Hold | ExtendHold | DropHold | CloseBreach | Ship | StandDown
)  # fmt: skip
