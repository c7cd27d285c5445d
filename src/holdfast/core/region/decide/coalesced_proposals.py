"""Consecutive plain proposals, decided together: the load of 64 schedulers with one placement each.

They share a scratch, those for one assignment and template share its terms, and their placements are counted together
at the flush. Answers and state are exactly those of separate decisions; a property test checks this. A proposal that is
not plainly accepted ends the series and is decided alone, as is one for gangs.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.commands import PlacementGroup, Propose
from holdfast.core.region.decide.proposal_scratch import ProposalScratch
from holdfast.core.region.decide.proposal_terms import GroupTerms, group_terms
from holdfast.core.region.decide.proposals import check_placement, placed_event, refuse_proposal
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.state.evolve_placements import Placed, count_placed, place_slots
from holdfast.core.region.state.tables import RegionState


class _Shared:
    """Terms shared by proposals of a series, and the placements under them since the group was last closed."""

    __slots__ = ("counts", "terms")

    def __init__(self, terms: GroupTerms) -> None:
        self.terms = terms
        self.counts: dict[str, int] = {}


class ProposalCoalescer:
    """One scratch for consecutive proposals."""

    def __init__(self, state: RegionState, at: Instant) -> None:
        self.at = at
        self._state = state
        self._trial: ProposalScratch | None = None
        self._known: dict[tuple[Revision, str, Revision], _Shared] = {}
        self._current: _Shared | None = None
        self._held: list[tuple[SlotsPlaced, Stamp]] = []

    def try_accept(self, command: Propose, ctx: CommandContext) -> Accepted | None:
        """Accept the proposal if every placement is plain and fits after those before it; otherwise return None."""
        if len(command.groups) != 1 or not command.bind or refuse_proposal(self._state, command, ctx) is not None:
            return None
        if self._trial is None:
            self._trial = ProposalScratch(self._state, ctx)
        trial, group = self._trial, command.groups[0]
        trial.case = ctx
        shared = self._shared(trial, group, ctx)
        if shared is None:
            return None
        terms, paying = shared.terms, ""
        for placement in group.placements:
            if placement.waits_for or placement.hold:
                return None
            account = check_placement(trial, terms, placement)
            if isinstance(account, Infeasible) or (paying and account != paying):
                return None
            paying = account
        shared.counts[paying] = shared.counts.get(paying, 0) + len(group.placements)
        return Accepted((placed_event(terms, group, paying, group.placements, command, ctx),))

    def _shared(self, trial: ProposalScratch, group: PlacementGroup, ctx: CommandContext) -> _Shared | None:
        """Return the terms of this assignment, template and policy. Other terms in use are closed first."""
        key = (group.assignment, group.template, ctx.envelope.policy)
        known, current = self._known.get(key), self._current
        if known is not None and known is current:
            return known
        if current is not None:
            trial.close_group(current.terms, current.counts)
            current.counts = {}
        if known is None:
            terms = group_terms(trial, group)
            if isinstance(terms, Infeasible) or terms.assignment.gang is not None:
                return None
            known = self._known[key] = _Shared(terms)
        elif known.terms.firm:
            known.terms.spare = known.terms.leaves(trial, known.terms.need)
        self._current = known
        return known

    def stage(self, events: tuple[Any, ...], first: Revision, actor: str) -> None:
        """Store the one event of an accepted proposal until the flush."""
        (event,) = events
        self._held.append((event, Stamp(first, self.at, actor)))

    def flush(self) -> None:
        """Apply the staged events, and count once for each assignment, template and account."""
        alike: dict[tuple[Revision, str, str], _Count] = {}
        for event, stamp in self._held:
            key = (event.assignment, event.template, event.account)
            count = alike.get(key)
            if count is None:
                count = alike[key] = _Count()
            count.event, count.stamp = event, stamp
            for waited, ordinals in place_slots(self._state, event, stamp).items():
                count.placed.setdefault(waited, []).extend(ordinals)
        for count in alike.values():
            count_placed(self._state, count.event, count.placed, count.stamp)
        self._held = []


class _Count:
    """Placements of one assignment, template and account, and their last event."""

    __slots__ = ("event", "placed", "stamp")

    event: SlotsPlaced
    stamp: Stamp

    def __init__(self) -> None:
        self.placed: Placed = {}
