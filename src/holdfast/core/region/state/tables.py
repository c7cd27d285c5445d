"""The state of a region: its tables, and the rebuild of the derived ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.core.ledger.state.ledger_state import COMMON_TABLES, LedgerState
from holdfast.core.ledger.state.table import MANY, SOME, Table, TableSpec
from holdfast.core.model.objects.policies import Override, SchedulerPolicy
from holdfast.core.model.objects.principals import Token
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.records.grants import AcceptedGrant, AccountUsage
from holdfast.core.model.records.node_usage import NodeUsage, RegionTotals
from holdfast.core.model.records.nodes import Node, NodeReport
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import FinishedOrdinals, PreemptionWindow, Reservation, SchedulingRequest, Slot
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.sorted_list import SortedList
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row, SlotKey

if TYPE_CHECKING:
    from holdfast.core.region.state.node_kinds import AmountOf, Amounts, LabelOf, NodeKind
from holdfast.core.model.records.lifecycle import PHASES

PHASE_INDEX = {phase: index for index, phase in enumerate(PHASES)}

NO_PHASE_COUNTS = (0,) * len(PHASES)

#: Identity of a shipped object: the tag of its kind, and its key as text.
ObjectName = tuple[str, str]

#: A kind of slots: text of the phase, template, next template, charged account.
SlotKind = tuple[str, str, str, str]
#: The kinds in a block of ordinals, sorted, each with its bits.
BlockKinds = tuple[tuple[SlotKind, int], ...]


class FullListProgress(Row, frozen=True):
    """A full list in progress: its log, term and position, and the number of parts applied.

    `swept`: all parts are applied, and unlisted objects are deleted up to this name; None: more parts follow.
    """

    log_id: str
    term: int
    to: Revision
    parts: int
    swept: ObjectName | None = None


class RegionInfo(Row, frozen=True):
    """Name and jurisdiction of this region, and its cursor in the platform's log.

    During a full list the cursor keeps its old value: the state then matches no position of that log. `grace` is the
    platform's grace, by which exclusive work is admitted. `proof` is the newest signature of a platform server over a
    position that this region reached. `placed` counts placements since the log reached level 3; `preempted` counts the
    preemptions of the present window.
    """

    name: str = ""
    jurisdiction: str = ""
    platform_log: str = ""
    platform_term: int = 0
    cursor: Revision = 0
    listing: FullListProgress | None = None
    grace: Duration = 0
    proof: str = ""
    placed: int = 0
    preempted: PreemptionWindow = PreemptionWindow()

    ADDED: ClassVar[Mapping[str, int]] = {"grace": 2, "proof": 2, "placed": 3, "preempted": 3}


class RegionState(LedgerState):
    """The state of a region. Derived tables are sums and indexes over the stored ones."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = (
        *COMMON_TABLES,
        TableSpec("nodes", int, Node, SOME, kept=False),
        TableSpec("node_reports", int, NodeReport, SOME, kept=False),
        TableSpec("slots", tuple[int, int], Slot, MANY),
        TableSpec("rooms", int, NodeUsage, SOME, attribute="node_usage"),
        TableSpec("requests", int, tuple[SchedulingRequest, ...], SOME),
        TableSpec("finished", int, tuple[FinishedOrdinals, ...], SOME),
        TableSpec("holds", int, Reservation, SOME),
        TableSpec("assignments", int, Assignment, SOME),
        TableSpec("templates", str, Template),
        TableSpec("allowances", str, AcceptedGrant, attribute="accepted_grants"),
        TableSpec("classes", str, PriorityClass, attribute="priority_classes"),
        TableSpec("tokens", str, Token),
        TableSpec("pools", str, int, attribute="pool_costs"),
        TableSpec("policies", int, SchedulerPolicy),
        TableSpec("validities", str, int),
        TableSpec("breaches", tuple[str, str], Breach),
        TableSpec("platform_overrides", int, Override),
        TableSpec("platform_servers", str, ServerToken, since=2),
        TableSpec("leaving", str, bool, attribute="leaving_templates"),
        TableSpec("listed", int, tuple[ObjectName, ...], attribute="listed_names"),
        TableSpec("node_names", str, int, derived=True),
        TableSpec("assignments_of", int, tuple[int, ...], SOME, derived=True),
        TableSpec("blocks", int, tuple[int, ...], SOME, derived=True),
        TableSpec("kinds", tuple[int, int], BlockKinds, SOME, derived=True),
        TableSpec("holds_of", int, SortedList, SOME, derived=True),
        TableSpec("tallies", int, tuple[int, ...], SOME, derived=True, attribute="phase_counts"),
        TableSpec("uses", str, AccountUsage, derived=True, attribute="account_usage"),
        TableSpec("shared_uses", str, Resources, derived=True, attribute="shared_usage"),
        TableSpec("template_uses", str, int, derived=True),
        TableSpec("domains", tuple[str, str], int, derived=True),
        TableSpec("node_kinds", tuple[Any, ...], int, derived=True),
        TableSpec("node_labels", tuple[Any, ...], int, derived=True),
        TableSpec("node_amounts", tuple[Any, ...], tuple[Any, ...], derived=True),
        TableSpec("members", tuple[str, str, str], int, derived=True, attribute="domain_members"),
    )
    SCALARS: ClassVar[tuple[str, ...]] = ("info", "region")
    DERIVED_SCALARS: ClassVar[tuple[str, ...]] = ("totals",)
    STORED_NAMES: ClassVar[Mapping[str, str]] = {"info": "facts", "region": "place", "totals": "sums"}
    ORDERS: ClassVar[tuple[str, ...]] = ("silent", "unended")

    region: RegionInfo
    totals: RegionTotals
    #: Nodes without a session, in the order in which their sessions ended.
    silent: SortedList[tuple[Instant, Revision]]
    #: Assignments that have not ended.
    unended: SortedList[Revision]
    nodes: Table[Revision, Node]
    #: By node: its load, once its agent has reported it.
    node_reports: Table[Revision, NodeReport]
    slots: Table[SlotKey, Slot]
    #: By assignment: its requests, one per template with open slots.
    requests: Table[Revision, tuple[SchedulingRequest, ...]]
    #: By assignment of batch work: its finished ordinals, one row per template of its shares.
    finished: Table[Revision, tuple[FinishedOrdinals, ...]]
    holds: Table[Revision, Reservation]
    assignments: Table[Revision, Assignment]
    templates: Table[str, Template]
    accepted_grants: Table[str, AcceptedGrant]
    priority_classes: Table[str, PriorityClass]
    tokens: Table[str, Token]
    #: By node pool: the cost of its nodes.
    pool_costs: Table[str, int]
    policies: Table[Revision, SchedulerPolicy]
    #: By scope (a tenant, or everywhere): the one valid policy revision.
    validities: Table[str, Revision]
    breaches: Table[tuple[str, str], Breach]
    #: Overrides of the platform, by their uid there; `overrides` has those opened here while the region was cut off.
    platform_overrides: Table[Revision, Override]
    #: By name: tokens of the platform's servers; this region's own are in `servers`.
    platform_servers: Table[str, ServerToken]
    #: Templates that the platform no longer ships and that are still in use here.
    leaving_templates: Table[str, bool]
    #: By part of the full list in progress: the names in it.
    listed_names: Table[int, tuple[ObjectName, ...]]
    node_names: Table[str, Revision]
    #: By workload: its assignments here, oldest first.
    assignments_of: Table[Revision, tuple[Revision, ...]]
    #: Usage of each node. Stored, though derived, for its revision: that shows which proposals are stale.
    node_usage: Table[Revision, NodeUsage]
    #: By assignment: the blocks of ordinals in which it has slots, in order.
    blocks: Table[Revision, tuple[int, ...]]
    #: By assignment and block of ordinals: the kinds of its slots, and the ordinals of each kind.
    kinds: Table[tuple[Revision, int], BlockKinds]
    #: By assignment: its holds. Holds without an assignment are not listed.
    holds_of: Table[Revision, SortedList[Revision]]
    #: By assignment: the number of slots in each phase, in the order of `PHASES`.
    phase_counts: Table[Revision, tuple[int, ...]]
    account_usage: Table[str, AccountUsage]
    #: By tenant: its charges to accounts that pay for several tenants.
    shared_usage: Table[str, Resources]
    #: By template: the number of assignments that name it, and of slots that have it now or next.
    template_uses: Table[str, int]
    #: By (zone or pool, its name): the number of usable nodes.
    domains: Table[tuple[str, str], int]
    #: By kind (see `node_kinds`): the number of usable nodes.
    node_kinds: Table[NodeKind, int]
    #: By label and kind: the number of usable nodes of the kind with that label.
    node_labels: Table[LabelOf, int]
    #: By resource and kind: amounts of the resource, each with the number of usable nodes that have it.
    node_amounts: Table[AmountOf, Amounts]
    #: By (spread or apart scope, topology key, domain): the number of slots placed there.
    domain_members: Table[tuple[str, str, str], int]

    def __init__(self) -> None:
        super().__init__()
        self.region = RegionInfo()
        self.totals = RegionTotals()
        self.silent = SortedList()
        self.unended = SortedList()

    def has_no_overrides(self) -> bool:
        """Return whether no override is open, neither of this region nor of the platform."""
        return self.overrides.is_empty() and self.platform_overrides.is_empty()

    def every_override(self) -> Iterator[Override]:
        """Return the region's own overrides, then the platform's."""
        return chain(self.overrides.values(), self.platform_overrides.values())

    def rebuild(self) -> None:
        """Rebuild every derived table."""
        from holdfast.core.region.state.rebuild import rebuild

        super().rebuild()
        rebuild(self)
