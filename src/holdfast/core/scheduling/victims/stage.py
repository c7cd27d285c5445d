"""The stage of one cycle that preempts: rounds of nodes with victims for a group, added to the draft.

A group preempts if its class may, or to reclaim for recovery, and if its slots are bound at once. Its slots are paid as
others are. A slot for which nothing may be preempted now waits, and is tried again after a while: run times pass, and
budgets and limits are renewed, without a change that a node shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.region.queries.preemptions import preemptor_of
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.framework import VictimPlugin
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.proposal_builder import ProposalBuilder
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.quota_gates import payer_gate
from holdfast.core.scheduling.queue.request_groups import GroupKey, QueuedRequest, RequestGroup
from holdfast.core.scheduling.selection import PassContext
from holdfast.core.scheduling.victims.preemption import Preemption

#: Placements with victims in one cycle: its process does nothing else meanwhile.
PREEMPTED_MAX = 250
#: Wait of a group that may preempt and found no victims.
RETRY_MS: Duration = 5_000


class PreemptionStage:
    """The preemptions of one cycle."""

    def __init__(
        self,
        draft: ProposalBuilder,
        table: NodeTable,
        flight: InFlight,
        state: RegionState,
        now: Instant,
        plugins: Sequence[VictimPlugin],
    ) -> None:
        self._draft, self._table, self._flight = draft, table, flight
        self._state, self._now, self._plugins = state, now, plugins
        self._left = PREEMPTED_MAX
        #: By group and node: slots that wait for what victims free there later.
        self._promised: dict[GroupKey, dict[Revision, int]] = {}
        #: Whether the last group is left to the next cycle: nodes are not all counted, or enough was preempted.
        self.is_cut = False

    def is_able(self, group: RequestGroup) -> bool:
        """Whether a group may preempt. All its requests pay from the same accounts, so all or none are recovery."""
        uid = next(iter(group.entries.values())).key[0]
        assignment = self._state.assignments.get(uid)
        return assignment is not None and preemptor_of(self._state, assignment).is_able

    def retry_at(self, group: RequestGroup) -> Instant:
        """Return when a group that found no victims is tried again; 0 if it may not preempt."""
        return self._now + RETRY_MS if self.is_able(group) else 0

    def place(
        self, group: RequestGroup, entries: list[QueuedRequest], most: int, passing: Callable[[], PassContext]
    ) -> int:
        """Place at most `most` slots after victims, and return their number. `passing`: the inputs of each round."""
        self.is_cut = False
        if not self.is_able(group):
            return 0
        if not self._left or not self._table.victims.count(self._table, self._state, self._flight.victims):
            self.is_cut = True
            return 0
        placed = 0
        while placed < most and (count := self._round(group, entries, most - placed, passing())):
            placed += count
            self._left -= count
        return placed

    def _promised_to_others(self, group: RequestGroup) -> dict[Revision, int]:
        """Return the slots of other groups that wait for what is freed later, by node."""
        found: dict[Revision, int] = {}
        for key, nodes in self._promised.items():
            for node, count in nodes.items() if key != group.key else ():
                found[node] = found.get(node, 0) + count
        return found

    def _round(self, group: RequestGroup, entries: list[QueuedRequest], most: int, passing: PassContext) -> int:
        """Place one slot on each of some nodes."""
        state, need = self._state, group.ask.template.need
        pay = payer_gate(state, group.accounts, need, self._now, self._flight.spent)
        # With rules over domains, each placement changes which domains are open.
        most = min(self._left, most if passing.domains is None else 1)
        slots = self._draft.slots(entries, pay.most, most)
        if not slots:
            return 0
        self._table.victims.count(self._table, state, self._flight.victims)
        preemptor = preemptor_of(state, state.assignments[entries[0].key[0]])
        search = Preemption(passing, state, self._now, self._flight, preemptor, self._plugins)
        others = self._promised_to_others(group)
        promised = {**others}
        chosen = search.choose(len(slots), promised)
        self._promised[group.key] = {node: count - others.get(node, 0) for node, count in promised.items()}
        if not chosen:
            return 0
        rows, takeovers = [one.row for one in chosen], [one.takeover for one in chosen]
        return self._draft.add(group, slots[: len(chosen)], rows, pay.each, takeovers)
