"""What a proposal has taken so far: the scratch on which its placements are judged, one after another.

A trial never writes to the state. What holds for all placements of a group (who pays, how many can be paid, how many leave
protected room alone) is asked once and then counted down.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Assignment, Purpose, Stage
from holdfast.core.model.control import EVERYWHERE, Action
from holdfast.core.model.placement import Room
from holdfast.core.model.resources import NOTHING, Resources, add, subtract, times
from holdfast.core.model.shapes import Revision, SlotKey
from holdfast.core.model.tenancy import PriorityClass
from holdfast.core.model.topology import Node, domain
from holdfast.core.model.workload import Template
from holdfast.core.region.charging import Purse, how_often, leaves_protected
from holdfast.core.region.commands import Group
from holdfast.core.region.events import HoldEnded, SlotsStopping
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.index import scopes
from holdfast.core.region.state import RegionState


class Trial:
    """A command's own view of rooms, charges and counts."""

    def __init__(self, state: RegionState, case: Case) -> None:
        self.state = state
        self.case = case
        self.slot_of = state.slots.get
        self.node_of = state.nodes.get
        self.room_of = state.rooms.get
        self.rooms: dict[Revision, Room] = {}
        self.taken: set[SlotKey] = set()
        self.spent: dict[str, Resources] = {}
        self.standing = NOTHING
        self.members: dict[tuple[str, str, str], int] = {}
        self.used_holds: set[Revision] = set()
        self.victims: set[SlotKey] = set()
        self.serving_lost: dict[Revision, int] = {}
        self.side_events: list[SlotsStopping | HoldEnded] = []
        self.avoided: list[str] = []
        self.paused: list[str] = []
        self._domains: dict[str, list[str]] = {}
        if len(state.overrides) or len(state.platform_overrides):
            for override in (*state.overrides.values(), *state.platform_overrides.values()):
                if override.ends > case.at and override.action is Action.AVOID_ZONE:
                    self.avoided.append(override.target)
                elif override.ends > case.at and override.action is Action.PAUSE_SCHEDULING:
                    self.paused.append(override.target)

    def take_side_events(self) -> list[SlotsStopping | HoldEnded]:
        """What must happen before the placement just judged: victims stop, holds are used up."""
        events, self.side_events = self.side_events, []
        return events

    def close_group(self, terms: Terms) -> None:
        """Keep what the group took for the groups after it."""
        for purse in terms.purses:
            paid = terms.paid.get(purse.account, 0)
            if paid:
                before = self.spent.get(purse.account, NOTHING)
                self.spent[purse.account] = add(before, times(terms.template.need, paid))
        if terms.firm:
            self.standing = add(self.standing, times(terms.template.need, terms.plain))

    def domain_names(self, key: str) -> list[str]:
        """The zones or pools in which there is a usable node, sorted."""
        if key not in self._domains:
            self._domains[key] = [name for (kind, name), _ in self.state.domains.items() if kind == key]
        return self._domains[key]

    def member_count(self, where: tuple[str, str, str]) -> int:
        """How many slots stand in a domain, those of this command included."""
        return (self.state.members.get(where) or 0) + self.members.get(where, 0)

    def count_members(self, terms: Terms, node: Node) -> None:
        """Count a placement in its domains."""
        for scope, key in scopes(terms.template, terms.workload, terms.tenant):
            where = (scope, key, domain(node, key))
            self.members[where] = self.members.get(where, 0) + 1


class Terms:
    """What holds for every placement of a group."""

    def __init__(
        self, trial: Trial, assignment: Assignment, group: Group, template: Template, cls: PriorityClass
    ) -> None:
        self.assignment = assignment
        self.workload = assignment.workload
        self.tenant = assignment.tenant
        self.digest = group.template
        self.template = template
        self.priority_class = cls
        self.firm = not cls.spec.reclaimable
        self.recovery = assignment.purpose is Purpose.RECOVERY
        self.scattered = bool(template.spread or template.apart)
        self.ordinals = frozenset(assignment.ordinals) if assignment.exclusive else None
        at, spent = trial.case.at, trial.spent
        self.purses = [Purse(trial.state, a, at, spent.get(a, NOTHING)) for a in assignment.accounts]
        self._affords = [purse.affords(template.need) for purse in self.purses]
        self.paid: dict[str, int] = {}
        self.plain = 0
        first = assignment.accounts[0] if assignment.accounts else ""
        self.spare = leaves_protected(trial.state, first, trial.standing, template.need) if self.firm else 0

    def payer(self) -> str:
        """The first account that can pay for one more slot; empty when none can."""
        for index, left in enumerate(self._affords):
            if left > 0:
                return self.purses[index].account
        return ""

    def pay(self, account: str) -> None:
        """Count one more slot against the account."""
        self.paid[account] = self.paid.get(account, 0) + 1
        for index, purse in enumerate(self.purses):
            if purse.account == account:
                self._affords[index] -= 1

    def refund(self, account: str, amount: Resources) -> None:
        """A hold that is used up returns its charge to its account first."""
        for index, purse in enumerate(self.purses):
            if purse.account == account:
                purse.left = add(purse.left, amount)
                spent = times(self.template.need, self.paid.get(account, 0))
                open_ = purse.exists and not purse.ended
                self._affords[index] = how_often(subtract(purse.left, spent), self.template.need) if open_ else 0

    def cannot_pay(self) -> Misfit:
        """Why no account pays."""
        if self.purses and all(purse.ended for purse in self.purses):
            return Misfit(Code.GRANT_ENDED, "the grant has ended: no new slot is admitted")
        return Misfit(Code.OVER_GRANT, f"{', '.join(self.assignment.accounts) or 'no account'} cannot pay for one more")

    def added_to(self, room: Room) -> Room:
        """The room with one more plain slot of this template."""
        need, all_, firm = self.template.need, room.all, room.firm
        all_ = Resources(all_.cpu + need.cpu, all_.memory + need.memory, all_.disk + need.disk, all_.gpu, all_.extended)
        if self.firm:
            firm = Resources(
                firm.cpu + need.cpu, firm.memory + need.memory, firm.disk + need.disk, firm.gpu, firm.extended
            )
        return Room(
            firm, all_, room.held, room.devices, room.ports, room.waiting, room.revision, room.slots, room.holds
        )


def terms_of(trial: Trial, group: Group) -> Terms | Misfit:
    """The group's terms, or the gate that is shut for all of it."""
    state, case = trial.state, trial.case
    assignment = state.assignments.get(group.assignment)
    template = state.templates.get(group.template)
    if assignment is None or template is None:
        return Misfit(Code.NOT_FOUND, f"assignment {group.assignment} with template {group.template}")
    misfit = not_assigned(state, assignment, group.template, case.at)
    if misfit is not None:
        return misfit
    if "" in trial.paused or assignment.tenant in trial.paused:
        return Misfit(Code.PAUSED, "scheduling is paused by an override")
    valid = valid_policy(state, assignment.tenant)
    if case.envelope.policy != valid:
        return Misfit(Code.POLICY, f"policy revision {valid} is valid here, not {case.envelope.policy}")
    cls = state.classes.get(assignment.priority_class)
    if cls is None:
        return Misfit(Code.NOT_FOUND, f"priority class {assignment.priority_class}")
    return Terms(trial, assignment, group, template, cls)


def not_assigned(state: RegionState, assignment: Assignment, template: str, at: int) -> Misfit | None:
    """Whether this region may run this template now: assigned, active, its right not lapsed, its residency allowed."""
    if assignment.stage is not Stage.ACTIVE or not any(
        s.template == template and s.count > 0 for s in assignment.shares
    ):
        return Misfit(Code.NOT_ASSIGNED, f"assignment {assignment.uid} is {assignment.stage} and does not ask for it")
    if assignment.right_until and assignment.right_until <= at:
        return Misfit(Code.NOT_ASSIGNED, "this region's right to it has lapsed")
    if assignment.jurisdictions and state.place.jurisdiction not in assignment.jurisdictions:
        return Misfit(
            Code.RESIDENCY, f"{state.place.jurisdiction or 'nowhere'} is not {'/'.join(assignment.jurisdictions)}"
        )
    return None


def valid_policy(state: RegionState, tenant: str) -> Revision:
    """The one policy revision that is valid for the tenant; 0 is built in."""
    mine = state.validities.get(tenant)
    if mine is not None:
        return mine
    return state.validities.get(EVERYWHERE) or 0
