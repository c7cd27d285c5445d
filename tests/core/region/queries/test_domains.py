"""Which domains replicas are spread over: those in which a node would take one, were it empty."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride, active_overrides
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.isolation import STRICT, Isolation
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Spread, Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.domains import domain_of
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.region import commands as c
from holdfast.core.region.queries.domains import DomainSubject, reachable_domains
from holdfast.core.region.queries.feasibility import fits, picked
from holdfast.core.region.queries.fence import why_unfenced
from holdfast.core.region.queries.gates import refuse_node
from holdfast.core.region.state.node_kinds import Amounts, with_at_least, with_count
from holdfast.core.scheduling.pending_reasons import domains_that_hold
from tests.properties.scheduler.world import TENANTS, World
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment
from tests.support.node_windows import an_ask, table_of
from tests.support.step_counter import StepCounter

SSD, HDD = (("disk", "ssd"),), (("disk", "hdd"),)
BOTH = (("arch", "arm"), *SSD)
EVEN = (Spread("zone", 1),)
Fields = dict[str, Any]


class Zones:
    """A region of three zones, with a node in each: of c another one."""

    def __init__(self, of_c: Fields | None = None) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.bench.a_grant()
        alike: Fields = {"labels": SSD, "capabilities": STRICT, "extended": (("fpga", 100),)}
        others = {"a": {}, "b": {}, "c": of_c or {}}
        self.nodes = {zone: self.bench.a_node(zone, zone=zone, **{**alike, **one}) for zone, one in others.items()}

    def administer(self, zone: str, **fields: Any) -> None:
        self.bench.accept(ROOT, c.AdministerNode(self.nodes[zone], **fields))

    def avoid(self, zone: str, for_ms: int = 10_000) -> None:
        self.bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", zone, "fire", self.bench.at + for_ms))

    def filled(self, template: Template, count: int = 6, **fields: Any) -> Counter[str]:
        """How many come to each zone, if each is placed in the first zone where the ledger takes it."""
        return self.placed(self.bench.a_workload(template, count, **fields), count)

    def placed(self, work: Assignment, count: int) -> Counter[str]:
        found: Counter[str] = Counter()
        template = self.bench.state.templates[work.shares[0].template]
        for ordinal in range(count):
            for zone, uid in self.nodes.items():
                node, room = self.bench.state.nodes[uid], self.bench.state.node_usage.get(uid) or EMPTY_USAGE
                taken = picked(node, room, template, firm=True)
                answer = self.bench.send(SCHEDULER, self.bench.proposal(work, c.SlotPlacement(ordinal, uid, *taken)))
                if isinstance(answer, Committed):
                    found[zone] += 1
                    break
        return found


@pytest.mark.parametrize(
    ("of_c", "wanted", "placed"),
    [
        ((), (), {"a": 2, "b": 2}),
        (("t4",), (), {"a": 2, "b": 2, "c": 1}),
        (("t4",), ("a100",), {"a": 2, "b": 2}),
        (("t4", "a100"), ("a100",), {"a": 2, "b": 2, "c": 1}),
    ],
)
def test_a_zone_without_such_devices_holds_nobody_back(
    of_c: tuple[str, ...], wanted: tuple[str, ...], placed: dict[str, int]
) -> None:
    zones = Zones({"gpus": of_c})
    for zone in "ab":
        zones.bench.a_node(zone, zone=zone, labels=SSD, capabilities=STRICT, gpus=("a100", "a100"))
    assert zones.filled(a_template(spread=EVEN, gpus=1, gpu_models=wanted), 5) == placed


def test_a_zone_counts_where_one_of_its_nodes_is_just_large_enough() -> None:
    zones = Zones({"cpu": 999})
    zones.bench.a_node("c2", zone="c", cpu=1000, labels=SSD, capabilities=STRICT)
    assert zones.filled(a_template(spread=EVEN)) == {"a": 1, "b": 1}, "c2 is to have the third"


def test_that_no_node_of_a_zone_is_just_large_enough_is_told_without_a_walk_over_nodes() -> None:
    steps: list[int] = []
    template = a_template(cpu=1000, spread=EVEN)
    for count in (20, 80):
        zones = Zones({"cpu": 999})
        for number in range(count):
            zones.bench.a_node(f"c{number}", zone="c", cpu=990 - number % 7, labels=SSD, capabilities=STRICT)
        standing = DomainSubject(template, 1, "acme", False)
        with StepCounter() as one:
            reach = reachable_domains(zones.bench.state, standing, ())
        assert reach == {"zone": ("a", "b")}
        steps.append(one.calls)
    assert steps[0] == steps[1]


@given(st.lists(st.integers(1, 40)), st.lists(st.integers(1, 40)), st.integers(1, 40))
def test_amounts_are_counted_as_nodes_come_and_go(came: list[int], left: list[int], need: int) -> None:
    amounts: Amounts = ()
    there = Counter(came)
    for amount in came:
        amounts = with_count(amounts, amount, 1)
    for amount in left:
        if there[amount]:
            there[amount] -= 1
            amounts = with_count(amounts, amount, -1)
    assert amounts == tuple(sorted((+there).items()))
    assert with_at_least(amounts, need) == sum(count for amount, count in there.items() if amount >= need)


@pytest.mark.parametrize(
    ("of_c", "administered", "template"),
    [
        ({"labels": ()}, {}, {"require": SSD}),
        ({"labels": HDD}, {}, {"require": SSD}),
        ({}, {"labels": HDD}, {"require": SSD}),
        ({}, {"taints": (Taint("dedicated"),)}, {}),
        ({}, {"tenancy": ("beta",)}, {}),
        ({"tenant": "beta"}, {}, {}),
        ({"capabilities": ()}, {}, {"isolation": Isolation.STRICT}),
        ({}, {"cordoned": True, "note": "disk"}, {}),
        ({"cpu": 100}, {}, {}),
        ({"cpu": 999}, {}, {}),
        ({"memory": 1023}, {}, {}),
        ({"disk": 0}, {}, {"disk": 1}),
        ({"extended": ()}, {}, {"extended": (("fpga", 1),)}),
        ({"ports": (0, 0)}, {}, {"ports": 1}),
    ],
    ids=[
        "no label", "another label", "an operator's label", "taint", "tenancy", "tenant", "isolation", "cordoned",
        "too little cpu", "hardly too little cpu", "hardly too little memory", "no disk", "no fpga", "no ports",
    ],
)  # fmt: skip
def test_a_zone_whose_nodes_are_not_for_it_holds_nobody_back(
    of_c: Fields, administered: Fields, template: Fields
) -> None:
    zones = Zones(of_c)
    if administered:
        zones.administer("c", **administered)
    assert zones.filled(a_template(spread=EVEN, **template)) == {"a": 3, "b": 3}


def test_a_zone_that_is_avoided_holds_nobody_back_while_it_is() -> None:
    zones = Zones()
    zones.avoid("c", for_ms=10_000)
    work = zones.bench.a_workload(a_template(spread=EVEN), 5)
    assert zones.placed(work, 4) == {"a": 2, "b": 2}
    zones.bench.at += 10_000
    assert zones.bench.refuse_place(work, c.SlotPlacement(4, zones.nodes["a"])).code is Code.SPREAD
    zones.bench.place(work, c.SlotPlacement(4, zones.nodes["c"]))


def test_a_pool_counts_by_its_nodes_in_zones_that_are_not_avoided() -> None:
    zones = Zones({"pool": "spot"})
    zones.avoid("c")
    assert zones.filled(a_template(spread=(Spread("pool", 1),)), 4) == {"a": 4}


def test_a_zone_whose_agents_end_exclusive_work_too_late_holds_none_of_it_back() -> None:
    zones = Zones({"overrun": 3_600_000})
    template = a_template(spread=EVEN)
    identities = an_assignment(100, 1, template, 4, exclusive=True, ordinals=tuple(range(4)))
    digest = template_digest(template)
    zones.bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(identities))
    zones.bench.accept(REPLICA, c.OpenSlots(100, digest, tuple(range(4))))
    assert zones.placed(identities, 4) == {"a": 2, "b": 2}
    assert zones.filled(a_template(900, spread=EVEN), 4, uid=200, workload=2) == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("others", "placed"),
    [
        ([("ssd", "arm")], {"a": 2, "b": 2, "c": 2}),
        ([("ssd", "x86"), ("hdd", "arm")], {"a": 3, "b": 3}),
        ([("ssd", "x86"), ("hdd", "arm"), ("hdd", "x86"), ("ssd", "arm")], {"a": 2, "b": 2, "c": 2}),
        ([("hdd", "arm")], {"a": 3, "b": 3}),
    ],
)
def test_a_zone_counts_where_one_node_has_all_labels_at_once(
    others: list[tuple[str, str]], placed: dict[str, int]
) -> None:
    zones = Zones({"labels": ()})
    for zone in "ab":
        zones.administer(zone, labels=BOTH)
    for number, (disk, arch) in enumerate(others):
        node = zones.bench.a_node(f"c{number}", zone="c", labels=(("disk", disk), ("arch", arch)), capabilities=STRICT)
        if (disk, arch) == ("ssd", "arm"):
            zones.nodes["c"] = node
    assert zones.filled(a_template(spread=EVEN, require=BOTH)) == placed


def test_a_full_zone_and_one_with_another_tenant_on_its_nodes_are_waited_for() -> None:
    full = Zones({"cpu": 1000})
    assert full.filled(a_template(spread=EVEN)) == {"a": 2, "b": 2, "c": 1}
    taken = Zones({"capabilities": (), "shares_user": False})
    taken.bench.a_grant("quota/beta", version=2)
    theirs = taken.bench.a_workload(count=1, uid=200, workload=2, tenant="beta")
    taken.bench.place(theirs, c.SlotPlacement(0, taken.nodes["c"]))
    assert taken.filled(a_template(spread=EVEN)) == {"a": 1, "b": 1}


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_domains_in_reach_are_those_of_the_nodes_that_the_ledger_would_fill_if_they_were_empty(seed: int) -> None:
    world = World(Random(seed), checked=False)
    for _ in range(6):
        world.happen()
    state, chance = world.bench.state, world.chance
    for node in state.nodes.values():
        labels = tuple(one for one in BOTH if chance.random() < 0.5)
        world.bench.send(ROOT, c.AdministerNode(node.uid, taints=node.taints, tenancy=node.tenancy, labels=labels))
    overrides = active_overrides(state, world.bench.at)
    for _ in range(10):
        template = a_template(
            spread=(Spread("zone"), Spread("pool")),
            require=chance.choice([(), SSD, BOTH]),
            tolerate=world.a_template().tolerate,
            isolation=chance.choice([*Isolation]),
            cpu=chance.choice([1, 4_000, 8_000, 8_001]),
            memory=chance.choice([1, 16_384]),
            gpus=chance.choice([0, 0, 1, 2]),
            ports=chance.choice([0, 1, 11]),
        )
        standing = DomainSubject(template, 1, chance.choice(TENANTS), chance.random() < 0.3)
        able = [
            node
            for node in state.nodes.values()
            if refuse_node(overrides, node, template, standing.tenant, ()) is None
            and not (standing.exclusive and why_unfenced(node, state.info.settings))
            and not fits(node, EMPTY_USAGE, template, *picked(node, EMPTY_USAGE, template, firm=True), firm=True)
        ]
        expected = {key: tuple(sorted({domain_of(node, key) for node in able})) for key in ("zone", "pool")}
        assert reachable_domains(state, standing, overrides.zones) == expected
        ask = an_ask(template, tenant=standing.tenant, exclusive=standing.exclusive)
        told = domains_that_hold(table_of(world.bench), ask, overrides.zones)
        assert {key: tuple(sorted(names)) for key, names in told.items()} == expected, "as a scheduler tells it"
