"""A rollout that finds no room stops old replicas where that lets a new one be placed, and nowhere else.

By the real scheduler: what it says of the surge is what the rollout goes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import principal
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Apart, Spread, Template
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.reconcilers.region import rollout
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.rollout import RolloutReconciler
from holdfast.core.region import commands as c
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench, a_template, an_assignment
from tests.support.ledgers.scheduler_world import Follower

UID, WORKLOAD = 100, 1
SSD = (("disk", "ssd"),)


class Rolling:
    """Replicas of an old template that serve, one on each node in turn, and a new one for which the nodes are too full
    for a surge."""

    def __init__(self, nodes: Sequence[dict[str, Any]], old: Template, *, count: int = 2, **fields: Any) -> None:
        self.bench = RegionBench()
        self.bench.a_grant(cpu=fields.pop("quota", 1_000_000))
        self.uids = [self.bench.a_node(f"n{number}", **one) for number, one in enumerate(nodes)]
        self.follower = Follower(self.bench)
        self.count, self.fields, self.revision = count, {"disruption": 1, **fields}, UID
        self._ask(old)
        work = self.bench.state.assignments[UID]
        for ordinal in range(count):
            devices = (0,) if old.gpus else ()
            self.bench.place(work, c.SlotPlacement(ordinal, self.uids[ordinal % len(self.uids)], devices))
            self.bench.walk(Phase.SERVING, ordinal)

    def _ask(self, template: Template) -> None:
        digest = template_digest(template)
        self.revision += 1
        asked = an_assignment(UID, WORKLOAD, shares=(Share(digest, self.count),), **self.fields)
        self.bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(asked))
        for wanted in ReplicaReconciler().reconcile(self.bench.state, UID, self.bench.at).commands:
            self.bench.accept(principal("replica"), wanted.command)

    def roll(self, new: Template) -> list[str]:
        """Ask for another template, and let the scheduler look; which codes it has for the surge."""
        self._ask(new)
        self.follower.work()
        for one in self.follower.waits:
            assignment, template = one.entry.key
            examined = pack_revision(self.bench.state.info.seq, INDEX_MAX)
            self.bench.accept(SCHEDULER, c.ReportPending(assignment, template, examined, one.reasons))
        return [reason.code for reason in self.follower.reasons()]

    def stopped(self) -> list[int]:
        """The ordinals that a rollout stops now."""
        sent = [
            wanted.command for wanted in RolloutReconciler().reconcile(self.bench.state, UID, self.bench.at).commands
        ]
        assert all(isinstance(command, c.Stop) for command in sent)
        for command in sent:
            self.bench.accept(principal("rollout"), command)
        return [ordinal for command in sent for _, ordinal in command.slots]

    def finish(self, ordinals: list[int]) -> None:
        """What was stopped has ended, and the scheduler places what it can."""
        for ordinal in ordinals:
            node = self.bench.state.nodes[self.bench.slot(ordinal).node].name
            self.bench.move(f"agent/{node}", Phase.RELEASED, "stopped", ordinal)
        self.follower.work()

    def placed(self, new: Template) -> int:
        digest = template_digest(new)
        return sum(bool(slot.node) and slot.template == digest for slot in self.bench.state.slots.values())


FULL = {"cpu": 1000}
OLD = a_template(1000)


def a_new(cpu: int = 1000, **fields: Any) -> Template:
    return a_template(cpu, environment=(("NEW", "1"),), **fields)


def test_where_an_old_one_stands_in_the_way_it_goes_and_a_new_one_comes() -> None:
    rolling = Rolling([FULL, FULL], OLD)
    assert rolling.roll(a_new()) == ["capacity"]
    stopped = rolling.stopped()
    assert stopped == [0]
    rolling.finish(stopped)
    assert rolling.placed(a_new()) == 1


@pytest.mark.parametrize(
    ("code", "new"),
    [
        ("never-fits", a_new(9000)),
        ("never-fits", a_new(1000, require=SSD)),
        ("never-fits", a_new(1000, extended=(("fpga", 1),))),
    ],
)
def test_for_what_no_node_takes_nothing_that_serves_is_stopped(code: str, new: Template) -> None:
    rolling = Rolling([FULL, FULL], OLD)
    assert rolling.roll(new) == [code]
    assert rolling.stopped() == []


def test_while_scheduling_is_paused_nothing_that_serves_is_stopped() -> None:
    rolling = Rolling([FULL, FULL], OLD)
    rolling.bench.accept(
        ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "why", rolling.bench.at + 60_000)
    )
    assert rolling.roll(a_new()) == ["paused"]
    assert rolling.stopped() == []


@pytest.mark.parametrize("code", ["policy", "stale-view", "plugin-failed", "node-unavailable", "near", "one-tenant"])
def test_for_what_the_end_of_a_replica_cures_not_none_is_stopped(code: str) -> None:
    rolling = Rolling([FULL, FULL], OLD)
    rolling.roll(a_new())
    seen = pack_revision(rolling.bench.state.info.seq, INDEX_MAX)
    told = c.ReportPending(UID, template_digest(a_new()), seen, (PendingReason(code, 1),))
    rolling.bench.accept(SCHEDULER, told)
    assert rolling.stopped() == []


def test_where_the_new_one_may_not_go_no_old_one_makes_way() -> None:
    """The nodes that it requires are full of others' work, and the old ones stand elsewhere."""
    rolling = Rolling([FULL, FULL], OLD)
    taken = rolling.bench.a_node("ssd", cpu=1000, labels=SSD)
    other = rolling.bench.a_workload(a_template(900), 1, uid=200, workload=2)
    rolling.bench.place(other, c.SlotPlacement(0, taken))
    assert rolling.roll(a_new(require=SSD)) == ["labels", "capacity"]
    assert rolling.stopped() == []


@pytest.mark.parametrize("how", [{"taints": (Taint("dedicated"),)}, {"cordoned": True, "note": "disk"}])
def test_of_old_ones_those_make_way_on_whose_node_a_new_one_may_come(how: dict[str, Any]) -> None:
    rolling = Rolling([FULL, FULL], OLD)
    rolling.bench.accept(ROOT, c.AdministerNode(rolling.uids[0], **how))
    assert "capacity" in rolling.roll(a_new())
    assert rolling.stopped() == [1]


def test_in_a_zone_that_is_avoided_no_old_one_makes_way() -> None:
    rolling = Rolling([{**FULL, "zone": "b"}, FULL], OLD)
    rolling.bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "b", "fire", rolling.bench.at + 60_000))
    assert "capacity" in rolling.roll(a_new())
    assert rolling.stopped() == [1]


@pytest.mark.parametrize(("disruption", "stopped"), [(1, []), (2, [0, 2])])
def test_for_a_larger_one_as_many_go_as_make_room_for_it_or_none(disruption: int, stopped: list[int]) -> None:
    rolling = Rolling([{"cpu": 2000}, {"cpu": 2000}], OLD, count=4, disruption=disruption)
    assert rolling.roll(a_new(2000)) == ["capacity"]
    assert rolling.stopped() == stopped


def test_room_is_made_for_each_once() -> None:
    rolling = Rolling([{"cpu": 2500}], OLD, count=2, disruption=2)
    assert rolling.roll(a_new(1400)) == ["capacity"]
    assert rolling.stopped() == [0], "with the other one gone, too, there would be room for no other"


@pytest.mark.parametrize(("models", "stopped"), [(("t4",), [0]), (("h100",), [])])
def test_devices_are_freed_by_who_has_them(models: tuple[str, ...], stopped: list[int]) -> None:
    rolling = Rolling([{"gpus": ("t4", "h100")}], a_template(100, gpus=1), count=1)
    other = rolling.bench.a_workload(a_template(100, gpus=1), 1, uid=200, workload=2)
    rolling.bench.place(other, c.SlotPlacement(0, rolling.uids[0], (1,)))
    assert rolling.roll(a_template(100, gpus=1, gpu_models=models)) in (["device"], ["capacity"])
    assert rolling.stopped() == stopped


@pytest.mark.parametrize(("group", "stopped"), [("db", [0]), ("web", [])])
def test_places_that_rules_keep_are_freed_by_who_is_counted_there(group: str, stopped: list[int]) -> None:
    rolling = Rolling([{}], a_template(100, apart=(Apart("db", "zone"),)), count=1)
    web = rolling.bench.a_workload(a_template(100, apart=(Apart("web", "zone"),)), 1, uid=200, workload=2)
    rolling.bench.place(web, c.SlotPlacement(0, rolling.uids[0]))
    assert rolling.roll(a_new(100, apart=(Apart(group, "zone"),))) == ["apart"]
    assert rolling.stopped() == stopped


def test_spread_replicas_make_way_in_their_own_zone() -> None:
    spread = (Spread("zone", 1),)
    rolling = Rolling([{"zone": "a"}, {"zone": "b", "cpu": 1000}], a_template(1000, spread=spread), count=3)
    new = a_new(1000, spread=spread)
    assert sorted(rolling.roll(new)) == ["capacity", "spread"]
    stopped = rolling.stopped()
    assert stopped == [0]
    rolling.finish(stopped)
    assert rolling.placed(new) == 1


@pytest.mark.parametrize(
    ("cpu", "quota", "stopped"),
    [(1000, 2000, [0]), (900, 2000, [0]), (1200, 2000, []), (1200, 2300, [0])],
    ids=["as much", "less", "more", "more, and there is some"],
)
def test_where_the_quota_is_used_up_an_old_one_goes_whose_charge_pays_for_a_new_one(
    cpu: int, quota: int, stopped: list[int]
) -> None:
    rolling = Rolling([{}, {}], OLD, quota=quota)
    assert rolling.roll(a_new(cpu)) == ["over-grant"]
    assert rolling.stopped() == stopped
    rolling.finish(stopped)
    assert rolling.placed(a_new(cpu)) == len(stopped)


def test_of_very_many_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "LOOKED_MAX", 2)
    rolling = Rolling([FULL] * 6, OLD, count=6, disruption=6)
    assert rolling.roll(a_new()) == ["capacity"]
    assert rolling.stopped() == [0, 3]
