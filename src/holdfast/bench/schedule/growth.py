"""What one placement costs as a region grows: single slots of real shapes, among 1,000 nodes and among 50,000.

Both regions are two thirds full, and what is placed takes its devices. Only choosing and deducting is measured, and
only that depends on how many nodes there are: the ledger judges one node. Both choose by the same algorithm, the best
of a stretch of rows that the seed chooses; 1,000 are one stretch, 50,000 are seven. What that costs in quality is the
mean score of the chosen nodes, over that of the best of all: in both it has to be about as good.
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
from holdfast.core.scheduling.nodes.devices import DeviceClaim
from holdfast.core.scheduling.nodes.tie_break import seed_of
from holdfast.core.scheduling.nodes.window import all_rows
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_in, select_nodes

ROWS = ("schedule.growth", "schedule.growth_score")
#: Nodes of the two regions, how many are placed in each, and how many of them at a time.
WHOLE, SMALL = (1_000, 50_000, 600, 50), (20, 40, 20, 10)
#: Every so many decisions the best of all nodes is looked for, too.
COMPARED = 5
#: Of those for which some node had room so many are chosen one for, or the figure is none.
CHOSEN_PERCENT = 95


def measure_growth(asked: list[Template], real: list[NodeShape], *, small: bool = False) -> list[BenchResult]:
    """How much more one placement costs, and what it loses: by turns, so that noise of the machine is in both."""
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
    """A region of so many nodes, and how good what was chosen is, over the best of all."""

    def __init__(self, nodes: int, asked: list[Template], real: list[NodeShape], decisions: int) -> None:
        scheduler = Scheduler(BUILT_IN)
        scheduler.load(filled_region(nodes, asked, real).state)
        self._table = scheduler.table
        chance = Random(2)
        self._asks = [SlotAsk(str(number), chance.choice(asked), "acme", True) for number in range(decisions)]
        self._rules = profile_for(BUILT_IN, PolicyDocument())
        self.got = self.best = 0
        #: For how many of those that are compared some node had room, and for how many of these one was chosen.
        self._fitting = self._chosen = 0
        # Columns of labels are made when they are first asked for.
        select_nodes(self._passing(0), 1)

    def _passing(self, number: int) -> PassContext:
        return PassContext(self._table, self._asks[number], self._rules, seed_of(number))

    def decide(self, numbers: range) -> float:
        """Place these, one after another; how many in a second of a core."""
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
        """Who chooses nothing is quick: almost all that fits somewhere was placed."""
        require(self._fitting, "no node has room for anything that is asked for")
        told = f"of {self._fitting} that fit somewhere {self._chosen} were placed"
        require(self._chosen * 100 >= self._fitting * CHOSEN_PERCENT, told)

    def _take(self, ask: SlotAsk, choice: NodeSelection) -> None:
        """Count it as proposed, as a scheduler does."""
        for row in choice.rows:
            devices, template = self._table.devices, ask.template
            if template.gpus:
                picked = devices.pick(row, template, firm=ask.firm)
                devices.take(row, int(self._table.uids[row]), DeviceClaim(picked, template.gpu_milli, (), ask.firm))
            self._table.take_one(row, template.need, firm=ask.firm)
