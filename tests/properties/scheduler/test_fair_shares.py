"""Busy tenants of any shape and weight share a region as their weights say, and nobody waits for ever.

More is asked for than there is room. Slots end at random, and the scheduler fills their places, over and over.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region import commands as c
from holdfast.core.scheduling.queue.fair_share import AGED_EACH, PATIENCE_MS
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, several

TENANTS = ("acme", "beta", "gamma")
#: Nodes are large, and shapes differ by a factor of two at most: a gap in which only the smallest shape fits goes to
#: its tenant, whatever its share.
NODES, CPU, MEMORY = 3, 128_000, 256_000
SLOTS = 4_000


class BusyRegion:
    """A region of which every tenant wants all, and in which slots end."""

    def __init__(self, chance: Random, schedulers: int = 1) -> None:
        self.chance = chance
        self.bench = RegionBench(checked=False)
        self.weight = {tenant: chance.randint(1, 5) for tenant in TENANTS}
        self.need = {
            tenant: Resources(chance.randrange(1_000, 2_000), chance.randrange(2_000, 4_000)) for tenant in TENANTS
        }
        for number in range(NODES):
            self.bench.a_node(f"n{number}", cpu=CPU, memory=MEMORY)
        for uid, tenant in enumerate(TENANTS, 1):
            self.bench.a_grant(f"quota/{tenant}", weight=self.weight[tenant])
            need = self.need[tenant]
            template = a_template(cpu=need.cpu, memory=need.memory, disk=0)
            assignment = self.bench.a_workload(
                template, count=SLOTS, ordinals=1_000, uid=uid, workload=uid, tenant=tenant,
                accounts=(f"quota/{tenant}",),
            )  # fmt: skip
            for first in range(1_000, SLOTS, 1_000):
                ordinals = tuple(range(first, first + 1_000))
                self.bench.accept(REPLICA, c.OpenSlots(uid, assignment.shares[0].template, ordinals))
        self.placed: Counter[str] = Counter()
        self.followers = several(self.bench, schedulers) if schedulers > 1 else [Follower(self.bench)]

    def standing(self) -> list[SlotKey]:
        return [key for key, slot in self.bench.state.slots.items() if slot.phase in ON_NODE]

    def work(self) -> None:
        before = self.bench.state.region.placed
        while sum([follower.work() for follower in self.followers]):
            self.bench.at += 2_500  # others' slots are helped with
        assert self.bench.state.region.placed >= before

    def end_some(self, count: int) -> None:
        for workload, ordinal in self.chance.sample(self.standing(), count):
            node = self.bench.state.nodes[self.bench.slot(ordinal, workload).node].name
            self.bench.accept(REPLICA, c.WithdrawSlots(workload, (ordinal,)))
            self.bench.move(f"agent/{node}", Phase.RELEASED, "declined", ordinal, workload)
        self.bench.at += 500

    def shares(self) -> dict[str, float]:
        """By tenant: the part of the region that it has, of the resource of which it has most, by weight."""
        count = Counter(TENANTS[workload - 1] for workload, _ in self.standing())
        return {
            tenant: count[tenant] * max(self.need[tenant].cpu / CPU, self.need[tenant].memory / MEMORY) / NODES
            / self.weight[tenant]
            for tenant in TENANTS
        }  # fmt: skip


def mean_shares(region: BusyRegion, rounds: int, ended: int) -> dict[str, float]:
    region.work()
    sums: Counter[str] = Counter()
    for _ in range(rounds):
        region.end_some(ended)
        region.work()
        for tenant, share in region.shares().items():
            sums[tenant] += share  # type: ignore[assignment]
    return {tenant: total / rounds for tenant, total in sums.items()}


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_busy_tenants_are_within_five_percent_of_their_weighted_dominant_share(seed: int) -> None:
    region = BusyRegion(Random(seed))
    shares = mean_shares(region, 20, 40)
    assert region.bench.state.region.placed >= 1_000
    entitled = sum(shares.values()) / len(shares)
    assert all(abs(share - entitled) <= entitled * 0.05 for share in shares.values()), (shares, region.weight)


@pytest.mark.parametrize("seed", range(2))
def test_with_several_schedulers_shares_are_kept_roughly(seed: int) -> None:
    region = BusyRegion(Random(seed), schedulers=2)
    shares = mean_shares(region, 6, 40)
    entitled = sum(shares.values()) / len(shares)
    assert all(abs(share - entitled) <= entitled * 0.2 for share in shares.values()), (shares, region.weight)


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_every_feasible_request_is_placed_in_a_bounded_number_of_placements(seed: int) -> None:
    """Newer work of higher priority never ends. Each of `old` has at most the others before it.

    Age orders the queue only. So the newer work may not preempt: it would end what was placed for its age.
    """
    chance = Random(seed)
    bench = RegionBench(checked=False)
    for tenant in TENANTS:
        bench.a_grant(f"quota/{tenant}")
    bench.a_node("n1", cpu=8_000, memory=10**6, disk=10**6)
    follower = Follower(bench)
    old = list(range(1, chance.randint(2, 4)))
    for uid in old:
        ask(bench, chance, uid, "best-effort")
    busy = iter(range(100, 100_000))
    for _ in range(8):
        ask(bench, chance, next(busy), "normal")
    bench.at += PATIENCE_MS
    before = bench.state.region.placed
    while any(bench.slot(0, uid).phase not in ON_NODE for uid in old):
        stands = [key for key, slot in bench.state.slots.items() if slot.phase in ON_NODE and key[0] not in old]
        for workload, ordinal in chance.sample(stands, min(len(stands), chance.randint(1, 3))):
            bench.accept(REPLICA, c.WithdrawSlots(workload, (ordinal,)))
            bench.move("agent/n1", Phase.RELEASED, "declined", ordinal, workload)
        for _ in range(3):
            ask(bench, chance, next(busy), "normal")
        bench.at += 100
        follower.work()
        assert bench.state.region.placed - before <= AGED_EACH * (len(old) + 1)


def ask(bench: RegionBench, chance: Random, uid: int, priority_class: str) -> None:
    tenant = chance.choice(TENANTS)
    bench.a_workload(
        a_template(cpu=1000, memory=0, disk=0), count=1, uid=uid, workload=uid, tenant=tenant,
        accounts=(f"quota/{tenant}",), priority_class=priority_class,
    )  # fmt: skip
