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


def measure_growth(asked: list[Template], real: list[Machine]) -> list[Result]:
    """How much more one placement costs, and what it loses."""
    (few, _), (many, quality) = (_measure(count, asked, real) for count in (FEW, MANY))
    return [
        at_most("schedule.growth", many / few, "times", few * 1e6, 2.5),
        at_least("schedule.growth_score", 100 * quality, "percent of the best", 100, 98),
    ]


def _measure(nodes: int, asked: list[Template], real: list[Machine]) -> tuple[float, float]:
    """Seconds for one placement, and the part of the best score that it gets."""
    region = BenchRegion(nodes, machines=real)
    scheduler = Scheduler(BUILT_IN)
    scheduler.load(region.state)
    table, rules, chance = scheduler.table, rulebook(BUILT_IN, PolicyDocument()), Random(2)
    asks = [Ask(str(number), chance.choice(asked), "acme", True) for number in range(DECISIONS)]
    choose(Passing(table, asks[0], rules, 0), 1)  # columns of labels are made when they are first asked for
    spent, got, best = 0.0, 0, 0
    for number, ask in enumerate(asks):
        passing = Passing(table, ask, rules, seed_of(number))
        start = time.thread_time()
        choice = choose(passing, 1)
        spent += time.thread_time() - start
        if choice.rows and number % 10 == 0:
            got += _score(choice)
            best += _score(choose_in(passing, (whole(table, ask),), 1))
        for row in choice.rows:
            table.take(np.array([row]), np.array([1]), ask.template.need, firm=True)
    return spent / len(asks), got / best


def _score(choice: Choice) -> int:
    return choice.candidates[0].score
