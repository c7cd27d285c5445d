"""Amounts that a proposal has taken so far: its placements are decided on this scratch, one after another.

A scratch never writes to the state. Terms of a group (account, remaining count, protected capacity) are computed once
and then counted down. Placements of a gang follow a savepoint, to which the scratch returns if they are too few.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.domains import domain_of, domain_scopes
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.bitsets import Bitset, masks, minus, union
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.events import HoldEnded, SlotsStopping
from holdfast.core.region.queries.domains import DomainSubject, ReachableDomains, reachable_domains
from holdfast.core.region.state.account_usage import owed
from holdfast.core.region.state.gangs import standing_members
from holdfast.core.region.state.node_tenants import NO_TENANTS, tenants_on
from holdfast.core.region.state.tables import RegionState

if TYPE_CHECKING:
    from holdfast.core.region.decide.proposal_terms import GroupTerms


class Preemptions:
    """Victims and holds that the placements of a command take, and the events that precede these placements."""

    def __init__(self) -> None:
        self.holds: set[Revision] = set()
        self.victims: set[SlotKey] = set()
        self.serving_lost: dict[Revision, int] = {}
        #: Victims that count for the limit of preemptions.
        self.preempted = 0
        self.events: list[SlotsStopping | HoldEnded] = []

    def copy(self) -> Preemptions:
        """Return a copy, which later placements do not change."""
        other = Preemptions()
        other.holds, other.victims = set(self.holds), set(self.victims)
        other.serving_lost, other.events = dict(self.serving_lost), list(self.events)
        other.preempted = self.preempted
        return other

    def take_events(self) -> list[SlotsStopping | HoldEnded]:
        """Return and clear the events that precede the placement: victims stop, holds are used."""
        events, self.events = self.events, []
        return events


class ScratchSavepoint(NamedTuple):
    """What the placements of a gang change in a scratch and in the terms of their group."""

    scratch: tuple[Any, ...]
    terms: tuple[Any, ...]


class ProposalScratch:
    """A command's own view of node usage, charges and counts.

    Most nodes get one plain placement per command: `once` stores its terms, and usage is computed only for a second
    one.
    """

    members: dict[tuple[str, str, str], int] | None = None
    standing = ZERO
    placed: dict[str, Resources] | None = None
    #: By account, and for all accounts: how much less protected capacity is owed after these placements.
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
        #: Tenants on nodes that take one tenant at a time, including this command's placements.
        self.tenants: dict[Revision, tuple[str, ...]] = {}
        self._reaches: dict[tuple[object, ...], ReachableDomains] = {}
        #: By account: the protected amount owed to it before this command.
        self._owed: dict[str, Resources] = {}
        #: By assignment with gangs: the standing members.
        self._gang_members: dict[Revision, Bitset] = {}

    def save(self, terms: GroupTerms) -> ScratchSavepoint:
        """Return a savepoint: `restore` undoes what is placed under these terms until then."""
        members = dict(self.members) if self.members is not None else None
        succession = self._succession.copy() if self._succession is not None else None
        dicts = (dict(self.rooms), dict(self.once), set(self.taken), dict(self.spent), dict(self.tenants))
        return ScratchSavepoint((*dicts, members, self.standing, succession), terms.counters())

    def restore(self, savepoint: ScratchSavepoint, terms: GroupTerms) -> None:
        """Undo all placements since a savepoint, which is used once."""
        *dicts, self.members, self.standing, self._succession = savepoint.scratch
        self.rooms, self.once, self.taken, self.spent, self.tenants = dicts
        terms.set_counters(savepoint.terms)

    def gang_members(self, assignment: Assignment) -> Bitset:
        """Return the standing members of an assignment's gangs: with this command's placements, without its victims."""
        found = self._gang_members.get(assignment.uid)
        if found is None:
            found = self._gang_members[assignment.uid] = standing_members(self.state, assignment.uid)
        victims = self._succession.victims if self._succession is not None else ()
        mine = [ordinal for workload, ordinal in victims if workload == assignment.workload]
        return minus(found, masks(mine)) if mine else found

    def add_members(self, assignment: Assignment, ordinals: list[int]) -> None:
        """Count placed members of a gang as standing."""
        self._gang_members[assignment.uid] = union((self.gang_members(assignment), masks(ordinals)))

    def room(self, node: Revision) -> NodeUsage:
        """Return the node's usage with this command's placements so far."""
        usage = self.rooms.get(node)
        if usage is None:
            usage = self.room_of(node) or EMPTY_USAGE
            first = self.once.pop(node, None)
            if first is not None:
                usage = self.rooms[node] = first.added_to(usage)
        return usage

    def tenants_on(self, node: Node) -> tuple[str, ...]:
        """Return the tenants on a node that takes one tenant at a time, including this command's placements."""
        if not takes_one_tenant(node):
            return NO_TENANTS
        found = self.tenants.get(node.uid)
        if found is None:
            found = self.tenants[node.uid] = tenants_on(self.state, node)
        return found

    @property
    def succession(self) -> Preemptions:
        """Victims and holds that this command has taken; few commands take any."""
        if self._succession is None:
            self._succession = Preemptions()
        return self._succession

    def close_group(self, terms: GroupTerms, counts: Mapping[str, int]) -> None:
        """Keep the amounts of a group for later groups; `counts` are its placements by charged account."""
        terms.settle(self)
        if terms.firm and self.state.totals.shield != ZERO:
            self.standing = add(self.standing, times(terms.need, terms.plain))
            placed = self.placed = self.placed or {}
            for account, count in counts.items():
                placed[account] = add(placed.get(account, ZERO), times(terms.need, count))
                self._pay_off(account, placed[account])
        terms.plain = 0

    def _pay_off(self, account: str, placed: Resources) -> None:
        """Reduce the protected amount owed to an account by what this command has placed for it."""
        before = self.paid_off.get(account, ZERO)
        known = self._owed.get(account)
        if known is None:
            known = self._owed[account] = owed(self.state, account)
        after = subtract(known, owed(self.state, account, placed)) if known is not ZERO else ZERO
        if after != before:
            self.paid_off = {**self.paid_off, account: after}
            self.paid_off_all = add(subtract(self.paid_off_all, before), after)

    def in_reach(self, standing: DomainSubject) -> ReachableDomains:
        """Return the domains over which spread rules count, computed once for all groups with equal requirements."""
        template = standing.template
        sized = (template.need, template.gpus, template.gpu_milli, template.gpu_models, template.ports)
        asks = (template.spread, template.require, template.tolerate, template.isolation, *sized, *standing[2:])
        found = self._reaches.get(asks)
        if found is None:
            found = reachable_domains(self.state, standing, self.overrides.zones)
            self._reaches[asks] = found
        return found

    def member_count(self, where: tuple[str, str, str]) -> int:
        """Return the number of slots in a domain, including this command's placements."""
        mine = self.members.get(where, 0) if self.members else 0
        return (self.state.domain_members.get(where) or 0) + mine

    def count_members(self, terms: GroupTerms, node: Node) -> None:
        """Count a placement in its domains."""
        if self.members is None:
            self.members = {}
        for scope, key in domain_scopes(terms.template, terms.workload, terms.tenant):
            where = (scope, key, domain_of(node, key))
            self.members[where] = self.members.get(where, 0) + 1
