"""Plain proposals in a row: what sixty-four schedulers with one placement each cost together.

Proposals for one assignment and template that come one after another share a trial and its terms, and their
placements are counted together when the row is settled. Answers and state are exactly those of judging one by one (a
property test holds this): anything that is not plainly accepted ends the row and is judged alone.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.registry import Case
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.region.commands import Group, Propose
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.placing import place, placed_event, refuse_proposal
from holdfast.core.region.standing import count_placed, place_slots
from holdfast.core.region.state import RegionState
from holdfast.core.region.trial import Terms, Trial, terms_of


class ProposalsInARow:
    """One trial for proposals that follow one another."""

    def __init__(self, state: RegionState, at: Instant) -> None:
        self.at = at
        self._state = state
        self._trial: Trial | None = None
        self._terms: Terms | None = None
        self._policy: Revision = 0
        self._held: list[tuple[SlotsPlaced, Stamp]] = []

    def judge(self, command: Propose, case: Case) -> Accepted | None:
        """Accepted when every placement is plain and fits beside those before it."""
        if len(command.groups) != 1 or not command.bind or refuse_proposal(self._state, command, case) is not None:
            return None
        group = command.groups[0]
        terms = self._terms_of(group, case)
        trial = self._trial
        if terms is None or trial is None:
            return None
        paying = ""
        for placement in group.placements:
            if placement.after or placement.hold:
                return None
            account = place(trial, terms, placement)
            if isinstance(account, Misfit) or (paying and account != paying):
                return None
            paying = account
        return Accepted((placed_event(terms, group, paying, group.placements, command, case),))

    def _terms_of(self, group: Group, case: Case) -> Terms | None:
        """The terms in force, while assignment, template and policy stay the same."""
        terms = self._terms
        if terms is None:
            self._trial = Trial(self._state, case)
            found = terms_of(self._trial, group)
            if isinstance(found, Misfit):
                return None
            self._terms, self._policy = found, case.envelope.policy
            return found
        same = terms.assignment.uid == group.assignment and terms.digest == group.template
        return terms if same and case.envelope.policy == self._policy else None

    def put(self, events: tuple[Any, ...], first: Revision, actor: str) -> None:
        """Hold the one event of an accepted proposal."""
        (event,) = events
        self._held.append((event, Stamp(first, self.at, actor)))

    def settle(self) -> None:
        """Apply what is held, and count it once for each account."""
        counts: dict[str, int] = {}
        kept: dict[str, dict[str, int]] = {}
        for event, stamp in self._held:
            account = event.account
            for other, number in place_slots(self._state, event, stamp).items():
                mine = kept.setdefault(account, {})
                mine[other] = mine.get(other, 0) + number
            counts[account] = counts.get(account, 0) + len(event.placements)
        last: dict[str, tuple[SlotsPlaced, Stamp]] = {event.account: (event, stamp) for event, stamp in self._held}
        for account, count in counts.items():
            event, stamp = last[account]
            count_placed(self._state, event, count, kept.get(account, {}), stamp)
        self._held = []
