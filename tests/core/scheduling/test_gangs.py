"""Gangs are proposed as a whole, and hold nothing while they wait."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.workloads import Apart, Near, Spread
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.state.gangs import members_in, standing_members
from holdfast.core.scheduling.queue.peers import HELP_MS, peers_of
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower


class GangStory:
    """Nodes with 4 cpu, gangs of replicas of 1 cpu, and a scheduler."""

    def __init__(self, nodes: int = 2, **fields: Any) -> None:
        self.bench = RegionBench()
        for number in range(nodes):
            self.bench.a_node(f"n{number}", cpu=4000, zone="abcd"[number % 4], **fields)
        self.scheduler = Follower(self.bench)

    def gangs(self, size: int, count: int, uid: int = 100, template: Any = None, **fields: Any) -> None:
        gang = Gang(size, fields.pop("least", 0), fields.pop("replace_within", 300_000))
        one = template or a_template(cpu=1000, memory=1)
        self.bench.a_workload(one, count, uid=uid, workload=uid, gang=gang, **fields)

    def placed(self, uid: int = 100) -> list[int]:
        """How many members of each gang are there."""
        assignment = self.bench.state.assignments[uid]
        assert assignment.gang is not None
        size, standing = assignment.gang.size, standing_members(self.bench.state, uid)
        count = sum(share.count for share in assignment.shares)
        return [members_in(standing, gang, size) for gang in range(count // size)]

    def fill(self, cpu: int, uid: int = 500) -> None:
        """Other work takes so much cpu."""
        other = a_template(cpu=cpu, memory=1, environment=(("FILLS", str(uid)),))
        self.bench.a_workload(other, 1, uid=uid, workload=uid)
        self.scheduler.work()

    def release(self, ordinal: int, cause: str) -> None:
        slot = self.bench.state.slots[100, ordinal]
        name = self.bench.state.nodes[slot.node].name
        self.bench.accept(f"agent/{name}", c.Move((c.MoveSlot((100, ordinal), slot.epoch, Phase.RELEASED, cause),)))

    def message(self, uid: int = 100) -> str:
        return self.scheduler.reasons(uid)[0].message


def a_story(cpu: int = 1_000_000, **fields: Any) -> GangStory:
    story = GangStory(**fields)
    story.bench.a_grant(cpu=cpu)
    return story


def test_a_gang_is_placed_over_several_nodes_in_one_commit() -> None:
    story = a_story()
    story.gangs(8, 8)
    assert story.scheduler.work() == 1
    assert story.placed() == [8]
    assert story.scheduler.refused == []


def test_a_gang_that_does_not_fit_holds_nothing_and_its_reason_counts_what_fits() -> None:
    story = a_story()
    story.fill(1000)
    story.gangs(8, 8)
    story.scheduler.work()
    assert story.placed() == [0]
    assert story.scheduler.codes() == [Code.GANG]
    assert story.message().startswith("7 of 8 members of gang 0 fit together")
    story.gangs(7, 7, uid=200)
    story.scheduler.work()
    assert story.placed(200) == [7]


def test_of_two_gangs_that_fit_only_one_by_one_one_is_placed_whole_and_the_other_waits() -> None:
    story = a_story()
    story.gangs(5, 10)
    story.scheduler.work()
    assert story.placed() == [5, 0]
    story.gangs(5, 5, uid=200)
    story.scheduler.work()
    assert story.placed(200) == [0]


def test_a_waiting_gang_is_placed_once_the_other_has_ended() -> None:
    story = a_story()
    story.gangs(5, 5)
    story.scheduler.work()
    story.gangs(5, 5, uid=200)
    story.scheduler.work()
    story.bench.accept(REPLICA, c.Stop(tuple((100, ordinal) for ordinal in range(5)), "scaled-down"))
    for ordinal in range(5):
        story.release(ordinal, "stopped")
    story.scheduler.work()
    assert story.placed(200) == [5]


def test_with_a_minimum_as_many_as_fit_start_and_the_others_follow() -> None:
    story = a_story()
    story.fill(2000)
    story.gangs(8, 8, least=4)
    story.scheduler.work()
    assert story.placed() == [6]
    story.bench.a_node("n9", cpu=4000)
    story.scheduler.work()
    assert story.placed() == [8]


def test_a_gang_is_paid_for_whole_or_waits_for_its_grant() -> None:
    story = a_story(cpu=5000)
    story.gangs(3, 6)
    story.scheduler.work()
    assert story.placed() == [3, 0]
    assert story.scheduler.codes() == [Code.OVER_GRANT]
    story.bench.a_grant(cpu=5999, version=2)
    story.scheduler.work()
    assert story.placed() == [3, 0]
    story.bench.a_grant(cpu=6000, version=3)
    story.scheduler.work()
    assert story.placed() == [3, 3]


def test_a_broken_gang_is_completed_before_another_one_starts() -> None:
    story = a_story()
    story.gangs(3, 3)
    story.scheduler.work()
    story.release(1, "declined")
    story.bench.accept(REPLICA, c.OpenSlots(100, story.bench.state.slots[100, 0].template, (3, 4, 5)))
    attempt = story.scheduler.step()
    assert attempt is not None
    assert attempt.command.groups[0].placements[0].ordinal == 1
    story.scheduler.work()
    assert members_in(standing_members(story.bench.state, 100), 0, 3) == 3


def test_members_whose_gang_is_still_ending_wait_for_it() -> None:
    story = a_story()
    story.gangs(3, 3, replace_within=0)
    story.scheduler.work()
    story.release(1, "declined")
    story.bench.accept(REPLICA, c.Stop(((100, 0), (100, 2)), "gang-broken"))
    story.scheduler.work()
    assert story.scheduler.refused == []
    assert story.message() == "other members of its gangs have not ended, or are not open yet"
    for ordinal in (0, 2):
        slot = story.bench.state.slots[100, ordinal]
        name = story.bench.state.nodes[slot.node].name
        story.bench.accept(
            f"agent/{name}", c.Move((c.MoveSlot((100, ordinal), slot.epoch, Phase.RELEASED, "stopped"),))
        )
    story.scheduler.work()
    assert story.placed() == [3]


def test_a_gang_that_empty_nodes_could_not_hold_never_fits() -> None:
    story = a_story()
    story.gangs(9, 9)
    story.scheduler.work()
    assert story.scheduler.codes() == ["never-fits"]
    assert story.message() == "empty nodes hold 8 of the 9 members that a gang needs together"
    story.bench.a_node("n9", cpu=4000)
    story.scheduler.work()
    assert story.placed() == [9]


def test_a_gang_with_devices_is_placed_where_enough_are_free() -> None:
    story = a_story(gpus=("h100", "h100"))
    story.gangs(4, 8, template=a_template(cpu=1, memory=1, gpus=1))
    story.scheduler.work()
    assert story.placed() == [4, 0]


def test_a_gang_that_must_share_a_zone_takes_the_one_that_holds_all_of_it() -> None:
    """The best row is in a zone that holds three; the other zone holds four."""
    story = a_story(nodes=2)
    story.fill(1000)
    story.gangs(4, 4, template=a_template(cpu=1000, memory=1, near=(Near("g", "zone", required=True),)))
    story.scheduler.work()
    assert story.placed() == [4]
    assert story.scheduler.refused == []


@pytest.mark.parametrize(
    ("rules", "placed"),
    [
        ({"spread": (Spread("zone", 1),)}, [6]),
        ({"apart": (Apart("g", "node", 3),)}, [6]),
        ({"apart": (Apart("g", "node", 2),)}, [0]),
    ],
)
def test_rules_over_domains_hold_within_a_gang(rules: dict[str, Any], placed: list[int]) -> None:
    story = a_story()
    story.gangs(6, 6, template=a_template(cpu=1000, memory=1, **rules))
    story.scheduler.work()
    assert story.placed() == placed
    assert story.scheduler.refused == []


def test_all_members_are_reserved_together_where_a_plugin_waits_to_bind() -> None:
    story = a_story()
    story.gangs(4, 4)
    bench, work = story.bench, story.bench.state.assignments[100]
    nodes = [uid for _, uid in bench.state.node_names.items()]
    bench.place(work, *(c.SlotPlacement(ordinal, nodes[0]) for ordinal in range(4)), bind=False)
    bench.accept(SCHEDULER, c.Unreserve(((100, 2),)))
    assert story.placed() == [0]
    story.scheduler.work()
    assert story.placed() == [4]


def test_many_gangs_are_placed_in_few_proposals_none_of_them_split() -> None:
    story = GangStory(nodes=0)
    story.bench.checked = False
    story.bench.a_grant(cpu=10_000_000)
    for number in range(30):
        story.bench.a_node(f"n{number}", cpu=50_000, memory=10**6)
    story.bench.a_workload(a_template(cpu=1000, memory=1), 1_400, ordinals=1_000, gang=Gang(70))
    digest = story.bench.state.assignments[100].shares[0].template
    story.bench.accept(REPLICA, c.OpenSlots(100, digest, tuple(range(1_000, 1_400))))
    assert story.scheduler.work() <= 3
    assert story.placed() == [70] * 20
    assert story.scheduler.refused == []


def test_a_gang_has_one_scheduler_and_the_other_helps_after_a_while() -> None:
    story = a_story()
    second = Follower(story.bench, "scheduler/second")
    names = (SCHEDULER, "scheduler/second")
    for follower in (story.scheduler, second):
        follower.peers = peers_of(follower.name, names)
    story.gangs(4, 8)
    proposals = []
    for follower in (story.scheduler, second):
        follower.catch_up()
        proposals.append(follower.look())
    [mine] = [one for one in proposals if one is not None]
    assert sum(len(group.placements) for group in mine.command.groups) == 8
    other = second if proposals[1] is None else story.scheduler
    story.bench.at += 2 * HELP_MS
    other.catch_up()
    helped = other.look()
    assert helped is not None
    other.send(helped)
    assert story.placed() == [4, 4]


def test_a_rejected_member_takes_its_gang_along_and_the_next_look_places_it() -> None:
    """The view is behind: another scheduler has taken room that the gang was to have."""
    story = a_story()
    story.gangs(5, 5)
    story.bench.a_workload(a_template(cpu=3000, memory=1), 1, uid=200, workload=200)
    story.scheduler.catch_up()
    node = next(uid for _, uid in story.bench.state.node_names.items())
    other = story.bench.a_scheduler("scheduler/other")
    group = c.PlacementGroup(200, story.bench.state.assignments[200].shares[0].template, (c.SlotPlacement(0, node),))
    attempt = story.scheduler.look()
    assert attempt is not None
    story.bench.accept(other, c.Propose((group,), story.bench.at + 1000))
    unmet = story.scheduler.send(attempt)
    assert {one.code for one in unmet} >= {Code.GANG}
    assert story.placed() == [0]
    story.bench.at += 60_000
    story.scheduler.work()
    assert story.placed() == [5]
