"""Slots that differ in little are chosen from one list: each gets about the best row, and never one without room."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from holdfast.core.model.objects.policies import PlacementStrategy, PolicyDocument
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.resources import Resources
from holdfast.core.scheduling import selection, shortlist
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins, SchedulingProfile, profile_for
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_in
from holdfast.core.scheduling.shortlist import SLOTS, Shortlists
from tests.support.ledgers.region import RegionBench

PACK, SPREAD = (
    profile_for(BUILT_IN, PolicyDocument(strategy)) for strategy in (PlacementStrategy.PACK, PlacementStrategy.SPREAD)
)


@pytest.fixture(autouse=True)
def no_region_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "ALL", 2)


class Looking:
    """One look over a region of nodes that are used in part; every slot is deducted as it is placed."""

    def __init__(self, nodes: int = 40, rules: SchedulingProfile = PACK, **fields: Any) -> None:
        bench, chance = RegionBench(checked=False), Random(3)
        for number in range(nodes):
            bench.a_node(f"n{number}", **{"cpu": 64_000, "memory": 256_000, "zone": "abc"[number % 3], **fields})
        self.table = NodeTable()
        self.table.refresh(bench.state, [uid for uid, _ in bench.state.nodes.items()], 1)
        for row in range(nodes):
            self.table.take_one(row, Resources(chance.randrange(64_000), chance.randrange(256_000)), firm=True)
        self.rules = rules
        self.shortlists = Shortlists(self.table)
        self._seed = 0

    def passing(self, template: Template, **fields: Any) -> PassContext:
        self._seed += 1
        ask = SlotAsk(str(self._seed), template, **{"tenant": "acme", "firm": True, **fields})
        return PassContext(self.table, ask, self.rules, self._seed)

    def place(self, passing: PassContext) -> NodeSelection:
        choice = self.shortlists.choose(passing)
        for row in choice.rows:
            self.table.take_one(row, passing.ask.template.need, firm=passing.ask.firm)
        return choice


def little(number: int, **fields: Any) -> Template:
    return Template(("serve", str(number)), need=Resources(100 + number % 97, 128 + number % 89), **fields)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[PassContext]:
    """For which slots lists were made."""
    found: list[PassContext] = []

    def counted(passing: PassContext, most: int) -> selection.RankedList:
        found.append(passing)
        return selection.ranked_list(passing, most)

    monkeypatch.setattr(shortlist, "ranked_list", counted)
    return found


def test_one_list_serves_many_slots_that_differ_in_little(listed: list[PassContext]) -> None:
    looking = Looking()
    assert all(looking.place(looking.passing(little(number))).rows for number in range(1 + 3 * SLOTS))
    assert len(listed) == 3, "the first slot is chosen by itself: it may be the only one"


def test_what_a_list_gives_is_about_as_good_as_the_best_of_all_rows() -> None:
    looking = Looking(300)
    got = best = 0
    for number in range(200):
        passing = looking.passing(little(number))
        everything = select_in(passing, (all_rows(looking.table, passing.ask),), 1)
        best += everything.candidates[0].score
        (row,) = looking.shortlists.choose(passing).rows
        there = select_in(passing, (all_rows(looking.table, passing.ask).of(np.array([row])),), 1)
        got += there.candidates[0].score
        looking.table.take_one(row, passing.ask.template.need, firm=True)
    assert got >= 0.99 * best


def test_no_slot_is_given_a_row_without_room() -> None:
    looking = Looking(3, cpu=6_500, memory=20_000)
    looking.table.take_one(0, Resources(0, 20_000), firm=False)
    while looking.place(looking.passing(little(looking.table.count))).rows:
        assert (looking.table.free_any >= 0).all() or looking.table.free_any[1, 0] < 0
        assert (looking.table.free_firm >= 0).all()
    left = looking.table.free_any.min(axis=0)
    assert (left < 200).all(), "before it is said that nothing fits, all rows are asked"


@pytest.mark.parametrize(("lent", "firm", "has_room"), [(0, True, True), (1, True, False), (1, False, True)])
def test_a_row_that_has_just_enough_has_room(lent: int, firm: bool, has_room: bool) -> None:
    looking = Looking(1)
    template = Template(("serve",), need=Resources(*looking.table.free_any[:2, 0].tolist()))
    looking.table.free_firm[0, 0] -= lent
    ask = looking.passing(template, firm=firm).ask
    assert looking.shortlists._has_room(0, ask) is has_room
    looking.table.take_one(0, Resources(1), firm=False)
    assert not looking.shortlists._has_room(0, ask)


@pytest.mark.parametrize(
    "other",
    [
        {"template": little(1, require=(("disk", "ssd"),))},
        {"template": little(1, tolerate=(Toleration("a", "b"),))},
        {"template": little(1, uses=("model",))},
        {"template": little(1), "tenant": "beta"},
        {"template": little(1), "firm": False},
        {"template": little(1), "exclusive": True},
        {"template": Template(("serve",), need=Resources(100))},
    ],
)
def test_slots_that_nodes_are_asked_other_things_for_have_other_lists(
    listed: list[PassContext], other: dict[str, Any]
) -> None:
    looking = Looking()
    for number in range(4):
        looking.place(looking.passing(little(number)))
        looking.place(looking.passing(**other))
    assert len(listed) == 2


@pytest.mark.parametrize(
    "template",
    [
        Template(("serve",), need=Resources(2_000, 128)),
        little(1, ports=1),
        Template(("serve",), need=Resources(100, 128, 0, 1000), gpus=1),
    ],
)
def test_a_slot_that_is_large_or_needs_a_thing_of_its_own_is_looked_at_by_itself(
    listed: list[PassContext], template: Template
) -> None:
    looking = Looking()
    for _ in range(4):
        looking.place(looking.passing(template))
    assert listed == []


def test_where_work_is_spread_each_slot_gets_the_best_row_of_all(listed: list[PassContext]) -> None:
    looking = Looking(300, SPREAD)
    for number in range(80):
        passing = looking.passing(little(number))
        best = select_in(passing, (all_rows(looking.table, passing.ask),), 1)
        assert looking.place(passing) == best
    assert listed == []


def test_a_plugin_that_does_not_say_what_it_looks_at_is_asked_for_each_slot(listed: list[PassContext]) -> None:
    class Named:
        name, version = "named", "1"

        def score(self, window: NodeWindow) -> Any:
            return np.full(len(window), int(window.ask.template.command[1]) % 10, np.int64)

    plugins = Plugins(BUILT_IN.filters, (*BUILT_IN.scores, Named()))
    looking = Looking(rules=profile_for(plugins, PolicyDocument(scores=(("named", 1),))))
    for number in range(5):
        choice = looking.place(looking.passing(little(number)))
        assert ("named", number) in choice.candidates[0].parts
    assert listed == []


def test_the_row_of_a_slot_is_the_first_of_the_candidates_that_are_kept() -> None:
    looking = Looking()
    for number in range(30):
        choice = looking.place(looking.passing(little(number)))
        assert choice.candidates[0].node == looking.table.uids[choice.rows[0]]
        assert 1 <= len(choice.candidates) <= 3
        assert choice.examined == 40


def test_a_region_that_is_looked_at_whole_has_no_lists(
    monkeypatch: pytest.MonkeyPatch, listed: list[PassContext]
) -> None:
    monkeypatch.setattr(shortlist, "ALL", 40)
    looking = Looking()
    for number in range(5):
        looking.place(looking.passing(little(number)))
    assert listed == []
