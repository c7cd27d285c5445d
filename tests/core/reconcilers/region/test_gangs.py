"""Gangs are opened, kept, ended and rolled as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.bitsets import each, masks
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.replica_plan import RECOVERY_ORDINALS
from holdfast.core.reconcilers.region.rollout import SETTLES_MS, RolloutReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.queries.workload_report import workload_report
from holdfast.core.region.state.gangs import gangs_of, members_of, whole_gangs
from tests.support.ledgers.assignment_world import (
    DIGESTS,
    TEMPLATES,
    UID,
    WORKLOAD,
    AssignmentWorld,
    opened,
    stopped,
    withdrawn,
)
from tests.support.ledgers.region import SCHEDULER

REPLICAS, ROLLOUT = ReplicaReconciler(), RolloutReconciler()


class GangWorld(AssignmentWorld):
    """Gangs of a size, placed gang by gang as a scheduler does."""

    def __init__(self, gang: Gang, count: int, *, runs: bool = True, **fields: Any) -> None:
        super().__init__()
        self.gang, self.fields = gang, fields
        self.wants({"one": count})
        if runs:
            self.place()
            self.work()

    def wants(self, counts: dict[str, int], **fields: Any) -> None:
        self.ask(counts, gang=self.gang, **{**self.fields, **fields})
        self.settle(REPLICAS)

    def place(self) -> None:
        """Place every waiting slot in one proposal for each template."""
        waiting: dict[str, list[int]] = {}
        for slot in self.slots():
            if slot.phase is Phase.PENDING:
                waiting.setdefault(slot.template, []).append(slot.ordinal)
        for template, ordinals in waiting.items():
            placements = tuple(c.SlotPlacement(ordinal, self.nodes[0]) for ordinal in ordinals)
            group = c.PlacementGroup(UID, template, placements)
            self.bench.send(SCHEDULER, c.Propose((group,), self.bench.at + 1_000))

    def lose(self, *ordinals: int) -> None:
        """These runs end, and their agent gives them up."""
        for ordinal in ordinals:
            assert self.move(ordinal, Phase.FAILED, "exit")
            assert self.move(ordinal, Phase.RELEASED, "given-up")

    def waits(self, ms: int) -> None:
        self.bench.at += ms


def broken(*ordinals: int) -> c.Stop:
    return stopped(*ordinals, cause="gang-broken")


def test_sets_of_ordinals_and_of_gangs_are_converted_both_ways() -> None:
    some = masks([0, 1, 2, 3, 7, 1023, 1024, 1025, 1026, 1027])
    assert [*each(gangs_of(some, 4))] == [0, 1, 255, 256]
    assert [*each(whole_gangs(some, 4))] == [0, 256]
    assert [*each(members_of(masks([1, 256]), 4))] == [4, 5, 6, 7, 1024, 1025, 1026, 1027]


def test_scaling_opens_and_ends_whole_gangs() -> None:
    web = GangWorld(Gang(3), 3)
    web.ask({"one": 6}, gang=web.gang)
    assert web.send(REPLICAS) == [opened(3, 4, 5)]
    web.ask({"one": 3}, gang=web.gang)
    assert web.send(REPLICAS) == [withdrawn(3, 4, 5)]


def test_scaling_down_keeps_the_gang_that_costs_most_to_lose() -> None:
    web = GangWorld(Gang(2), 4, runs=False)
    placements = tuple(c.SlotPlacement(ordinal, web.nodes[0]) for ordinal in (2, 3))
    web.bench.accept(SCHEDULER, c.Propose((c.PlacementGroup(UID, DIGESTS["one"], placements),), web.bench.at + 1))
    web.ask({"one": 2}, gang=web.gang)
    assert web.send(REPLICAS) == [withdrawn(0, 1)]


def test_recovery_opens_whole_gangs_after_the_ordinals_of_serving() -> None:
    web = AssignmentWorld()
    web.ask({"one": 3}, gang=Gang(3), purpose=AssignmentPurpose.RECOVERY)
    first = -(-RECOVERY_ORDINALS // 3) * 3
    assert web.send(REPLICAS) == [opened(first, first + 1, first + 2)]


def test_a_gang_that_lost_a_member_has_the_time_of_its_spec_and_then_ends_as_a_whole() -> None:
    web = GangWorld(Gang(3, replace_within=5_000), 6)
    web.lose(1)
    lost_at = web.bench.at
    web.waits(4_999)
    found = web.look(REPLICAS)
    assert (found.commands, found.requeue_at) == ((), lost_at + 5_000)
    web.waits(1)
    assert web.send(REPLICAS) == [broken(0, 2)]
    assert web.look(REPLICAS).commands == ()
    web.work([0, 2], to=Phase.PENDING)
    assert {n: phase for n, phase in web.phases().items() if n < 3} == dict.fromkeys(range(3), "pending")


def test_a_gang_whose_member_is_replaced_in_time_goes_on() -> None:
    web = GangWorld(Gang(3, replace_within=5_000), 3)
    web.lose(1)
    web.place()
    web.waits(6_000)
    assert web.look(REPLICAS).commands == ()


def test_with_no_time_to_replace_a_gang_ends_at_once() -> None:
    web = GangWorld(Gang(2, replace_within=0), 2)
    web.lose(0)
    assert web.send(REPLICAS) == [broken(1)]


def test_the_time_runs_from_the_loss_that_left_fewer_than_the_minimum() -> None:
    web = GangWorld(Gang(4, min=2, replace_within=5_000), 4)
    web.lose(0)
    web.waits(60_000)
    web.lose(1)
    assert web.look(REPLICAS).commands == ()
    web.waits(60_000)
    web.lose(2)
    assert web.look(REPLICAS).requeue_at == web.bench.at + 5_000
    web.waits(5_000)
    assert web.send(REPLICAS) == [broken(3)]


def test_a_member_on_a_silent_node_is_there_until_it_is_known_to_have_ended() -> None:
    web = GangWorld(Gang(2, replace_within=0), 2)
    agent = "agent/n0"
    web.cut(0)
    assert {slot.phase for slot in web.slots()} == {Phase.UNKNOWN}
    assert web.look(REPLICAS).commands == ()
    slot = web.slot(0)
    for target, cause in ((Phase.FAILED, "gone"), (Phase.RELEASED, "given-up")):
        web.bench.accept(agent, c.Move((c.MoveSlot((WORKLOAD, 0), slot.epoch, target, cause),)))
    assert web.send(REPLICAS) == [broken(1)]


def test_a_member_that_failed_for_good_ends_its_gang_for_good_and_no_other() -> None:
    web = GangWorld(Gang(2, min=1, replace_within=60_000), 4, batch=True, runs=False)
    for _ in range(3):
        web.place()
        web.work(to=Phase.RUNNING)
        web.lose(0)
    assert web.send(REPLICAS) == [stopped(1, cause="gang-failed")]
    web.work([1], to=Phase.PENDING)
    assert web.phases() == {2: "running", 3: "running"}
    assert web.look(REPLICAS).commands == ()
    [counts] = workload_report(web.state, WORKLOAD).counts
    assert (counts.done, counts.failed) == (0, 2)


def test_a_gang_counts_as_done_once_all_its_members_are() -> None:
    web = GangWorld(Gang(2), 4, batch=True, runs=False)
    web.place()
    web.work(to=Phase.RUNNING)
    for ordinal in (0, 2):
        web.move(ordinal, Phase.SUCCEEDED, "completed")
        web.move(ordinal, Phase.RELEASED, "collected")
    [counts] = workload_report(web.state, WORKLOAD).counts
    assert counts.done == 0
    web.move(1, Phase.SUCCEEDED, "completed")
    [counts] = workload_report(web.state, WORKLOAD).counts
    assert counts.done == 2
    web.move(1, Phase.RELEASED, "collected")
    assert web.look(REPLICAS).commands == ()
    assert web.phases() == {3: "running"}


def test_an_ended_assignment_ends_its_gangs_as_deleted() -> None:
    web = GangWorld(Gang(2, replace_within=0), 2)
    web.lose(0)
    web.ask({}, gang=web.gang, stage=AssignmentStage.ENDED)
    assert web.send(REPLICAS) == [withdrawn(0), stopped(1, cause="deleted")]


# Rollouts


def test_a_rollout_opens_a_gang_beside_the_old_ones_and_ends_one_as_a_whole_once_it_serves() -> None:
    web = GangWorld(Gang(2), 4, disruption=2)
    web.wants({"two": 4})
    assert web.phases() == {**dict.fromkeys(range(4), "serving"), 4: "pending", 5: "pending"}
    assert web.look(ROLLOUT).commands == ()
    web.place()
    web.work([4])
    assert web.look(ROLLOUT).commands == ()
    web.work([5])
    assert web.send(ROLLOUT) == [stopped(0, 1, cause="rollout")]


@pytest.mark.parametrize(("disruption", "sent"), [(0, []), (2, [stopped(0, 1, cause="rollout")])])
def test_without_capacity_one_gang_within_the_share_makes_way(disruption: int, sent: list[object]) -> None:
    web = GangWorld(Gang(2), 4, disruption=disruption)
    web.wants({"two": 4})
    assert web.look(ROLLOUT).commands == ()
    web.report("gang")
    assert web.send(ROLLOUT) == sent
    assert web.look(ROLLOUT).commands == ()


def test_a_gang_that_does_not_serve_rolls_at_once_or_after_it_had_time_to() -> None:
    web = GangWorld(Gang(2), 4, runs=False)
    web.place()
    web.work([0, 1], to=Phase.RUNNING)
    web.wants({"two": 4})
    assert web.send(ROLLOUT) == [stopped(2, 3, cause="rollout")]
    assert web.look(ROLLOUT).requeue_at == web.slot(0).since + SETTLES_MS
    web.waits(SETTLES_MS)
    assert web.send(ROLLOUT) == [stopped(0, 1, cause="rollout")]


def test_a_rollout_goes_on_to_its_end_gang_by_gang() -> None:
    web = GangWorld(Gang(3), 6, disruption=3)
    web.wants({"two": 6})
    for _ in range(10):
        web.settle()
        web.place()
        web.work()
        assert web.serving() >= 6
    assert web.settle() == []
    assert {slot.template for slot in web.slots()} == {template_digest(TEMPLATES["two"])}
    assert len(web.slots()) == 6
    assert len({slot.ordinal // 3 for slot in web.slots()}) == 2


def test_a_gang_that_has_enough_members_by_now_is_not_ended_as_broken() -> None:
    web = GangWorld(Gang(2, replace_within=0), 4)
    refused = web.bench.refuse("controller/replica", broken(0, 1))
    assert refused.code is Code.GANG
    assert [part[2] for part in refused.facts["refused"]] == [Code.GANG, Code.GANG]
