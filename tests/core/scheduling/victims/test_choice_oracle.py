"""The victims that are chosen against every set on every node that the ledger would accept, in small regions."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower

SHAPES = (
    {"cpu": 1_000, "memory": 500},
    {"cpu": 500, "memory": 1_500},
    {"cpu": 2_000, "memory": 200},
    {"cpu": 300, "memory": 300, "gpus": 1},
    {"cpu": 300, "memory": 300, "gpus": 1, "gpu_milli": 500},
    {"cpu": 400, "memory": 100, "ports": 1},
)
WANTED = (
    *SHAPES,
    {"cpu": 3_000, "memory": 1_000},
    {"cpu": 1_800, "memory": 1_800},
    {"cpu": 500, "memory": 200, "gpus": 2},
    {"cpu": 100, "memory": 100, "ports": 2},
)
KINDS = ("best-effort", "lowest", "low", "normal", "critical")


def a_small_region(chance: Random) -> tuple[RegionBench, Follower]:
    """Up to four nodes, each with up to six slots of different classes, some of which serve, stop, or are young."""
    bench = RegionBench(checked=False)
    bench.ship(
        c.ShippedPriorityClass(a_class("low", -5)), c.ShippedPriorityClass(a_class("lowest", 2, reclaimable=True))
    )
    bench.a_grant()
    if chance.random() < 0.3:
        bench.a_grant("quota/beta", protected=Resources(chance.choice([2_000, 6_000])))
    for number in range(chance.randint(1, 4)):
        bench.a_node(
            f"n{number}", cpu=chance.choice([2_000, 3_000, 4_000]), memory=chance.choice([2_000, 4_000]),
            gpus=("t4",) * chance.choice([0, 1, 2]), ports=(30_000, 30_001),
        )  # fmt: skip
    follower = Follower(bench)
    for number in range(chance.randint(6, 14)):
        uid = 300 + number
        bench.a_workload(
            a_template(**chance.choice(SHAPES)), uid=uid, workload=uid, count=chance.randint(1, 3),
            priority_class=chance.choice(KINDS[:4] * 3 + KINDS), disruption=chance.choice([0, 1, 1, 2]),
        )  # fmt: skip
    follower.work()
    for key, slot in [*bench.state.slots.items()]:
        if slot.phase is Phase.BOUND and not slot.waits_for and chance.random() < 0.5:
            bench.walk(Phase.SERVING, key[1], key[0])
    bench.pass_time(chance.choice([0, 60_000, 60_000, 60_000]))
    follower.work()
    for key, slot in [*bench.state.slots.items()]:
        if slot.phase in (Phase.BOUND, Phase.SERVING) and chance.random() < 0.1:
            bench.send(REPLICA, c.Stop((key,), "scaled-down"))
    bench.send(ROOT, Configure(replace(bench.state.info.settings, preempt_max=chance.choice([2, 3, 1_000, 1_000]))))
    return bench, follower


def sets_that_the_ledger_accepts(bench: RegionBench, follower: Follower, command: c.Propose) -> list[tuple[Any, ...]]:
    """The place in the order of every set, on every node, with which the placement is accepted."""
    group, found = command.groups[0], list[tuple[Any, ...]]()
    for uid in bench.state.nodes.keys():  # noqa: SIM118  a table, not a dict
        there = slot_keys(bench.state.node_usage[uid]) if bench.state.node_usage.get(uid) else []
        for size in range(1, len(there) + 1):
            sets = [one for one in combinations(there, size) if _accepts(bench, follower, group, uid, one)]
            found.extend(order_of(bench, one) for one in sets)
    return found


def _accepts(
    bench: RegionBench, follower: Follower, group: c.PlacementGroup, node: int, victims: tuple[Any, ...]
) -> bool:
    """Whether the ledger takes it with some devices and ports."""
    state = bench.state
    template, known = state.templates[group.template], state.nodes[node]
    for devices in combinations(range(len(known.devices)), template.gpus):
        for ports in combinations((30_000, 30_001), template.ports):
            placement = c.SlotPlacement(0, node, devices, ports, victims)
            command = c.Propose((replace(group, placements=(placement,)),), bench.at + 1_000)
            envelope = bench.envelope(follower.name, command)
            bench.sequences[follower.name] -= 1  # it is only asked
            if isinstance(BatchDraft(bench.book, state).add(envelope, bench.at), Committed):
                return True
    return False


def order_of(bench: RegionBench, victims: tuple[Any, ...]) -> tuple[Any, ...]:
    """The order that the documents promise."""
    slots = [bench.state.slots[key] for key in victims]
    stops = [slot for slot in slots if slot.phase is not Phase.TERMINATING]
    starts = tuple(-start for start in sorted(slot.bound_at for slot in slots))
    priorities = sum(priority(bench, slot) for slot in stops)
    return max(tier(bench, slot) for slot in slots), len(stops), priorities, len(slots), starts, tuple(sorted(victims))


def priority(bench: RegionBench, slot: Slot) -> int:
    return bench.state.priority_classes[bench.state.assignments[slot.assignment].priority_class].spec.priority


def tier(bench: RegionBench, slot: Slot) -> tuple[int, int]:
    if slot.phase is Phase.TERMINATING:
        return 0, 0
    return (2 if slot.firm else 1), priority(bench, slot)


@pytest.mark.parametrize("seed", range(200))
def test_the_chosen_victims_are_the_best_of_all_sets_that_the_ledger_accepts(seed: int) -> None:
    chance = Random(seed)
    bench, follower = a_small_region(chance)
    wanted = bench.a_workload(a_template(**chance.choice(WANTED)), count=1, priority_class="critical")
    follower.catch_up()
    attempt = follower.look()
    placed = attempt.command.groups[0].placements[0] if attempt is not None else None
    if placed is not None and not placed.waits_for:
        return  # a node has room
    group = c.PlacementGroup(wanted.uid, wanted.shares[0].template, (c.SlotPlacement(0, 0),))
    possible = sets_that_the_ledger_accepts(bench, follower, c.Propose((group,), bench.at + 1_000))
    if placed is None:
        assert possible == []
        return
    assert attempt is not None
    assert order_of(bench, placed.waits_for) == min(possible)
    assert follower.send(attempt) == []
