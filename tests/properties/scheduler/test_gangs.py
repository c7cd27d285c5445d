"""Gangs in random regions: every feasible gang is placed in a bounded number of rounds, and none is placed in part.

What is feasible is found without a scheduler: on a fork on which the assignment has no gangs, members are placed one by
one wherever the ledger takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import principal
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.lookups import valid_policy
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling import cycle
from holdfast.core.scheduling.scheduler import Proposal
from holdfast.sim.checks.placement.oracle import PlacementOracle
from tests.properties.scheduler.world import TENANTS, World, placeable
from tests.support.ledgers.region import REPLICA, RegionBench, an_assignment
from tests.support.ledgers.scheduler_world import Follower

SEEDS = st.integers(0, 2**32)
NEVER_MS = 10**12


@pytest.fixture(autouse=True)
def _no_resync() -> Iterator[None]:
    with patch.object(cycle, "RESYNC_MS", NEVER_MS):
        yield


class Ganged(World):
    """A world in which most workloads have gangs."""

    def add_workload(self) -> None:
        chance = self.chance
        if chance.random() < 0.3:
            super().add_workload()
            return
        number, tenant, size = self._number(), chance.choice(TENANTS), chance.randint(2, 4)
        count, template = size * chance.randint(1, 3), self.a_template()
        assignment = an_assignment(
            1000 + number, number, template, count, tenant=tenant, accounts=(f"quota/{tenant}",),
            priority_class=chance.choice(["critical", "normal", "normal", "best-effort"]),
            gang=Gang(size, chance.choice([0, 0, 1, 2])),
        )  # fmt: skip
        digest = template_digest(template)
        self.bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(assignment))
        self.bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, tuple(range(count))))


def standing(state: RegionState, assignment: Assignment, gang: int) -> int:
    """How many members of a gang are on nodes and do not end, counted slot by slot."""
    assert assignment.gang is not None
    size = assignment.gang.size
    slots = [state.slots.get((assignment.workload, ordinal)) for ordinal in range(gang * size, (gang + 1) * size)]
    mine = [slot for slot in slots if slot is not None and slot.assignment == assignment.uid]
    return sum(slot.phase in ON_NODE and slot.phase is not Phase.TERMINATING for slot in mine)


def assert_whole(bench: RegionBench, attempt: Proposal) -> None:
    """Each gang of a proposal that was accepted has as many members as it needs."""
    for group in attempt.command.groups:
        assignment = bench.state.assignments[group.assignment]
        if assignment.gang is not None:
            for gang in {placement.ordinal // assignment.gang.size for placement in group.placements}:
                assert standing(bench.state, assignment, gang) >= (assignment.gang.min or assignment.gang.size)


def feasible_gangs(bench: RegionBench) -> Iterator[tuple[int, int]]:
    """Every gang, by assignment and number, of which enough members wait and would be taken, one after the other."""
    for uid, assignment in bench.state.assignments.items():
        gang = assignment.gang
        waiting = [s for _, s in bench.state.slots.items() if s.assignment == uid and s.phase is Phase.PENDING]
        for number in sorted({slot.ordinal // gang.size for slot in waiting}) if gang else ():
            assert gang is not None
            lacking = (gang.min or gang.size) - standing(bench.state, assignment, number)
            mine = [slot for slot in waiting if slot.ordinal // gang.size == number]
            state = bench.state.fork()
            state.assignments.put(uid, replace(assignment, gang=None))
            fits = sum(place(bench, state, assignment, slot.template, slot.ordinal) for slot in mine)
            if fits >= max(1, lacking):
                yield uid, number


def place(bench: RegionBench, state: RegionState, assignment: Assignment, digest: str, ordinal: int) -> bool:
    """Place one member on the first node that takes it, with the first devices and ports that are free."""
    template = state.templates[digest]
    for uid, node in state.nodes.items():
        room = state.node_usage.get(uid)
        first, last = node.ports
        taken = room.ports if room is not None else ()
        ports = tuple([port for port in range(max(first, 1), last + 1) if port not in taken][: template.ports])
        for devices in combinations(range(len(node.devices)), template.gpus):
            group = c.PlacementGroup(assignment.uid, digest, (c.SlotPlacement(ordinal, uid, devices, ports),))
            policy = valid_policy(state, assignment.tenant)
            envelope = Envelope(principal("scheduler"), c.Propose((group,), bench.at + 1_000), bench.at, policy=policy)
            draft = BatchDraft(REGION, state)
            if isinstance(draft.add(envelope, bench.at), Committed):
                draft.seal()
                draft.commit()
                return True
    return False


def come_to_rest(world: Ganged, follower: Follower) -> None:
    requests = sum(len(requests) for _, requests in world.bench.state.requests.items())
    slots = sum(slot.phase is Phase.PENDING for _, slot in world.bench.state.slots.items())
    for _ in range(2 * requests + slots + 2):
        attempt = follower.step()
        if attempt is None:
            return
        assert_whole(world.bench, attempt)
    raise AssertionError("not at rest in a bounded number of rounds")


@given(SEEDS)
@example(5848)  # a member is lost while the others of its group wait for protected capacity
@example(120)  # a charged member waits again while no account pays for another one
@settings(max_examples=60)
def test_every_feasible_gang_is_placed_in_a_bounded_number_of_rounds_and_none_in_part(seed: int) -> None:
    world = Ganged(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(5):
        come_to_rest(world, follower)
        assert follower.refused == []
        assert list(placeable(world.bench)) == []
        assert list(feasible_gangs(world.bench)) == []
        for _ in range(world.chance.randint(1, 4)):
            world.happen()
    bench = world.bench
    assert state_digest(bench.replay()) == state_digest(bench.state)


@given(SEEDS)
@settings(max_examples=40)
def test_what_the_simulators_oracle_calls_placeable_the_ledger_takes(seed: int) -> None:
    world = Ganged(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(4):
        oracle, feasible = PlacementOracle(world.bench.state, world.bench.at), set(feasible_gangs(world.bench))
        for slot, verdict in oracle.waiting():
            gang = world.bench.state.assignments[slot.assignment].gang
            if gang is not None and verdict.node:
                assert (slot.assignment, slot.ordinal // gang.size) in feasible
        follower.work()
        for _ in range(world.chance.randint(2, 5)):
            world.happen()


@given(SEEDS)
@settings(max_examples=25)
def test_schedulers_with_old_views_leave_no_gang_in_part(seed: int) -> None:
    world = Ganged(Random(seed), checked=False)
    chance, followers = world.chance, [Follower(world.bench, f"scheduler/s{number}") for number in range(2)]
    for _ in range(25):
        if chance.random() < 0.3:
            world.happen()
        world.bench.at += chance.choice([0, 50, 1_000])
        follower = chance.choice(followers)
        follower.catch_up(behind=chance.choice([0, 1, 3]))
        attempt = follower.look()
        if attempt is not None:
            before = {key for key, slot in world.bench.state.slots.items() if slot.phase in ON_NODE}
            follower.send(attempt)
            for (workload, ordinal), slot in world.bench.state.slots.items():
                assignment = world.bench.state.assignments[slot.assignment]
                if assignment.gang and slot.phase in ON_NODE and (workload, ordinal) not in before:
                    needed = assignment.gang.min or assignment.gang.size
                    assert standing(world.bench.state, assignment, ordinal // assignment.gang.size) >= needed
