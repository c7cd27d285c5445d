"""Spread, apart and near in a pass: what is chosen is what the ledger accepts, and no more is left out than must be."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.policies import OverrideAction, PlacementStrategy, PolicyDocument
from holdfast.core.model.objects.workloads import Apart, Near, Spread, Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling import cycle
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import profile_for
from holdfast.core.scheduling.nodes import window
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.pending_reasons import domains_that_hold
from holdfast.core.scheduling.queue.domain_cures import domain_counts
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_nodes
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower
from tests.support.node_windows import a_bench, an_ask, table_of
from tests.support.step_counter import StepCounter

PACK, SPREAD = PolicyDocument(), PolicyDocument(PlacementStrategy.SPREAD)


def chosen(
    bench: RegionBench, template: Template, count: int, policy: PolicyDocument = PACK, seed: int = 1
) -> NodeSelection:
    """What a pass of so many slots comes to."""
    ask = an_ask(template)
    passing = PassContext(table_of(bench), ask, profile_for(BUILT_IN, policy), seed, DomainRules(bench.state, ask, {}))
    return select_nodes(passing, count)


def nodes_of(bench: RegionBench, choice: NodeSelection) -> list[int]:
    uids: list[int] = table_of(bench).uids[choice.rows].tolist() if choice.rows else []
    return uids


def zones_of(bench: RegionBench, choice: NodeSelection) -> Counter[str]:
    return Counter(bench.state.nodes[uid].zone for uid in nodes_of(bench, choice))


def placed(bench: RegionBench, work: Assignment, nodes: list[int], first: int = 0) -> None:
    bench.place(work, *(c.SlotPlacement(first + number, node) for number, node in enumerate(nodes)))


def a_region(nodes: int = 6, zones: int = 3, cpu: int = 4000) -> RegionBench:
    """Nodes n0, n1, ... in zones a, b, c in turn."""
    bench = a_bench()
    for number in range(nodes):
        zone = "abc"[number % zones]
        labels = (("size", "large" if number < 3 else "small"), ("zone", zone))
        bench.a_node(f"n{number}", cpu=cpu, memory=65536, zone=zone, pool=f"p{number % 2}", labels=labels)
    return bench


# Required near


def test_the_first_may_go_anywhere_and_the_others_go_where_it_is() -> None:
    bench = a_region()
    choice = chosen(bench, a_template(near=(Near("chat", "zone", required=True),)), 5)
    assert sorted(zones_of(bench, choice).values()) == [5]


def test_what_does_not_fit_where_the_group_is_waits_and_is_told_so() -> None:
    bench = a_region(cpu=2000)
    choice = chosen(bench, a_template(near=(Near("chat", "zone", required=True),)), 5)
    assert sorted(zones_of(bench, choice).values()) == [4]
    assert choice.rejected == {(Code.NEAR, "chat"): 4}


@pytest.mark.parametrize(
    "template", [a_template(near=(Near("chat", "zone", required=True),)), a_template(spread=(Spread("zone"),))]
)
def test_when_all_are_placed_nothing_is_told_of_where_the_next_could_not_go(template: Template) -> None:
    assert chosen(a_region(), template, 4).rejected == {}


@pytest.mark.parametrize("policy", [PACK, SPREAD], ids=("pack", "spread"))
def test_all_on_one_node_are_on_one_node(policy: PolicyDocument) -> None:
    bench = a_region()
    template = a_template(near=(Near("chat", "node", required=True),))
    choice = chosen(bench, template, 6, policy)
    assert len(choice.rows) == 4
    assert len(set(choice.rows)) == 1
    placed(bench, bench.a_workload(template, count=4), nodes_of(bench, choice))


def test_a_group_that_stands_somewhere_draws_all_others_there() -> None:
    bench = a_region()
    database = bench.a_workload(a_template(apart=(Apart("db"),)), count=1)
    placed(bench, database, [bench.state.node_names["n1"]])
    choice = chosen(bench, a_template(near=(Near("db", "zone", required=True),)), 4)
    assert zones_of(bench, choice) == {"b": 4}


def test_near_one_group_and_apart_from_another_both_hold() -> None:
    bench = a_region()
    placed(bench, bench.a_workload(a_template(apart=(Apart("db"),)), count=1), [bench.state.node_names["n1"]])
    template = a_template(near=(Near("db", "zone", required=True),), apart=(Apart("web"),))
    choice = chosen(bench, template, 4)
    assert zones_of(bench, choice) == {"b": 2}
    assert len(set(choice.rows)) == 2


# Soft near


@pytest.mark.parametrize("key", ["zone", "pool"])
def test_replicas_that_like_one_another_are_placed_together_as_far_as_there_is_room(key: str) -> None:
    bench = a_region(nodes=12, cpu=2000)
    choice = chosen(bench, a_template(near=(Near("chat", key),)), 8)
    domains = [bench.state.nodes[uid] for uid in nodes_of(bench, choice)]
    assert max(Counter(node.zone if key == "zone" else node.pool for node in domains).values()) == 8
    more = chosen(bench, a_template(near=(Near("chat", key),)), 24)
    assert len(more.rows) == 24


def test_a_preference_counts_what_its_weight_says() -> None:
    bench = a_region(nodes=3)
    placed(bench, bench.a_workload(a_template(apart=(Apart("db"),)), count=1), [bench.state.node_names["n1"]])
    full = bench.a_workload(a_template(3000), count=1, uid=200, workload=2)
    placed(bench, full, [bench.state.node_names["n2"]])
    template = a_template(500, near=(Near("db"),))
    assert zones_of(bench, chosen(bench, template, 1)) == {"b": 1}
    ignored = PolicyDocument(scores=(("near", 0),))
    assert zones_of(bench, chosen(bench, template, 1, ignored)) == {"c": 1}


# A sample that does not hold all


def test_what_was_chosen_in_a_sample_is_forgotten_when_all_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SAMPLE", 2)
    monkeypatch.setattr(window, "ALL", 2 * 2)
    bench = a_region(nodes=40, zones=1)
    alone = bench.a_node("alone", zone="b")
    is_late = table_of(bench).rows[alone] >= 20  # the sample, of 12 rows, begins with the first or ends with the last
    choice = chosen(bench, a_template(apart=(Apart("db", "zone", 3),)), 6, seed=0 if is_late else 41 - 12)
    assert choice.examined == 41
    assert zones_of(bench, choice) == {"a": 3, "b": 3}


# Domains that count


SSD = (("disk", "ssd"),)


def three_zones() -> tuple[RegionBench, Follower]:
    """Two nodes in each of three zones; those of c lack a label that the others have."""
    bench = a_bench()
    for zone in "abc":
        for number in range(2):
            bench.a_node(f"{zone}{number}", zone=zone, labels=SSD if zone != "c" else ())
    return bench, Follower(bench)


def standing_in(bench: RegionBench) -> Counter[str]:
    return Counter(bench.state.nodes[slot.node].zone for slot in bench.state.slots.values() if slot.node)


def test_six_replicas_are_spread_evenly_over_the_two_zones_that_have_what_they_require() -> None:
    bench, follower = three_zones()
    bench.a_workload(a_template(spread=(Spread("zone", 1),), require=SSD), count=6)
    follower.work()
    assert standing_in(bench) == {"a": 3, "b": 3}
    assert follower.refused == []


def test_six_replicas_are_spread_evenly_over_the_two_zones_that_nobody_avoids() -> None:
    bench, follower = three_zones()
    bench.accept("person/root", OpenOverride(OverrideAction.AVOID_ZONE, "eu", "c", "fire", bench.at + 60_000))
    bench.a_workload(a_template(spread=(Spread("zone", 1),)), count=6)
    follower.work()
    assert standing_in(bench) == {"a": 3, "b": 3}
    assert follower.refused == []


@pytest.mark.parametrize("policy", [PACK, SPREAD], ids=("pack", "spread"))
def test_many_at_once_are_as_even_as_one_after_another(policy: PolicyDocument) -> None:
    template = a_template(100, spread=(Spread("zone", 5),))
    bench = a_region(nodes=6)
    at_once = zones_of(bench, chosen(bench, template, 9, policy))
    work = bench.a_workload(template, count=9)
    for number in range(9):
        placed(bench, work, nodes_of(bench, chosen(bench, template, 1, policy)), first=number)
    assert standing_in(bench) == {"a": 3, "b": 3, "c": 3}
    assert at_once == {"a": 3, "b": 3, "c": 3}


def test_a_plugin_is_told_how_many_stand_where() -> None:
    rule = Spread("zone", 5)
    bench = a_region(nodes=3)
    template = a_template(100, spread=(rule,))
    placed(bench, bench.a_workload(template, count=2), [bench.state.node_names["n0"]] * 2)
    domains = DomainRules(bench.state, an_ask(template), {("#1", "zone", "b"): 1})
    domains.choose(bench.state.nodes[bench.state.node_names["n2"]])
    assert [domains.replicas(rule, zone) for zone in "abcd"] == [2, 1, 1, 0]


def test_evenness_falls_in_step_from_the_emptiest_domain_to_the_fullest() -> None:
    bench = a_region(nodes=3)
    template = a_template(100, spread=(Spread("zone", 5),))
    domains = DomainRules(bench.state, an_ask(template), {("#1", "zone", "b"): 1, ("#1", "zone", "c"): 4})
    assert [domains.evenness(0, zone) for zone in "abcd"] == [1000, 750, 0, 0]
    assert domains.evenness_of(("b",)) == 750


@pytest.mark.parametrize(("there", "takes"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_what_is_kept_apart_comes_as_often_as_its_rule_allows(there: int, takes: int) -> None:
    bench = a_region(nodes=1)
    node = bench.state.nodes[bench.state.node_names["n0"]]
    for key, name in (("node", "n0"), ("zone", "a")):
        ask = an_ask(a_template(100, apart=(Apart("db", key, 2),)))
        domains = DomainRules(bench.state, ask, {("acme/db", key, name): there})
        shut = domains.closed_by(domains.lane(node))
        assert (domains.takes(node) if key == "node" else 0 if shut else takes) == takes
        assert (shut == (Code.APART, "zone")) is (key == "zone" and not takes)


def test_evenness_of_two_rules_is_the_mean_of_both() -> None:
    template = a_template(100, spread=(Spread("zone", 5), Spread("pool", 5)))
    taken = {("#1", "zone", "b"): 1, ("#1", "zone", "c"): 4, ("#1", "pool", "p1"): 2}
    domains = DomainRules(a_region(nodes=3).state, an_ask(template), taken)
    assert [domains.evenness(1, pool) for pool in ("p0", "p1")] == [1000, 0]
    lanes = [("b", "p0"), ("b", "p1")] if domains.keys == ("zone", "pool") else [("p0", "b"), ("p1", "b")]
    assert [domains.evenness_of(lane) for lane in lanes] == [875, 375]


def test_evenness_counts_what_its_weight_says_within_a_pass_too() -> None:
    template = a_template(100, spread=(Spread("zone", 5),))
    bench = a_region(nodes=6)
    assert max(zones_of(bench, chosen(bench, template, 9, PolicyDocument(scores=(("evenness", 0),)))).values()) == 5
    both = a_template(100, spread=(Spread("zone", 5), Spread("pool", 5)))
    nodes = [bench.state.nodes[uid] for uid in nodes_of(bench, chosen(bench, both, 12))]
    assert Counter(node.zone for node in nodes) == {"a": 4, "b": 4, "c": 4}
    assert Counter(node.pool for node in nodes) == {"p0": 6, "p1": 6}


def test_a_zone_that_counts_no_more_in_a_state_ahead_of_what_was_heard_is_kept_out_of() -> None:
    bench, follower = three_zones()
    bench.a_workload(a_template(spread=(Spread("zone", 1),), require=SSD), count=6)
    follower.catch_up()
    for name in ("b0", "b1"):
        bench.accept("person/root", c.AdministerNode(bench.state.node_names[name], labels=(("disk", "hdd"),)))
    follower.see_ahead()
    attempt = follower.look()
    assert attempt is not None
    assert follower.send(attempt) == []
    assert standing_in(bench) == {"a": 6}


# Agreement with the ledger


GROUPS = st.sampled_from(["g", "h"])
Rules = dict[str, Any]
rules: st.SearchStrategy[Rules] = st.fixed_dictionaries(
    {
        "spread": st.lists(st.builds(Spread, st.sampled_from(["zone", "pool"]), st.integers(1, 2)), max_size=1),
        "apart": st.lists(
            st.builds(Apart, GROUPS, st.sampled_from(["node", "zone", "pool"]), st.integers(1, 3)), max_size=1
        ),
        "require": st.sampled_from([(), (), (("zone", "b"),), (("size", "large"),)]),
        "near": st.lists(st.builds(Near, GROUPS, st.sampled_from(["node", "zone", "pool"]), st.booleans()), max_size=2),
    }
)


@given(
    wanted=st.lists(st.tuples(rules, st.integers(1, 6)), min_size=1, max_size=4),
    policy=st.sampled_from([PACK, SPREAD]),
    cordoned=st.sampled_from([None, "n0", "n4"]),
    avoids=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=120, deadline=None)
def test_the_ledger_takes_what_a_pass_chose_and_would_take_no_more_of_it(
    wanted: list[tuple[Rules, int]], policy: PolicyDocument, cordoned: str | None, avoids: bool, seed: int
) -> None:
    bench = a_region(nodes=5)
    bench.checked = False
    avoided = ("a",) if avoids else ()
    for zone in avoided:
        bench.accept("person/root", OpenOverride(OverrideAction.AVOID_ZONE, "eu", zone, "fire", bench.at + 60_000))
    if cordoned is not None:
        uid = bench.state.node_names[cordoned]
        bench.accept("person/root", c.AdministerNode(uid, cordoned=True, note="disk"))
    for number, (fields, count) in enumerate(wanted, start=1):
        said: Any = {name: tuple(some) for name, some in fields.items()}
        template = a_template(**said)
        work = bench.a_workload(template, count=count, uid=100 * number, workload=number)
        ask = an_ask(template, workload=number)
        domains = DomainRules(bench.state, ask, {}, avoided)
        choice = select_nodes(
            PassContext(table_of(bench), ask, profile_for(BUILT_IN, policy), seed, domains, avoided), count
        )
        nodes = nodes_of(bench, choice)
        if nodes:
            placed(bench, work, nodes)  # accepted, even if only a part of it fits: so each slot is looked at
            assert [bench.slot(ordinal, number).node for ordinal in range(len(nodes))] == nodes
        if len(nodes) < count:
            for node in bench.state.nodes.values():
                other = bench.branch()
                answer = other.send(SCHEDULER, other.proposal(work, c.SlotPlacement(len(nodes), node.uid)))
                assert not isinstance(answer, Committed), (fields, node.name)


# Where nodes alone can tell which domains count


DISK, ARCH = ("disk", "ssd"), ("arch", "arm")
BOTH = a_template(cpu=100, require=(DISK, ARCH), spread=(Spread("zone", 1),))


def a_zone_of_halves(count: int) -> RegionBench:
    """In zone c each of two labels is on some node and both are on none; of a and b one node each has both."""
    bench = a_bench(checked=False)
    for zone in "ab":
        bench.a_node(f"{zone}1", zone=zone, labels=(DISK, ARCH))
    for number in range(count):
        bench.a_node(f"c{number}", zone="c", labels=(DISK,) if number % 2 else (ARCH,))
    return bench


def test_a_scheduler_tells_without_a_walk_over_nodes_that_none_of_a_zone_has_two_labels_at_once() -> None:
    steps: list[int] = []
    for count in (20, 80):
        bench = a_zone_of_halves(count)
        table, ask = table_of(bench), an_ask(BOTH)
        told = partial(domains_that_hold, table, ask, ())
        assert told() == {"zone": ["a", "b"]}, "a column of each label is made"
        with StepCounter() as one:
            domains = DomainRules(bench.state, ask, {}, (), told)
            counts = domain_counts(bench.state, table, ask, {}, ())
        assert domains.closed_by(("c",)) is not None
        assert ("a", "b") in counts
        steps.append(one.calls)
    assert steps[0] == steps[1]


def test_what_makes_the_ledger_walk_over_nodes_comes_in_proposals_that_are_judged_in_little_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = a_zone_of_halves(4)
    monkeypatch.setattr(cycle, "WALKED_MAX", 2 * len(bench.state.nodes))
    alike, others = 3, 5
    for number in range(alike + others):
        template = BOTH if number < alike else replace(BOTH, need=Resources(100 + number, 128))
        bench.a_workload(template, count=2, uid=100 + number, workload=number + 1)
    plain = bench.a_workload(a_template(cpu=99, spread=(Spread("zone", 1),)), count=2, uid=300, workload=90)
    follower = Follower(bench)
    proposed: list[int] = []
    while (attempt := follower.look()) is not None:
        digests = {group.template for group in attempt.command.groups if group.assignment != plain.uid}
        proposed.append(len(digests))
        assert follower.send(attempt) == []
        follower.catch_up()
    assert max(proposed) == 2
    assert sum(proposed) == 1 + others, "those who ask for the same are judged by one walk"
    assert all(slot.node for slot in bench.state.slots.values())
