"""Of sixty-four placements one goes to who has waited longest: nobody waits for ever, and few are passed over."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.region import commands as c
from holdfast.core.scheduling.queue.fair_share import AGED_EACH, PATIENCE_MS
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower

OLD = 1
#: The first of those who keep coming.
NEW = 1_000


class Busy:
    """A region that is full, in which the oldest slot ends at every step and somebody newer asks for its place."""

    def __init__(self, places: int = 4) -> None:
        self.bench = RegionBench()
        for tenant in ("acme", "beta"):
            self.bench.a_grant(f"quota/{tenant}")
        self.bench.a_node("n1", cpu=places * 1000, memory=10**9, disk=10**9)
        self.follower = Follower(self.bench)
        self.next = NEW
        self.bench.checked = False

    def asks(self, uid: int, tenant: str = "beta", count: int = 1, **fields: Any) -> None:
        self.bench.a_workload(
            a_template(cpu=1000, memory=0), count=count, uid=uid, workload=uid, tenant=tenant,
            accounts=(f"quota/{tenant}",), **fields,
        )  # fmt: skip

    def fill(self, count: int, **fields: Any) -> None:
        """Slots of beta that end one after the other."""
        for _ in range(count):
            self.asks(self.next, **fields)
            self.next += 1
        self.follower.work()

    def step(self, **fields: Any) -> None:
        """Somebody asks, one slot of beta ends, and the scheduler works."""
        self.bench.at += 1_000
        self.asks(self.next, **fields)
        self.next += 1
        on = [key for key, slot in self.bench.state.slots.items() if slot.phase in ON_NODE and key[0] >= NEW]
        if on:
            slot = self.bench.slot(on[0][1], on[0][0])
            self.bench.accept(REPLICA, c.WithdrawSlots(slot.assignment, (on[0][1],)))
            self.bench.move("agent/n1", Phase.RELEASED, "declined", on[0][1], on[0][0])
        self.follower.work()

    def steps_until_served(self, most: int, **fields: Any) -> int | None:
        for number in range(most):
            self.step(**fields)
            if self.bench.slot(0, OLD).phase in ON_NODE:
                return number + 1
        return None


def test_a_tenant_with_a_larger_share_is_served_in_time_though_others_with_less_keep_coming() -> None:
    busy = Busy()
    busy.asks(2, "acme", count=2)
    busy.fill(2)
    busy.asks(OLD, "acme")
    steps = busy.steps_until_served(PATIENCE_MS // 1_000 + AGED_EACH + 4)
    assert steps is not None
    assert steps * 1_000 >= PATIENCE_MS


def test_a_lower_priority_is_served_in_time_though_higher_ones_keep_coming() -> None:
    busy = Busy()
    busy.fill(4, priority_class="critical")
    busy.asks(OLD, "acme", priority_class="best-effort")
    steps = busy.steps_until_served(PATIENCE_MS // 1_000 + 2 * AGED_EACH, priority_class="critical")
    assert steps is not None


def test_without_age_it_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.scheduling.queue.fair_share.PATIENCE_MS", 10**9)
    busy = Busy()
    busy.fill(4, priority_class="critical")
    busy.asks(OLD, "acme", priority_class="best-effort")
    assert busy.steps_until_served(200, priority_class="critical") is None


def test_of_sixty_four_placements_one_at_most_goes_to_age() -> None:
    busy = Busy(places=AGED_EACH * 2)
    for uid in range(10, 30):
        busy.asks(uid, "acme", count=20, priority_class="best-effort")
    busy.bench.at += PATIENCE_MS * 2
    busy.asks(OLD, count=AGED_EACH * 2, priority_class="critical")
    busy.follower.work()
    stands = [key[0] for key, slot in busy.bench.state.slots.items() if slot.phase in ON_NODE]
    assert len(stands) == AGED_EACH * 2
    assert sum(uid != OLD for uid in stands) == 2


def test_the_turn_goes_to_the_next_oldest_if_the_oldest_fits_nowhere() -> None:
    busy = Busy(places=AGED_EACH)
    busy.bench.a_workload(
        a_template(cpu=1_000_000, memory=0), count=1, uid=5, workload=5, tenant="acme", accounts=("quota/acme",)
    )
    busy.asks(6, "acme", priority_class="best-effort")
    busy.bench.at += PATIENCE_MS
    busy.asks(OLD, count=AGED_EACH, priority_class="critical")
    busy.follower.work()
    assert busy.bench.slot(0, 6).phase in ON_NODE
    assert busy.bench.state.region.placed == AGED_EACH


def test_placements_are_counted_from_level_three_on() -> None:
    for level, count in ((2, 0), (3, 1)):
        bench = RegionBench(level=level)
        bench.a_scheduler()
        bench.a_grant()
        node = bench.a_node()
        bench.place(bench.a_workload(count=1), c.SlotPlacement(0, node))
        assert bench.state.region.placed == count
