"""The cost of one placement as a region grows: single slots of real shapes, among 1,000 nodes and among 50,000.

Both regions are two thirds full, and placed slots use devices. Only selecting and deducting is measured, because only
that depends on the number of nodes: the ledger checks one node. Both use the same algorithm, the best row of a window
chosen by the seed; 1,000 nodes are one window, 50,000 are seven. The quality is the mean score of the selected nodes
relative to the best of all nodes; it must be similar in both regions.
"""

from __future__ import annotations

import time
from random import Random
from statistics import median

from holdfast.bench.fixtures.filled_region import filled_region
from holdfast.bench.fixtures.region import NodeShape
from holdfast.bench.report import BenchResult, at_least, at_most, require
from holdfast.core.model.objects.policies import PolicyDocument
from holdfast.core.model.objects.workloads import Template
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import profile_for
from holdfast.core.scheduling.nodes.claims import device_claim
from holdfast.core.scheduling.nodes.tie_break import seed_of
from holdfast.core.scheduling.nodes.window import all_rows
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_in, select_nodes

ROWS = ("schedule.growth", "schedule.growth_score")
#: Nodes of the two regions, placements in each, and placements per turn.
WHOLE, SMALL = (1_000, 50_000, 600, 50), (20, 40, 20, 10)
#: One in this many decisions is compared with the best of all nodes.
COMPARED = 5
#: Percent of the feasible requests that must be placed for the figure to count.
CHOSEN_PERCENT = 95


def measure_growth(asked: list[Template], real: list[NodeShape], *, small: bool = False) -> list[BenchResult]:
    """Measure the increase of the cost and the loss of quality, in turns, so that noise of the machine affects both."""
    few, many, decisions, at_a_time = SMALL if small else WHOLE
    sides = [_Side(count, asked, real, decisions) for count in (few, many)]
    turns = [
        [side.decide(range(first, first + at_a_time)) for side in sides] for first in range(0, decisions, at_a_time)
    ]
    for side in sides:
        side.must_have_chosen()
    slower = [of_few / of_many for of_few, of_many in turns]
    scores = [100 * side.got / side.best for side in sides]
    rate = median([of_few for of_few, _ in turns])
    return [
        at_most("schedule.growth", median(slower), "times", rate, 2.5, slower),
        at_least("schedule.growth_score", min(scores), "percent of the best", 100, 99, scores),
    ]


class _Side:
    """A region with `nodes` nodes, and the quality of its selections relative to the best of all nodes."""

    def __init__(self, nodes: int, asked: list[Template], real: list[NodeShape], decisions: int) -> None:
        scheduler = Scheduler(BUILT_IN)
        region = filled_region(nodes, asked, real)
        scheduler.load(region.state)
        self._table = scheduler.table
        chance = Random(2)
        self._asks = [SlotAsk(str(number), chance.choice(asked), "acme", True) for number in range(decisions)]
        self._rules = profile_for(BUILT_IN, PolicyDocument(), devices=self._table.devices.any)
        self._table.useful.learn(self._table.shape_counts.of(region.state), self._table.devices.models)
        self.got = self.best = 0
        #: Compared requests that some node could hold, and those of them that were placed.
        self._fitting = self._chosen = 0
        # Columns of labels are created at their first use.
        select_nodes(self._passing(0), 1)

    def _passing(self, number: int) -> PassContext:
        return PassContext(self._table, self._asks[number], self._rules, seed_of(number))

    def decide(self, numbers: range) -> float:
        """Place these requests one after another; return placements per second of a core."""
        spent = 0.0
        for number in numbers:
            passing = self._passing(number)
            best = select_in(passing, (all_rows(self._table, passing.ask),), 1) if number % COMPARED == 0 else None
            start = time.thread_time()
            choice = select_nodes(passing, 1)
            self._take(passing.ask, choice)
            spent += time.thread_time() - start
            if best is not None and best.rows:
                self.best += best.candidates[0].score
                self.got += choice.candidates[0].score if choice.rows else 0
                self._fitting += 1
                self._chosen += bool(choice.rows)
        return len(numbers) / spent

    def must_have_chosen(self) -> None:
        """Require that almost all feasible requests were placed: selecting nothing is fast."""
        require(self._fitting, "no node has free capacity for any request")
        told = f"{self._chosen} of {self._fitting} feasible requests were placed"
        require(self._chosen * 100 >= self._fitting * CHOSEN_PERCENT, told)

    def _take(self, ask: SlotAsk, choice: NodeSelection) -> None:
        """Deduct the selection as a scheduler does for a proposal."""
        for row in choice.rows:
            devices, template = self._table.devices, ask.template
            if template.gpus:
                picked = devices.pick(row, template, firm=ask.firm)
                devices.take(
                    row, int(self._table.uids[row]), device_claim(picked, template.gpu_milli, (), firm=ask.firm)
                )
            self._table.take_one(row, template.need, firm=ask.firm)
