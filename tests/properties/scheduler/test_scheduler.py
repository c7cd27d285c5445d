"""A scheduler against the real ledger, in random regions: what can be placed is placed, and nothing is lost or doubled.

With a view that is current nothing is refused. With views that are old, several schedulers, answers that come late or
never, much is; but the ledger keeps its promises, and once all have caught up they come to rest with nothing left that
could be placed. The resync is switched off: what sleeps is woken by what cures it, or this fails. So is the retry of
those who may preempt, which never rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.model.values.resources import ZERO
from holdfast.core.scheduling import cycle
from holdfast.core.scheduling.scheduler import Proposal
from holdfast.core.scheduling.victims import stage
from tests.properties.scheduler.world import World, placeable
from tests.support.ledgers.scheduler_world import Follower

SEEDS = st.integers(0, 2**32)
#: Longer than any of these stories.
NEVER_MS = 10**12


@pytest.fixture(autouse=True)
def _no_resync() -> Iterator[None]:
    with patch.object(cycle, "RESYNC_MS", NEVER_MS), patch.object(stage, "RETRY_MS", NEVER_MS):
        yield


@given(SEEDS)
@settings(max_examples=100)
def test_every_feasible_request_is_placed_in_a_bounded_number_of_rounds(seed: int) -> None:
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(6):
        requests = sum(len(requests) for _, requests in world.bench.state.requests.items())
        rounds = follower.work()
        assert rounds <= 2 * requests + 2
        assert follower.refused == []
        assert list(placeable(world.bench)) == []
        for _ in range(world.chance.randint(1, 4)):
            world.happen()
        if world.chance.random() < 0.3:
            follower.catch_up_at_once()


class Desk:
    """Schedulers whose views are old, whose proposals are under way for a while, and whose answers may not come."""

    def __init__(self, seed: int) -> None:
        self.world = World(Random(seed))
        self.chance, self.bench = self.world.chance, self.world.bench
        self.followers = [Follower(self.bench, f"scheduler/s{number}") for number in range(2)]
        self.under_way: list[tuple[Follower, Proposal]] = []

    def act(self) -> None:
        """Something happens, or a scheduler does something."""
        chance = self.chance
        if chance.random() < 0.3:
            self.world.happen()
            return
        self.bench.at += chance.choice([0, 50, 1_000])
        follower = chance.choice(self.followers)
        if chance.random() < 0.6:
            follower.catch_up(behind=chance.choice([0, 1, 3, 8]))
        if chance.random() < 0.2:
            follower.see_ahead()
        attempt = follower.look()
        if attempt is not None:
            self.under_way.append((follower, attempt))
        while self.under_way and chance.random() < 0.5:
            self.end(*self.under_way.pop(chance.randrange(len(self.under_way))))

    def end(self, follower: Follower, attempt: Proposal) -> None:
        """A proposal is judged and answered; or judged, and the answer is lost; or lost itself."""
        luck = self.chance.random()
        if luck < 0.7:
            follower.send(attempt)
        elif luck < 0.85:
            self.bench.send(follower.name, attempt.command, view=attempt.view, policy=attempt.policy)

    def come_to_rest(self) -> None:
        """All hear everything and go on by themselves. What was refused or not answered is waited for."""
        self.under_way.clear()
        for _ in range(60):
            proposed = sum([follower.work(most=50) for follower in self.followers])
            if not proposed and not any(self.is_waiting_for_time(follower) for follower in self.followers):
                return
            self.bench.at += 5_000
        raise AssertionError("no rest after five minutes")

    def is_waiting_for_time(self, follower: Follower) -> bool:
        until = [asleep.until for asleep in follower.scheduler.queue.blocked.values()]
        return bool(follower.scheduler.flight.parts) or any(time < self.bench.at + NEVER_MS // 2 for time in until)


@given(SEEDS)
@settings(max_examples=35)
def test_schedulers_with_old_views_come_to_rest_and_nothing_is_bound_twice(seed: int) -> None:
    ctx = Desk(seed)
    for _ in range(2):
        for _ in range(20):
            ctx.act()
        ctx.come_to_rest()
        assert list(placeable(ctx.bench)) == []
        for follower in ctx.followers:
            assert not follower.scheduler.quarantine.now, "no node was at fault"
            flight = follower.scheduler.flight
            assert (flight.parts, flight.spent, flight.firm, flight.members) == ({}, {}, ZERO, {})
            assert (flight.victims, flight.holds, flight.stops, flight.preempted) == (set(), set(), {}, 0)
        for receipt in [slot.preempted for slot in ctx.bench.state.slots.values() if slot.preempted is not None]:
            assert receipt.own < receipt.priority or receipt.rule == "reclaimed"
