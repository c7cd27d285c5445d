"""What one placement costs as a region grows: single slots of different shapes, among 1,000 nodes and among 50,000.

Only choosing is measured, and only it depends on how many nodes there are: the ledger judges one node. What a sample of
the nodes costs in quality is the mean score of the chosen nodes, over that of the best of all.
"""

from __future__ import annotations

import time
from random import Random

import numpy as np

from holdfast.bench.region import BenchRegion, Machine
from holdfast.bench.report import Result, at_least, at_most
from holdfast.core.model.control import PolicyDocument
from holdfast.core.model.workload import Template
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.choosing import Choice, Passing, choose, choose_in
from holdfast.core.scheduling.framework import rulebook
from holdfast.core.scheduling.mixing import seed_of
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.window import whole

FEW, MANY = 1_000, 50_000
DECISIONS = 2_000
AT_A_TIME = 100


def measure_growth(asked: list[Template], real: list[Machine]) -> list[Result]:
    """How much more one placement costs, and what it loses: by turns, so that noise of the machine is in both."""
    few, many = (_Side(count, asked, real) for count in (FEW, MANY))
    for first in range(0, DECISIONS, AT_A_TIME):
        for side in (few, many):
            side.decide(first, min(first + AT_A_TIME, DECISIONS))
    return [
        at_most("schedule.growth", many.spent / few.spent, "times", few.spent / DECISIONS * 1e6, 2.5),
        at_least("schedule.growth_score", 100 * many.got / many.best, "percent of the best", 100, 98),
    ]


class _Side:
    """A region of so many nodes: the seconds that placements took, and the part of the best score that they got."""

    def __init__(self, nodes: int, asked: list[Template], real: list[Machine]) -> None:
        self._scheduler = Scheduler(BUILT_IN)
        self._scheduler.load(BenchRegion(nodes, machines=real).state)
        chance = Random(2)
        self._asks = [Ask(str(number), chance.choice(asked), "acme", True) for number in range(DECISIONS)]
        self._rules = rulebook(BUILT_IN, PolicyDocument())
        self.spent, self.got, self.best = 0.0, 0, 0
        # Columns of labels are made when they are first asked for.
        choose(Passing(self._scheduler.table, self._asks[0], self._rules, 0), 1)

    def decide(self, first: int, last: int) -> None:
        """Place these, one after another."""
        table = self._scheduler.table
        for number in range(first, last):
            ask = self._asks[number]
            passing = Passing(table, ask, self._rules, seed_of(number))
            start = time.thread_time()
            choice = choose(passing, 1)
            self.spent += time.thread_time() - start
            if choice.rows and number % 10 == 0:
                self.got += _score(choice)
                self.best += _score(choose_in(passing, (whole(table, ask),), 1))
            for row in choice.rows:
                table.take(np.array([row]), np.array([1]), ask.template.need, firm=True)


def _score(choice: Choice) -> int:
    return choice.candidates[0].score
