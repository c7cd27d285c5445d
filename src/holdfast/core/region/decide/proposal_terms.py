"""Terms of a placement group: the charged account, how many it can pay, and how many leave protected capacity free."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import RECOVERY, Assignment
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.node_usage import NodeUsage
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.region.commands import PlacementGroup
from holdfast.core.region.decide.proposal_scratch import ProposalScratch
from holdfast.core.region.queries.accounts import GRANT_ENDED, UNLIMITED, affordable_count, unprotected_count
from holdfast.core.region.queries.domains import DomainSubject, ReachableDomains
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.queries.gates import refuse_group


class GroupTerms:
    """Terms of all placements of a group. They have no reference to the scratch: a cycle would outlive the command."""

    plain = 0
    spare = UNLIMITED
    ordinals: Ranges | None = None
    standing: DomainSubject | None = None
    reach: ReachableDomains = MappingProxyType({})
    _account = ""
    _left = 0
    _paid = 0

    def __init__(
        self,
        trial: ProposalScratch,
        assignment: Assignment,
        group: PlacementGroup,
        template: Template,
        cls: PriorityClass,
    ) -> None:
        self.assignment = assignment
        self.workload = assignment.workload
        self.tenant = assignment.tenant
        self.digest = group.template
        self.template = template
        self.need = template.need
        self.simple = not (template.gpus or template.ports or template.need.extended)
        self.priority_class = cls
        self.firm = not cls.spec.reclaimable
        self.reservation_life = trial.state.info.settings.reservation_life
        self.scattered = has_domain_rules(template)
        if self.scattered:
            self.standing = DomainSubject(template, assignment.workload, assignment.tenant, assignment.exclusive)
            self.reach = trial.in_reach(self.standing) if template.spread else self.reach
        if assignment.exclusive:
            self.ordinals = assignment.ordinals
        if self.firm:
            self.spare = self.leaves(trial, template.need)

    @property
    def recovery(self) -> bool:
        """Return whether this assignment replaces replicas of a lost region."""
        return self.assignment.purpose is RECOVERY

    def counters(self) -> tuple[Any, ...]:
        """Return what placements count down, for a savepoint."""
        return self.plain, self.spare, self._account, self._left, self._paid

    def set_counters(self, counters: tuple[Any, ...]) -> None:
        """Return to the counters of a savepoint."""
        self.plain, self.spare, self._account, self._left, self._paid = counters

    def stood(self, trial: ProposalScratch, extra: Resources) -> None:
        """Take `extra` of the free capacity for placements that are not plain, and recompute `spare`."""
        trial.standing = add(add(trial.standing, times(self.need, self.plain)), extra)
        self.plain = 0
        self.spare = self.leaves(trial, self.need)

    def leaves(self, trial: ProposalScratch, need: Resources) -> int:
        """Return how many placements of this need leave the capacity of protected tenants free."""
        account = f"quota/{self.tenant}"  # The tenant's quota protects its capacity, whatever account is charged here.
        if not trial.placed:
            return unprotected_count(trial.state, account, trial.standing, need)
        paid_off = subtract(trial.paid_off_all, trial.paid_off.get(account, ZERO))
        return unprotected_count(trial.state, account, trial.standing, need, paid_off)

    def pay(self, trial: ProposalScratch) -> str:
        """Return the first account that can pay for one more slot, and count that slot; empty: none can."""
        if self._left > 0:
            self._left -= 1
            self._paid += 1
            return self._account
        return self._next_account(trial)

    def _next_account(self, trial: ProposalScratch) -> str:
        """Select the first account that can pay for one more slot."""
        if self._paid:
            self.settle(trial)
        for account in self.assignment.accounts:
            left = self.affords(trial, account)
            if left > 0:
                self._account, self._left, self._paid = account, left - 1, 1
                return account
        return ""

    def affords(self, trial: ProposalScratch, account: str) -> int:
        """Return how many slots the account can pay for beyond what this command has spent."""
        return affordable_count(trial.state, account, trial.case.at, self.need, trial.spent.get(account, ZERO))

    def settle(self, trial: ProposalScratch) -> None:
        """Add the paid slots to the spent amounts of their account."""
        if self._paid:
            spent = trial.spent
            spent[self._account] = add(spent.get(self._account, ZERO), times(self.need, self._paid))
        self._left = self._paid = 0

    def refund(self, trial: ProposalScratch, account: str, amount: Resources) -> None:
        """Return the charge of a used hold to its account."""
        self.settle(trial)
        spent = trial.spent
        spent[account] = subtract(spent.get(account, ZERO), amount)

    def cannot_pay(self, trial: ProposalScratch) -> Infeasible:
        """Return why no account can pay."""
        accounts = self.assignment.accounts
        if accounts and all(self.affords(trial, account) == GRANT_ENDED for account in accounts):
            return Infeasible(Code.GRANT_ENDED, "the grant has ended: no new slot is admitted")
        return Infeasible(Code.OVER_GRANT, f"{', '.join(accounts) or 'no account'} cannot be charged for one more slot")

    def added_to(self, usage: NodeUsage) -> NodeUsage:
        """Return the usage with one more plain slot of this template; its list of slots is unchanged."""
        all_, firm = add(usage.all, self.need), usage.firm
        if self.firm:
            firm = add(firm, self.need)
        return NodeUsage(
            firm, all_, usage.held, usage.devices, usage.ports, usage.waiting, usage.revision, usage.slots, usage.holds
        )


def group_terms(trial: ProposalScratch, group: PlacementGroup) -> GroupTerms | Infeasible:
    """Return the group's terms, or the gate that refuses all of it."""
    state, case = trial.state, trial.case
    assignment = state.assignments.get(group.assignment)
    template = state.templates.get(group.template)
    if assignment is None or template is None or not assignment.accounts:
        return Infeasible(Code.NOT_FOUND, f"assignment {group.assignment} with template {group.template}")
    misfit = refuse_group(state, trial.overrides, assignment, group.template, case)
    if misfit is not None:
        return misfit
    cls = state.priority_classes.get(assignment.priority_class)
    if cls is None:
        return Infeasible(Code.NOT_FOUND, f"priority class {assignment.priority_class}")
    return GroupTerms(trial, assignment, group, template, cls)
