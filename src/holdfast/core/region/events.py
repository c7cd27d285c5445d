"""Facts that a region's log can contain. The meaning of an event never changes; a new meaning is a new event.

Size: one list of everything that can become true, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from holdfast.core.ledger.builtin.overrides import OverrideEnded, OverrideOpened
from holdfast.core.ledger.builtin.registry import BuiltinEvent
from holdfast.core.model.objects.policies import Override, SchedulerPolicy, Validity
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.records.grants import AcceptedGrant
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import PendingReason, PreemptionReceipt, Reservation
from holdfast.core.model.values.ranges import Ordinals, expanded, ranges_of
from holdfast.core.model.values.structs import Instant, Revision, Row, SlotKey
from holdfast.core.region.commands import RemovedObject, ShippedRegion, SlotPlacement


class NodeStored(Row, frozen=True, tag="node-stored"):
    """A node, complete, after a change."""

    node: Node


class NodeReported(Row, frozen=True, tag="node-reported"):
    """The complete load report of a node."""

    node: Revision
    cpu: int
    memory: int
    present: tuple[str, ...]


class NodeRemoved(Row, frozen=True, tag="node-removed"):
    """A node is deleted, with its load report."""

    node: Revision


class SlotsOpened(Row, frozen=True, tag="slots-opened"):
    """New ordinals are pending under this template."""

    LOWERED: ClassVar[dict[str, Callable[[Any], Any]]] = {"ordinals": expanded}

    assignment: Revision
    workload: Revision
    template: str
    ordinals: Ordinals

    def __post_init__(self) -> None:
        force_setattr(self, "ordinals", ranges_of(self.ordinals))


class SlotOnNode(Row, frozen=True):
    """A slot and its node; 0: none. The node is part of the event, so that its watch keys need no state."""

    slot: SlotKey
    node: Revision


class SlotsRetargeted(Row, frozen=True, tag="slots-retargeted"):
    """The template that these ordinals get after their release; empty: none, they are removed."""

    slots: tuple[SlotOnNode, ...]
    template: str


class SlotsPlaced(Row, frozen=True, tag="slots-placed"):
    """Pending slots are placed on nodes. Those without a charge are charged to `account`."""

    assignment: Revision
    workload: Revision
    template: str
    account: str
    bound: bool
    firm: bool
    ends: Instant
    evidence: Revision
    placements: tuple[SlotPlacement, ...]


class SlotsBound(Row, frozen=True, tag="slots-bound"):
    slots: tuple[SlotOnNode, ...]


class SlotMove(Row, frozen=True):
    slot: SlotKey
    node: Revision
    phase: Phase
    cause: str
    detail: str = ""


class SlotsMoved(Row, frozen=True, tag="slots-moved"):
    """Slots changed phase and stay on their nodes."""

    moves: tuple[SlotMove, ...]


class SlotStop(Row, frozen=True):
    """One slot that must end, the template that its ordinal gets next, and the receipt of a victim."""

    slot: SlotKey
    node: Revision
    next_template: str
    receipt: PreemptionReceipt | None = None

    ADDED: ClassVar[Mapping[str, int]] = {"receipt": 3}


class SlotsStopping(Row, frozen=True, tag="slots-stopping"):
    """Slots must end; each entry contains the template that its ordinal gets next."""

    cause: str
    stops: tuple[SlotStop, ...]


class SlotRelease(Row, frozen=True):
    """The end of a binding epoch. With a template the ordinal is pending again, charged to `account`; else it is
    removed.

    `node` is its former node, 0 if it had none.
    """

    slot: SlotKey
    node: Revision
    cause: str
    next_template: str
    account: str
    detail: str = ""


class SlotsReleased(Row, frozen=True, tag="slots-released"):
    releases: tuple[SlotRelease, ...]


class OrdinalsFinished(Row, frozen=True, tag="ordinals-finished"):
    """Ordinals of batch work are finished: done, or failed for good. `why` is the cause of the last failure."""

    assignment: Revision
    workload: Revision
    template: str
    done: tuple[int, ...]
    failed: tuple[int, ...]
    why: str


class SlotsAdopted(Row, frozen=True, tag="slots-adopted"):
    """These slots are charged to another account from now on."""

    account: str
    slots: tuple[SlotOnNode, ...]


class AssignmentForgotten(Row, frozen=True, tag="assignment-forgotten"):
    assignment: Revision
    workload: Revision


class PendingReported(Row, frozen=True, tag="pending-reported"):
    assignment: Revision
    workload: Revision
    template: str
    examined: Revision
    reasons: tuple[PendingReason, ...]


class HoldStored(Row, frozen=True, tag="hold-stored"):
    hold: Reservation


class HoldEnded(Row, frozen=True, tag="hold-ended"):
    """A hold has ended. `assignment` is the standby assignment that it was for; 0: none."""

    hold: Revision
    node: Revision
    assignment: Revision
    cause: str


class BreachOpened(Row, frozen=True, tag="breach-opened"):
    breach: Breach


class RegionBreachClosed(Row, frozen=True, tag="breach-closed"):
    invariant: str
    key: str


class CursorMoved(Row, frozen=True, tag="cursor-moved"):
    """The platform's log is applied up to this cursor: the region's acknowledgement. It ends a full list.

    `proof`: a platform server's signature that its log contained this position; empty: no server has signed it.
    """

    log_id: str
    term: int
    cursor: Revision
    proof: str = ""

    ADDED: ClassVar[Mapping[str, int]] = {"proof": 2}


class ListTaken(Row, frozen=True, tag="list-taken"):
    """A part of a full list is applied, with these names. Part 0 starts a list and replaces an unfinished one."""

    log_id: str
    term: int
    to: Revision
    part: int
    names: tuple[tuple[str, str], ...]


class ListSwept(Row, frozen=True, tag="list-swept"):
    """All parts of the list are applied. Objects that it does not name are deleted up to this one."""

    log_id: str
    last: RemovedObject


class RegionReceived(Row, frozen=True, tag="place-stored"):
    place: ShippedRegion


class TemplateReceived(Row, frozen=True, tag="template-stored"):
    digest: str
    template: Template


class TemplateLeaving(Row, frozen=True, tag="template-leaving"):
    """The platform no longer ships this template: it is deleted with its last use here."""

    digest: str


class AssignmentReceived(Row, frozen=True, tag="assignment-stored"):
    assignment: Assignment


class GrantReceived(Row, frozen=True, tag="allowance-stored"):
    """An accepted grant: its version and the value on which this region settled."""

    allowance: AcceptedGrant


class PriorityClassReceived(Row, frozen=True, tag="class-stored"):
    priority_class: PriorityClass


class PrincipalReceived(Row, frozen=True, tag="principal-stored"):
    principal: Principal


class TokenReceived(Row, frozen=True, tag="token-stored"):
    token: Token


class PoolReceived(Row, frozen=True, tag="pool-stored"):
    name: str
    cost: int


class PolicyReceived(Row, frozen=True, tag="policy-stored"):
    policy: SchedulerPolicy


class ValidityReceived(Row, frozen=True, tag="validity-stored"):
    validity: Validity


class OverrideReceived(Row, frozen=True, tag="override-stored"):
    override: Override


class PlatformServerReceived(Row, frozen=True, tag="platform-server-stored"):
    """A server of the platform, which may act here for others."""

    SINCE: ClassVar[int] = 2

    server: ServerToken


class ShippedObjectRemoved(Row, frozen=True, tag="shipped-gone"):
    gone: RemovedObject


RegionEvent = (
    BuiltinEvent | OverrideOpened | OverrideEnded
    | NodeStored | NodeReported | NodeRemoved
    | SlotsOpened | SlotsRetargeted | SlotsPlaced | SlotsBound | SlotsMoved | SlotsStopping | SlotsReleased
    | OrdinalsFinished | SlotsAdopted | AssignmentForgotten | PendingReported | HoldStored | HoldEnded
    | BreachOpened | RegionBreachClosed | CursorMoved | ListTaken | ListSwept | RegionReceived | TemplateReceived
    | TemplateLeaving
    | AssignmentReceived | GrantReceived
    | PriorityClassReceived | PrincipalReceived | TokenReceived | PoolReceived | PolicyReceived | ValidityReceived
    | OverrideReceived
    | PlatformServerReceived | ShippedObjectRemoved
)  # fmt: skip
