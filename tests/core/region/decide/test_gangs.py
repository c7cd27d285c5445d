"""Gangs in a region's ledger: a placement leaves a gang with none, or with as many members as it needs."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.partial import RefusedPart, decode_refused_parts
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.decide.proposal_scratch import Preemptions
from holdfast.core.region.state.gangs import members_in, standing_members
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template

AGENT = "agent/n1"


class GangBench(RegionBench):
    """Two nodes of 4 cpu, and a workload with gangs of replicas of 1 cpu."""

    def __init__(self, gang: Gang, count: int, *, paid: int = 1_000_000, **fields: Any) -> None:
        super().__init__()
        self.a_scheduler()
        self.nodes = [self.a_node("n1", cpu=4000), self.a_node("n2", cpu=4000)]
        self.a_grant(cpu=paid)
        self.work: Assignment = self.a_workload(a_template(cpu=1000), count, gang=gang, **fields)

    def puts(self, *ordinals: int, node: int = 0) -> list[c.SlotPlacement]:
        return [c.SlotPlacement(ordinal, self.nodes[node]) for ordinal in ordinals]

    def standing(self, gang: int = 0) -> int:
        assert self.work.gang is not None
        return members_in(standing_members(self.state, self.work.uid), gang, self.work.gang.size)

    def lost(self, *placements: c.SlotPlacement) -> list[RefusedPart]:
        return decode_refused_parts(self.place(self.work, *placements).answer)

    def decline(self, ordinal: int) -> None:
        slot = self.slot(ordinal)
        name = self.state.nodes[slot.node].name
        move = c.MoveSlot((1, ordinal), slot.epoch, Phase.RELEASED, "declined")
        self.accept(f"agent/{name}", c.Move((move,)))


def test_a_gang_is_placed_in_one_commit_or_not_at_all() -> None:
    bench = GangBench(Gang(3), 6)
    refused = bench.refuse_place(bench.work, *bench.puts(0, 1))
    assert (refused.code, refused.facts["refused"][0][3]) == (Code.GANG, "gang 0: 2 of 3 members")
    assert bench.standing() == 0
    bench.place(bench.work, *bench.puts(0, 1, 2))
    assert bench.standing() == 3


def test_a_gang_that_is_too_small_takes_nothing_from_the_placements_after_it() -> None:
    """Three members of gang 0 come first; they are taken back, and gang 1 has the whole node."""
    bench = GangBench(Gang(4), 8)
    lost = bench.lost(*bench.puts(0, 1, 2, 5), *bench.puts(4, 6, 7))
    assert [(one.index, one.code) for one in lost] == [(0, Code.GANG), (1, Code.GANG), (2, Code.GANG)]
    assert (bench.standing(0), bench.standing(1)) == (0, 4)


def test_the_quota_pays_for_a_whole_gang_or_for_nothing_of_it() -> None:
    bench = GangBench(Gang(2), 4, paid=3000)
    lost = bench.lost(*bench.puts(0, 1, 2, 3))
    assert [(one.index, one.code) for one in lost] == [(3, Code.OVER_GRANT), (2, Code.GANG)]
    usage = bench.state.account_usage.get("quota/acme")
    assert usage is not None
    assert usage.charged.cpu == 2000


def test_with_a_minimum_that_many_start_and_further_members_follow_one_by_one() -> None:
    bench = GangBench(Gang(4, min=2), 4)
    assert bench.refuse_place(bench.work, *bench.puts(3)).code is Code.GANG
    bench.place(bench.work, *bench.puts(1, 2))
    bench.place(bench.work, *bench.puts(3))
    assert bench.standing() == 3


def test_a_lost_member_is_replaced_alone_while_enough_stand_with_it() -> None:
    bench = GangBench(Gang(3), 3)
    bench.place(bench.work, *bench.puts(0, 1, 2))
    bench.decline(1)
    assert bench.standing() == 2
    bench.place(bench.work, *bench.puts(1, node=1))
    assert bench.standing() == 3


def test_two_lost_members_are_replaced_together() -> None:
    bench = GangBench(Gang(3), 3)
    bench.place(bench.work, *bench.puts(0, 1, 2))
    bench.decline(1)
    bench.decline(2)
    assert bench.refuse_place(bench.work, *bench.puts(2)).code is Code.GANG
    bench.place(bench.work, *bench.puts(1, 2, node=1))


def test_a_member_that_is_ending_does_not_count_as_there() -> None:
    bench = GangBench(Gang(3), 3)
    bench.place(bench.work, *bench.puts(0, 1, 2))
    bench.decline(2)
    bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    assert bench.refuse_place(bench.work, *bench.puts(2)).code is Code.GANG


def test_a_member_that_has_succeeded_counts_as_there() -> None:
    bench = GangBench(Gang(2), 2, batch=True)
    bench.place(bench.work, *bench.puts(0, 1))
    bench.walk(Phase.RUNNING)
    bench.move(AGENT, Phase.SUCCEEDED, "completed")
    bench.move(AGENT, Phase.RELEASED, "collected")
    bench.decline(1)
    bench.place(bench.work, *bench.puts(1))
    assert bench.standing() == 2


def test_nothing_is_placed_of_a_gang_of_which_a_member_has_failed_for_good() -> None:
    bench = GangBench(Gang(2, min=1), 4, batch=True)
    bench.place(bench.work, *bench.puts(0))
    for attempt in range(3):
        bench.walk(Phase.STARTING)
        bench.move(AGENT, Phase.FAILED, "exit")
        bench.move(AGENT, Phase.RELEASED, "given-up")
        if attempt < 2:
            bench.place(bench.work, *bench.puts(0))
    refused = bench.refuse_place(bench.work, *bench.puts(1))
    assert (refused.code, refused.message) == (Code.GANG, "gang 0: a member has failed for good: gang")
    bench.place(bench.work, *bench.puts(2))


def test_a_gang_behind_a_stale_member_names_the_revision_to_wait_for() -> None:
    bench = GangBench(Gang(2), 4)
    seen = bench.state.info.seq << 20
    bench.place(bench.work, *bench.puts(0, 1))
    changed = bench.slot(0).revision
    refused = bench.refuse(SCHEDULER, bench.proposal(bench.work, *bench.puts(0, 2)), view=seen)
    codes = [(part[2], part[4]) for part in refused.facts["refused"]]
    assert codes == [(Code.STALE, changed), (Code.GANG, 0)]


def test_two_groups_of_one_command_are_one_after_the_other() -> None:
    bench = GangBench(Gang(2), 4)
    digest = bench.work.shares[0].template
    groups = [c.PlacementGroup(bench.work.uid, digest, tuple(bench.puts(*ordinals))) for ordinals in ((0, 1), (2, 3))]
    bench.accept(SCHEDULER, c.Propose(tuple(groups), bench.at + 1000))
    assert (bench.standing(0), bench.standing(1)) == (2, 2)


def test_reserved_members_are_bound_together() -> None:
    bench = GangBench(Gang(3), 3)
    bench.place(bench.work, *bench.puts(0, 1, 2), bind=False)
    refused = bench.refuse(SCHEDULER, c.Bind(((1, 0), (1, 1))))
    assert (refused.code, len(refused.facts["refused"])) == (Code.GANG, 2)
    bench.accept(SCHEDULER, c.Bind(((1, 0), (1, 1), (1, 2))))


@pytest.mark.parametrize(("gang", "left"), [(Gang(3), 0), (Gang(3, min=2), 2)])
def test_a_declined_reservation_releases_the_gang_unless_enough_are_left(gang: Gang, left: int) -> None:
    bench = GangBench(gang, 3)
    bench.place(bench.work, *bench.puts(0, 1, 2), bind=False)
    bench.accept(SCHEDULER, c.Unreserve(((1, 1),)))
    assert bench.standing() == left


def test_expired_reservations_release_the_gang() -> None:
    bench = GangBench(Gang(3), 3)
    bench.place(bench.work, *bench.puts(0, 1, 2), bind=False)
    bench.at = bench.slot(0).ends
    bench.accept("ledger", c.Expire(((1, 0),)))
    assert bench.standing() == 0


def test_one_record_releases_a_bounded_number_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.region.decide.reservations.PARTS_MAX", 3)
    bench = GangBench(Gang(2), 4)
    bench.place(bench.work, *bench.puts(0, 1, 2, 3), bind=False)
    lost = decode_refused_parts(bench.accept(SCHEDULER, c.Unreserve(((1, 0), (1, 2)))).answer)
    assert [(one.index, one.code) for one in lost] == [(1, Code.TOO_LARGE)]
    assert (bench.standing(0), bench.standing(1)) == (0, 2)


def test_a_gang_proposal_ends_a_series_and_a_repeat_gets_the_first_answer() -> None:
    bench = GangBench(Gang(2), 2)
    envelope = bench.envelope(SCHEDULER, bench.proposal(bench.work, *bench.puts(0, 1)))
    first = bench.give(envelope)
    again = bench.give(envelope)
    assert getattr(first, "revision", 1) == getattr(again, "revision", 2)


def test_a_savepoint_keeps_all_that_preemption_has_counted() -> None:
    """What was not copied was counted anew after a gang was taken back: a command could preempt more than the limit."""
    counted = Preemptions()
    counted.holds, counted.victims, counted.serving_lost, counted.preempted = {1}, {(1, 0)}, {2: 1}, 3
    assert vars(counted.copy()) == vars(counted)
