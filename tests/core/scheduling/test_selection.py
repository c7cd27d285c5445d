"""One pass: which rows slots go to, that ties are broken by the seed alone, and that rejections add up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import PlacementStrategy, PolicyDocument
from holdfast.core.model.objects.workloads import Apart, Spread, Template
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.fill import Ranked, pack_nodes, spread_nodes, top_keys
from holdfast.core.scheduling.framework import PluginError, Plugins, profile_for
from holdfast.core.scheduling.nodes import window
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers
from holdfast.core.scheduling.nodes.tie_break import tie_ranks
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_nodes
from tests.support.ledgers.region import ROOT, RegionBench, a_template

PACK, SPREAD = (
    profile_for(BUILT_IN, PolicyDocument(strategy)) for strategy in (PlacementStrategy.PACK, PlacementStrategy.SPREAD)
)


def a_table(bench: RegionBench) -> NodeTable:
    table = NodeTable()
    table.refresh(bench.state, [uid for uid, _ in bench.state.nodes.items()], 1)
    return table


def some_nodes(count: int, **fields: Any) -> RegionBench:
    bench = RegionBench(checked=False)
    for number in range(count):
        bench.a_node(f"n{number}", **{"cpu": 4000, "zone": "abc"[number % 3], **fields})
    return bench


def chosen(
    bench: RegionBench, template: Template, count: int, *, spread: bool = False, seed: int = 1, firm: bool = True
) -> tuple[NodeSelection, list[str]]:
    """What a pass chose, and the nodes by name."""
    table = a_table(bench)
    ask = SlotAsk("d", template, "acme", firm, 1 if template.spread else 0)
    choice = select_nodes(PassContext(table, ask, SPREAD if spread else PACK, seed, a_count(bench.state, ask)), count)
    return choice, [table.nodes[row].name for row in choice.rows]


def a_count(state: RegionState, ask: SlotAsk) -> DomainRules | None:
    return DomainRules(state, ask, {}) if has_domain_rules(ask.template) else None


# Where slots go


def test_packed_slots_fill_one_node_before_the_next() -> None:
    _, names = chosen(some_nodes(5), a_template(cpu=1000), 9)
    assert sorted(Counter(names).values()) == [1, 4, 4]


def test_spread_slots_go_one_to_each_node_before_any_gets_two() -> None:
    _, names = chosen(some_nodes(5), a_template(cpu=1000), 7, spread=True)
    assert sorted(Counter(names).values()) == [1, 1, 1, 2, 2]


def test_the_fuller_node_is_packed_first_and_the_emptier_one_spread_to_first() -> None:
    bench = some_nodes(3)
    bench.a_scheduler()
    bench.a_grant()
    work = bench.a_workload(a_template(cpu=1000), count=1)
    bench.place(work, c.SlotPlacement(0, bench.state.node_names["n1"]))
    assert chosen(bench, a_template(cpu=500), 1)[1] == ["n1"]
    assert set(chosen(bench, a_template(cpu=500), 2, spread=True)[1]) == {"n0", "n2"}


@pytest.mark.parametrize("spread", [False, True])
def test_no_row_gets_more_than_it_takes_and_all_is_used_before_slots_are_left_over(spread: bool) -> None:
    bench = some_nodes(2, ports=(30_000, 30_002), gpus=("t4", "t4"))
    bench.a_node("small", cpu=1000, ports=(30_000, 30_009), gpus=("t4",) * 4)
    of_each = {
        "cpu": (a_template(cpu=1500), {"n0": 2, "n1": 2}),
        "ports": (a_template(cpu=10, ports=2), {"n0": 1, "n1": 1, "small": 5}),
        "whole devices": (a_template(cpu=10, gpus=2), {"n0": 1, "n1": 1, "small": 2}),
        "shared devices": (a_template(cpu=10, gpus=1, gpu_milli=400), {"n0": 4, "n1": 4, "small": 8}),
    }
    for what, (template, takes) in of_each.items():
        _, names = chosen(bench, template, 100, spread=spread)
        assert Counter(names) == takes, what


def test_firm_slots_leave_what_is_held_alone() -> None:
    bench = some_nodes(1)
    bench.a_grant()
    node = bench.state.node_names["n0"]
    held = c.Hold(ReservationPurpose.DATED, node, "quota/acme", bench.at + 1_000, Resources(2000), tenant="acme")
    bench.accept(ROOT, held)
    assert len(chosen(bench, a_template(cpu=1000), 9)[1]) == 2
    assert len(chosen(bench, a_template(cpu=1000), 9, firm=False)[1]) == 4


# Rules over domains


@pytest.mark.parametrize("spread", [False, True])
def test_slots_are_even_over_zones_as_far_as_the_rule_asks(spread: bool) -> None:
    bench = some_nodes(6)
    template = a_template(cpu=100, spread=(Spread("zone", 1),))
    _, names = chosen(bench, template, 8, spread=spread)
    zones = Counter(bench.state.nodes[bench.state.node_names[name]].zone for name in names)
    assert sorted(zones.values()) == [2, 3, 3]


@pytest.mark.parametrize("spread", [False, True])
def test_a_full_zone_keeps_the_others_back(spread: bool) -> None:
    bench = some_nodes(2)
    bench.a_node("c", zone="c", cpu=1000)
    choice, names = chosen(bench, a_template(cpu=1000, spread=(Spread("zone", 1),)), 8, spread=spread)
    assert Counter(names) == {"n0": 2, "n1": 2, "c": 1}
    assert choice.rejected == {(Code.SPREAD, "zone a"): 1, (Code.SPREAD, "zone b"): 1}


def test_members_are_apart_on_nodes_and_in_zones_at_once() -> None:
    bench = some_nodes(6)
    template = a_template(cpu=100, apart=(Apart("db", "node"), Apart("db", "zone", 2)))
    choice, names = chosen(bench, template, 10)
    assert sorted(names) == ["n0", "n1", "n2", "n3", "n4", "n5"]
    nobody, names = chosen(bench, a_template(cpu=100, apart=(Apart("db", "zone", 0),)), 3)
    assert names == []
    assert sum(nobody.rejected.values()) == 6
    assert choice.examined == 6


# Sample and whole


def test_few_slots_look_at_a_part_of_many_rows_and_at_all_before_they_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "STRETCH", 8)
    monkeypatch.setattr(window, "ALL", 2 * 8)
    bench = some_nodes(40)
    choice, _ = chosen(bench, a_template(cpu=1000), 1)
    assert (len(choice.rows), choice.examined) == (1, 8)
    for number in range(40):
        if number != 7:
            uid = bench.state.node_names[f"n{number}"]
            bench.accept(ROOT, c.AdministerNode(uid, cordoned=True, note="why"))
    for seed in range(5):
        choice, names = chosen(bench, a_template(cpu=1000), 1, seed=seed)
        assert names == ["n7"]
    choice, names = chosen(bench, a_template(cpu=9000), 1)
    assert (names, choice.examined) == ([], 40)
    assert sum(choice.rejected.values()) == 40


def test_a_sample_that_was_not_enough_leaves_no_trace_in_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SAMPLE", 4)
    monkeypatch.setattr(window, "ALL", 2 * 4)
    bench = some_nodes(40, cpu=1000)
    for number in range(40):
        uid = bench.state.node_names[f"n{number}"]
        if number % 10:
            bench.accept(ROOT, c.AdministerNode(uid, cordoned=True, note="why"))
    template = a_template(cpu=1000, spread=(Spread("zone", 1),), apart=(Apart("db", "zone", 2),))
    for seed in range(20):
        _, names = chosen(bench, template, 4, seed=seed)
        assert len(names) == 4, "n0, n10, n20 and n30 are in zones a, b, c and a"


@pytest.mark.parametrize(("rows", "wanted"), [(1_025, 1_024), (2_500, 1_250), (10_000, 5_000), (50_000, 8_192)])
def test_a_slot_looks_at_one_of_the_stretches_that_cover_all_rows(rows: int, wanted: int) -> None:
    table = a_table(some_nodes(1))
    ask = SlotAsk("d", a_template(), "acme", True)
    (whole,) = window.sample_rows(window.all_rows(table, ask), 1, seed=5)
    assert whole.is_all
    table.nodes = table.nodes * rows
    seen: set[int] = set()
    starts = Counter[int]()
    for seed in range(200):
        (found,) = window.sample_rows(window.all_rows(table, ask), 1, seed)
        assert isinstance(found.at, slice)
        assert (len(found), found.at.stop <= rows) == (wanted, True)
        seen.update(range(found.at.start, found.at.stop))
        starts[found.at.start] += 1
    assert len(seen) == rows
    assert max(starts.values()) - min(starts.values()) <= 1, "each as often as any other"


def test_a_stretch_is_as_long_as_many_slots_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "STRETCH", 8)
    monkeypatch.setattr(window, "ALL", 16)
    whole = window.all_rows(a_table(some_nodes(60)), SlotAsk("d", a_template(cpu=1000), "acme", True))
    assert [len(window.sample_rows(whole, count, 3)[0]) for count in (1, 4, 5, 20, 30)] == [8, 8, 10, 40, 60]


def test_where_no_score_counts_only_what_passes_is_chosen() -> None:
    nothing = PolicyDocument(scores=tuple((one.name, 0) for one in BUILT_IN.scores))
    bench = some_nodes(6)
    for number in range(1, 6):
        bench.accept(ROOT, c.AdministerNode(bench.state.node_names[f"n{number}"], cordoned=True, note="why"))
    table, ask = a_table(bench), SlotAsk("d", a_template(cpu=1000), "acme", True)
    for seed in range(5):
        (row,) = select_nodes(PassContext(table, ask, profile_for(BUILT_IN, nothing), seed), 1).rows
        assert table.nodes[row].name == "n0"


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_chosen_is_one_of_the_rows_that_were_looked_at(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(window, "STRETCH", 8)
    monkeypatch.setattr(window, "ALL", 16)
    table = a_table(some_nodes(60))
    ask = SlotAsk("d", a_template(cpu=1000), "acme", True)
    for seed in range(12):
        (looked_at,) = window.sample_rows(window.all_rows(table, ask), count, seed)
        assert {*select_nodes(PassContext(table, ask, PACK, seed), count).rows} <= {*looked_at.rows().tolist()}


def test_where_slots_are_counted_the_latest_rows_are_looked_at_beside_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SAMPLE", 8)
    monkeypatch.setattr(window, "ALL", 16)
    bench = some_nodes(60)
    table = a_table(bench)
    latest = [3, 31, 58]
    template = a_template(cpu=1000, spread=(Spread("zone", 1),))
    table.take(np.array(latest), np.array([1, 1, 1]), template.need, firm=True)
    ask = SlotAsk("d", template, "acme", True, 1)
    whole = window.all_rows(table, ask, (), a_count(bench.state, ask))
    for count, wanted in ((1, 8), (6, 12)):
        for seed in range(60):
            rows = [row for one in window.sample_rows(whole, count, seed) for row in one.rows().tolist()]
            start = seed % (60 - wanted + 1)
            assert sorted(rows) == sorted({*range(start, start + wanted), *latest})


@pytest.mark.parametrize(("count", "is_all"), [(14, False), (15, True)])
def test_where_slots_are_counted_all_rows_are_looked_at_for_so_many_that_a_sample_is_half_of_them(
    monkeypatch: pytest.MonkeyPatch, count: int, is_all: bool
) -> None:
    monkeypatch.setattr(window, "SAMPLE", 4)
    monkeypatch.setattr(window, "ALL", 8)
    bench = some_nodes(60)
    ask = SlotAsk("d", a_template(cpu=1000, spread=(Spread("zone", 1),)), "acme", True, 1)
    found = window.sample_rows(window.all_rows(a_table(bench), ask, (), a_count(bench.state, ask)), count, 3)
    assert (len(found) == 1 and found[0].is_all) is is_all


# Ties, keys, counts


def test_equal_rows_are_chosen_by_the_seed_and_by_nothing_else() -> None:
    bench, seeds = some_nodes(30, zone="a"), range(1_000, 1_020)
    found = [tuple(chosen(bench, a_template(cpu=1000), 3, seed=seed, spread=True)[1]) for seed in seeds]
    assert len(set(found)) > 10
    assert found == [tuple(chosen(bench, a_template(cpu=1000), 3, seed=seed, spread=True)[1]) for seed in seeds]


def test_rows_have_the_same_ranks_one_by_one_as_all_at_once() -> None:
    for seed, bits in ((0, 2), (5, 3), (2**47 - 3, 10), (981_273_645, 16)):
        rows = np.arange(1 << bits, dtype=np.int64)
        together = tie_ranks(rows.copy(), seed, bits).tolist()
        assert sorted(together) == rows.tolist()
        assert [tie_ranks(rows[row : row + 1].copy(), seed, bits).item() for row in rows.tolist()] == together


def test_the_highest_keys_come_first_however_many_are_asked_for() -> None:
    keys = np.random.default_rng(1).permutation(np.arange(1_000, dtype=np.int64)) * 7
    for most in (1, 10, 249, 250, 251, 999, 1_000):
        found = keys[top_keys(keys, most)][:most].tolist()
        assert found == sorted(keys.tolist(), reverse=True)[:most]


@pytest.mark.parametrize("count", [1, 2, 5, 11, 12, 20])
def test_filling_and_levelling_place_as_many_as_there_is_room_for(count: int) -> None:
    rows = np.array([10, 11, 12, 13], np.int64)
    ranked = Ranked(rows, np.array([5, 9, 1, 7], np.int64), np.array([3, 1, 4, 4], np.int64))
    packed, spread = pack_nodes(ranked, count), spread_nodes(ranked, count)
    for found in (packed, spread):
        assert len(found) == min(count, 12)
        assert all(Counter(found)[row] <= takes for row, takes in zip(rows.tolist(), ranked.takes, strict=True))
    assert packed == [11, 13, 13, 13, 13, 10, 10, 10, 12, 12, 12, 12][:count]
    assert spread == [11, 13, 10, 12, 13, 10, 12, 13, 10, 12, 13, 12][:count]


def test_what_filters_keep_out_adds_up_to_what_was_looked_at() -> None:
    bench = some_nodes(10)
    bench.a_node("big", cpu=64_000, memory=64_000)
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["n0"], cordoned=True, note="why"))
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["n1"], tenancy=("beta",)))
    choice, names = chosen(bench, a_template(cpu=5000, memory=32_000), 1)
    assert names == ["big"]
    assert choice.rejected == {
        (Code.NODE_UNAVAILABLE, "usable"): 1, (Code.TENANCY, "tenancy"): 1, (Code.CAPACITY, "cpu"): 8,
    }  # fmt: skip
    assert sum(choice.rejected.values()) + 1 == choice.examined == 11


def test_the_best_rows_are_kept_with_the_parts_of_their_scores() -> None:
    bench = some_nodes(5)
    choice, names = chosen(bench, a_template(cpu=1000), 1)
    assert len(choice.candidates) == 3
    best = choice.candidates[0]
    assert bench.state.nodes[best.node].name == names[0]
    assert best.score == sum(part for _, part in best.parts)
    assert [one.score for one in choice.candidates] == sorted((one.score for one in choice.candidates), reverse=True)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 30])
@pytest.mark.parametrize("spread", [False, True])
def test_one_slot_keeps_the_candidates_that_several_do(count: int, spread: bool) -> None:
    bench = some_nodes(0)
    for number in range(count):
        bench.a_node(f"n{number}", cpu=4000 + 2000 * (number % 4))
    for seed in range(20):
        one, (name,) = chosen(bench, a_template(cpu=1000), 1, spread=spread, seed=seed)
        two, names = chosen(bench, a_template(cpu=1000), 2, spread=spread, seed=seed)
        assert one.candidates == two.candidates
        assert name == names[0]


# Plugins that are wrong


class Wrong:
    """A score that gives what it was made with."""

    name, version = "packing", "1"

    def __init__(self, found: object) -> None:
        self.found = found

    def score(self, window: NodeWindow) -> Numbers:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found  # type: ignore[return-value]


@pytest.mark.parametrize(
    "found",
    [RuntimeError("no"), np.zeros(1, np.int64), np.zeros((5, 1), np.int64), np.zeros(5, np.float64), [0] * 5],
)
def test_a_score_that_raises_or_gives_something_else_is_named(found: object) -> None:
    rules = profile_for(Plugins(BUILT_IN.filters, (Wrong(found),)), PolicyDocument())
    table = a_table(some_nodes(5))
    with pytest.raises(PluginError, match=r"^packing: ") as caught:
        select_nodes(PassContext(table, SlotAsk("d", a_template(), "acme", True), rules, 1), 1)
    assert caught.value.plugin == "packing"
