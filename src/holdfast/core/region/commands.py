"""What a region's ledger can be asked. Each command has one rule in `definition`: owners, side effect, what undoes it.

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
    """An agent says what its node is, in its present session.

    `overrun` is how long at most what is exclusive lives on there after its lease, by the numbers that the agent keeps.
    `capabilities` is what it enforces between tenants, `tenant` the one that it takes work of; empty: any.
    `shares_user`: tenants may share a user where they have none of their own.
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
    """An agent says how its node fares: what is used of processor and memory, in percent, and what lies ready there."""

    name: str
    cpu: int
    memory: int
    present: tuple[str, ...] = ()


class AdministerNode(Row, frozen=True, tag="administer-node"):
    """An operator says what a node is for. A cordon or a drain says why."""

    node: Revision
    cordoned: bool = False
    draining: bool = False
    taints: tuple[Taint, ...] = ()
    labels: Labels = ()
    tenancy: tuple[str, ...] = ()
    note: str = ""


class JudgeNode(Row, frozen=True, tag="judge-node"):
    """Node health says whether a node lives."""

    node: Revision
    health: NodeHealth


class RemoveNode(Row, frozen=True, tag="remove-node"):
    """A drained node whose agent is gone leaves the region."""

    node: Revision


# Slots


class OpenSlots(Row, frozen=True, tag="open-slots"):
    """These ordinals are wanted, under this template: new ones become pending, others will be pending again."""

    assignment: Revision
    template: str
    ordinals: tuple[int, ...]


class WithdrawSlots(Row, frozen=True, tag="withdraw-slots"):
    """These ordinals are not wanted any more: what waits is released, what runs will not come back once stopped."""

    assignment: Revision
    ordinals: tuple[int, ...]


class ForgetAssignment(Row, frozen=True, tag="forget-assignment"):
    """An ended assignment without slots leaves the region."""

    assignment: Revision


class AdoptSlots(Row, frozen=True, tag="adopt-slots"):
    """Move the charge of recovered slots to the accounts that their assignment names now."""

    assignment: Revision
    ordinals: tuple[int, ...]


class SlotPlacement(Row, frozen=True):
    """One slot on one node: which devices and ports it takes, whom it waits for, and which reservation it uses up."""

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
    """Place many slots: judged one by one, or all or nothing. `bind` reserves and binds in one commit."""

    groups: tuple[PlacementGroup, ...]
    valid_until: Instant
    all_or_nothing: bool = False
    bind: bool = True


class Bind(Row, frozen=True, tag="bind"):
    """Give reserved slots to their agents."""

    slots: tuple[SlotKey, ...]


class Unreserve(Row, frozen=True, tag="unreserve"):
    """A later step of the placement said no: reserved slots wait again."""

    slots: tuple[SlotKey, ...]


class Expire(Row, frozen=True, tag="expire"):
    """Reservations whose end has passed: of slots, and standing alone."""

    slots: tuple[SlotKey, ...] = ()
    holds: tuple[Revision, ...] = ()


class MoveSlot(Row, frozen=True):
    """One edge of one slot under one binding epoch. `detail`: what there is to say besides: `exit code 3`."""

    slot: SlotKey
    epoch: Revision
    target: Phase
    cause: str
    detail: str = ""


class Move(Row, frozen=True, tag="move"):
    """Moves along edges that the sender owns: agents, endpoints, node health, repair."""

    moves: tuple[MoveSlot, ...]


class Stop(Row, frozen=True, tag="stop"):
    """End slots, for a cause from the closed list. `template` is what their ordinals become; empty: as they were."""

    slots: tuple[SlotKey, ...]
    cause: str
    template: str = ""


class ReportPending(Row, frozen=True, tag="report-pending"):
    """The scheduler says why a request waits, as a tree, and up to which revision it looked."""

    assignment: Revision
    template: str
    examined: Revision
    reasons: tuple[PendingReason, ...]


# Reservations standing alone


class Hold(Row, frozen=True, tag="hold"):
    """Keep room on a node without a slot, until an end. A placeholder names its standby assignment and template."""

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
    """Keep it longer."""

    hold: Revision
    ends: Instant


class DropHold(Row, frozen=True, tag="drop-hold"):
    """Give the room back before its end."""

    hold: Revision


class CloseBreach(Row, frozen=True, tag="close-breach"):
    """What the world broke is whole again."""

    invariant: str
    key: str


# The link


class ShippedRegion(Row, frozen=True, tag="region"):
    """Where this region is, for residency, and the platform's grace, with which work is admitted that comes here."""

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
    account: str
    version: int
    target: Resources
    ends: Instant
    protected: Resources = ZERO


class ShippedPriorityClass(Row, frozen=True, tag="priority-class"):
    priority_class: PriorityClass


class ShippedPrincipal(Row, frozen=True, tag="principal"):
    principal: Principal


class ShippedToken(Row, frozen=True, tag="token"):
    token: Token


class ShippedPool(Row, frozen=True, tag="node-pool"):
    """What a node of a pool costs, beside those of others."""

    name: str
    cost: int


class ShippedPolicy(Row, frozen=True, tag="policy"):
    policy: SchedulerPolicy


class ShippedValidity(Row, frozen=True, tag="validity"):
    validity: Validity


class ShippedOverride(Row, frozen=True, tag="override"):
    override: Override


class ShippedServer(Row, frozen=True, tag="server"):
    """A server of the platform, by its token."""

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
    """A step of the platform's log, filtered for this region: what changed between two cursors.

    A full list starts from nothing: what it does not name is gone. It comes in parts, counted from 0, all with the
    position of the whole; what a later object needs is in the same part or an earlier one. `proof` is the platform's
    signature under where this brings the region, kept with the cursor and shown again (ADR 0028).
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
    """The platform has retired this region: nothing is wanted here any more, and nothing is paid for."""

    reason: str


RegionCommand = (
    BuiltinCommand | OpenOverride | EndOverride
    | RegisterNode | ReportNode | AdministerNode | JudgeNode | RemoveNode
    | OpenSlots | WithdrawSlots | ForgetAssignment | AdoptSlots
    | Propose | Bind | Unreserve | Expire | Move | Stop | ReportPending
    | Hold | ExtendHold | DropHold | CloseBreach | Ship | StandDown
)  # fmt: skip
