"""What a proposal has taken so far: the scratch on which its placements are judged, one after another.

A trial never writes to the state. What holds for all placements of a group (who pays, how many can be paid, how many
leave protected room alone) is asked once and then counted down.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.domains import domain_of, domain_scopes
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.events import HoldEnded, SlotsStopping
from holdfast.core.region.queries.domains import DomainSubject, ReachableDomains, reachable_domains
from holdfast.core.region.queries.node_tenants import NO_TENANTS, tenants_on
from holdfast.core.region.state.account_usage import owed
from holdfast.core.region.state.tables import RegionState

if TYPE_CHECKING:
    from holdfast.core.region.decide.proposal_terms import GroupTerms


class Preemptions:
    """Who must end and what is used up for the placements of a command, and what is to happen before them."""

    def __init__(self) -> None:
        self.holds: set[Revision] = set()
        self.victims: set[SlotKey] = set()
        self.serving_lost: dict[Revision, int] = {}
        self.events: list[SlotsStopping | HoldEnded] = []

    def take_events(self) -> list[SlotsStopping | HoldEnded]:
        """What must happen before the placement just judged: victims stop, holds are used up."""
        events, self.events = self.events, []
        return events


class ProposalScratch:
    """A command's own view of rooms, charges and counts.

    Most nodes get one plain placement of a command: `once` notes its terms, and the room is only counted when the
    node is named again.
    """

    members: dict[tuple[str, str, str], int] | None = None
    standing = ZERO
    placed: dict[str, Resources] | None = None
    #: By how much less accounts are owed of their protected amounts by what was placed, and of all of them together.
    paid_off: Mapping[str, Resources] = MappingProxyType({})
    paid_off_all = ZERO
    _succession: Preemptions | None = None

    def __init__(self, state: RegionState, ctx: CommandContext) -> None:
        self.state = state
        self.case = ctx
        self.slot_of = state.slots.get
        self.node_of = state.nodes.get
        self.room_of = state.node_usage.get
        self.rooms: dict[Revision, NodeUsage] = {}
        self.once: dict[Revision, GroupTerms] = {}
        self.taken: set[SlotKey] = set()
        self.spent: dict[str, Resources] = {}
        self.overrides = active_overrides(state, ctx.at)
        #: Of nodes that take one tenant at a time: whose work is there, with what this command has placed.
        self.tenants: dict[Revision, tuple[str, ...]] = {}
        self._reaches: dict[tuple[object, ...], ReachableDomains] = {}
        #: By account: what it is owed of its protected amount before this command.
        self._owed: dict[str, Resources] = {}

    def room(self, node: Revision) -> NodeUsage:
        """The node's room with what this command has placed there so far."""
        usage = self.rooms.get(node)
        if usage is None:
            usage = self.room_of(node) or EMPTY_USAGE
            first = self.once.pop(node, None)
            if first is not None:
                usage = self.rooms[node] = first.added_to(usage)
        return usage

    def tenants_on(self, node: Node) -> tuple[str, ...]:
        """Whose work is on a node that takes one tenant at a time, with what this command has placed there."""
        if not takes_one_tenant(node):
            return NO_TENANTS
        found = self.tenants.get(node.uid)
        if found is None:
            found = self.tenants[node.uid] = tenants_on(self.state, node)
        return found

    @property
    def succession(self) -> Preemptions:
        """Victims and holds that this command has taken: few commands take any."""
        if self._succession is None:
            self._succession = Preemptions()
        return self._succession

    def close_group(self, terms: GroupTerms, counts: Mapping[str, int]) -> None:
        """Keep what the group took for those after it; `counts` are its placements by the account that pays."""
        terms.settle(self)
        if terms.firm and self.state.totals.shield != ZERO:
            self.standing = add(self.standing, times(terms.need, terms.plain))
            placed = self.placed = self.placed or {}
            for account, count in counts.items():
                placed[account] = add(placed.get(account, ZERO), times(terms.need, count))
                self._pay_off(account, placed[account])
        terms.plain = 0

    def _pay_off(self, account: str, placed: Resources) -> None:
        """So much of this account stands by this command: the less it is owed of its protected amount."""
        before = self.paid_off.get(account, ZERO)
        known = self._owed.get(account)
        if known is None:
            known = self._owed[account] = owed(self.state, account)
        after = subtract(known, owed(self.state, account, placed)) if known is not ZERO else ZERO
        if after != before:
            self.paid_off = {**self.paid_off, account: after}
            self.paid_off_all = add(subtract(self.paid_off_all, before), after)

    def in_reach(self, standing: DomainSubject) -> ReachableDomains:
        """The domains over which its spread rules count: asked once for all who differ in nothing that it is about."""
        template = standing.template
        sized = (template.need, template.gpus, template.gpu_milli, template.gpu_models, template.ports)
        asks = (template.spread, template.require, template.tolerate, template.isolation, *sized, *standing[2:])
        found = self._reaches.get(asks)
        if found is None:
            found = reachable_domains(self.state, standing, self.overrides.zones)
            self._reaches[asks] = found
        return found

    def member_count(self, where: tuple[str, str, str]) -> int:
        """How many slots stand in a domain, those of this command included."""
        mine = self.members.get(where, 0) if self.members else 0
        return (self.state.domain_members.get(where) or 0) + mine

    def count_members(self, terms: GroupTerms, node: Node) -> None:
        """Count a placement in its domains."""
        if self.members is None:
            self.members = {}
        for scope, key in domain_scopes(terms.template, terms.workload, terms.tenant):
            where = (scope, key, domain_of(node, key))
            self.members[where] = self.members.get(where, 0) + 1
