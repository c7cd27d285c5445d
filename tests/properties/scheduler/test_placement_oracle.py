"""The simulator's placement oracle against the real ledger: on small states they say the same of every slot and node.

The oracle shares no gate with the ledger, so each is a check of the other: what it says a node takes the ledger takes,
what it says is shut the ledger refuses, and the code that the ledger names is among those that the oracle has found.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import principal
from holdfast.core.model.objects.workloads import Near, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.sim.checks.placement.oracle import PlacementOracle
from tests.properties.region.program import Program, Tally
from tests.properties.region.random_walk import SEEDS, set_up, walk
from tests.properties.region.world import Chance
from tests.properties.scheduler.world import World
from tests.support.ledgers.region import RegionBench
from tests.support.ledgers.scheduler_world import Follower


class Crowded(World):
    """A world whose workloads may want to be near others, too."""

    def a_template(self) -> Template:
        template = super().a_template()
        if self.chance.random() < 0.3:
            near = Near("db", self.chance.choice(["node", "zone", "pool"]), required=self.chance.random() < 0.7)
            return replace(template, near=(near,))
        return template


def told(bench: RegionBench, slot: Slot, node: Node) -> set[str]:
    """What the ledger says to a slot on a node, with any devices and ports; nothing: it takes it."""
    state, template = bench.state, bench.state.templates[slot.template]
    tenant = state.assignments[slot.assignment].tenant
    valid = state.validities.get(tenant) or state.validities.get("") or 0
    taken = {port for one in state.slots.values() if one.node == node.uid for port in one.ports}
    first, last = node.ports
    free = [port for port in range(first, last + 1) if port and port not in taken]
    codes = set()
    for devices in [*combinations(range(len(node.devices)), template.gpus), ()]:
        ports = tuple(free[: template.ports])
        group = c.PlacementGroup(
            slot.assignment, slot.template, (c.SlotPlacement(slot.ordinal, node.uid, devices, ports),)
        )
        envelope = Envelope(principal("scheduler"), c.Propose((group,), bench.at + 1_000), bench.at, policy=valid)
        answer = BatchDraft(REGION, state).add(envelope, bench.at)
        if isinstance(answer, Committed):
            return set()
        assert isinstance(answer, Refused), answer
        codes.add(answer.code.value)
    return codes


def compare(bench: RegionBench, met: Counter[str]) -> None:
    """Of every slot that waits and every node both say the same."""
    oracle = PlacementOracle(bench.state, bench.at)
    waiting = [one for one in bench.state.slots.values() if one.phase is Phase.PENDING]
    # Of gangs, several slots are judged together: see `test_gangs`.
    for slot in [one for one in waiting if bench.state.assignments[one.assignment].gang is None]:
        takers, shut = [], {str(code) for code in oracle.shut(slot)}
        for node in bench.state.nodes.values():
            codes, mine = told(bench, slot, node), shut | {str(code) for code in oracle.refusals(slot, node)}
            takers += [] if codes else [node.name]
            met.update(codes & mine or {"taken"})
            assert bool(codes) == bool(mine), (slot, node, codes, mine)
            assert codes & mine or not codes, (slot, node, codes, mine)
        verdict = oracle.verdict(slot)
        assert (verdict.node in takers) if takers else (not verdict.node and verdict.shut), (slot, takers, verdict)


def worn(seed: int) -> RegionBench:
    """A region in which something stands, is held, cordoned, tainted; nodes that shrank under their work."""
    world = Crowded(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(8):
        world.happen()
        follower.work()
    for _ in range(3):
        world.add_workload()
    return world.bench


@given(st.integers(0, 2**32))
@example(333)  # a node whose zone is out of reach, with replicas there
@settings(max_examples=60)
def test_the_oracle_and_the_ledger_agree_on_every_slot_and_node_of_a_worn_region(seed: int) -> None:
    compare(worn(seed), Counter())


@given(setting=st.integers(0, SEEDS - 1), steps=st.lists(st.integers(0, SEEDS - 1), min_size=40, max_size=40))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.timeout(600)
def test_the_oracle_and_the_ledger_agree_where_replicas_wait_for_others_to_end(setting: int, steps: list[int]) -> None:
    p = Program(Chance(random.Random(setting)), Tally())
    set_up(p)
    walk(p, steps)
    compare(p.bench, Counter())


def test_such_regions_meet_every_gate() -> None:
    met: Counter[str] = Counter()
    for seed in range(80):
        compare(worn(seed), met)
    gates = {
        "node-unavailable", "taint", "tenancy", "one-tenant", "isolation", "labels", "spread", "apart", "near",
        "capacity", "device", "port", "over-grant", "protected", "paused", "taken",
    }  # fmt: skip
    assert gates - {name for name, count in met.items() if count} == set(), met
